"""What a plan may hold: returned to the model with the reason, then struck out. The model is taken to be fooled; the code must hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import Dossier, Hypothesis, Movement, Plan, PlannedMethod, PlannerBrief, Tried
from agents.models.answers import parsing
from agents.models.base import Request, Unfit, Usage
from agents.models.playbook.model import Playbook
from agents.roles import planner
from agents.roles.agent import REPAIRS
from knowledge_base.artifacts import Page, Passage
from knowledge_base.pages.wiki import Wiki
from tests.agents.checks.test_sourced import RECORD, cited, planner_brief
from tests.agents.scripted import agent
from tools.artifacts import Axis

WIKI = Wiki.open()
COMPUTE: Axis = "compute"
TIME = Movement(metric="time", direction="down", factor=0.5, confidence=0.6)


def pages(*axes: Axis) -> tuple[Page, ...]:
    """C++ methods of some axes, the two of highest priority on each."""
    found = [page for page in WIKI.pages if page.head.type == "method" and "cpp" in page.head.languages]
    ranked = sorted(found, key=lambda page: (-page.head.priority, page.head.id))
    return tuple(page for axis in axes for page in [p for p in ranked if p.head.axis == axis][:2])


FIRST, SECOND = pages(COMPUTE)
PASSAGE = next(passage for passage in WIKI.passages() if passage.path.startswith("skills/"))


def brief(
    methods: tuple[Page, ...] = (FIRST,), passages: tuple[Passage, ...] = (), tried: tuple[Tried, ...] = (), room: int = 2
) -> PlannerBrief:
    dossier = Dossier(queries=(), passages=passages, methods=methods, attempts=())
    budget = {"compute": room, "memory": 1, "latency": 0, "occupancy": 1}
    most = {"methods_per_iteration": 2, "candidates": 3}
    return planner_brief().model_copy(update={"dossier": dossier, "tried": tried, "budget": budget, **most})


def planned(
    method: str = FIRST.head.id,
    axis: Axis = COMPUTE,
    citations: tuple[str, ...] = (RECORD,),
    expected: tuple[Movement, ...] = (TIME,),
    rationale: str = "The finding asks for it.",
) -> PlannedMethod:
    return PlannedMethod(
        method=method, axis=axis, hypothesis=Hypothesis(change="One.", rationale=rationale, citations=citations, expected=expected)
    )


def answered(root: Path, given: PlannerBrief, *proposed: Plan) -> tuple[Plan, tuple[str, ...]]:
    """The plan that comes of what a model proposes in turn, the last also when it is asked again; and what it was told before that."""
    asked, model = agent("planner", root, [*proposed, *proposed[-1:] * REPAIRS])
    made = planner.plan(asked, given)
    return made, model.asked[1].refused if len(model.asked) > 1 else ()


def test_a_sound_plan_passes_at_once(tmp_path: Path) -> None:
    sound = Plan(methods=(planned(citations=(RECORD, f"<gpu-wiki>/{FIRST.path}:{FIRST.body_line}", str(cited().citation))),), candidates=2)
    assert answered(tmp_path, brief(), sound) == (sound, ())


@pytest.mark.parametrize(
    ("method", "why"),
    [
        (planned(method="invented-method"), "no retrieved method page has this id"),
        (planned(method=SECOND.head.id), "no retrieved method page has this id"),
        (planned(axis="memory"), "its page puts it on the compute axis, not on memory"),
        (planned(citations=()), "its hypothesis cites nothing"),
        (planned(citations=("fedcba9876543210",)), "cites nothing that was given: fedcba9876543210"),
        (planned(citations=("<gpu-wiki>/methods/invented.md:3", "trust me")), "cites nothing that was given"),
        (planned(rationale="As <gpu-wiki>/methods/invented.md:3 says."), "names <gpu-wiki>/methods/invented.md:3, which was not given"),
        (planned(expected=()), "its hypothesis predicts nothing"),
        (planned(expected=(TIME.model_copy(update={"metric": "gcc.loops"}),)), "does not predict the time"),
        (planned(expected=(TIME.model_copy(update={"factor": 2.0}),)), "its prediction of time cannot be"),
    ],
)
def test_what_breaks_a_rule_is_returned_with_the_reason_and_then_struck_out(tmp_path: Path, method: PlannedMethod, why: str) -> None:
    insisting = Plan(methods=(method,), candidates=2, reason="Trust me.")
    struck, told = answered(tmp_path / "a", brief(), insisting)
    assert struck.methods == () and any(why in fault and fault.startswith(f"methods.0 ({method.method})") for fault in told)
    assert struck.reason.startswith(f"Trust me.; {method.method} struck out: ") and why in struck.reason
    mended = Plan(methods=(planned(),), candidates=2)
    assert answered(tmp_path / "b", brief(), insisting, mended)[0] == mended


def test_the_budget_of_an_axis_and_of_an_iteration_holds(tmp_path: Path) -> None:
    other = pages("occupancy")[0]
    ids = [page.head.id for page in (FIRST, SECOND, other)]
    three = Plan(methods=(planned(), planned(method=ids[1]), planned(method=ids[2], axis="occupancy")), candidates=2)
    for room, kept, why in ((1, [ids[0], ids[2]], "the compute axis has a budget of 1"), (2, ids[:2], "more than 2 methods")):
        made, told = answered(tmp_path / str(room), brief((FIRST, SECOND, other), room=room), three)
        assert [item.method for item in made.methods] == kept and any(why in fault for fault in told)
    assert len(answered(tmp_path / "twice", brief(), Plan(methods=(planned(), planned()), candidates=2))[0].methods) == 1


def test_a_lower_priority_needs_a_word_about_the_higher(tmp_path: Path) -> None:
    lower = Plan(methods=(planned(method=SECOND.head.id),), candidates=2, reason="I like it.")
    both = brief((FIRST, SECOND))
    made, told = answered(tmp_path / "a", both, lower)
    assert made.methods == () and f"{FIRST.head.id} come before it on the compute axis" in told[0]
    said = lower.model_copy(update={"reason": f"{FIRST.head.id}: it stands in the source already."})
    assert answered(tmp_path / "b", both, said) == (said, ())
    tried = (Tried(iteration=1, methods=(FIRST.head.id,), knobs={}, verdict="reject_perf", reason="slow"),)
    assert answered(tmp_path / "c", brief((FIRST, SECOND), tried=tried), lower) == (lower, ())


def test_a_reason_at_fault_is_lost_alone(tmp_path: Path) -> None:
    reason = f"{FIRST.head.id}: it stands in the source already, and the device has 99 SMs."
    said = Plan(methods=(planned(method=SECOND.head.id),), candidates=2, reason=reason)
    kept, told = answered(tmp_path / "a", brief((FIRST, SECOND)), said)
    assert "99 SMs" in told[0] and [item.method for item in kept.methods] == [SECOND.head.id]
    assert kept.reason == planner.sourced.LEFT_OUT
    kept, told = answered(tmp_path / "b", brief(), Plan(methods=(planned(),), candidates=2, reason="See <gpu-wiki>/methods/invented.md:7."))
    assert "invented" not in kept.reason and kept.methods
    assert told == ("reason: <gpu-wiki>/methods/invented.md:7 is no line of the wiki that you were given",)


def test_a_plan_of_which_nothing_stands_is_no_word_that_nothing_is_left(tmp_path: Path) -> None:
    struck, _ = answered(tmp_path / "a", brief(), Plan(methods=(planned(method="invented"),), candidates=2))
    assert struck.methods == () and struck.candidates == 2
    assert answered(tmp_path / "b", brief(), Plan(methods=(), candidates=2, reason="Nothing applies."))[0].candidates == 0


def test_of_what_is_cited_only_what_was_given_is_kept(tmp_path: Path) -> None:
    good = f"<gpu-wiki>/{PASSAGE.path}:{PASSAGE.last_line}"
    mixed = Plan(methods=(planned(citations=(good, f"<gpu-wiki>/{PASSAGE.path}:99999", RECORD)),), candidates=2)
    kept, told = answered(tmp_path, brief(passages=(PASSAGE,)), mixed)
    assert kept.methods[0].hypothesis.citations == (good, RECORD)
    assert any("is no record and no line of the wiki that you were given" in fault for fault in told)


@pytest.mark.parametrize(("wanted", "given"), [(1000, 3), (-4, 1), (2, 2)])
def test_no_more_variants_are_made_than_the_run_wants(tmp_path: Path, wanted: int, given: int) -> None:
    assert answered(tmp_path, brief(), Plan(methods=(planned(),), candidates=wanted))[0].candidates == given


@pytest.mark.parametrize("factor", ["NaN", "Infinity", "1e999"])
def test_a_prediction_that_no_record_could_keep_is_no_answer(factor: str) -> None:
    said = Plan(methods=(planned(),), candidates=2).model_dump_json().replace('"factor":0.5', f'"factor":{factor}')
    read = parsing.read(said, Request(role="planner", brief=brief(), answer="Plan"), said=said, usage=Usage())
    assert isinstance(read, Unfit) and "factor" in read.faults[0]


def test_the_playbook_keeps_the_rules() -> None:
    given = brief(tuple(page for page in WIKI.pages if page.head.type == "method" and "cpp" in page.head.languages))
    source = 'extern "C" void solve(const float* x, float* y, int n) {\n  for (int i = 0; i < n; ++i) y[i] = 2.0f * x[i];\n}\n'
    given = given.model_copy(update={"source": source})
    answer = Playbook({}).ask(Request(role="planner", brief=given, answer="Plan")).answer
    assert isinstance(answer, Plan) and answer.methods and not planner.faults(answer, given)
