"""The playbook in each role, on the bundled method pages."""

from __future__ import annotations

from typing import TypeVar

import pytest

from agents.artifacts import (
    Analysis,
    AnalystBrief,
    Brief,
    CoderBrief,
    Dossier,
    Drafts,
    Plan,
    PlannerBrief,
    Queries,
    RetrieverBrief,
    Review,
    RoleName,
    RunAttempt,
)
from agents.lift.from_reference import LIFT_METHOD
from agents.models.base import Request
from agents.models.playbook.model import Playbook
from agents.models.playbook.recipe import RECIPES, load_recipe
from knowledge_base.artifacts import Page
from knowledge_base.pages.wiki import Wiki
from tests.agents.models.playbook.kernels import source as kernel
from tests.tools.builders import softmax
from tools.analysis.rules import evaluate_rules
from tools.analysis.rules import load_rules as load_rules
from tools.artifacts import Finding, Quantity, Workload
from tools.roofline.hardware import Headroom

AnswerT = TypeVar("AnswerT", Analysis, Drafts, Plan, Queries, Review)
TASK = softmax(baseline=kernel("softmax_int"), workloads=(Workload(name="w", dims={"M": 64, "N": 64}),))
FINDINGS = (
    Finding(rule="single_threaded", severity="high", axis="occupancy", text="One thread.", evidence=("rec1",)),
    Finding(rule="scalar_math_call", severity="high", axis="compute", text="Calls expf.", line=8, evidence=("rec2",)),
    Finding(rule="reduction_not_vectorised", severity="high", axis="compute", text="A scalar sum.", evidence=("rec2",)),
    Finding(rule="redundant_passes", severity="medium", axis="memory", text="Three passes.", evidence=("rec2",)),
)
HEADROOM = Headroom(total=0.9, compute=0.9, memory=0.8, latency=0.1, bound="compute")


@pytest.fixture(scope="module")
def every() -> tuple[Page, ...]:
    return tuple(p for p in Wiki.open().pages if p.head.recipe or p.head.id == LIFT_METHOD)


@pytest.fixture(scope="module")
def pages(every: tuple[Page, ...]) -> tuple[Page, ...]:
    """As a run lists them that has no lifted kernel."""
    return tuple(page for page in every if page.head.id != LIFT_METHOD)


def ask(role: RoleName, brief: Brief, owed: type[AnswerT]) -> AnswerT:
    answer = Playbook({}).ask(Request(role=role, brief=brief, answer=owed.__name__)).answer
    assert isinstance(answer, owed)
    return answer


def planner_brief(
    pages: tuple[Page, ...], source: str, tried: tuple[RunAttempt, ...] = (), methods: int = 3
) -> PlannerBrief:
    return PlannerBrief(
        task=TASK,
        source=source,
        findings=FINDINGS,
        headroom=HEADROOM,
        dossier=Dossier(queries=(), passages=(), methods=pages, attempts=()),
        tried=tried,
        budget={"compute": 2, "memory": 2, "latency": 1, "occupancy": 1},
        methods_per_iteration=methods,
        candidates=4,
        records=("rec1",),
    )


def coder_brief(plan: Plan, pages: tuple[Page, ...], source: str, **more: object) -> CoderBrief:
    return CoderBrief.model_validate(
        {"task": TASK, "source": source, "plan": plan, "pages": pages, "tried": (), **more}
    )


def test_pages_and_recipes_name_each_other(pages: tuple[Page, ...]) -> None:
    assert {p.head.recipe for p in pages} == set(RECIPES)
    for page in pages:
        made = load_recipe(page.head.recipe or "")
        assert made.name == page.head.recipe
        assert set(page.head.knobs) <= set(made.knobs), page.path
        assert made.language == "cpp" or page.head.knobs.keys() == made.knobs.keys(), page.path


def test_retriever_asks_for_the_kernel_and_the_bottleneck() -> None:
    queries = ask("knowledge_retriever", RetrieverBrief(task=TASK, findings=FINDINGS, bottleneck="compute"), Queries)
    assert {q.purpose for q in queries.queries} == {"kernel", "bottleneck"}
    assert "softmax" in queries.queries[0].text
    bare = ask("knowledge_retriever", RetrieverBrief(task=TASK, findings=(), bottleneck="memory"), Queries)
    assert bare.queries[1].text.startswith("memory")


