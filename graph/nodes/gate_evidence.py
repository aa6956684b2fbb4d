"""The work of the gate: gather evidence, get the verdict, write the version's artifacts and make its commit."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from agents.artifacts import GatekeeperBrief, Plan
from agents.checks.cited_sources import WIKI_LINE_PATTERN
from agents.roles import gatekeeper
from graph.artifacts import (
    Attribution,
    Closing,
    Inspection,
    JudgedTrial,
    MethodOutcome,
    ScoredPrediction,
    VersionMemory,
    is_borne_out,
)
from graph.nodes.commits import commit_version, require_own_history
from graph.nodes.prepare import read_or_make_inspection, read_or_run_profilers
from graph.nodes.propose import trials_of_iteration
from graph.report.content import version_files as artifacts
from graph.services import Services
from graph.specs import hardware_sheet
from graph.state import State, count_siblings
from graph.workspace import completeness, drift
from graph.workspace.versions import accepted_version_of, read_versions
from knowledge_base.artifacts import Attempt, Forecast, FreeMethod, source_digest
from knowledge_base.experience.free_methods import FREE_METHOD_PREFIX
from knowledge_base.experience.status import attempt_result
from tools.artifacts import Candidate, Failed, Interval, Outcome, Passed, Record, Trial, Unmeasured, Verdict
from tools.cli.formatting import format_speedup
from tools.errors import BudgetError, WorkspaceError
from tools.gate.verdict import GateEvidence, Veto, decide_verdict, with_confirmations, with_sanitizers
from tools.judge import evidence
from tools.roofline import lower_bounds
from tools.screen.screen import screen
from tools.store.records import record_key
from tools.store.repository import oldest_with_trailer
from tools.tasks import loader as tasks

WITHOUT_PART = ("ineffective", "implementation_failed", "unreached")
"""Statuses of methods that have no part in their version's gain."""
MAX_PROSE_CHARS = 800
"""The number of characters of a free method's description that the experience log stores."""


def close_iteration(state: State, services: Services) -> tuple[Verdict, str, str]:
    """Close the iteration and return its verdict, the ids of the verdict's record and of the commit.

    After a kill, a second call finds the commit or does the remaining work.
    """
    iteration = state["iteration"]
    commit = oldest_with_trailer(services.workspace.repository.log(), "Version", f"v{iteration}")
    if commit is not None:
        require_own_history(services)
        record = services.records.get(commit.trailers["Evidence"])
        return Verdict.model_validate(record.payload), record.id, commit.id
    drift.refuse_drift(services.workspace.repository)
    # A verdict must not rest on an archive whose citations no longer hold.
    hardware_sheet.read_verified_sheet(state["specs"], services)
    gathered = _gather_evidence(state, services)
    verdict = decide_verdict(gathered, services.settings.judge)
    closing_id, closing = services.save_closing(services.closing(state), iteration=iteration)
    parents = tuple(r for r in (*verdict.records, state["plan"], state.get("attribution"), closing_id) if r)
    record = services.save_record("verdict", verdict, parents=parents, iteration=iteration)
    verdict = Verdict.model_validate(record.payload)
    _profile_judged(verdict, state, services)
    _write_version_files(closing, services, record)
    services.emit("commit", {"state": "started", "iteration": str(iteration)})
    commit_id = commit_version(state, services, record, closing)
    services.emit("commit", {"state": "finished", "iteration": str(iteration), "commit": commit_id})
    return verdict, record.id, commit_id


def _profile_judged(verdict: Verdict, state: State, services: Services) -> None:
    """Inspect an accepted candidate; with `profile: all` profile every correct candidate, and inspect a refused one."""
    passed = [one.trial.candidate for one in trials_of_iteration(state, services) if one.trial.kind == "passed"]
    profiled = passed if services.settings.profile == "all" else []
    for identity in profiled:
        read_or_run_profilers(services.candidate(identity, state["iteration"]), services)
    if verdict.candidate and (verdict.outcome == "accept" or verdict.candidate in profiled):
        read_or_make_inspection(services.candidate(verdict.candidate, state["iteration"]), state, services)


