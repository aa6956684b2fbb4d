"""`lint --workspace`: every citation of a run is opened again, in the wiki that the run used, and compared with the
figures that cite it."""

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
    assert linted(workspace, capsys) == (0, ["5 citations, 2 figures, 0 problems"])
    (wiki / PAGE).write_text((wiki / PAGE).read_text().replace("| 4.8 |", "| 4.9 |"))
    code, lines = linted(workspace, capsys)
    (record,) = (workspace / "records").glob("*.json")
    number = next(n for n, line in enumerate(record.read_text().splitlines(), 1) if '"path"' in line)
    assert code == 1 and lines[-1] == "5 citations, 2 figures, 4 problems"
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
    assert (code, lines[-1]) == (int(bool(says)), f"{counted} citations, 2 figures, {2 if says else 0} problems")
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


COUNTED = {"kind": "profile", "key": "p", "payload": {"metrics": {"ncu.dram_bytes": {"value": 1234567.0, "unit": "B"}}}}
FOUND = {"rule": "far_from_roof", "text": "It reaches 12.5 % of the roof.", "evidence": []}


@pytest.mark.parametrize(
    ("figure", "fault"),
    [
        ({}, ""),
        ({"value": 4800, "unit": "GB/s"}, ""),
        ({"value": 9.6}, "9.6 TB/s differs from {wiki}, which gives 4.8 TB/s"),
        ({"unit": "GB/s"}, "4.8 GB/s differs from {wiki}, which gives 4.8 TB/s"),
        ({"metric": "boost_clock", "value": 1980, "unit": "MHz"}, "1980 MHz is not in {wiki}"),
        ({"citation": ""}, "4.8 TB/s has no citation; name its source, or leave it out"),
        ({"metric": "ncu.dram_bytes", "value": 1.235e6, "unit": "B", "citation": "{counted}"}, ""),
        (
            {"metric": "ncu.dram_bytes", "value": 1.3e6, "unit": "B", "citation": "{counted}"},
            "1300000 B differs from {counted}, which gives 1234567 B",
        ),
        ({"metric": "share", "value": 12.5, "unit": "%", "citation": "far_from_roof"}, ""),
        ({"metric": "share", "value": 99, "unit": "%", "citation": "far_from_roof"}, "99 % is not in far_from_roof"),
        ({"citation": "0123456789abcdef"}, "4.8 TB/s is not in 0123456789abcdef"),
    ],
)
def test_a_figure_of_a_plan_says_what_it_cites(
    workspace: Path, wiki: Path, figure: dict[str, object], fault: str, capsys: Capsys
) -> None:
    spec = lookup.resolve_spec(Wiki.open(wiki), "H200", "memory_bandwidth", "SXM5")
    assert isinstance(spec, Spec)
    records = Records(workspace)
    counted = records.add(Record.model_validate(COUNTED)).id
    records.add(Record(kind="inspection", key="i", payload={"findings": [FOUND]}))
    names = {"wiki": str(spec.citation), "counted": counted}
    exact = {"metric": spec.metric, "value": spec.value, "unit": spec.unit, "citation": "{wiki}"}
    said = {key: value.format(**names) if key == "citation" else value for key, value in {**exact, **figure}.items()}
    plan = records.add(Record(kind="plan", key="p1", payload={"figures": [said], "reason": "memory_bandwidth: 7 TB/s"}))
    code, lines = linted(workspace, capsys)
    told = [line for line in lines[:-1] if line.startswith(f"records/{plan.id}.json:")]
    assert lines[-1].endswith(f" 3 figures, {len(told)} problems") and code == len(told) == bool(fault)
    assert all(line.endswith(f"{said['metric']}: {fault.format(**names)}") for line in told)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("- memory_bandwidth: 4.8 TB/s <- {wiki} (dense)", ""),
        ("rests on memory_bandwidth: 4.9 TB/s <- {wiki}.", "4.9 TB/s differs from {wiki}"),
        ("- memory_bandwidth: 4.8 TB/s", "4.8 TB/s has no citation"),
        ("- memory_bandwidth: 4,800 GB/s (boost)", "4800 GB/s has no citation"),
        ("The memory_bandwidth: 4.8 TB/s is what it has.", ""),
        ("- patience: 3 versions", ""),
        ("- memory_bandwidth: UNKNOWN (gpu-wiki not found)", ""),
    ],
)
def test_a_line_of_a_text_says_what_it_cites_and_prose_is_not_read(
    workspace: Path, wiki: Path, line: str, fault: str, capsys: Capsys
) -> None:
    spec = lookup.resolve_spec(Wiki.open(wiki), "H200", "memory_bandwidth", "SXM5")
    assert isinstance(spec, Spec)
    (workspace / "versions/v1/evidence.md").write_text(f"# Evidence\n\n{line.format(wiki=spec.citation)}\n")
    code, lines = linted(workspace, capsys)
    told = [f"versions/v1/evidence.md:3: memory_bandwidth: {fault.format(wiki=spec.citation)}"] if fault else []
    assert code == len(told) and [said.startswith(one) for said, one in zip(lines, told, strict=False)] == [True] * code
    assert lines[-1].endswith(f", {code} problems")
