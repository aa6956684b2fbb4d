"""`lint --workspace`: every citation of a run is opened again, in the wiki that the run used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from knowledge_base.__main__ import main
from knowledge_base.pages.wiki import BUNDLED_WIKI, Wiki
from knowledge_base.specs import lookup
from tests.support import Capsys
from tools.artifacts import Record, digest
from tools.roofline.hardware import Citation, Spec
from tools.store.records import Records

PAGE = "hardware/nvidia/h200-sxm5.md"


@pytest.fixture
def wiki(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BUNDLED_WIKI, tmp_path / "wiki"))


@pytest.fixture
def workspace(tmp_path: Path, wiki: Path) -> Path:
    """What a run leaves of its citations: a record with the hash, texts with none."""
    root = tmp_path / "workspace"
    answer = lookup.resolve_spec(Wiki.open(wiki), "H200", "memory_bandwidth", "SXM5")
    assert isinstance(answer, Spec)
    Records(root).add(Record(kind="specs", key="k", payload={"specs": [answer.model_dump(mode="json")]}))
    (root / "settings.yaml").write_text(yaml.safe_dump({"task": "t", "gpu_wiki_path": str(wiki)}))
    (root / "README.md").write_text(f"# t\n\n- {answer.metric}: {answer.value} {answer.unit} <- {answer.citation}\n")
    (root / "report.md").write_text(f"- {answer.metric} <- `{answer.citation}`\n")
    (root / "versions/v1").mkdir(parents=True)
    (root / "versions/v1/hypothesis.md").write_text("- evidence: <gpu-wiki>/methods/simd-loop.md:1, 0123456789abcdef\n")
    (root / "memory").mkdir()
    (root / "memory/v1.json").write_text(json.dumps({"predictions": [{"citations": [str(answer.citation)]}]}, indent=1))
    return root


def linted(root: Path, capsys: Capsys, *more: str) -> tuple[int, list[str]]:
    code = main(["lint", "--workspace", str(root), *more])
    return code, capsys.readouterr().out.splitlines()


def test_a_line_that_changed_is_listed_wherever_it_is_cited(workspace: Path, wiki: Path, capsys: Capsys) -> None:
    assert linted(workspace, capsys) == (0, ["5 citations, 0 problems"])
    (wiki / PAGE).write_text((wiki / PAGE).read_text().replace("| 4.8 |", "| 4.9 |"))
    code, lines = linted(workspace, capsys)
    (record,) = (workspace / "records").glob("*.json")
    number = next(n for n, line in enumerate(record.read_text().splitlines(), 1) if '"path"' in line)
    assert code == 1 and lines[-1] == "5 citations, 4 problems"
    places = [line.split(": ")[0] for line in lines[:-1]]
    assert places == ["README.md:3", "memory/v1.json:5", f"records/{record.name}:{number}", "report.md:1"]
    assert all(f"<gpu-wiki>/{PAGE}:" in line and "| 4.9 |" in line for line in lines[:-1])
    assert linted(workspace, capsys, "--wiki", str(BUNDLED_WIKI))[0] == 0, "another wiki can be named"


@pytest.mark.parametrize(
    ("fate", "counted", "says"), [("kept", 7, ""), ("changed", 7, "does not say any more"), ("gone", 5, "")]
)
def test_a_reference_project_is_opened_again_where_it_still_is(
    workspace: Path, tmp_path: Path, fate: str, counted: int, says: str, capsys: Capsys
) -> None:
    source = tmp_path / "projects/lib/kernel.py"
    source.parent.mkdir(parents=True)
    source.write_text("import triton\n")
    cited = Citation(path="<reference>/lib/kernel.py", line=1, sha256=digest("import triton"))
    Records(workspace).add(
        Record(kind="dossier", key="d", payload={"passages": [{"citation": cited.model_dump(mode="json")}]})
    )
    (workspace / "notes.md").write_text(f"- as in {cited}\n")
    settings = yaml.safe_load((workspace / "settings.yaml").read_text())
    (workspace / "settings.yaml").write_text(
        yaml.safe_dump({**settings, "reference_projects": str(tmp_path / "projects")})
    )
    if fate == "gone":
        shutil.rmtree(tmp_path / "projects")
    elif fate == "changed":
        source.write_text("import torch\n")
    code, lines = linted(workspace, capsys)
    assert (code, lines[-1]) == (int(bool(says)), f"{counted} citations, {2 if says else 0} problems")
    assert all(f"<reference>/lib/kernel.py:1 {says}" in line for line in lines[:-1])


def test_what_is_gone_lies_beyond_the_end_or_cannot_be_read_is_listed(
    workspace: Path, wiki: Path, capsys: Capsys
) -> None:
    (wiki / "methods/simd-loop.md").unlink()
    (workspace / "report.md").write_text(f"<gpu-wiki>/{PAGE}:9999 and <gpu-wiki>/../settings.yaml:1\n")
    (workspace / "notes.md").write_bytes(b"\xff\xfe")
    code, lines = linted(workspace, capsys)
    assert code == 1 and [line.split(": ")[0] for line in lines[:-1]] == [
        "notes.md:1",
        "report.md:1",
        "report.md:1",
        "versions/v1/hypothesis.md:1",
    ]
    assert "cannot be read" in lines[0] and all("does not exist any more" in line for line in lines[1:-1])


@pytest.mark.parametrize("spoilt", ["nothing", "settings", "wiki"])
def test_what_is_no_workspace_is_one_sentence(workspace: Path, wiki: Path, spoilt: str, capsys: Capsys) -> None:
    if spoilt == "settings":
        (workspace / "settings.yaml").write_text("a: [\n")
    elif spoilt == "wiki":
        shutil.rmtree(wiki)
    code = main(["lint", "--workspace", str(workspace / "gone" if spoilt == "nothing" else workspace)])
    said = capsys.readouterr().err.strip()
    assert code == 2 and said.startswith("error: ") and "\n" not in said
