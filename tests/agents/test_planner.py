"""What a plan may hold: returned to the model with the reason, then struck out. The model is taken to be fooled; the code must hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents import planner
from agents.artifacts import Dossier, Hypothesis, Movement, Plan, PlannedMethod, PlannerBrief, Tried
from agents.base import REPAIRS
from agents.models import answers
from agents.models.base import Request, Unfit, Usage
from agents.models.playbook.model import Playbook
from knowledge_base.artifacts import Page, Passage
from knowledge_base.wiki import Wiki
from tests.agents.scripted import agent
from tests.agents.test_sourced import FINDINGS, HEADROOM, RECORD, TASK, cited
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
    return PlannerBrief(
        task=TASK,
        source="",
        findings=FINDINGS,
        headroom=HEADROOM,
        dossier=Dossier(queries=(), passages=passages, methods=methods, attempts=()),
        tried=tried,
        budget={"compute": room, "memory": 1, "latency": 0, "occupancy": 1},
        methods_per_iteration=2,
        variants=3,
        records=(RECORD,),
        specs=(cited(),),
    )


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


def test_a_sound_plan_passes_at_once(tmp_path: Path) -> None:
    sound = Plan(methods=(planned(citations=(RECORD, f"<gpu-wiki>/{FIRST.path}:{FIRST.body_line}", str(cited().citation))),), variants=2)
    asked, model = agent("planner", tmp_path, [sound])
    assert planner.plan(asked, brief()) == sound and len(model.asked) == 1


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
    insisting = Plan(methods=(method,), variants=2, reason="Trust me.")
    asked, model = agent("planner", tmp_path / "a", [insisting] * (REPAIRS + 1))
    struck = planner.plan(asked, brief())
    assert len(model.asked) == REPAIRS + 1 and struck.methods == ()
    assert any(why in fault and fault.startswith(f"methods.0 ({method.method})") for fault in model.asked[1].refused)
    assert struck.reason.startswith(f"Trust me.; {method.method} struck out: ") and why in struck.reason
    mended = Plan(methods=(planned(),), variants=2)
    asked, _ = agent("planner", tmp_path / "b", [insisting, mended])
    assert planner.plan(asked, brief()) == mended


def test_the_budget_of_an_axis_and_of_an_iteration_holds(tmp_path: Path) -> None:
    other = pages("occupancy")[0]
    third = planned(method=other.head.id, axis="occupancy")
    both = Plan(methods=(planned(), planned(method=SECOND.head.id), third), variants=2)
    asked, model = agent("planner", tmp_path / "axis", [both] * 2)
    kept = planner.plan(asked, brief((FIRST, SECOND, other), room=1)).methods
    assert [item.method for item in kept] == [FIRST.head.id, other.head.id]
    assert any("the compute axis has a budget of 1" in fault for fault in model.asked[1].refused)
    asked, model = agent("planner", tmp_path / "all", [both] * 2)
    kept = planner.plan(asked, brief((FIRST, SECOND, other))).methods
    assert [item.method for item in kept] == [FIRST.head.id, SECOND.head.id]
    assert any("more than 2 methods" in fault for fault in model.asked[1].refused)
    asked, _ = agent("planner", tmp_path / "twice", [Plan(methods=(planned(), planned()), variants=2)] * 2)
    assert len(planner.plan(asked, brief()).methods) == 1


def test_a_lower_priority_needs_a_word_about_the_higher(tmp_path: Path) -> None:
    lower = Plan(methods=(planned(method=SECOND.head.id),), variants=2, reason="I like it.")
    both = brief((FIRST, SECOND))
    asked, model = agent("planner", tmp_path / "a", [lower] * 2)
    assert planner.plan(asked, both).methods == ()
    assert f"{FIRST.head.id} come before it on the compute axis" in model.asked[1].refused[0]
    said = lower.model_copy(update={"reason": f"{FIRST.head.id}: it stands in the source already."})
    asked, _ = agent("planner", tmp_path / "b", [said])
    assert planner.plan(asked, both) == said
    tried = (Tried(iteration=1, methods=(FIRST.head.id,), knobs={}, verdict="reject_perf", reason="slow"),)
    asked, _ = agent("planner", tmp_path / "c", [lower])
    assert planner.plan(asked, brief((FIRST, SECOND), tried=tried)) == lower


def test_a_figure_in_the_reason_loses_the_reason_alone(tmp_path: Path) -> None:
    reason = f"{FIRST.head.id}: it stands in the source already, and the device has 99 SMs."
    said = Plan(methods=(planned(method=SECOND.head.id),), variants=2, reason=reason)
    asked, model = agent("planner", tmp_path, [said] * 2)
    kept = planner.plan(asked, brief((FIRST, SECOND)))
    assert "99 SMs" in model.asked[1].refused[0]
    assert [item.method for item in kept.methods] == [SECOND.head.id] and kept.reason == planner.sourced.LEFT_OUT


def test_a_plan_of_which_nothing_stands_is_no_word_that_nothing_is_left(tmp_path: Path) -> None:
    asked, _ = agent("planner", tmp_path / "a", [Plan(methods=(planned(method="invented"),), variants=2)] * 2)
    struck = planner.plan(asked, brief())
    assert struck.methods == () and struck.variants == 2
    asked, _ = agent("planner", tmp_path / "b", [Plan(methods=(), variants=2, reason="Nothing applies.")])
    assert planner.plan(asked, brief()).variants == 0


def test_of_what_is_cited_only_what_was_given_is_kept(tmp_path: Path) -> None:
    good = f"<gpu-wiki>/{PASSAGE.path}:{PASSAGE.last_line}"
    mixed = Plan(methods=(planned(citations=(good, f"<gpu-wiki>/{PASSAGE.path}:99999", RECORD)),), variants=2)
    asked, model = agent("planner", tmp_path, [mixed] * 2)
    (kept,) = planner.plan(asked, brief(passages=(PASSAGE,))).methods
    assert kept.hypothesis.citations == (good, RECORD)
    assert any("is no record and no line of the wiki that you were given" in fault for fault in model.asked[1].refused)


@pytest.mark.parametrize(("wanted", "given"), [(1000, 3), (-4, 1), (2, 2)])
def test_no_more_variants_are_made_than_the_run_wants(tmp_path: Path, wanted: int, given: int) -> None:
    asked, _ = agent("planner", tmp_path, [Plan(methods=(planned(),), variants=wanted)])
    assert planner.plan(asked, brief()).variants == given


def test_a_reason_cannot_cite_what_was_not_given(tmp_path: Path) -> None:
    invented = Plan(methods=(planned(),), variants=2, reason="See <gpu-wiki>/methods/invented.md:7.")
    asked, model = agent("planner", tmp_path, [invented] * 2)
    assert "invented" not in planner.plan(asked, brief()).reason
    assert model.asked[1].refused == ("reason: <gpu-wiki>/methods/invented.md:7 is no line of the wiki that you were given",)


@pytest.mark.parametrize("factor", ["NaN", "Infinity", "1e999"])
def test_a_prediction_that_no_record_could_keep_is_no_answer(factor: str) -> None:
    said = Plan(methods=(planned(),), variants=2).model_dump_json().replace('"factor":0.5', f'"factor":{factor}')
    read = answers.read(said, Request(role="planner", brief=brief(), answer="Plan"), said=said, usage=Usage())
    assert isinstance(read, Unfit) and "factor" in read.faults[0]


def test_the_playbook_keeps_the_rules() -> None:
    given = brief(tuple(page for page in WIKI.pages if page.head.type == "method" and "cpp" in page.head.languages))
    source = 'extern "C" void solve(const float* x, float* y, int n) {\n  for (int i = 0; i < n; ++i) y[i] = 2.0f * x[i];\n}\n'
    given = given.model_copy(update={"source": source})
    answer = Playbook({}).ask(Request(role="planner", brief=given, answer="Plan")).answer
    assert isinstance(answer, Plan) and answer.methods and not planner.faults(answer, given)
