"""Whole runs with another answerer than the playbook: a program, its recording, and somebody who writes files and a
handler."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agents.models.providers import recorded
from graph.__main__ import main
from graph.artifacts import JudgedTrial
from tests.agents.models import scripted
from tests.graph.conftest import ROOT, configured, graph, printed_json
from tests.support import Capsys, run_captured
from tools.artifacts import Passed
from tools.store.records import Records
from tools.store.repository import Repository

PROGRAM = [sys.executable, scripted.__file__]
SEARCH = {"iterations": 3, "candidates": 1, "patience": 3}
"""Where others keep the machine busy the gate finds nothing proven; the same plan then comes again."""
pytestmark = pytest.mark.slow


class Played(NamedTuple):
    """A run through `command`, written down."""

    root: Path
    script: Path
    summary: dict[str, Any]


def exchanges(root: Path) -> list[dict[str, Any]]:
    return [dict(record.payload) for record in Records(root) if record.kind == "exchange"]


def accepted_a_faster_kernel(root: Path, summary: Mapping[str, Any]) -> None:
    """The run ended because the planner had nothing left, and what the coder wrote was found right, timed and
    accepted."""
    assert "accept" in summary["verdicts"].values() and summary["speedup"] > 1
    assert "fast_exp" in Repository(root).read_file_at("HEAD", "kernel.cpp").decode()
    assert summary["status"] == "finished" and summary["stop_reason"] == "exhausted"
    trials = [JudgedTrial.model_validate(record.payload).trial for record in Records(root) if record.kind == "trial"]
    assert all(isinstance(trial, Passed) and trial.speedup.estimate > 1 for trial in trials) and trials


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("played")
    script = folder / "script.jsonl"
    config = configured(
        folder, search=SEARCH, models={"default": {"provider": "command", "argv": PROGRAM, "record": script.name}}
    )
    done = graph("run", str(config), "--json", home=folder / "home")
    assert done.returncode == 0, done.stderr
    (root,) = (folder / "workspaces").iterdir()
    return Played(root, script, json.loads(done.stdout.splitlines()[-1]))


def test_a_program_behind_every_role(played: Played) -> None:
    accepted_a_faster_kernel(played.root, played.summary)
    assert {(one["provider"], one["role"]) for one in exchanges(played.root)} == {
        ("Command", role) for role in ("planner", "coder", "profiler_analyst", "knowledge_retriever", "gatekeeper")
    }
    lines = recorded.read_script(played.script)
    assert len(lines) == len(exchanges(played.root))
    assert not recorded.RECORD_ID_PATTERN.search(json.dumps([line.reply.model_dump(mode="json") for line in lines])), (
        "ids differ in the next run"
    )
    kept = list((played.root / ".kernelwright" / "exchanges").iterdir())
    assert len(kept) == len(exchanges(played.root))
    assert all((folder / "prompt.md").stat().st_size and (folder / "stdout.txt").stat().st_size for folder in kept)


def test_what_a_program_took_is_unknown_and_never_zero(played: Played, capsys: Capsys) -> None:
    unsaid = "cost unknown: Command does not report its usage"
    assert (
        played.summary["tokens"] is None
        and played.summary["usd"] is None
        and played.summary["cost_unknown"] == [unsaid]
    )
    assert main(["show", str(played.root)]) == 0
    shown = capsys.readouterr().out
    assert f"spent: tokens unknown, {unsaid}" in shown and "0 tokens" not in shown
    report = (played.root / "report.md").read_text()
    assert re.search(rf"\| together \| \d+ \| N/A \| N/A \| N/A \| N/A \| {unsaid} \|", report)


KILLED = """
import os, signal, sys
from pathlib import Path
from graph.lifecycle import run

def die(event):
    if event.kind == "exchange" and event.details.get("record"):
        os.kill(os.getpid(), signal.SIGKILL)

run.resume(Path(sys.argv[1]), (die,))
"""
"""A resumed run that dies as soon as an exchange is on record."""
HINT = "Rows lie one after the other; say `// row-major` at the end."
HANDLER = f"""
from agents.handlers.base import SourceHandler


class RowMajor(SourceHandler):
    def applies(self, source, language):
        return language == "cpp" and "columns" in source

    def repair(self, draft, source, language):
        return draft if "// row-major" in draft else draft.rstrip() + "\\n// row-major\\n"

    def hint(self):
        return {HINT!r}
"""


def test_somebody_who_writes_files_and_a_handler(
    tmp_path: Path, own_home: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run pauses for each answer. A bad one comes back, a kill loses none, and nobody is asked the same thing
    twice."""
    (tmp_path / "my_shapes.py").write_text(HANDLER)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = configured(
        tmp_path, search=SEARCH, models={"default": {"provider": "manual"}}, handlers=["my_shapes:RowMajor"]
    )
    assert main(["check", str(config)]) == 0 and "handlers    my_shapes:RowMajor\n" in capsys.readouterr().out
    code = main(["run", str(config), "--quiet", "--json"])
    said = capsys.readouterr()
    root = Path(json.loads(said.out)["workspace"])
    desk = root / "manual"
    asked = hinted = 0
    while code == 6:
        found = json.loads(said.out)
        assert found["status"] == "waiting" and f"resume {root}" in found["reason"]
        assert said.err.startswith("waiting: models.") and said.err.count("\n") == 1
        asked += 1
        answer = Path(found["file"])
        assert answer.parent == desk and not answer.exists() and len(list(desk.glob("*.prompt.md"))) == asked
        shown = graph("show", str(root), home=own_home)
        assert str(answer) in shown.stdout and shown.stdout.startswith("waiting: ")
        prompt = answer.with_name(answer.name.replace(".answer.", ".prompt.")).read_text()
        hinted += "## Shape of this kernel" in prompt and f"- {HINT}" in prompt
        if asked == 2:
            assert main(["resume", str(root), "--quiet", "--json"]) == 6, "nothing was written"
            assert printed_json(capsys)["file"] == str(answer)
            answer.write_text("I would rather not.")
            os.utime(answer, (0, 0))
            assert main(["resume", str(root), "--quiet", "--json"]) == 6
            assert "refused" in capsys.readouterr().err
            assert answer.with_name(answer.name.replace(".answer.", ".answer.1.")).read_text() == "I would rather not."
            assert len(list(desk.glob("*.refused.md"))) == 1
        answer.write_text(scripted.answer(prompt))
        if asked == 3:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            command = [sys.executable, "-c", KILLED, str(root)]
            done = run_captured(command, cwd=tmp_path, env=environment)
            assert done.returncode == -signal.SIGKILL, done.stderr
            assert len(exchanges(root)) == 3 and answer.exists()
        code = main(["resume", str(root), "--quiet", "--json"])
        said = capsys.readouterr()
    assert code == 0, said.err
    accepted_a_faster_kernel(root, json.loads(said.out))
    assert hinted and Repository(root).read_file_at("HEAD", "kernel.cpp").decode().endswith("}\n// row-major\n")
    assert asked == len(list(desk.glob("*.answer.md"))) == len(exchanges(root))
    assert not list(desk.glob("*.refused.md"))
    assert "waiting" not in graph("show", str(root), home=own_home).stdout
    tracked = run_captured(["git", "ls-files"], cwd=root, check=True).stdout
    assert "manual/" not in tracked