def close_unjudged(state: State, services: Services, back: VersionMemory) -> None:
    """Close the current iteration without a judgement, after a mask or unmask replaced the kernel of its plan.

    `back`: the version whose kernel is at HEAD now. A version of a masked parent is masked too.
    """
    parent = accepted_version_of(services.workspace.root, state["incumbent"])
    reason = (
        f"Not judged: it was planned for the kernel of {parent}, which a mask or unmask replaced by the kernel of "
        f"v{back.iteration}."
    )
    verdict = Verdict(outcome="inconclusive", reasons=(reason,), candidate=None, incumbent=state["incumbent"])
    # A separate key, as a killed gate may have stored another verdict.
    key_fields = {"iteration": state["iteration"], "instead": back.iteration}
    at_closing = State(**{**state, "champion": None, "attribution": None})
    closing_id, closing = services.save_closing(
        services.closing(at_closing, restores=f"v{back.iteration}"), **key_fields
    )
    record = services.save_record("verdict", verdict, parents=(state["plan"], closing_id), **key_fields)
    _write_version_files(closing, services, record)
    details = {
        "iteration": str(state["iteration"]),
        "outcome": verdict.outcome,
        "candidate": "",
        "parent": parent,
        "summary": reason,
    }
    services.emit("verdict", details)
    commit_version(State(**{**state, "incumbent": back.candidate or ""}), services, record, closing)


# ---------------------------------------------------------------- evidence


def dry_run_verdict(state: State, services: Services) -> Verdict:
    """Return the gate's verdict on the champion without closing the iteration.

    What it needs is measured on the first call and read from the records afterwards.
    """
    return decide_verdict(_gather_evidence(state, services), services.settings.judge)


def first_refusal(state: State, services: Services) -> tuple[Record, Verdict] | None:
    """Return the record and verdict of the champion that the gate refused before the runner-up; None: there is none."""
    record = services.records.find(record_key("refused", iteration=state["iteration"]))
    return (record, Verdict.model_validate(record.payload)) if record else None


def _gather_evidence(state: State, services: Services) -> GateEvidence:
    """Gather the evidence for the verdict; a champion is reviewed and confirmed in separate processes first."""
    champion = state.get("champion")
    trial = _trial_for_gate(state, services)
    if champion:
        # Its own A/A blocks are needed next; a kernel that fails in them must not get that far.
        trial = _trial_after_calibration(champion, trial, services)
    if champion and not isinstance(trial, Passed):
        champion = None
    incumbent = services.candidate(state["incumbent"])
    inspection = Inspection.model_validate(services.records.get(state["profile"]).payload)
    calibration = services.judge.read_or_measure_calibration(incumbent)
    veto: Veto | None = None
    confirmed: tuple[Record, ...] = ()
    unconfirmed = ""
    limits = lower_bounds.PhysicalLimits()
    bytes_by_workload = {w.workload: w.unique_bytes for w in inspection.rooflines}
    candidate = services.candidate(champion) if champion else None
    if candidate is not None:
        veto = _review_diff(candidate, incumbent, services)
    try:
        jobs = services.capped_executor()
        cache, roofs = services.device.last_level_cache, services.all_roofs
        judge = services.judge.with_executor(jobs)
        remeasure, v0 = (lambda: services.remeasure_roofs(jobs)), services.candidate(state["baseline"])
        limits = lower_bounds.limits_for_trial(
            trial,
            bytes_by_workload,
            cache,
            roofs,
            remeasure,
            judge.read_or_count_needed_bytes,
            lambda: evidence.incumbent_seconds(services.judge.read_or_measure_calibration(v0)),
        )
        if candidate is not None:
            confirmed = _confirm(candidate, incumbent, state["iteration"], services)
    except BudgetError as error:
        # Nothing is accepted unconfirmed, or refused by roofs that could not be measured again.
        unconfirmed = str(error)
        services.record_reached_cap(unconfirmed)
    methods = attribution.methods if (attribution := _read_attribution(state, services)) else ()
    timings = _cited_records(trial, "timing", services)
    gathered = GateEvidence(
        incumbent=incumbent.id,
        trial=trial,
        siblings=count_siblings(state),
        earlier=state.get("tested", 0),
        task_at_start=services.task.identity(),
        task_now=tasks.read_frozen_task(services.workspace.task_folder).identity(),
        workloads=tuple(w.name for w in services.task.workloads),
        margins=services.task.margins,
        screen=_screen_violations(champion, services),
        veto=veto,
        unconfirmed=unconfirmed,
        cases=evidence.correctness_cases(trial, services.records),
        physics=limits,
        noise_floor=state["noise_floor"],
        looks=max(1, len(timings)),
        needs_new_inputs=any(evidence.Timing.model_validate(record.payload).new_inputs for record in timings),
        mechanisms={o.method: o.visible for o in methods},
        idle=_idle_methods(methods),
        unclear=tuple(o.method for o in methods if o.mechanism and o.mechanism.unclear),
        records=tuple(dict.fromkeys((calibration.id, state.get("calibration", calibration.id)))),
    )
    refusal = first_refusal(state, services)
    if refusal and refusal[1].candidate != state.get("champion"):
        sentence = (
            f"The gate judged candidate {refusal[1].candidate} first: {refusal[1].outcome}, {refusal[1].reasons[-1]}"
        )
        gathered = gathered.model_copy(
            update={"earlier_refusal": sentence, "records": (*gathered.records, refusal[0].id)}
        )
    judge_settings = services.settings.judge
    gathered = with_confirmations(gathered, confirmed, judge_settings)
    if candidate is None:
        return gathered
    return with_sanitizers(gathered, lambda: services.judge.read_or_run_sanitizers(candidate), judge_settings)


