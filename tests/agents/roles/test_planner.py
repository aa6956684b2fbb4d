"""What a plan may hold: returned to the model with the reason, then struck out. The model is taken to be fooled; the
code must hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import (
    Dossier,
    FrontierKernel,
    Hypothesis,
    PassedOver,
    Plan,
    PlannedMethod,
    PlannerBrief,
    Prediction,
    RunAttempt,
)
from agents.checks.cited_sources import NOT_GIVEN_PLACEHOLDER
from agents.models.answers import parsing
from agents.models.base import Request, UnfitReply, Usage
from agents.models.playbook.model import Playbook
from agents.prompting.render import render_blocks
from agents.roles import planner
from agents.roles.agent import MAX_REPAIRS
from knowledge_base.artifacts import Page, Passage
from knowledge_base.experience import free_methods
from knowledge_base.experience.similarity import Conditions
from knowledge_base.pages.wiki import Wiki
from tests.agents.checks.test_cited_figures import RECORD, cited, planner_brief
from tests.agents.scripted import agent
from tests.contracts.test_models import FINDINGS
from tests.knowledge_base.experience.test_free_methods import outcome
from tools.artifacts import Axis, Interval

WIKI = Wiki.open()
COMPUTE: Axis = "compute"
TIME = Prediction(metric="time", direction="down", factor=0.5, confidence=0.6)


def pages(*axes: Axis, most: int = 2) -> tuple[Page, ...]:
    """C++ methods of some axes, those of highest priority on each."""
    found = [page for page in WIKI.pages if page.head.type == "method" and "cpp" in page.head.languages]
    ranked = sorted(found, key=lambda page: (-page.head.priority, page.head.id))
    return tuple(page for axis in axes for page in [p for p in ranked if p.head.axis == axis][:most])


FIRST, SECOND = pages(COMPUTE)
PASSAGE = next(passage for passage in WIKI.passages() if passage.path.startswith("skills/"))


def brief(
    methods: tuple[Page, ...] = (FIRST,),
    passages: tuple[Passage, ...] = (),
    tried: tuple[RunAttempt, ...] = (),
    room: int = 2,
) -> PlannerBrief:
    dossier = Dossier(queries=(), passages=passages, methods=methods, attempts=())
    budget = {"compute": room, "memory": 1, "latency": 0, "occupancy": 1}
    most = {"methods_per_iteration": 2, "candidates": 3}
    return planner_brief().model_copy(update={"dossier": dossier, "tried": tried, "budget": budget, **most})


def planned(
    method: str = FIRST.head.id,
    axis: Axis = COMPUTE,
    citations: tuple[str, ...] = (RECORD,),
    expected: tuple[Prediction, ...] = (TIME,),
    rationale: str = "The finding asks for it.",
) -> PlannedMethod:
    return PlannedMethod(
        method=method,
        axis=axis,
        hypothesis=Hypothesis(change="One.", rationale=rationale, citations=citations, expected=expected),
    )


def answered(root: Path, given: PlannerBrief, *proposed: Plan) -> tuple[Plan, tuple[str, ...]]:
    """The plan that comes of what a model proposes in turn, the last also when it is asked again; and what it was
    told before that."""
    asked, model = agent("planner", root, [*proposed, *proposed[-1:] * MAX_REPAIRS])
    made = planner.write_plan(asked, given)
    return made, model.asked[1].refused if len(model.asked) > 1 else ()


def test_a_sound_plan_passes_at_once(tmp_path: Path) -> None:
    sound = Plan(
        methods=(planned(citations=(RECORD, f"<gpu-wiki>/{FIRST.path}:{FIRST.body_line}", str(cited().citation))),),
        candidates=2,
    )
    assert answered(tmp_path, brief(), sound) == (sound, ())


@pytest.mark.parametrize(
    ("method", "why"),
    [
        (planned(method="invented-method"), "write an idea of your own as `own:<slug>`"),
        (planned(method=SECOND.head.id), "no listed method page has this id"),
        *(
            (planned(method=f"own:{slug}"), "small letters, digits and single dashes")
            for slug in ("", "Two_Rows", "../x", "a\n## Rules", "x" * 99)
        ),
        (planned(citations=()), "its hypothesis has no citation"),
        (planned(citations=("fedcba9876543210",)), "none of its citations was given to you: fedcba9876543210"),
        (planned(citations=("<gpu-wiki>/methods/invented.md:3", "trust me")), "none of its citations was given to you"),
        (
            planned(rationale="As <gpu-wiki>/methods/invented.md:3 says."),
            "cites <gpu-wiki>/methods/invented.md:3, which you were not given",
        ),
        (planned(expected=()), "its hypothesis has no prediction"),
        (planned(expected=(TIME.model_copy(update={"metric": "gcc.loops"}),)), "does not predict `time`"),
        (planned(expected=(TIME.model_copy(update={"factor": 2.0}),)), "its prediction of time is impossible"),
    ],
)
def test_what_breaks_a_rule_is_returned_with_the_reason_and_then_struck_out(
    tmp_path: Path, method: PlannedMethod, why: str
) -> None:
    insisting = Plan(methods=(method,), candidates=2, reason="Trust me.")
    struck, told = answered(tmp_path / "a", brief(), insisting)
    assert struck.methods == () and any(
        why in fault and fault.startswith(f"methods.0 ({method.method})") for fault in told
    )
    assert struck.reason.startswith(f"Trust me.; {method.method} struck out: ") and why in struck.reason
    mended = Plan(methods=(planned(),), candidates=2)
    assert answered(tmp_path / "b", brief(), insisting, mended)[0] == mended


def test_no_more_methods_than_an_iteration_may_have_and_each_once(tmp_path: Path) -> None:
    other = pages("occupancy")[0]
    ids = [page.head.id for page in (FIRST, SECOND, other)]
    three = Plan(methods=(planned(), planned(method=ids[1]), planned(method=ids[2], axis="occupancy")), candidates=2)
    made, told = answered(tmp_path / "three", brief((FIRST, SECOND, other)), three)
    assert [item.method for item in made.methods] == ids[:2] and any("more than 2 methods" in fault for fault in told)
    assert (
        len(answered(tmp_path / "twice", brief(), Plan(methods=(planned(), planned()), candidates=2))[0].methods) == 1
    )


def test_three_methods_on_one_axis_are_cut_to_two(tmp_path: Path) -> None:
    three = pages(COMPUTE, most=3)
    given = brief(three, room=3).model_copy(update={"methods_per_iteration": 3})
    crowded = Plan(methods=tuple(planned(method=page.head.id) for page in three), candidates=2)
    made, told = answered(tmp_path, given, crowded)
    assert [item.method for item in made.methods] == [page.head.id for page in three[:2]]
    assert any("more than 2 methods on the compute axis" in fault for fault in told)


def test_a_plan_may_build_on_an_offered_candidate_and_on_no_other(tmp_path: Path) -> None:
    lost = FrontierKernel(
        candidate="0123456789ab",
        iteration=1,
        methods=("vector-exp",),
        knobs={},
        speedup=Interval(estimate=1.01, low=0.99, high=1.03),
        timed_against="v0",
        verdict="inconclusive",
        reason="noise",
    )
    given = brief().model_copy(update={"frontier": (lost,)})
    plan = Plan(methods=(planned(),), candidates=2, parent=lost.candidate)
    assert answered(tmp_path / "a", given, plan) == (plan, ())
    made, told = answered(tmp_path / "b", given, plan.model_copy(update={"parent": "feedfeedfeed"}))
    assert not made.parent and "'feedfeedfeed' is no candidate that you were offered" in made.reason
    assert told == (made.reason,)


def test_budget_and_priority_advise_want_a_word_once_and_never_block(tmp_path: Path) -> None:
    both = brief((FIRST, SECOND), room=0)
    lower = Plan(methods=(planned(method=SECOND.head.id, axis="memory"),), candidates=2, reason="I like it.")
    made, told = answered(tmp_path / "a", both, lower)
    steps = (
        "1 method on the compute axis, beyond its budget of 0; change",
        f"{FIRST.head.id} come before {SECOND.head.id} on the compute axis",
    )
    assert all(any(fault.startswith(step) for fault in told) for step in steps) and len(told) == 2
    assert made.methods == (planned(method=SECOND.head.id),) and made.reason.count(", unexplained") == 2, (
        "on its page's axis, and kept"
    )
    named = f"{FIRST.head.id} and others stand in the source; the compute axis alone is left."
    said = lower.model_copy(update={"reason": named, "methods": made.methods})
    assert "its own reason in `passed_over`" in answered(tmp_path / "named", both, said)[1][0]
    said = said.model_copy(update={"passed_over": (PassedOver(method=FIRST.head.id, reason="It stands in it."),)})
    assert answered(tmp_path / "b", both, said) == (said, ())
    tried = (RunAttempt(iteration=1, methods=(FIRST.head.id,), knobs={}, verdict="reject_perf", reason="slow"),)
    untold = said.model_copy(update={"reason": "By now.", "passed_over": ()})
    assert answered(tmp_path / "c", brief((FIRST, SECOND), tried=tried), untold) == (untold, ())
    assert answered(tmp_path / "d", brief((SECOND, FIRST)), untold) == (untold, ()), "listed after: another operator's"


def test_an_idea_of_the_planners_own_needs_no_page_citation_or_priority(tmp_path: Path) -> None:
    own = planned(method="own:two-rows", citations=()).model_copy(update={"signature": {"x86_64": "vfmadd|vaddps"}})
    plan = Plan(methods=(own,), candidates=2, reason="New.")
    assert answered(tmp_path / "a", brief((FIRST, SECOND)), plan) == (plan, ())
    for number, pattern in enumerate(("(a+)+$", "[", "@nothing", "x" * 200)):
        kept, told = answered(
            tmp_path / str(number),
            brief(),
            Plan(methods=(own.model_copy(update={"signature": {"*": pattern}}),), candidates=2),
        )
        assert kept.methods[0].signature == {} and told[0].startswith(
            f"methods.0 (own:two-rows): signature {pattern!r} is "
        )


def test_what_was_listed_before_findings_and_own_experience_can_be_cited(
    tmp_path: Path,
) -> None:
    (experience,) = free_methods.pages_for_conditions([outcome("softmax", "feed" * 4)], Conditions(language="cpp"))
    given = brief((experience,))
    given = given.model_copy(
        update={"findings": FINDINGS[:1], "dossier": given.dossier.model_copy(update={"earlier": (FIRST,)})}
    )
    cites = ("feed" * 4, FINDINGS[0].rule, f"<gpu-wiki>/{FIRST.path}:{FIRST.body_line}")
    sound = Plan(methods=(planned(citations=cites), planned("own:two-rows", "memory", cites[:1])), candidates=2)
    assert answered(tmp_path / "a", given, sound) == (sound, ())
    shown = "".join(block.text for block in render_blocks("planner", given, "Plan"))
    assert f"(own experience: record {cites[0]})" in shown and FIRST.head.id in shown and "\n## Rules" not in shown


def test_an_invented_line_in_the_reason_is_lost_alone(tmp_path: Path) -> None:
    said = Plan(methods=(planned(),), candidates=2, reason="See <gpu-wiki>/methods/invented.md:7.")
    kept, told = answered(tmp_path, brief(), said)
    assert kept.reason == f"See {NOT_GIVEN_PLACEHOLDER}." and kept.methods
    assert told == ("reason: <gpu-wiki>/methods/invented.md:7 is not a wiki line that you were given",)


def test_a_plan_of_which_nothing_stands_is_no_word_that_nothing_is_left(tmp_path: Path) -> None:
    struck, _ = answered(tmp_path / "a", brief(), Plan(methods=(planned(method="invented"),), candidates=2))
    assert struck.methods == () and struck.candidates == 2
    assert (
        answered(tmp_path / "b", brief(), Plan(methods=(), candidates=2, reason="Nothing applies."))[0].candidates == 0
    )


def test_of_what_is_cited_only_what_was_given_is_kept(tmp_path: Path) -> None:
    good = f"<gpu-wiki>/{PASSAGE.path}:{PASSAGE.last_line}"
    mixed = Plan(methods=(planned(citations=(good, f"<gpu-wiki>/{PASSAGE.path}:99999", RECORD)),), candidates=2)
    kept, told = answered(tmp_path, brief(passages=(PASSAGE,)), mixed)
    assert kept.methods[0].hypothesis.citations == (good, RECORD)
    assert any("is not a record, finding or wiki line that you were given" in fault for fault in told)


@pytest.mark.parametrize(("wanted", "given"), [(1000, 3), (-4, 1), (2, 2)])
def test_no_more_variants_are_made_than_the_run_wants(tmp_path: Path, wanted: int, given: int) -> None:
    assert answered(tmp_path, brief(), Plan(methods=(planned(),), candidates=wanted))[0].candidates == given


@pytest.mark.parametrize("factor", ["NaN", "Infinity", "1e999"])
def test_a_prediction_that_no_record_could_keep_is_no_answer(factor: str) -> None:
    said = Plan(methods=(planned(),), candidates=2).model_dump_json().replace('"factor":0.5', f'"factor":{factor}')
    read = parsing.parse_answer(said, Request(role="planner", brief=brief(), answer="Plan"), said=said, usage=Usage())
    assert isinstance(read, UnfitReply) and "factor" in read.faults[0]


def test_the_playbook_keeps_the_rules() -> None:
    given = brief(tuple(page for page in WIKI.pages if page.head.type == "method" and "cpp" in page.head.languages))
    source = (
        'extern "C" void solve(const float* x, float* y, int n) {\n  for (int i = 0; i < n; ++i) y[i] = 2.0f * '
        "x[i];\n}\n"
    )
    given = given.model_copy(update={"source": source})
    answer = Playbook({}).ask(Request(role="planner", brief=given, answer="Plan")).answer
    assert isinstance(answer, Plan) and answer.methods and not planner.plan_faults(answer, given)
