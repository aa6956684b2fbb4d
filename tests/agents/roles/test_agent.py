"""The loop of an agent: tools, repair, bounds, and that a paid reply is used after a crash instead of bought again."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import (
    AnalystBrief,
    Answer,
    CoderBrief,
    Draft,
    Drafts,
    GatekeeperBrief,
    KnowledgeQuery,
    Plan,
    Queries,
    RetrieverBrief,
    Review,
    RoleName,
)
from agents.models.base import AnswerReply, Tool, ToolCall, ToolCallReply, ToolResult, UnfitReply
from agents.prompting.render import render_blocks
from agents.roles import coder, gatekeeper, knowledge_retriever, planner, profiler_analyst
from agents.roles.agent import (
    MAX_CALLS_PER_REPLY,
    MAX_REPAIRS,
    NO_MORE_TOOLS_TEXT,
    TOO_MANY_CALLS_TEXT,
    Agent,
    open_model,
)
from agents.tool_use.base import Toolbox
from graph.console.lines import event_line
from graph.workspace.events import Event
from tests.agents.checks.test_cited_figures import planner_brief
from tests.agents.scripted import Line, Scripted, agent, called
from tests.contracts.conftest import task
from tests.contracts.test_models import HEADROOM
from tests.tools.judge.test_judge import kernel
from tools.artifacts import BaselineFunction, Finding
from tools.errors import HarnessError, ProviderError, SettingsError, UnusableAnswerError
from tools.languages.cpp import Cpp

ROOT = Path(__file__).parents[3]
BRIEF = RetrieverBrief(task=task(Cpp()), findings=(), bottleneck="compute")
ANSWER = Queries(queries=(KnowledgeQuery(text="softmax", purpose="kernel"),))
ECHO = Tool(name="echo", description="Says it again.", parameters={"type": "object"})


class Echo(Toolbox):
    """Says what it is told, `prefix` first; what is called "hand" joins the answer, "break" is a machine's failure."""

    def __init__(self, rounds: int = 3, prefix: str = "", broken: bool = False) -> None:
        self.max_turns = rounds
        self.prefix = prefix
        self.broken = broken
        self.handed: tuple[KnowledgeQuery, ...] = ()

    @property
    def tools(self) -> tuple[Tool, ...]:
        return (ECHO,)

    def call(self, wanted: ToolCall) -> ToolResult:
        if self.broken:
            raise HarnessError("the harness died")
        text = str(wanted.arguments.get("text", ""))
        if wanted.name == "hand":
            self.handed += (KnowledgeQuery(text=text, purpose="kernel"),)
        return ToolResult(id=wanted.id, text=f"{self.prefix}{text}")

    @property
    def is_complete(self) -> bool:
        return len(self.handed) == 2

    def merge_answer(self, said: Answer | None) -> Answer | None:
        if isinstance(said, Queries):
            return Queries(queries=(*self.handed, *said.queries))
        return Queries(queries=self.handed) if self.handed and said is None else said


def echo(text: str, turn: int = 1) -> ToolCallReply:
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


UNFIT = UnfitReply(faults=("queries: a list is wanted",), said="no list")


def test_what_cannot_be_taken_for_an_answer_is_asked_again_once_and_is_no_failure_of_a_machine(tmp_path: Path) -> None:
    for lines in ([UNFIT] * (MAX_REPAIRS + 1), []):
        asked, model = asking(tmp_path / "a", *lines)
        with pytest.raises(
            UnusableAnswerError, match=r"models\.knowledge_retriever: no usable Queries was given.*a list is wanted"
        ):
            asked.ask(BRIEF, Queries)
        assert not lines or (model.asked[-1].refused == UNFIT.faults and model.asked[-1].turns[0].said == "no list")
    part = UNFIT.model_copy(update={"usable": ANSWER})
    for at, lines in enumerate(([part, UNFIT], [UNFIT, part], [ANSWER, UNFIT])):
        asked, model = asking(tmp_path / str(at), *lines)
        assert asked.ask(BRIEF, Queries, lambda given: ("one fault",)) == ANSWER and not model.lines, (
            "what can be read stands"
        )


