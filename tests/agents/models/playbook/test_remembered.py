"""The playbook remembers: what won from this very source is planned first, what was rejected on it not again."""

from __future__ import annotations

import pytest

from agents.artifacts import Drafts, Plan, PlannerBrief
from agents.models.playbook.model import answer_brief
from agents.roles.planner import method_violations, plan_faults
from knowledge_base.artifacts import Attempt, Page, source_digest
from knowledge_base.experience.status import RESULT_BY_VERDICT
from knowledge_base.pages.wiki import Wiki
from tests.agents.models.playbook.kernels import source
from tests.agents.models.playbook.test_model import ask, coder_brief, planner_brief
from tools.artifacts import Interval

SOURCE = source("softmax_int")
SHAPES = "2^25B"


@pytest.fixture(scope="module")
def pages() -> tuple[Page, ...]:
    """Those of edits: what torch.compile generates is listed where it was lifted."""
    return tuple(p for p in Wiki.open().pages if p.head.type == "method" and p.head.recipe)


def outcome(verdict: str, *methods: str, gain: float = 1.5, **more: object) -> Attempt:
    gain = 0.9 if verdict == "reject_perf" else gain
    base = {
        "operator": "softmax",
        "language": "cpp",
        "architecture": "x86_64",
        "dtype": "float32",
        "shape_class": SHAPES,
        "bottleneck": "compute",
        "methods": methods,
        "result": RESULT_BY_VERDICT[verdict],
        "verdict": verdict,
        "effect": Interval(estimate=gain, low=0.9 * gain, high=1.1 * gain),
        "evidence": f"{verdict}-{'-'.join(methods)}",
        "before": source_digest(SOURCE),
        "after": f"after {verdict} {methods}",
    }
    return Attempt.model_validate(base | more)


def brief_with(pages: tuple[Page, ...], *memory: Attempt, **more: object) -> PlannerBrief:
    return planner_brief(pages, SOURCE).model_copy(update={"memory": memory, "shape_class": SHAPES, **more})


def planned(brief: PlannerBrief) -> tuple[set[str], Plan]:
    made = ask("planner", brief, Plan)
    assert not method_violations(made, brief) and not plan_faults(made, brief)
    return {item.method for item in made.methods}, made


def test_what_won_from_this_source_is_tried_at_once_and_once(pages: tuple[Page, ...]) -> None:
    won = outcome("accept", "openmp-parallel-outer", "simd-reduction")
    methods, made = planned(brief_with(pages, won))
    assert methods == {"openmp-parallel-outer", "simd-reduction"} and made.candidates == 1
    assert won.evidence in made.reason


def test_of_several_ways_the_one_that_gained_most_is_taken(pages: tuple[Page, ...]) -> None:
    large, small = (
        outcome("accept", "openmp-parallel-outer", gain=2.0),
        outcome("accept", "simd-reduction", gain=1.2, after="middle"),
    )
    assert planned(brief_with(pages, small, large))[0] == {"openmp-parallel-outer"}


def test_what_won_once_and_was_rejected_later_is_no_way_any_more(pages: tuple[Page, ...]) -> None:
    won = outcome("accept", "openmp-parallel-outer", after="same")
    lost = outcome("reject_perf", "openmp-parallel-outer", after="same", evidence="later")
    chosen, made = planned(brief_with(pages, lost, won, methods_per_iteration=1))
    assert chosen and chosen != {"openmp-parallel-outer"} and "very source" not in made.reason
    assert planned(brief_with(pages, won, lost, methods_per_iteration=1))[0] == {"openmp-parallel-outer"}, (
        "the newest counts"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"before": "other"},
        {"shape_class": "2^10B"},
        {"dtype": "float64"},
        {"origin": "stated"},
        {"methods": ("no-such-page", "vector-exp")},
    ],
)
def test_elsewhere_it_is_no_shortcut(pages: tuple[Page, ...], other: dict[str, object]) -> None:
    won = outcome("accept", "openmp-parallel-outer", "simd-reduction").model_copy(update=other)
    assert planned(brief_with(pages, won))[1].candidates > 1


def test_what_was_rejected_here_is_not_planned_as_this_set(pages: tuple[Page, ...]) -> None:
    first, _ = planned(brief_with(pages))
    for verdict in ("reject_perf", "reject_correctness"):
        second, _ = planned(brief_with(pages, outcome(verdict, *first)))
        assert second and second != first and not second & first, "what is untried comes first"
    others = [page.head.id for page in pages if page.head.id not in first]
    alone = [outcome("reject_perf", method) for method in others]
    third, made = planned(brief_with(pages, outcome("reject_perf", *first), *alone))
    assert third and third != first and "not as this set" in made.reason


def test_methods_accepted_elsewhere_in_these_conditions_come_first(pages: tuple[Page, ...]) -> None:
    single = {"methods_per_iteration": 1}
    plain, _ = planned(brief_with(pages, **single))
    favourite = next(method for method in ("vector-exp", "simd-reduction") if method not in plain)
    chosen, _ = planned(brief_with(pages, outcome("accept", favourite, before="other"), **single))
    assert chosen == {favourite}
    others, _ = planned(brief_with(pages, *(outcome("reject_perf", m, before="other") for m in plain), **single))
    assert others and not others & plain


def test_the_coder_starts_from_the_knobs_that_won(pages: tuple[Page, ...]) -> None:
    plan = Plan.model_validate({**_planned_of(pages, "vector-exp").model_dump(), "candidates": 1})
    plain = ask("coder", coder_brief(plan, pages, SOURCE), Drafts)
    assert plain.drafts[0].knobs["DEGREE"] != "5"
    memory = (outcome("accept", "vector-exp", knobs={"DEGREE": "5"}),)
    won = ask("coder", coder_brief(plan, pages, SOURCE, memory=memory, shape_class=SHAPES), Drafts)
    assert won.drafts[0].knobs["DEGREE"] == "5"


def test_the_coder_writes_no_kernel_that_was_rejected_here(pages: tuple[Page, ...]) -> None:
    plan = Plan.model_validate({**_planned_of(pages, "vector-exp").model_dump(), "candidates": 2})
    drafts = ask("coder", coder_brief(plan, pages, SOURCE), Drafts)
    first, second = drafts.drafts
    for verdict, before, kept in (
        ("reject_perf", source_digest(SOURCE), False),
        ("reject_perf", "other", True),
        ("reject_correctness", "other", False),
        ("inconclusive", source_digest(SOURCE), True),
    ):
        memory = (outcome(verdict, "vector-exp", before=before, after=source_digest(first.source)),)
        again = ask("coder", coder_brief(plan, pages, SOURCE, memory=memory, shape_class=SHAPES), Drafts)
        assert (first.source in {d.source for d in again.drafts}) == kept
        assert second.source in {d.source for d in again.drafts}


def _planned_of(pages: tuple[Page, ...], method: str) -> Plan:
    made = answer_brief(brief_with(pages, outcome("accept", method)))
    assert isinstance(made, Plan) and [item.method for item in made.methods] == [method]
    return made
