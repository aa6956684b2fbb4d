"""The loop of an agent: tools, repair, bounds, and that a paid reply is used after a crash instead of bought again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agents.artifacts import Answer, Queries, Query, RetrieverBrief, Review
from agents.models.base import Answered, Called, Tool, ToolCall, ToolResult, Unfit
from agents.roles.agent import CALLS, ENOUGH, MANY, REPAIRS, Agent, open_model
from agents.tool_use.base import Toolbox
from tests.agents.scripted import Line, Scripted, agent, called
from tests.contracts.conftest import task
from tools.errors import HarnessError, ProviderError, SettingsError
from tools.languages.cpp import Cpp

ROOT = Path(__file__).parents[3]
BRIEF = RetrieverBrief(task=task(Cpp()), findings=(), bottleneck="compute")
ANSWER = Queries(queries=(Query(text="softmax", purpose="kernel"),))
ECHO = Tool(name="echo", description="Says it again.", parameters={"type": "object"})


class Echo(Toolbox):
    """Says what it is told, `prefix` first; what is called "hand" joins the answer, "break" is a machine's failure."""

    def __init__(self, rounds: int = 3, prefix: str = "", broken: bool = False) -> None:
        self.rounds = rounds
        self.prefix = prefix
        self.broken = broken
        self.handed: tuple[Query, ...] = ()

    @property
    def tools(self) -> tuple[Tool, ...]:
        return (ECHO,)

    def call(self, wanted: ToolCall) -> ToolResult:
        if self.broken:
            raise HarnessError("the harness died")
        text = str(wanted.arguments.get("text", ""))
        if wanted.name == "hand":
            self.handed += (Query(text=text, purpose="kernel"),)
        return ToolResult(id=wanted.id, text=f"{self.prefix}{text}")

    @property
    def complete(self) -> bool:
        return len(self.handed) == 2

    def answered(self, said: Answer | None) -> Answer | None:
        if isinstance(said, Queries):
            return Queries(queries=(*self.handed, *said.queries))
        return Queries(queries=self.handed) if self.handed and said is None else said


def echo(text: str, turn: int = 1) -> Called:
    return called(("echo", {"text": text}), turn=turn)


def asking(root: Path, *lines: Line) -> tuple[Agent, Scripted]:
    return agent("knowledge_retriever", root, lines, tools=True)


def test_what_is_called_is_done_and_told_before_the_answer(tmp_path: Path) -> None:
    asked, model = asking(tmp_path, called(("echo", {"text": "a"}), ("echo", {"text": "b"})), ANSWER)
    assert asked.ask(BRIEF, Queries, toolbox=Echo()) == ANSWER
    first, second = model.asked
    assert first.tools == second.tools == (ECHO,) and first.turns == ()
    (turn,) = second.turns
    assert turn.said == "turn 1" and turn.refused == ()
    assert [(result.id, result.text) for result in turn.results] == [("1.0", "a"), ("1.1", "b")]


def test_what_cannot_be_taken_for_an_answer_is_asked_again_once_and_anew_when_the_run_is_resumed(tmp_path: Path) -> None:
    unfit = Unfit(faults=("queries: a list is wanted",), said="no list")
    for lines in ([unfit] * (REPAIRS + 1), [unfit]):
        asked, model = asking(tmp_path, *lines)
        with pytest.raises(ProviderError, match=r"models\.knowledge_retriever: no usable Queries was given.*a list is wanted"):
            asked.ask(BRIEF, Queries)
        assert not model.lines and model.asked[-1].refused == unfit.faults and model.asked[-1].turns[0].said == "no list"
    asked, model = asking(tmp_path, ANSWER)
    assert asked.ask(BRIEF, Queries) == ANSWER and model.asked[0].refused == unfit.faults
    assert asking(tmp_path)[0].ask(BRIEF, Queries) == ANSWER, "and what was answered then is on record"


def test_tools_are_bounded_in_rounds(tmp_path: Path) -> None:
    asked, model = asking(tmp_path / "a", *(echo(str(n), n) for n in range(9)))
    with pytest.raises(ProviderError, match="no usable Queries"):
        asked.ask(BRIEF, Queries, toolbox=Echo(rounds=2))
    assert len(model.asked) == 2 + 1 + REPAIRS, "two rounds, one too many, and what it was told then"
    last = model.asked[-1].turns[-1]
    assert last.refused == (ENOUGH,) and all(result.failed for result in last.results)
    asked, _ = asking(tmp_path / "b", echo("a"), echo("b", 2), ANSWER)
    assert asked.ask(BRIEF, Queries, toolbox=Echo(rounds=1)) == ANSWER