def test_prose_and_left_out_code_are_recorded_and_said(tmp_path: Path) -> None:
    """They showed only in the next question, and in none where the model was not asked again."""
    elided = Drafts(drafts=(Draft(source='extern "C" void solve() {\n  // ... existing code ...\n}\n', methods=()),))
    told: list[str | None] = []
    asked, _ = agent("coder", tmp_path, [UNFIT, elided])
    asked.emit = lambda kind, details: told.append(event_line(Event(kind=kind, seconds=0.0, details=dict(details))))
    plan = Plan(methods=(), candidates=1)
    brief = CoderBrief(task=BRIEF.task, source="x", plan=plan, pages=(), tried=())
    assert coder.write_candidates(asked, brief, "p", ".cpp") == ()
    faults = [record.payload["faults"] for record in asked.records if record.kind == "exchange"]
    left_out = "draft 1: line 2: `// ... existing code ...` replaces code that was left out; write all of the code"
    assert faults == [list(UNFIT.faults), [left_out]]
    assert list(filter(None, told)) == [
        f"    models.coder: the answer has a fault: {fault}" for fault in (UNFIT.faults[0], left_out)
    ]
    asked, _ = asking(tmp_path / "sound", ANSWER)
    assert asked.ask(BRIEF, Queries) == ANSWER and "faults" not in next(iter(asked.records)).payload


def test_every_role_goes_on_without_an_answer_that_can_be_read(tmp_path: Path) -> None:
    """It costs the draft, else the iteration, and never the run."""

    def unread(role: RoleName) -> Agent:
        return agent(role, tmp_path / role, [UNFIT] * (MAX_REPAIRS + 1))[0]

    why = "models.planner: no usable Plan was given, even after a second request: queries: a list is wanted"
    assert planner.write_plan(unread("planner"), planner_brief()) == Plan(methods=(), candidates=1, reason=why), (
        "it does not say that nothing is left"
    )
    coding = CoderBrief(task=BRIEF.task, source="x", plan=Plan(methods=(), candidates=2), pages=(), tried=())
    assert coder.write_candidates(unread("coder"), coding, "p", ".cpp") == ()
    assert coder.write_ablations(unread("coder"), coding, kernel("y"), ".cpp") == {}
    with pytest.raises(SettingsError, match=r"none could be written: models\.coder: no usable Drafts"):
        coder.write_first_kernel(agent("coder", tmp_path / "first", [UNFIT] * 2)[0], BRIEF.task, ".cpp")
    found = knowledge_retriever.retrieve_dossier(unread("knowledge_retriever"), BRIEF, lambda text: (), (), ())
    assert [query.purpose for query in found.queries] == ["kernel", "bottleneck"]
    finding = Finding(rule="single_threaded", severity="high", axis="occupancy", text="One thread.")
    told = AnalystBrief(source="", findings=(finding,), remarks=(), headroom=HEADROOM, records=())
    assert profiler_analyst.analyze_findings(unread("profiler_analyst"), told).ranking == ("single_threaded",)
    assert gatekeeper.review_diff(unread("gatekeeper"), GatekeeperBrief(task=BRIEF.task, diff="")).veto


def test_a_first_kernel_is_ported_from_the_users_own_function_where_its_source_is_there(tmp_path: Path) -> None:
    def prompt(**function: object) -> str:
        own = BaselineFunction.model_validate(function) if function else None
        task = BRIEF.task.model_copy(update={"baseline_function": own})
        brief = CoderBrief(task=task, source="", plan=Plan(methods=(), candidates=1), pages=(), tried=())
        return "".join(block.text for block in render_blocks("coder", brief, "Drafts"))

    files = {"a.cu": "__global__ void rows()", "pack/mine.py": "def own_rows(x): ..."}
    ported = prompt(call="pack.mine:own_rows", files=files)
    assert "port the user's own function above" in ported and "call: pack.mine:own_rows" in ported
    assert ported.index("def own_rows") < ported.index("__global__ void rows()"), "its module comes first"
    for other in (prompt(), prompt(call="liger:rms")):
        assert "own function above" not in other and "write it from the reference" in other