def test_analyst_ranks_by_severity_then_room_and_gives_no_figures() -> None:
    brief = AnalystBrief(source="", findings=FINDINGS[::-1], remarks=(), headroom=HEADROOM, records=("rec9",))
    analysis = ask("profiler_analyst", brief, Analysis)
    assert analysis.ranking[:2] == ("scalar_math_call", "reduction_not_vectorised")
    assert analysis.ranking[-1] == "redundant_passes"
    assert "rec9" in analysis.text
    assert "0.9" not in analysis.text


def test_plan_cites_pages_respects_budgets_and_applies(pages: tuple[Page, ...]) -> None:
    plan = ask("planner", planner_brief(pages, kernel("softmax_int")), Plan)
    assert len(plan.methods) == 3
    assert {"openmp-parallel-outer", "vector-exp"} < {m.method for m in plan.methods}
    assert [m.axis for m in plan.methods].count("compute") <= 2
    assert all(m.hypothesis.citations[0].startswith("<gpu-wiki>/methods/") for m in plan.methods)
    assert all(m.hypothesis.expected for m in plan.methods)
    single = ask("planner", planner_brief(pages, kernel("softmax_int"), methods=1), Plan)
    assert len(single.methods) == 1


def test_failed_sets_are_not_planned_again_until_nothing_is_left(pages: tuple[Page, ...]) -> None:
    tried: list[RunAttempt] = []
    seen: set[frozenset[str]] = set()
    for iteration in range(1, 200):
        plan = ask("planner", planner_brief(pages, kernel("softmax_int"), tuple(tried)), Plan)
        if not plan.methods:
            assert plan.reason
            return
        methods = tuple(m.method for m in plan.methods)
        assert frozenset(methods) not in seen
        seen.add(frozenset(methods))
        tried.append(RunAttempt(iteration=iteration, methods=methods, knobs={}, verdict="reject_perf", reason="slower"))
    pytest.fail("the planner never ends")


def test_accepting_every_draft_ends_with_an_empty_plan(pages: tuple[Page, ...]) -> None:
    source, tried = kernel("softmax_rows"), []
    for iteration in range(1, 12):
        plan = ask("planner", planner_brief(pages, source, tuple(tried)), Plan)
        if not plan.methods:
            break
        planned = tuple(m.method for m in plan.methods)
        drafts = ask("coder", coder_brief(plan, pages, source), Drafts)
        if not drafts.drafts:
            tried.append(
                RunAttempt(
                    iteration=iteration, methods=planned, knobs={}, verdict="reject_perf", reason="", planned=planned
                )
            )
            continue
        source = drafts.drafts[0].source
        made = drafts.drafts[0].methods
        tried.append(
            RunAttempt(iteration=iteration, methods=made, knobs={}, verdict="accept", reason="", planned=planned)
        )
    else:
        pytest.fail("still planning after eleven accepted iterations")
    for word in ("omp parallel for", "kw_exp", "reduction(+:"):
        assert word in source


def test_drafts_differ_and_name_what_they_hold(pages: tuple[Page, ...]) -> None:
    source = kernel("softmax_int")
    plan = ask("planner", planner_brief(pages, source), Plan)
    drafts = ask("coder", coder_brief(plan, pages, source), Drafts)
    assert len(drafts.drafts) == 4
    assert len({d.source for d in drafts.drafts}) == 4
    assert set(drafts.drafts[0].methods) == {m.method for m in plan.methods}
    again = ask("coder", coder_brief(plan, pages, source, failures=("build: log",)), Drafts)
    assert drafts.drafts[0].source not in {d.source for d in again.drafts}


def test_ablation_leaves_one_method_out(pages: tuple[Page, ...]) -> None:
    source = kernel("softmax_int")
    plan = ask("planner", planner_brief(pages, source), Plan)
    methods = tuple(m.method for m in plan.methods)
    made = ask(
        "coder",
        coder_brief(plan, pages, source, ablated_methods=methods, champion_knobs={"SCHEDULE": "dynamic"}),
        Drafts,
    ).drafts
    (draft,) = [one for one in made if "vector-exp" not in one.methods]
    assert "kw_exp" not in draft.source
    assert "schedule(dynamic)" in draft.source
    assert set(draft.methods) == {*methods} - {"vector-exp"} and len(made) == len(methods)


