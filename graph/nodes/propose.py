"""The nodes from evidence to candidates: retrieve_evidence, plan, write."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from agents.artifacts import CoderBrief, Dossier, FrontierKernel, Plan, PlannerBrief, RetrieverBrief, RunAttempt
from agents.handlers.base import handler_hints
from agents.lift.from_reference import LIFT_METHOD
from agents.roles import coder, knowledge_retriever, planner
from agents.tool_use.workbench import failure_text
from graph.artifacts import EarlierAttempts, Inspection, JudgedTrial, ScoredPrediction, VersionMemory
from graph.nodes import lift
from graph.nodes.prepare import read_or_run_profilers, relevant_metrics, requests_of_candidates
from graph.report.content import frameworks
from graph.report.content.placeholders import analysis_text
from graph.report.content.version_files import planned_budget
from graph.services import Services
from graph.specs import hardware_sheet
from graph.state import State, branch_of
from graph.workspace.versions import accepted_version_of, read_versions
from knowledge_base.artifacts import Page
from knowledge_base.experience.forecasts import MIN_SCORED_PREDICTIONS, scores_by_model
from tools.artifacts import Candidate, Failed, Passed
from tools.errors import BudgetError, InfrastructureError
from tools.store.records import record_key

MAX_ATTEMPTS_WITH_COUNTERS = 3
"""The number of attempts for which prompts show the changes of counters."""
MAX_FRONTIER_KERNELS = 4
"""The number of correct candidates that lost and that the planner is offered."""
MIN_COUNTER_CHANGE = 0.02
"""The smallest relative change of a counter that prompts show."""


def retrieve_evidence(state: State, services: Services) -> State:
    """Search the wiki and past outcomes for the incumbent's findings, and store the dossier with citations (C3, B4)."""
    inspection = Inspection.model_validate(services.records.get(state["profile"]).payload)
    iteration = state["iteration"] + 1
    key_fields = {"iteration": iteration, "incumbent": state["incumbent"]}
    record = services.records.find(record_key("dossier", **key_fields))
    if record is None:
        task = services.task
        fired = tuple(finding.rule for finding in inspection.findings)
        # Excludes pages of other vendors, if the wiki knows the architecture.
        arch = None if "arch" in services.index.unknown_filters(arch=services.architecture) else services.architecture
        brief = RetrieverBrief(
            task=task,
            bottleneck=inspection.bottleneck,
            source=services.candidate(state["incumbent"]).source,
            **_shared_facts(state, services, inspection),
        )
        # Before the question, so that from its answer to the coder's nothing needs the device.
        lifted = (
            None
            if any(LIFT_METHOD in one.planned for one in tried_versions(services))
            else lift.lift_page(state, services)
        )
        dossier = knowledge_retriever.retrieve_dossier(
            services.agents["knowledge_retriever"],
            brief,
            search=lambda text: services.index.search(text, k=8, language=task.language, arch=arch),
            explain=lambda text: services.index.explain(text, language=task.language, arch=arch),
            holds=lambda passage: services.index.confirms(passage.citation),
            methods=services.guide.methods(
                task.language, fired, inspection.metrics, services.operator, services.architecture
            ),
            attempts=services.past_attempts(inspection.bottleneck),
        )
        others = [
            one for one in dossier.passages if one.path not in {passage.path for passage in inspection.seen.operator}
        ]
        pages = (*services.free_method_pages(inspection.bottleneck), *dossier.methods)
        rest = (page for page in pages if page.head.id != LIFT_METHOD)
        # Free methods of other runs come first, then the lift, then the catalogue.
        methods = tuple(
            sorted((*([lifted] if lifted else []), *rest), key=lambda page: not page.head.id.startswith("own:"))
        )
        dossier = dossier.model_copy(
            update={
                "shortfall": services.index.shortfall,
                "methods": methods,
                "passages": (*inspection.seen.operator, *others),
            }
        )
        before = (
            Dossier.model_validate(services.records.get(state["dossier"]).payload) if state.get("dossier") else None
        )
        dossier = _with_earlier_dossier(dossier, brief.skills, before, services)
        record = services.save_record("dossier", dossier, parents=(state["profile"],), **key_fields)
    found = Dossier.model_validate(record.payload)
    summary = (
        f"{len(found.queries)} queries, {len(found.passages)} passages, {len(found.methods)} methods, "
        f"{len(found.attempts)} past outcomes"
    )
    return State(iteration=iteration, dossier=record.id, repair=0, summary=summary)