def test_the_calls_of_one_reply_are_bounded(tmp_path: Path) -> None:
    asked, model = asking(tmp_path, called(*(("echo", {"text": str(number)}) for number in range(CALLS + 3))), ANSWER)
    assert asked.ask(BRIEF, Queries, toolbox=Echo()) == ANSWER
    results = model.asked[1].turns[0].results
    assert len(results) == CALLS + 3, "each call has its result, or a provider refuses the conversation"
    assert [result.text for result in results if result.failed] == [MANY] * 3


def test_an_answer_of_another_type_is_a_failure_of_the_provider(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="answered with Review where Queries is owed"):
        asking(tmp_path, Review())[0].ask(BRIEF, Queries)


@pytest.mark.parametrize(
    ("last", "texts"),
    [
        (Unfit(faults=("no JSON",), said="I am done."), ["a"]),
        (ANSWER, ["a", "softmax"]),
        (echo("more", 2), ["a"]),
    ],
    ids=["prose", "answer", "one round too many"],
)
def test_what_was_handed_in_joins_however_the_model_ends(tmp_path: Path, last: Answer | Unfit | Called, texts: list[str]) -> None:
    asked, model = asking(tmp_path, called(("hand", {"text": "a"})), last)
    assert [query.text for query in asked.ask(BRIEF, Queries, toolbox=Echo(rounds=1)).queries] == texts
    assert len(model.asked) == 2


def test_a_reply_is_not_bought_again_after_a_machine_failed_between(tmp_path: Path) -> None:
    asked, model = asking(tmp_path, echo("a"))
    with pytest.raises(HarnessError):
        asked.ask(BRIEF, Queries, toolbox=Echo(broken=True))
    assert len(model.asked) == 1
    asked, model = asking(tmp_path, ANSWER)
    assert asked.ask(BRIEF, Queries, toolbox=Echo()) == ANSWER
    assert len(model.asked) == 1 and model.asked[0].turns[0].said == "turn 1", "the first exchange came from the records"
    # Everything is there now, also for a machine whose tools say it in other words.
    asked, _ = asking(tmp_path)
    assert asked.ask(BRIEF, Queries, toolbox=Echo(prefix="elsewhere: ")) == ANSWER


DYING = """
import os, sys
from pathlib import Path
from agents.artifacts import Queries
from agents.roles.agent import Agent
from agents.models.base import Answered
from tests.agents.scripted import Scripted
from tests.agents.roles.test_agent import ANSWER, BRIEF, Echo, echo
from tools.store.records import Records

root, counter, dying = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "dying"

class Counted(Scripted):
    def ask(self, request):
        with counter.open("a") as file:
            file.write(f"{len(request.turns)}\\n")
        return Answered(answer=ANSWER) if request.turns else echo("a")

class Fatal(Echo):
    def call(self, wanted):
        if dying:
            os.kill(os.getpid(), 9)
        return super().call(wanted)

asked = Agent("knowledge_retriever", Counted({"lines": (), "tools": True}), Records(root), lambda kind, details: None)
assert asked.ask(BRIEF, Queries, toolbox=Fatal()) == ANSWER
"""


def test_a_reply_is_not_bought_again_after_the_process_was_killed(tmp_path: Path) -> None:
    def run(how: str) -> int:
        argv = [sys.executable, "-c", DYING, str(tmp_path / "records"), str(tmp_path / "asked"), how]
        return subprocess.run(argv, cwd=ROOT, check=False).returncode

    assert run("dying") == -9
    assert (tmp_path / "asked").read_text().split() == ["0"]
    assert run("living") == 0
    assert (tmp_path / "asked").read_text().split() == ["0", "1"], "each exchange was asked for once"


def test_half_a_character_does_not_lose_a_paid_reply(tmp_path: Path) -> None:
    half = "a\ud800b"
    asked, model = asking(tmp_path, called(("echo", {"text": half, "more": [half]})), Answered(answer=ANSWER, said=half))
    assert asked.ask(BRIEF, Queries, toolbox=Echo()) == ANSWER
    assert model.asked[1].turns[0].results[0].text == "a?b"


def test_what_looks_like_a_key_in_a_reply_does_not_keep_the_run_from_its_commits(tmp_path: Path) -> None:
    """The gate refuses to commit such a record, and a resumed run would find it again for ever."""
    key = "AKIA" + "Q7" * 8
    asked, _ = asking(tmp_path, called(("echo", {"text": key})), Answered(answer=ANSWER, said=f"use {key}"))
    assert asked.ask(BRIEF, Queries, toolbox=Echo()) == ANSWER
    kept = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any("use <secret>" in text for text in kept) and not any(key in text for text in kept)


def test_a_mistake_is_told_by_the_entry_that_it_stands_in() -> None:
    for entry, named in ((None, "models.coder.model: is missing"), ("default", "models.default.model: is missing")):
        with pytest.raises(SettingsError, match=named):
            open_model("coder", {"provider": "anthropic"}, entry=entry)
