"""A stranger's handler from `handlers:` of a config, by the commands as a user calls them: check, run, resume, restart."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from agents.handlers.base import Handler
from graph.__main__ import main
from tests.agents.models import scripted
from tests.graph import conftest
from tools.artifacts import Candidate
from tools.store.records import Records


class Refuses(Handler):
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no table")

    def applies(self, source: str, language: str) -> bool:
        return True

    def mend(self, draft: str, source: str, language: str) -> str:
        return draft


PATH = "my_kernels.shapes:RowMajor"
HINT = "Rows lie one after the other; say `// row-major` at the end."
HANDLER = f"""
from agents.handlers.base import Handler


class RowMajor(Handler):
    def applies(self, source, language):
        return language == "cpp" and "columns" in source

    def mend(self, draft, source, language):
        return draft if "// row-major" in draft else draft.rstrip() + "\\n// row-major\\n"

    def hint(self):
        return {HINT!r}
"""


def configured(folder: Path, **more: object) -> Path:
    """A config in a folder with the package `my_kernels`; the coder is somebody who writes files, so that the run pauses before a draft."""
    package = folder / "my_kernels"
    package.mkdir()
    (package / "shapes.py").write_text(HANDLER)
    search = {"iterations": 1, "candidates": 1, "patience": 1, "fix_rounds": 0}
    models = {"coder": {"provider": "manual"}}
    whole = {"workspaces": "workspaces", "search": search, "benchmark": {"eager": False, "compile": False}}
    return conftest.configured(folder, **{**whole, "models": models, "handlers": [PATH], **more})


def graph(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Called in the user's folder, where the module lies."""
    return conftest.graph(*argv, home=folder / "home", cwd=folder)


@pytest.mark.slow
def test_its_hint_is_in_the_prompt_and_its_work_in_the_draft(tmp_path: Path) -> None:
    config = configured(tmp_path)
    module = tmp_path / "my_kernels" / "shapes.py"
    checked = graph(tmp_path, "check", config.name)
    assert checked.returncode == 0 and f"handlers    {PATH}\n" in checked.stdout, checked.stderr

    paused = graph(tmp_path, "run", config.name, "--quiet", "--json")
    assert paused.returncode == 6, paused.stderr
    found = json.loads(paused.stdout)
    root, answer = Path(found["workspace"]), Path(found["file"])
    prompt = answer.with_name(answer.name.replace(".answer.", ".prompt.")).read_text()
    assert "## Shape of this kernel" in prompt and f"- {HINT}" in prompt
    draft = scripted.answer(prompt)
    assert "row-major" not in draft
    plan = next(record for record in Records(root) if record.kind == "plan").payload["methods"]
    methods = [one["method"] for one in plan]
    answer.write_text(draft.replace(f'"{scripted.METHOD}"', json.dumps(methods[0])))

    module.write_text(HANDLER.replace('"\\n// row-major\\n"', "1"))
    broken = graph(tmp_path, "resume", root.name, "--quiet")
    assert broken.returncode == 2 and broken.stderr.startswith(f"error: handlers: {PATH!r} failed in `mend` (TypeError"), broken.stderr
    assert broken.stderr.count("\n") == 1 and root.is_dir()

    module.write_text(HANDLER)
    done = graph(tmp_path, "resume", root.name, "--quiet", "--json")
    while done.returncode == 6:
        # The same text for each method that is taken out of a champion.
        Path(json.loads(done.stdout)["file"]).write_text(answer.read_text())
        done = graph(tmp_path, "resume", root.name, "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    made = [Candidate.model_validate(record.payload) for record in Records(root) if record.kind == "candidate"]
    drafts = [one for one in made if one.parent]
    assert drafts and all(one.source.endswith("}\n// row-major\n") and "fast_exp" in one.source for one in drafts)

    again = graph(tmp_path, "restart", root.name, "v0", "--quiet", "--json")
    assert again.returncode == 6, again.stderr
    answer = Path(json.loads(again.stdout)["file"])
    assert HINT in answer.with_name(answer.name.replace(".answer.", ".prompt.")).read_text()
    # To look needs no handler.
    module.unlink()
    assert graph(tmp_path, "show", root.name).returncode == graph(tmp_path, "report", root.name).returncode == 0
    gone = graph(tmp_path, "resume", str(answer.parents[1]))
    assert gone.returncode == 2 and f"handlers: {PATH!r} cannot be imported" in gone.stderr and gone.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("verb", "handlers", "told"),
    [
        ("check", ["my_kernels_of_nobody:Mine"], "cannot be imported"),
        ("run", ["tools.store.records:Records"], "not a Handler"),
        ("run", ["tests.graph.test_handlers:Refuses"], "failed in its construction (RuntimeError: no table)"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_measured(
    tmp_path: Path, verb: str, handlers: object, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(tmp_path, handlers=handlers, workspaces=str(tmp_path / "workspaces"))
    assert main([verb, str(config)]) == 2
    said = capsys.readouterr().err
    assert "handlers: " in said and told in said and said.count("\n") == 1
    assert not (tmp_path / "workspaces").exists()