def _with_earlier_dossier(
    dossier: Dossier, skills: tuple[Page, ...], before: Dossier | None, services: Services
) -> Dossier:
    """Add the pages and still valid passages of the run's earlier dossier, which plans may use and cite."""
    pages, passages = (before.methods + before.earlier, before.passages) if before else ((), ())
    listed_methods, known_lines = (
        {page.head.id for page in dossier.methods},
        {(passage.path, passage.first_line) for passage in dossier.passages},
    )
    earlier = {page.head.id: page for page in (*pages, *skills) if page.head.id not in listed_methods}
    still_valid = (
        one
        for one in passages
        if (one.path, one.first_line) not in known_lines and services.index.confirms(one.citation)
    )
    return dossier.model_copy(
        update={"earlier": tuple(earlier.values()), "passages": (*dossier.passages, *still_valid)}
    )


def plan(state: State, services: Services) -> State:
    """Let the planner choose up to three methods, each with a hypothesis and predictions (A4, A5, B3)."""
    plan_made = planner.write_plan(services.agents["planner"], planner_brief(state, services))
    record = services.save_record(
        "plan", plan_made, parents=(state["dossier"], state["profile"]), iteration=state["iteration"]
    )
    if not plan_made.candidates:
        # No version was opened, so the iteration is given back and the run ends.
        return State(
            plan=record.id,
            iteration=state["iteration"] - 1,
            stop="exhausted",
            summary=f"nothing left: {plan_made.reason}",
        )
    # A planner of whose methods none can stand has not said that nothing is left: its gate closes the iteration,
    # patience ends the run.
    return State(
        plan=record.id,
        summary=", ".join(item.method for item in plan_made.methods) or f"no valid method: {plan_made.reason}",
    )


def planner_brief(state: State, services: Services) -> PlannerBrief:
    """Return the planner's brief, with the budget of the axes."""
    inspected = services.records.get(state["profile"])
    inspection, memory = Inspection.model_validate(inspected.payload), earlier_outcomes(services)
    search = services.settings.search
    said = analysis_text(inspected, short=True)
    dossier = Dossier.model_validate(services.records.get(state["dossier"]).payload)
    return PlannerBrief(
        task=services.task,
        source=services.candidate(state["incumbent"]).source,
        **_shared_facts(state, services, inspection),
        dossier=dossier,
        tried=tried_versions(services, state["iteration"]),
        budget=planned_budget(inspection, dossier, services.settings),
        methods_per_iteration=search.methods_per_iteration,
        methods_per_axis=search.methods_per_axis,
        candidates=search.candidates,
        frontier=frontier_kernels(state, services),
        records=(state["profile"], *inspected.parents),
        memory=memory.attempts,
        remarks=tuple(one for profile in inspection.profiles for one in profile.remarks if one.tool == "ncu"),
        signals=_unfired_signals(services, {finding.rule for finding in inspection.findings}),
        forecasts=memory.forecasts,
        shape_class=services.shape_class,
        analysis=f"most important first: {', '.join(inspection.analysis.ranking)}. {said}",
        frameworks=frameworks.torch_times(state, services, is_open=True),
    )


def _shared_facts(state: State, services: Services, inspection: Inspection) -> dict[str, Any]:
    """Return the fields of `KernelBrief` for the incumbent, which are the same for all roles."""
    return {
        "findings": inspection.findings,
        "headroom": inspection.headroom,
        "specs": hardware_sheet.read_verified_sheet(state["specs"], services).target_specs,
        "architecture": services.architecture,
        "machine": services.machine,
        "skills": services.guide.skills(services.task.language, [finding.rule for finding in inspection.findings]),
        "observations": inspection.seen,
    }


def _unfired_signals(services: Services, fired: set[str]) -> tuple[str, ...]:
    """Return the rules that did not fire and on which the guide has a skill page for the language, one line for each
    axis."""
    by_axis: dict[str, list[str]] = {}
    for page in services.guide.pages_about("skill", services.task.language):
        by_axis.setdefault(page.head.axis or "other", []).extend(rule for rule in page.head.rules if rule not in fired)
    return tuple(f"{axis}: {', '.join(dict.fromkeys(rules))}" for axis, rules in sorted(by_axis.items()) if rules)