def test_methods_without_a_place_are_skipped_with_a_reason(pages: tuple[Page, ...]) -> None:
    plan = ask("planner", planner_brief(pages, kernel("softmax_int")), Plan)
    drafts = ask("coder", coder_brief(plan, pages, kernel("prefix_sum")), Drafts)
    assert drafts.drafts == ()
    assert set(drafts.skipped) == {m.method for m in plan.methods}
    assert all("lambdas" in why and "`models:` in the config" in why for why in drafts.skipped.values())


def test_a_kernel_that_hides_its_loops_is_left_to_models_in_one_sentence(pages: tuple[Page, ...]) -> None:
    plan = ask("planner", planner_brief(pages, kernel("swiglu_lambda")), Plan)
    assert plan.methods == () and "lambdas" in plan.reason and "`models:` in the config" in plan.reason


def test_the_lifted_kernel_is_judged_once_where_edits_find_no_place_or_gain_no_more(every: tuple[Page, ...]) -> None:
    def planned(source: str, *verdicts: str, after: str = "") -> list[str]:
        tried = tuple(
            RunAttempt(iteration=n, methods=(after,), knobs={}, verdict=v, reason="") for n, v in enumerate(verdicts, 1)
        )
        return [m.method for m in ask("planner", planner_brief(every, kernel(source), tried), Plan).methods]

    assert LIFT_METHOD not in planned("softmax_int") and LIFT_METHOD not in planned("softmax_int", "accept")
    assert planned("softmax_int", "reject_perf") == planned("swiglu_lambda", "reject_perf") == [LIFT_METHOD]
    assert LIFT_METHOD not in planned("softmax_int", "reject_perf", after=LIFT_METHOD)


def test_knobs_in_place_are_searched_from_where_they_stand_and_never_twice(pages: tuple[Page, ...]) -> None:
    """After an accept with DEGREE=5 nothing new applies: each other setting is drafted once, then the planner gives
    up."""
    mine = tuple(p for p in pages if p.head.id == "vector-exp")
    source = load_recipe("vector_exp").edit(kernel("softmax_int"), {"DEGREE": "5"})
    tried: list[RunAttempt] = [
        RunAttempt(iteration=1, methods=("vector-exp",), knobs={"DEGREE": "5"}, verdict="accept", reason="")
    ]
    drafted: list[str] = []
    for iteration in range(2, 9):
        brief = planner_brief(mine, source, tuple(tried)).model_copy(update={"candidates": 2})
        plan = ask("planner", brief, Plan)
        if not plan.methods:
            break
        drafts = ask("coder", coder_brief(plan, mine, source, tried=tuple(tried)), Drafts)
        drafted += [d.knobs["DEGREE"] for d in drafts.drafts]
        tried.append(
            RunAttempt(
                iteration=iteration,
                methods=("other",),
                knobs={},
                verdict="reject_perf",
                reason="",
                planned=("vector-exp",),
            )
        )
    assert sorted(drafted) == ["6", "7"]


def test_what_gained_nothing_waits_behind_what_was_never_tried(pages: tuple[Page, ...]) -> None:
    first = ask("planner", planner_brief(pages, kernel("softmax_int")), Plan)
    planned = tuple(m.method for m in first.methods)
    failed = (
        RunAttempt(iteration=1, methods=planned[:1], knobs={}, verdict="inconclusive", reason="", planned=planned),
    )
    second = ask("planner", planner_brief(pages, kernel("softmax_int"), failed), Plan)
    assert second.methods
    assert not {m.method for m in second.methods} & set(planned)


def test_a_kernel_far_from_its_roof_is_not_given_up_for_want_of_findings() -> None:
    """Every recipe says so on its page, so that retrieval offers it."""
    rules = load_rules()
    facts = {
        "roofline.headroom": Quantity(value=0.6, unit="fraction"),
        "roofline.launch_share": Quantity(value=0.01, unit="fraction"),
    }
    fired = [f.rule for f in evaluate_rules((), facts, rules)]
    assert fired == ["far_from_roof"]
    found = {
        p.head.recipe for language in ("cpp", "triton", "cuda") for p in Wiki.open().methods(language, fired, facts)
    }
    assert set(RECIPES) <= found
    near = {**facts, "roofline.headroom": Quantity(value=0.2, unit="fraction")}
    assert not evaluate_rules((), near, rules)
