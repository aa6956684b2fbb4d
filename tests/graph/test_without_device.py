"""On a machine without the device, its compilers and torch: whatever only reads or asks goes on, up to the next job."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from graph.__main__ import main
from tests.agents.models import scripted
from tests.graph.conftest import ROOT, SHORT, configured, printed_json
from tests.support import Capsys, run_captured

BLOCKED = """import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked())
"""


def graph_on_a_laptop(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """`python -m graph` where git is the only program, and torch and triton cannot be imported."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    if not (programs / "git").exists():
        (programs / "git").symlink_to(str(shutil.which("git")))
        (programs / "sitecustomize.py").write_text(BLOCKED)
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    environment |= {"PATH": str(programs), "PYTHONPATH": f"{programs}:{ROOT}"}
    return run_captured([sys.executable, "-m", "graph", *argv], cwd=folder, env=environment)


def test_no_module_that_a_command_begins_with_imports_torch(tmp_path: Path) -> None:
    listed = run_captured(
        [
            sys.executable,
            "-c",
            f"{BLOCKED}\nimport graph.__main__, graph.lifecycle.run, graph.lifecycle.verify, graph.build",
        ],
        cwd=ROOT,
    )
    assert listed.returncode == 0, listed.stderr


def test_a_finished_run_is_shown_reported_exported_and_resumed(copied: Path, tmp_path: Path) -> None:
    before, out = (copied / "report.md").read_text(), str(tmp_path / "out")
    for verb, *more in (["show"], ["report"], ["export", "--format", "python", "--out", out], ["resume", "--quiet"]):
        done = graph_on_a_laptop(tmp_path, verb, str(copied), *more)
        assert done.returncode == 0, (verb, done.stderr)
    assert (copied / "report.md").read_text().splitlines()[:5] == before.splitlines()[:5]
    assert "-fopenmp" in "".join(path.read_text() for path in (tmp_path / "out").iterdir())


@pytest.mark.slow
def test_answers_are_taken_until_a_job_waits_for_its_machine(tmp_path: Path, capsys: Capsys) -> None:
    config = configured(tmp_path, **SHORT, models={"default": {"provider": "manual"}})
    assert main(["run", str(config), "--quiet", "--json"]) == 6
    found = printed_json(capsys)
    root, asked = found["workspace"], []
    while "file" in found:
        answer = Path(found["file"])
        asked.append(re.sub(r"\d+-(\w+)-.*", r"\1", answer.name))
        answer.write_text(scripted.answer(answer.with_name(answer.name.replace(".answer.", ".prompt.")).read_text()))
        if asked == ["profiler_analyst"]:
            assert main(["resume", root, "--quiet", "--json"]) == 6
            found = printed_json(capsys)
            continue
        done = graph_on_a_laptop(tmp_path, "resume", root, "--quiet", "--json")
        assert done.returncode == 6, done.stderr
        found = json.loads(done.stdout)
    assert asked == ["profiler_analyst", "knowledge_retriever", "planner", "coder"]
    assert (
        found["reason"].startswith("the next job waits for the machine with ") and f"resume {root}" in found["reason"]
    )
    assert "install one: `apt install g++`" in found["reason"]
    assert graph_on_a_laptop(tmp_path, "show", root).stdout.startswith("waiting: the next job")
    assert main(["resume", root, "--quiet", "--json"]) == 6, "here the kernel is judged"
    assert "file" in printed_json(capsys)