def frontier_kernels(state: State, services: Services) -> tuple[FrontierKernel, ...]:
    """Return correct candidates of earlier iterations that are not at HEAD (A6): those timed against the incumbent
    first, then the fastest."""
    root = services.workspace.root
    versions = {memory.iteration: memory for memory in read_versions(root)}
    accepted = {memory.candidate for memory in versions.values() if memory.verdict in ("accept", "baseline")}
    found: dict[str, FrontierKernel] = {}
    for name, identity in state.get("trials", {}).items():
        memory = versions.get(int(name.split("/")[0]))
        trial = JudgedTrial.model_validate(services.records.get(identity).payload).trial
        if memory is None or memory.masked or not isinstance(trial, Passed) or trial.candidate in accepted:
            continue
        candidate, against = (
            services.candidate(trial.candidate, memory.iteration),
            accepted_version_of(root, memory.parent),
        )
        reason = "; ".join(memory.reasons)
        if memory.candidate != trial.candidate:
            reason = f"its iteration's {memory.candidate} was judged in its place: {memory.verdict}"
        found[trial.candidate] = FrontierKernel(
            candidate=trial.candidate,
            iteration=memory.iteration,
            methods=candidate.methods,
            knobs=candidate.knobs,
            verdict=memory.verdict,
            speedup=trial.speedup,
            timed_against=against,
            reason=f"slower than {against}; {reason}" if trial.speedup.high < 1 else reason,
        )
    here = accepted_version_of(root, state["incumbent"])
    ranked = sorted(found.values(), key=lambda one: (one.timed_against != here, -one.speedup.estimate))
    return tuple(ranked[:MAX_FRONTIER_KERNELS])


def write(state: State, services: Services) -> State:
    """Let the coder write K candidates; at a repair attempt it sees the failures of the attempt before (A6, A10)."""
    plan_made = Plan.model_validate(services.records.get(state["plan"]).payload)
    if not plan_made.methods:
        return State(drafts=[], champion=None, attribution=None, summary="no method of the plan is valid")
    incumbent = services.candidate(state["incumbent"])
    parent = services.candidate(plan_made.parent) if plan_made.parent else incumbent
    begins = {"parent": parent.source, "parent_methods": parent.methods} if parent is not incumbent else {}
    brief = coder_brief(state, services, plan_made, incumbent.source).model_copy(
        update={"failures": failure_texts(state, services), **begins}
    )
    known = {
        judged.trial.candidate: services.candidate(judged.trial.candidate)
        for judged in trials_of_iteration(state, services)
    }
    composing = services.language.suffix == ".py" and len(services.task.workloads) > 1

    def requests_after(made: Iterable[Candidate]) -> Iterable[Callable[[], object]]:
        new = [one for one in made if one.id not in known]
        competing = State(**{**state, "drafts": [one.id for one in new], "composing": composing})
        return requests_of_candidates(new, branch_of(competing, state["incumbent"]), services)

    bench = replace(services.workbench(state["incumbent"], state["baseline"], known), requests_after=requests_after)
    drafts = [
        services.save_draft(candidate, state["iteration"])
        for candidate in coder.write_candidates(
            services.agents["coder"], brief, parent.id, services.language.suffix, bench
        )
        if candidate.id not in known
    ]
    # A failure of a compiler's job is reported when its candidate is judged.
    with contextlib.suppress(BudgetError, InfrastructureError):
        services.capped_judge.build_in_parallel(
            [services.candidate(one, state["iteration"]) for one in drafts], state["iteration"]
        )
    attempt = state.get("repair", 0)
    return State(
        drafts=drafts,
        composing=composing,
        repair=attempt + 1,
        champion=None,
        attribution=None,
        summary=f"{len(drafts)} candidate{'s' * (len(drafts) != 1)}, attempt {attempt + 1}",
    )


def coder_brief(state: State, services: Services, plan: Plan, source: str) -> CoderBrief:
    """Return the coder's brief for a plan on a source."""
    dossier = Dossier.model_validate(services.records.get(state["dossier"]).payload)
    pages = {page.head.id: page for page in (*dossier.earlier, *dossier.methods)}
    inspection = Inspection.model_validate(services.records.get(state["profile"]).payload)
    return CoderBrief(
        task=services.task,
        source=source,
        plan=plan,
        pages=tuple(
            page
            for item in plan.methods
            if (page := services.guide.page(item.method) or pages.get(item.method)) is not None
        ),
        tried=tried_versions(services, state["iteration"]),
        memory=earlier_outcomes(services).attempts,
        shape_class=services.shape_class,
        **_shared_facts(state, services, inspection),
        hints=handler_hints(services.handlers, source, services.task.language),
        frameworks=frameworks.torch_times(state, services, is_open=True),
        lifted_source=lift.lifted_source(services) if any(item.method == LIFT_METHOD for item in plan.methods) else "",
    )