def _trial_after_calibration(champion: str, trial: Trial | None, services: Services) -> Trial | None:
    """Measure the champion's own A/A blocks; return its trial, or its failure in these blocks.

    Without time for the blocks the trial is returned, and no confirmation follows.
    """
    try:
        calibration = services.capped_judge.read_or_measure_calibration(services.candidate(champion))
    except BudgetError as error:
        services.record_reached_cap(str(error))
        return trial
    return evidence.timing_failure(calibration, trial.records if trial else ()) or trial


def _confirm(candidate: Candidate, incumbent: Candidate, iteration: int, services: Services) -> tuple[Record, ...]:
    """Return the records of a candidate's confirmations; raise BudgetError if the cap leaves no time."""
    services.capped_judge.read_or_measure_calibration(candidate)
    return services.capped_judge.confirm_until_settled(candidate, incumbent, iteration=iteration)


def _trial_for_gate(state: State, services: Services) -> Trial | None:
    """Return the trial for the gate, recomputed from its records: the champion's, else the fastest correct candidate's,
    else a failed one, else an unmeasured one."""
    judged = [j.trial for j in trials_of_iteration(state, services)]
    champion = state.get("champion")
    passed = sorted(
        (t for t in judged if isinstance(t, Passed)), key=lambda t: (t.candidate != champion, -t.speedup.estimate)
    )
    failed = [t for t in judged if isinstance(t, Failed)]
    chosen = next(iter([*passed, *failed, *judged]), None)
    if chosen is None:
        return None
    cited = {identity: services.records.get(identity) for identity in chosen.records}
    return evidence.recompute_trial(chosen, cited, services.settings.judge.objective, state["incumbent"])


def _review_diff(candidate: Candidate, incumbent: Candidate, services: Services) -> Veto | None:
    brief = GatekeeperBrief(task=services.task, diff=kernel_diff(incumbent, candidate))
    try:
        answer = gatekeeper.review_diff(services.agents["gatekeeper"], brief)
    except BudgetError as error:
        # Nothing is accepted without a review.
        services.record_reached_cap(str(error))
        return Veto(quote="", reason=f"there was none ({error})")
    return Veto(quote=answer.quote, reason=answer.reason) if answer.veto else None


def _screen_violations(champion: str | None, services: Services) -> tuple[str, ...]:
    if champion is None:
        return ()
    texts = services.candidate(champion).files.values()
    task = services.task
    return tuple(
        sentence for text in texts for sentence in screen(text, task.language, (), task.tensors, task.library or ())
    )


def _cited_records(trial: Trial | None, kind: str, services: Services) -> list[Record]:
    """Return the records of a kind that a trial cites."""
    found = [services.records.get(identity) for identity in (trial.records if trial else ())]
    return [record for record in found if record.kind == kind]