def test_tools_are_bounded_in_rounds(tmp_path: Path) -> None:
    asked, model = asking(tmp_path / "a", *(echo(str(n), n) for n in range(9)))
    with pytest.raises(UnusableAnswerError, match="no usable Queries"):
        asked.ask(BRIEF, Queries, toolbox=Echo(rounds=2))
    assert len(model.asked) == 2 + 1 + MAX_REPAIRS, "two rounds, one too many, and what it was told then"
    last = model.asked[-1].turns[-1]
    assert last.refused == (NO_MORE_TOOLS_TEXT,) and all(result.failed for result in last.results)
    asked, _ = asking(tmp_path / "b", echo("a"), echo("b", 2), ANSWER)
    assert asked.ask(BRIEF, Queries, toolbox=Echo(rounds=1)) == ANSWER


def test_the_calls_of_one_reply_are_bounded(tmp_path: Path) -> None:
    asked, model = asking(
        tmp_path, called(*(("echo", {"text": str(number)}) for number in range(MAX_CALLS_PER_REPLY + 3))), ANSWER
    )
    assert asked.ask(BRIEF, Queries, toolbox=Echo()) == ANSWER
    results = model.asked[1].turns[0].results
    assert len(results) == MAX_CALLS_PER_REPLY + 3, "each call has its result, or a provider refuses the conversation"
    assert [result.text for result in results if result.failed] == [TOO_MANY_CALLS_TEXT] * 3


def test_an_answer_of_another_type_is_a_failure_of_the_provider(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="answered with Review instead of Queries"):
        asking(tmp_path, Review())[0].ask(BRIEF, Queries)


@pytest.mark.parametrize(
    ("last", "texts"),
    [
        (UnfitReply(faults=("no JSON",), said="I am done."), ["a"]),
        (ANSWER, ["a", "softmax"]),
        (echo("more", 2), ["a"]),
    ],
    ids=["prose", "answer", "one round too many"],
)
def test_what_was_handed_in_joins_however_the_model_ends(
    tmp_path: Path, last: Answer | UnfitReply | ToolCallReply, texts: list[str]
) -> None:
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
    assert len(model.asked) == 1 and model.asked[0].turns[0].said == "turn 1", (
        "the first exchange came from the records"
    )
    # Everything is there now, also for a machine whose tools say it in other words.
    asked, _ = asking(tmp_path)
    assert asked.ask(BRIEF, Queries, toolbox=Echo(prefix="elsewhere: ")) == ANSWER


def test_half_a_character_does_not_lose_a_paid_reply(tmp_path: Path) -> None:
    half = "a\ud800b"
    asked, model = asking(
        tmp_path, called(("echo", {"text": half, "more": [half]})), AnswerReply(answer=ANSWER, said=half)
    )
    assert asked.ask(BRIEF, Queries, toolbox=Echo()) == ANSWER
    assert model.asked[1].turns[0].results[0].text == "a?b"


def test_what_looks_like_a_key_in_a_reply_does_not_keep_the_run_from_its_commits(tmp_path: Path) -> None:
    """The gate refuses to commit such a record, and a resumed run would find it again for ever."""
    key = "AKIA" + "Q7" * 8
    asked, _ = asking(tmp_path, called(("echo", {"text": key})), AnswerReply(answer=ANSWER, said=f"use {key}"))
    assert asked.ask(BRIEF, Queries, toolbox=Echo()) == ANSWER
    kept = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any("use <secret>" in text for text in kept) and not any(key in text for text in kept)


def test_a_mistake_is_told_by_the_entry_that_it_stands_in() -> None:
    for entry, named in ((None, "models.coder.model: is missing"), ("default", "models.default.model: is missing")):
        with pytest.raises(SettingsError, match=named):
            open_model("coder", {"provider": "anthropic"}, entry=entry)
