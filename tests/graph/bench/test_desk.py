"""The bench on a recorded run: what it answers, refuses and hides; and its channel."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agents.artifacts import Drafts, Plan
from agents.models.base import Request
from graph.bench.channel import CallResult, call_through, is_listening, listening
from graph.bench.desk import MAX_ANSWER_CHARS, Bench
from graph.lifecycle.run import open_services
from graph.nodes.propose import coder_brief, planner_brief
from graph.services import Services
from graph.workspace.versions import read_state
from tests.support import run_captured

ANOTHER_USER = 65534


class AtWork:
    """A bench whose run waits for a submission in a thread of its own."""

    def __init__(self, services: Services, calls: int) -> None:
        self.services, self.bench = services, Bench(services, calls)
        self.state = read_state(services.workspace)
        services.ledger.iteration = self.state["iteration"] + 1
        self.plan: Plan | None = None
        request = Request(role="planner", brief=planner_brief(self.state, services), answer="Plan")

        def wait() -> None:
            answer = self.bench.answer(request)
            assert isinstance(answer, Plan)
            self.plan = answer

        self.thread = threading.Thread(target=wait, daemon=True)
        self.thread.start()

    def call(self, tool: str, *, fails: bool = False, **arguments: Any) -> str:
        found = self.bench.call(tool, arguments)
        assert found.failed == fails, found.text
        assert len(found.text) < MAX_ANSWER_CHARS + 300 and "\n\nbudget: 3 of " in found.text
        return found.text

    def planned(self) -> Plan:
        self.thread.join(30)
        assert self.plan is not None
        return self.plan


IDEA = {"method": "own:two-passes", "change": "one pass less", "rationale": "a row stays in the cache"}


@pytest.mark.slow
def test_a_draft_that_passes_the_quick_check_is_submitted_with_its_hypothesis(copied: Path) -> None:
    with open_services(copied) as services:
        there = AtWork(services, calls=10)
        source = services.candidate(there.state["baseline"]).source
        task = there.call("task")
        assert "def reference" in task and "void solve(" in task and "Sections: task (" in task
        assert str(services.judge.hidden) not in task
        assert "There is no section tasks" in there.call("task", sections=["tasks"])
        assert "v3" in there.call("history")
        assert "is no tool" not in there.call("knowledge", kind="recommend")
        there.call("note", text="the rows are short")
        there.call("submit", fails=True, name="mine", **IDEA)
        there.call("compile", name="mine", source=source)
        assert "citation" in there.call("submit", fails=True, name="mine", **{**IDEA, "method": "simd-loop"})
        there.call("profile", name="mine")
        there.call("check", name="mine")
        assert "used up" in there.call("time", fails=True, name="mine")
        said = there.call("submit", name="mine", time_factor=0.8, last=True, **IDEA)
        assert said.startswith("ticket v4: ")
        plan = there.planned()
        assert [(one.method, one.hypothesis.expected[0].factor) for one in plan.methods] == [("own:two-passes", 0.8)]
        brief = coder_brief(there.state, services, plan, source)
        request = Request(role="coder", brief=brief, answer="Drafts")
        drafts = there.bench.answer(request)
        assert isinstance(drafts, Drafts) and [one.source for one in drafts.drafts] == [source]
        judged_with = services.judge.secret
        assert judged_with != services.workspace.secret, "the agent can read the secret of the workspace"
        assert there.bench.call("verdict", {"ticket": "v4", "wait_s": 0}).text.startswith("ticket v4: it is being")
        # Killed here, the run takes the submission up again, and hides other sizes from it.
        again = Bench(services, 10)
        assert "it is being judged" in again.call("verdict", {"ticket": "v4", "wait_s": 0}).text
        assert again.answer(request) == drafts and services.judge.secret != judged_with
        assert again.calls == 11, "what an earlier process answered counts"
        again.emit("verdict", {"iteration": "4", "outcome": "reject_perf"})
        assert "v4 has no verdict" in again.call("verdict", {"ticket": "v4"}).text, "only the gate closes a version"


def test_mistakes_are_sentences_and_the_agent_can_end_the_run(copied: Path) -> None:
    with open_services(copied) as services:
        there = AtWork(services, calls=8)
        assert "There is no tool 'accept'" in there.call("accept", fails=True)
        assert "compile: source: Field required" in there.call("compile", fails=True, name="a")
        assert "There is no ticket 'v9'" in there.call("verdict", fails=True, ticket="v9")
        assert there.call("verdict", ticket="v2").startswith("v2 (")
        assert "looks like a key" in there.call("note", fails=True, text=f"sk-ant-api03-{'a1B2' * 24}")
        there.call("submit", last=True)
        assert there.planned().candidates == 0
        there.bench.emit("node", {"node": "finalise", "state": "started"})
        assert "has ended" in there.call("task", fails=True)


def test_the_channel_answers_its_own_user_with_the_token_alone(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    with listening(folder, lambda tool, arguments: CallResult(f"{tool} {sorted(arguments)}")):
        assert is_listening(folder)
        assert call_through(folder, "task", {"sections": []}).text == "task ['sections']"
        token = folder / "bench.token"
        assert token.stat().st_mode & 0o777 == (folder / "bench.sock").stat().st_mode & 0o777 == 0o600
        known = token.read_text()
        token.write_text("forged")
        assert call_through(folder, "task", {}).failed
        token.write_text(known)
    assert not is_listening(folder) and not token.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_the_channel_refuses_another_user_who_knows_the_token() -> None:
    program = f"""
import os, tempfile
from pathlib import Path
from graph.bench.channel import CallResult, call_through, listening
folder = Path(tempfile.mkdtemp(dir="/tmp"))
folder.chmod(0o777)
with listening(folder, lambda tool, arguments: CallResult("said")):
    assert call_through(folder, "task", {{}}).text == "said"
    for path in folder.iterdir():
        path.chmod(0o666)
    child = os.fork()
    if not child:
        os.setuid({ANOTHER_USER})
        found = call_through(folder, "task", {{}})
        os._exit(0 if found.failed and "own user" in found.text else 1)
    assert os.waitpid(child, 0)[1] == 0
"""
    run_captured([sys.executable, "-c", program], cwd=Path(__file__).parents[3], check=True)