def _idle_methods(methods: Sequence[MethodOutcome]) -> tuple[str, ...]:
    """Return the methods that show in neither the machine code nor the time, if another method shows; else none."""
    idle = tuple(o.method for o in methods if o.idle)
    return idle if any(o.visible for o in methods) else ()


def _read_attribution(state: State, services: Services) -> Attribution | None:
    identity = state.get("attribution")
    return Attribution.model_validate(services.records.get(identity).payload) if identity else None


def kernel_diff(before: Candidate, after: Candidate) -> str:
    """Return the unified diff of two kernels' entry files."""
    names = [next(name for name in c.files if name.startswith("kernel.")) for c in (before, after)]
    lines = difflib.unified_diff(
        before.source.splitlines(keepends=True),
        after.source.splitlines(keepends=True),
        f"a/{names[0]}",
        f"b/{names[1]}",
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


# ---------------------------------------------------------------- what is written


def _write_version_files(closing: Closing, services: Services, record: Record) -> None:
    """Write the files of a version, audit those that precede its verdict, and write the verdict and the memory."""
    iteration = closing.state["iteration"]
    texts = version_texts(closing, services, record)
    last = (f"versions/v{iteration}/{completeness.VERDICT_FILE}", f"memory/v{iteration}.json")
    services.workspace.write({name: text for name, text in texts.items() if name not in last})
    faults = completeness.audit_version(services.workspace.root, iteration)
    if faults:
        raise WorkspaceError(f"{services.workspace.root}: {faults[0]}")
    services.workspace.write({name: texts[name] for name in last})


def version_texts(closing: Closing, services: Services, record: Record) -> dict[str, str]:
    """Return relative path -> text of versions/v<N>/ and memory/v<N>.json, from records and the memory of earlier
    versions alone; `record`: of the verdict."""
    state, verdict = closing.state, Verdict.model_validate(record.payload)
    iteration, accepted = state["iteration"], verdict.outcome == "accept"
    champion = services.candidate(verdict.candidate, iteration) if verdict.candidate else None
    patch = kernel_diff(services.candidate(state["incumbent"]), champion) if champion else ""
    attribution = _read_attribution(state, services)
    checked = next((r for r in map(services.records.get, verdict.records) if r.kind == "correctness"), None)
    # A refused kernel is looked at only where all are profiled.
    is_inspected = accepted or services.settings.profile == "all"
    inspected = services.records.find(record_key("inspection", candidate=verdict.candidate)) if is_inspected else None
    folder = f"versions/v{iteration}"
    texts = artifacts.render_version(
        state,
        services,
        trials_of_iteration(state, services),
        _find_ablations(state, services),
        attribution,
        checked,
        patch,
        inspected,
        verdict,
    )
    memory = _version_memory(state, services, verdict, record, champion)
    last = {f"{folder}/{completeness.VERDICT_FILE}": verdict, f"memory/v{iteration}.json": memory}
    return {f"{folder}/{name}": text for name, text in texts.items()} | {
        name: artifact.model_dump_json(indent=1) + "\n" for name, artifact in last.items()
    }


def _find_ablations(state: State, services: Services) -> dict[str, JudgedTrial]:
    """Return method -> the trial of the champion without it, for each ablation on record."""
    champion = state.get("champion")
    methods = services.candidate(champion, state["iteration"]).methods if champion else ()
    return {
        method: judged
        for method in methods
        if (judged := find_ablation(state, services, champion or "", method)) is not None
    }


def find_ablation(state: State, services: Services, champion: str, method: str) -> JudgedTrial | None:
    """Return the trial of a champion without one of its methods; None: no such record."""
    record = services.records.find(
        record_key("ablation", iteration=state["iteration"], champion=champion, method=method)
    )
    return JudgedTrial.model_validate(record.payload) if record else None


def _version_memory(
    state: State, services: Services, verdict: Verdict, record: Record, champion: Candidate | None
) -> VersionMemory:
    plan = Plan.model_validate(services.records.get(state["plan"]).payload)
    predictions = _score_predictions(
        plan, verdict, champion, _read_attribution(state, services), services.settings.judge.min_effect
    )
    forecasts = tuple(
        Forecast(
            model=services.settings.planner_model, method=one.planned.method, confidence=e.confidence, held=one.hit
        )
        for one in predictions
        for e in one.planned.hypothesis.expected
        if e.metric == "time" and one.hit is not None
    )
    attempts = _attempts_to_learn(state, services, verdict, record, champion)
    root = services.workspace.root
    return VersionMemory(
        iteration=state["iteration"],
        parent=state["incumbent"],
        candidate=verdict.candidate,
        verdict=verdict.outcome,
        reasons=verdict.reasons,
        methods=champion.methods if champion else tuple(item.method for item in plan.methods),
        knobs=champion.knobs if champion else {},
        speedup=verdict.reported_speedup,
        predictions=predictions,
        attempts=tuple(
            one.model_copy(update={"forecasts": forecasts}) if one.evidence == record.id else one for one in attempts
        ),
        masked=read_versions(root)[int(accepted_version_of(root, state["incumbent"])[1:])].masked,
        records=tuple(
            r for r in (record.id, state["plan"], state["dossier"], state["profile"], state.get("attribution")) if r
        ),
    )


def _score_predictions(
    plan: Plan, verdict: Verdict, champion: Candidate | None, attribution: Attribution | None, min_effect: float
) -> tuple[ScoredPrediction, ...]:
    """Score each prediction on time against the method's ablation, or against the version's gain if it is its only
    method (F6): a gain that cannot be separated is no method's own.

    A method that the coder omitted is not scored. A hit lies in the band of the prediction (`is_borne_out`), a miss
    outside of it; an effect that noise hides is neither.
    """
    found = attribution.methods if attribution else ()
    # What failed or is never run has no effect, the whole plan's neither.
    ratios = {o.method: o.ratio for o in found if o.ratio or o.visible is False}
    whole = verdict.reported_speedup if champion is not None and len(champion.methods) == 1 else None
    scored = []
    for item in plan.methods:
        applied = champion is not None and item.method in champion.methods
        gain = ratios.get(item.method, whole) if applied else None
        expected = next((e for e in item.hypothesis.expected if e.metric == "time"), None)
        hit = None
        if gain is not None and expected is not None:
            factor = Interval(estimate=1 / gain.estimate, low=1 / gain.high, high=1 / gain.low)
            hit = is_borne_out(expected, factor, min_effect)
        scored.append(ScoredPrediction(planned=item, observed_factor=1 / gain.estimate if gain else None, hit=hit))
    return tuple(scored)


def _attempts_to_learn(
    state: State, services: Services, verdict: Verdict, record: Record, champion: Candidate | None
) -> tuple[Attempt, ...]:
    """Return the attempts for the experience log.

    Failures of the machine and of caps are excluded, as are successes of methods that did not show or that an ablation
    found ineffective: these get an attempt of their own. An accepted version whose mechanism did not show is marked. A
    refusal by screen, review or physics is included: it describes code that need not be written again, and says nothing
    about the worth of the methods.
    """
    unmeasured = verdict.outcome == "inconclusive" and verdict.speedup is None
    if champion is None or unmeasured or verdict.outcome == "infra_error":
        return ()
    attribution = _read_attribution(state, services) if verdict.outcome == "accept" else None
    idle = {o.method: o for o in attribution.methods if o.status in WITHOUT_PART} if attribution else {}
    # Where no method alone accounts for the gain, the set does.
    credited = tuple(name for name in champion.methods if name not in idle) or champion.methods
    attempt = _make_attempt(
        state,
        services,
        champion.model_copy(update={"methods": credited if verdict.explained else champion.methods}),
        verdict.outcome,
        verdict.reported_speedup,
        record.id,
        "; ".join(verdict.reasons),
    )
    if verdict.outcome == "accept":
        free = tuple(_free_methods(state, services, champion, verdict.reported_speedup)) if verdict.explained else ()
        attempt = attempt.model_copy(update={"free": free, "explained": verdict.explained})
    # The newest line about a set of methods counts, so the gate's candidate comes last.
    ineffective = [o for o in idle.values() if o.status == "ineffective" and (o.method,) != champion.methods]
    alone = (_ablated_attempt(one, champion, state, services) for one in ineffective)
    return (*_sibling_attempts(state, services, champion), *alone, attempt)


def _ablated_attempt(outcome: MethodOutcome, champion: Candidate, state: State, services: Services) -> Attempt:
    """Return the attempt of a method whose ablation says that it is ineffective, whatever the version gained."""
    applied = champion.model_copy(update={"methods": (outcome.method,)})
    said = f"ablation: ineffective in {champion.id}, timed against the kernel without it"
    evidence = state.get("attribution") or ""
    attempt = _make_attempt(state, services, applied, "reject_perf", outcome.ratio, evidence, said)
    without = services.candidate(outcome.ablation or "")
    return attempt.model_copy(update={"before": source_digest(without.source)})


def _free_methods(
    state: State, services: Services, champion: Candidate, worth: Interval | None
) -> Iterator[FreeMethod]:
    """Yield the free methods of an accepted version, except for those without a part in its gain."""
    plan, attribution = (
        Plan.model_validate(services.records.get(state["plan"]).payload),
        _read_attribution(state, services),
    )
    outcomes = {outcome.method: outcome for outcome in attribution.methods} if attribution else {}
    for item in plan.methods:
        outcome_of_method = outcomes.get(item.method)
        if not item.method.startswith(FREE_METHOD_PREFIX) or item.method not in champion.methods:
            continue
        if outcome_of_method is None or outcome_of_method.status not in WITHOUT_PART:
            yield FreeMethod(
                method=item.method,
                axis=item.axis,
                change=_without_wiki_lines(item.hypothesis.change)[:MAX_PROSE_CHARS],
                rationale=_without_wiki_lines(item.hypothesis.rationale)[:MAX_PROSE_CHARS],
                signature=item.signature,
                effect=worth if len(champion.methods) == 1 else outcome_of_method.ratio if outcome_of_method else None,
                device=services.device.name,
            )


def _without_wiki_lines(text: str) -> str:
    """Return `text` on one line without citations of wiki lines, which differ in another run's wiki."""
    return " ".join(WIKI_LINE_PATTERN.sub("the wiki", text).split())


def _sibling_attempts(state: State, services: Services, champion: Candidate) -> Iterator[Attempt]:
    """Yield the attempts of the iteration's other candidates: failed, refused, or timed but not judged by the gate."""
    refusal = first_refusal(state, services)
    for judged in trials_of_iteration(state, services):
        trial = judged.trial
        outcome: Outcome
        effect, evidence = None, state["trials"][f"{state['iteration']}/{trial.candidate}"]
        if refusal and trial.candidate == refusal[1].candidate:
            evidence, (outcome, effect) = refusal[0].id, (refusal[1].outcome, refusal[1].reported_speedup)
            note = "; ".join(refusal[1].reasons)
        elif trial.candidate == champion.id or isinstance(trial, Unmeasured):
            continue
        elif isinstance(trial, Failed):
            outcome = "reject_policy" if trial.stage == "screen" else "reject_correctness"
            note = f"{trial.stage}: {trial.reason}"
        else:
            effect, slower = trial.speedup, trial.speedup.high < 1
            outcome = "reject_perf" if slower else "inconclusive"
            said = "slower than the incumbent" if slower else "the gate judged another candidate of its iteration"
            note = f"{said}: {format_speedup(effect)}, not confirmed"
        candidate = services.candidate(trial.candidate, state["iteration"])
        yield _make_attempt(state, services, candidate, outcome, effect, evidence, note)


def _make_attempt(
    state: State,
    services: Services,
    candidate: Candidate,
    outcome: Outcome,
    effect: Interval | None,
    evidence: str,
    note: str,
) -> Attempt:
    inspection = Inspection.model_validate(services.records.get(state["profile"]).payload)
    return Attempt(
        operator=services.operator,
        language=services.task.language,
        architecture=services.architecture,
        dtype=services.task.outputs[0].dtype,
        shape_class=services.shape_class,
        bottleneck=inspection.bottleneck,
        methods=candidate.methods,
        result=attempt_result(outcome, effect),
        verdict=outcome,
        effect=effect,
        noise_floor=state["noise_floor"],
        evidence=evidence,
        workspace=services.workspace.root.name,
        iteration=state["iteration"],
        note=note[:500],
        knobs=candidate.knobs,
        findings=tuple(dict.fromkeys(finding.rule for finding in inspection.findings)),
        before=source_digest(services.candidate(state["incumbent"]).source),
        after=source_digest(candidate.source),
    )