def earlier_outcomes(services: Services) -> EarlierAttempts:
    """Return the outcomes of earlier runs of this operator and the planner's score, frozen at the first use.

    They are stored as a record, because other runs add to the log and a changed prompt would miss the provider's cache.
    """
    record = services.records.find(record_key("memory"))
    if record is None:
        task = services.task
        found = services.experience.attempts_like(services.operator, task.language, services.architecture)
        others = tuple(attempt for attempt in found if attempt.workspace != services.workspace.root.name)
        score = scores_by_model(services.experience.attempts()).get(services.settings.planner_model)
        forecasts = str(score) if score and score.scored >= MIN_SCORED_PREDICTIONS else ""
        record = services.save_record("memory", EarlierAttempts(attempts=others, forecasts=forecasts))
    return EarlierAttempts.model_validate(record.payload)


def trials_of_iteration(state: State, services: Services) -> tuple[JudgedTrial, ...]:
    """Return the trials of the current iteration in the order in which they were judged."""
    prefix = f"{state['iteration']}/"
    identities = [identity for name, identity in state.get("trials", {}).items() if name.startswith(prefix)]
    return tuple(JudgedTrial.model_validate(services.records.get(identity).payload) for identity in identities)


def failure_texts(state: State, services: Services) -> tuple[str, ...]:
    """Return one text for each failed candidate of the current iteration, with its failure and source."""
    failed = [judged.trial for judged in trials_of_iteration(state, services) if isinstance(judged.trial, Failed)]
    return tuple(
        failure_text(f"draft {trial.candidate}", trial, services.candidate(trial.candidate).source) for trial in failed
    )


def tried_versions(services: Services, before: float = math.inf) -> tuple[RunAttempt, ...]:
    """Return the closed iterations of this run, without masked ones and those in which the machine failed.

    `before`: only earlier iterations. A run whose checkpoint is made again must ask what it asked at that time.
    """
    closed = [
        m
        for m in read_versions(services.workspace.root)
        if not m.masked and 0 < m.iteration < before and m.verdict != "infra_error"
    ]
    # Models that take briefs ignore the counters, which take time to collect.
    counted = (
        closed[-MAX_ATTEMPTS_WITH_COUNTERS:]
        if any(services.agents[role].model.reads == "prompt" for role in ("planner", "coder"))
        else []
    )
    return tuple(
        RunAttempt(
            iteration=m.iteration,
            methods=m.methods,
            knobs=m.knobs,
            verdict=m.verdict,
            reason="; ".join(m.reasons),
            planned=tuple(scored.planned.method for scored in m.predictions),
            speedup=m.speedup,
            predicted=_prediction_summary([scored for scored in m.predictions if scored.hit is not None]),
            counter_changes=_counter_changes(m, services) if m in counted else {},
        )
        for m in closed
    )


def _prediction_summary(scored: list[ScoredPrediction]) -> str:
    """Return how many predictions held, with the predicted and observed factors of the others; empty: none was
    scored."""
    missed = [
        f"{one.planned.method}: time {e.factor:.3g} predicted, {one.observed_factor or math.nan:.3g} observed"
        for one in scored
        for e in one.planned.hypothesis.expected
        if e.metric == "time" and not one.hit
    ]
    held = f"{sum(bool(one.hit) for one in scored)} of {len(scored)} predictions held"
    return f"{held} ({'; '.join(missed)})" if missed else held if scored else ""


def _counter_changes(m: VersionMemory, services: Services) -> dict[str, tuple[float, float]]:
    """Return counter -> (value of the parent, value of the version), the greatest change first; empty: not timed."""
    if m.candidate is None or m.speedup is None:
        return {}
    before, after = (
        {
            name: q.value
            for seen in read_or_run_profilers(services.candidate(one), services)[0]
            for name, q in relevant_metrics(seen.metrics, services.rules).items()
        }
        for one in (m.parent, m.candidate)
    )
    pairs = {
        name: (before[name], after[name])
        for name in before
        if name in after and not math.isclose(before[name], after[name], rel_tol=MIN_COUNTER_CHANGE)
    }
    return dict(sorted(pairs.items(), key=lambda one: -abs(one[1][1] - one[1][0]) / max(map(abs, one[1]))))
