"""From candidates to a commit: judge, select, attribute, gate, learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from agents.artifacts import Plan
from agents.roles import coder
from graph.artifacts import Attribution, AttributionStatus, JudgedTrial, MethodOutcome
from graph.nodes.gate_evidence import close_iteration, dry_run_verdict, find_ablation
from graph.nodes.prepare import requests_of_candidates
from graph.nodes.propose import coder_brief, trials_of_iteration
from graph.report.content.phrases import worth_words
from graph.routing import Routes
from graph.services import Services
from graph.state import Branch, State, branch_of, merge_trials
from graph.workspace import events
from graph.workspace.versions import accepted_version_of, parse_memory, read_versions
from tools.analysis import signatures
from tools.artifacts import Candidate, Failed, Interval, Passed, Trial, Unmeasured
from tools.cli.formatting import format_speedup
from tools.errors import BudgetError, DeviceBusyError, InfrastructureError, StorageError
from tools.gate import ranking
from tools.gate.judge_settings import MIN_EFFECT, first_possible_regression, first_regression, with_margins
from tools.judge import evidence
from tools.languages.dispatcher import compose_dispatcher
from tools.store.records import record_key

NOTE_ON_COMPOSED = "not separable: the kernel is composed of several, and each method has sizes of its own"
NOTE_ON_UNREACHED = "no workload runs its code: calls and machine code are the same without it"
JUDGE_ATTEMPTS = 2
"""The number of attempts to measure a candidate at failures of the machine; a later proposal of it ends the process."""


def judge(branch: Branch, services: Services) -> State:
    """Judge one candidate and store its trial; the graph runs K of these calls, so a crash repeats only the current
    one."""
    candidate = services.candidate(branch["candidate"], branch["iteration"])
    trial: Trial
    hidden = _reason_if_masked(candidate, services)
    try:
        trial = (
            Unmeasured(candidate=candidate.id, reason=hidden, capped=True)
            if hidden
            else _measure_with_retry(candidate, branch, services)
        )
    except BudgetError as error:
        # The candidates that were measured continue to the gate.
        services.record_reached_cap(str(error))
        trial = Unmeasured(candidate=candidate.id, reason=str(error), capped=True)
    record = services.save_record(
        "trial",
        JudgedTrial(iteration=branch["iteration"], trial=trial),
        iteration=branch["iteration"],
        candidate=candidate.id,
    )
    # A trial from before a kill stays.
    trial = JudgedTrial.model_validate(record.payload).trial
    parent = accepted_version_of(services.workspace.root, branch["incumbent"])
    services.emit(
        "candidate",
        {
            **_trial_details(trial, branch["iteration"]),
            "parent": parent,
            "summary": describe_trial(trial, candidate, parent),
        },
    )
    return State(trials={f"{branch['iteration']}/{candidate.id}": record.id}, summary=f"{candidate.id} {trial.kind}")


def _reason_if_masked(candidate: Candidate, services: Services) -> str:
    """Return the reason why a candidate is not judged, if a masked version tried it; its records would bring it
    back."""
    masked_versions = [m.iteration for m in read_versions(services.workspace.root) if m.masked]
    tried = [
        n
        for n in masked_versions
        if services.records.find(record_key("candidate", id=candidate.id, iteration=n)) is not None
    ]
    return f"the masked version v{tried[0]} tried it" if tried else ""


def _measure_with_retry(candidate: Candidate, branch: Branch, services: Services) -> Trial:
    unanswered = services.judge.reason_unmeasured
    if candidate.id in unanswered:
        raise InfrastructureError(
            f"candidate {candidate.id} could not be measured twice, and is proposed again: {unanswered[candidate.id]}"
        )
    kernels = (services.candidate(branch["incumbent"]), services.candidate(branch["baseline"]))
    drafts = [services.candidate(one, branch["iteration"]) for one in branch["drafts"]]
    services.executor.gather(requests_of_candidates(drafts, branch, services))
    for attempt in range(1, JUDGE_ATTEMPTS + 1):
        try:
            return services.capped_judge.judge(
                candidate,
                *kernels,
                siblings=branch["siblings"],
                earlier=branch["earlier"],
                iteration=branch["iteration"],
                noise_floor=branch["noise_floor"],
            )
        except (StorageError, DeviceBusyError):
            raise  # neither damaged evidence nor a busy device depends on the candidate
        except InfrastructureError as error:
            if attempt == JUDGE_ATTEMPTS:
                unanswered[candidate.id] = str(error)
                return Unmeasured(candidate=candidate.id, reason=str(error))
    raise AssertionError("unreachable")


def _trial_details(trial: Trial, iteration: int) -> dict[str, str]:
    """Return a trial as the details of an event."""
    details = {"candidate": trial.candidate, "iteration": str(iteration), "outcome": trial.kind}
    if isinstance(trial, Passed):
        return {**details, **events.interval_details(trial.speedup)}
    return {**details, "reason": trial.reason, **({"stage": trial.stage} if isinstance(trial, Failed) else {})}


def describe_trial(trial: Trial, candidate: Candidate, parent: str) -> str:
    """Return one line about a trial for the console; `parent`: the version that the candidate was timed against."""
    origin = " ".join(["+".join(candidate.methods), *(f"{knob}={value}" for knob, value in candidate.knobs.items())])
    if isinstance(trial, Passed):
        return f"{format_speedup(trial.speedup)} over {parent}  {origin}"
    stage = f"{trial.stage}: " if isinstance(trial, Failed) else ""
    return f"{stage}{trial.reason}  {origin}"


def select_champion(state: State, services: Services) -> State:
    """Select the provisional champion: the fastest correct candidate with a proven gain over the incumbent.

    Candidates that seem to slow a workload beyond its margin, which the gate would refuse, rank behind all others.
    """
    update = _remeasure_noise_floor(state, services)
    state = State(**{**state, **update, "trials": merge_trials(state.get("trials", {}), update.get("trials", {}))})
    judged = trials_of_iteration(state, services)
    passed = [j.trial for j in judged if isinstance(j.trial, Passed)]
    if not passed:
        is_repair_left = (
            any(isinstance(j.trial, Failed) for j in judged)
            and state["repair"] <= services.settings.search.repair_attempts
        )
        may_write = bool(state.get("drafts")) and not services.recorded_cap
        return State(champion=None, rewrite=is_repair_left and may_write, summary="no candidate passed")
    if composition := _judge_composition(state, passed, services):
        update["trials"] = merge_trials(update.get("trials", {}), composition["trials"])
        state["trials"] = merge_trials(state["trials"], composition["trials"])
    proven = _proven_gains(state, services)
    if not proven:
        best = max(passed, key=lambda trial: trial.speedup.estimate)
        update["summary"] = f"no gain is proven: best {format_speedup(best.speedup)}"
        return State(**update, champion=None, rewrite=False)
    best = proven[0]
    fastest = max(proven, key=lambda trial: trial.speedup.estimate)
    update["summary"] = f"{best.candidate} at {format_speedup(best.speedup)}"
    if fastest is not best:
        update["summary"] += (
            f"; {fastest.candidate} at {format_speedup(fastest.speedup)} seems to slow "
            f"{_slowed_workload(fastest, services)} by more "
            f"than its margin"
        )
    return State(**update, champion=best.candidate, rewrite=False)


def _judge_composition(state: State, passed: Sequence[Passed], services: Services) -> State:
    """Judge a kernel that calls at each size the fastest candidate, or the incumbent (F10), and return its trial.

    Returns an empty update if no such kernel would beat the best candidate, or if the language cannot compose one.
    """
    if not state.get("composing"):
        return State()
    gains = {t.candidate: {m.workload: m.speedup for m in t.measurements} for t in passed}
    weights = {m.workload: m.weight for m in passed[0].measurements}

    def objective_seconds(speedups: Mapping[str, float]) -> float:
        times = {m.workload: m.incumbent_s / speedups.get(m.workload, 1.0) for m in passed[0].measurements}
        return ranking.objective_s(times, weights, services.settings.judge.objective)

    proven_speedups = {w: {c: found[w].estimate for c, found in gains.items() if found[w].low > 1} for w in weights}
    fastest = {w: max(found, key=lambda c: found[c]) for w, found in proven_speedups.items() if found}
    speedups_of_candidates = [gains[t.candidate] for t in passed if _slowed_workload(t, services) is None]
    fastest_single_s = min(
        [
            objective_seconds({}),
            *(objective_seconds({w: found[w].estimate for w in weights}) for found in speedups_of_candidates),
        ]
    )
    if (
        objective_seconds({w: proven_speedups[w][c] for w, c in fastest.items()})
        * (1 + services.settings.judge.min_effect)
        >= fastest_single_s
    ):
        return State()
    incumbent, chosen = (
        services.candidate(state["incumbent"]),
        {w: services.candidate(c, state["iteration"]) for w, c in fastest.items()},
    )
    source = compose_dispatcher(
        services.task, incumbent.source, {w: candidate.source for w, candidate in chosen.items()}
    )
    if source is None:
        return State()
    methods = tuple(dict.fromkeys(method for candidate in chosen.values() for method in candidate.methods))
    files = {**incumbent.files, f"kernel{services.language.suffix}": source}
    composed = Candidate(language=incumbent.language, files=files, parent=incumbent.id, methods=methods)
    services.save_draft(composed, state["iteration"])
    return State(trials=judge(branch_of(state, composed.id), services)["trials"])


def _remeasure_noise_floor(state: State, services: Services) -> State:
    """Measure the noise floor again if it alone may hide a gain, and judge those trials again at a lower floor.

    A floor comes from one calibration: one that a busy machine disturbed would hide every later gain.
    """
    min_effect, floor = services.settings.judge.min_effect, state["noise_floor"]
    passed = [judged.trial for judged in trials_of_iteration(state, services) if isinstance(judged.trial, Passed)]
    trials_below_floor = [trial for trial in passed if trial.speedup.estimate > 1 + min_effect]
    if floor <= min_effect or not trials_below_floor or any(trial.speedup.low > 1 + floor for trial in passed):
        return State()
    update = State(trials={})
    try:
        calibration = services.capped_judge.read_or_measure_calibration(
            services.candidate(state["incumbent"]), attempt=state["iteration"]
        )
        new_floor = evidence.noise_floor(calibration, services.settings.judge.objective)
        if new_floor >= floor:
            return State()
        update |= State(noise_floor=new_floor, calibration=calibration.id)
        for trial in trials_below_floor:
            candidate = services.candidate(trial.candidate, state["iteration"])
            branch: Branch = {**branch_of(state, candidate.id), "noise_floor": new_floor}
            judged = JudgedTrial(iteration=state["iteration"], trial=_measure_with_retry(candidate, branch, services))
            record = services.save_record(
                "trial", judged, iteration=state["iteration"], candidate=candidate.id, calibration=calibration.id
            )
            update["trials"][f"{state['iteration']}/{candidate.id}"] = record.id
    except BudgetError as error:
        services.record_reached_cap(str(error))
    return update


def _proven_gains(state: State, services: Services) -> list[Passed]:
    """Return the correct candidates whose gain is proven, best for the gate first; a noisy high estimate does not
    count."""
    threshold = 1 + max(services.settings.judge.min_effect, state["noise_floor"])
    found = [
        j.trial
        for j in trials_of_iteration(state, services)
        if isinstance(j.trial, Passed) and j.trial.speedup.low > threshold
    ]
    return sorted(
        found, key=lambda trial: (_slowed_workload(trial, services) is None, trial.speedup.estimate), reverse=True
    )


def _slowed_workload(trial: Passed, services: Services) -> str | None:
    """Return the name of a workload that seems to be slower than its margin allows, if any."""
    limited = with_margins(trial.measurements, services.task.margins, services.settings.judge.workload_margin)
    found = first_regression(limited) or first_possible_regression(limited)
    return found[0].workload if found is not None else None


def attribute_gain(state: State, services: Services) -> State:
    """Measure the champion without each of its methods, and check their signatures in the machine code (A7-A9)."""
    champion = services.candidate(state["champion"] or "", state["iteration"])
    plan = Plan.model_validate(services.records.get(state["plan"]).payload)
    planned = {item.method: item.signature for item in plan.methods}
    assembly, incumbent = services.assembly(champion), services.candidate(state["incumbent"])
    outcomes = []
    twin: Candidate | None
    # The champion's own speed-up is known and must survive a failure to measure its parts.
    try:
        is_composed = champion.id not in state.get("drafts", [champion.id])
        simplified, reason = (
            ({}, NOTE_ON_COMPOSED) if is_composed else (_write_ablations(champion, plan, state, services), "")
        )
    except BudgetError as error:
        simplified, reason = {}, str(error)
        services.record_reached_cap(reason)
    services.executor.gather(
        partial(_measure_ablation, method, champion, kernel, state, services) for method, kernel in simplified.items()
    )
    for method in champion.methods:
        if len(champion.methods) == 1:
            # Taking the only method out leaves the incumbent, against which the champion was timed already.
            trial = next(j.trial for j in trials_of_iteration(state, services) if j.trial.candidate == champion.id)
            mechanism = _check_mechanism(method, planned.get(method, {}), assembly, incumbent, services)
            twin, outcome = incumbent, _outcome_of_only_method(method, mechanism, trial, state)
        else:
            try:
                trial_without = _measure_ablation(method, champion, simplified.get(method), state, services)
                why = reason or "not separable: it cannot be taken out alone"
            except BudgetError as error:
                trial_without, why = None, str(error)
                services.record_reached_cap(why)
            twin = services.candidate(trial_without.candidate) if isinstance(trial_without, Passed) else None
            mechanism = _check_mechanism(method, planned.get(method, {}), assembly, twin or incumbent, services)
            outcome = _outcome_from_ablation(method, mechanism, trial_without, state, why)
        if (
            twin
            and services.language.listing_shows_calls
            and signatures.is_same_code(assembly, services.assembly(twin))
        ):
            outcome = _without_effect(outcome, "unreached", NOTE_ON_UNREACHED, idle=True)
        outcomes.append(outcome.model_copy(update={"mechanism": mechanism}))
    attribution = Attribution(champion=champion.id, methods=tuple(outcomes))
    record = services.save_record("attribution", attribution, iteration=state["iteration"], champion=champion.id)
    return State(attribution=record.id, summary="; ".join(f"{o.method} {o.status}" for o in outcomes))


def _check_mechanism(
    method: str, claimed: dict[str, str], assembly: str, without: Candidate, services: Services
) -> signatures.MechanismCheck:
    """Check that a method's signature is in the champion's `assembly`, and absent or rarer in the kernel `without` it.

    `claimed`: the plan's signature, for a method without a page.
    """
    page = services.guide.page(method)
    signature = page.head.signature if page else claimed
    there = signatures.check_signature(assembly, services.architecture, signature)
    # Nothing is disassembled for what is not there to be compared.
    other = (
        signatures.check_signature(services.assembly(without), services.architecture, signature)
        if there.present
        else None
    )
    return signatures.compare_signatures(there, other, without.id)


def _write_ablations(champion: Candidate, plan: Plan, state: State, services: Services) -> dict[str, Candidate]:
    """Return method -> the champion without it, for each method that can be removed alone and has no ablation yet.

    Raises BudgetError if the caps allow no more exchanges or measurements.
    """
    missing = [method for method in champion.methods if find_ablation(state, services, champion.id, method) is None]
    if len(champion.methods) == 1 or not missing:
        return {}
    over = services.capped_executor().reached_limit()
    if over:
        # A kernel that cannot be measured need not be paid for.
        raise BudgetError(over)
    brief = coder_brief(state, services, plan, services.candidate(state["incumbent"]).source)
    bench = services.workbench(state["incumbent"], state["baseline"])
    return coder.write_ablations(services.agents["coder"], brief, champion, services.language.suffix, bench)


def _measure_ablation(
    method: str, champion: Candidate, simplified: Candidate | None, state: State, services: Services
) -> Trial | None:
    """Return the trial of `simplified`, the champion without `method`, against the champion; None: no such kernel.

    Raises BudgetError if the caps allow no more measurements.
    """
    known = find_ablation(state, services, champion.id, method)
    if known is not None or simplified is None:
        return known.trial if known else None
    over = services.capped_executor().reached_limit()
    if over:
        raise BudgetError(over)
    services.save_draft(simplified, state["iteration"], without=method)
    branch: Branch = {**branch_of(state, simplified.id), "incumbent": champion.id, "siblings": 1, "earlier": 0}
    trial = _measure_with_retry(simplified, branch, services)
    services.emit("ablated", _trial_details(trial, state["iteration"]))
    judged = JudgedTrial(iteration=state["iteration"], trial=trial, purpose="ablation")
    services.save_record("ablation", judged, iteration=state["iteration"], champion=champion.id, method=method)
    return trial


def _without_effect(outcome: MethodOutcome, status: AttributionStatus, note: str, *, idle: bool) -> MethodOutcome:
    """Return the outcome of a method whose code does nothing: its twin's time is noise or another cause's."""
    effect = {"visible": False, "seconds": None, "ratio": None}
    return outcome.model_copy(update={"status": status, "note": note, "idle": idle, **effect})


def _outcome_of_only_method(
    method: str, mechanism: signatures.MechanismCheck, trial: Trial, state: State
) -> MethodOutcome:
    if not isinstance(trial, Passed):
        raise AssertionError("a champion has passed")
    saved = sum(m.weight * (m.incumbent_s - m.paired_candidate_s) for m in trial.measurements)
    return _classify_method(method, mechanism, trial.speedup, saved, state["incumbent"], state["noise_floor"])


def _outcome_from_ablation(
    method: str, mechanism: signatures.MechanismCheck, trial: Trial | None, state: State, why: str
) -> MethodOutcome:
    """Return the outcome of a method from the trial without it; `why`: the reason for a missing trial."""
    if not isinstance(trial, Passed):
        note = why if trial is None else f"the kernel without it: {trial.reason}"
        status: AttributionStatus = "implementation_failed" if mechanism.shown is False else "unattributed"
        ablation = trial.candidate if trial else None
        return MethodOutcome(
            method=method,
            status=status,
            visible=mechanism.shown,
            seconds=None,
            ratio=None,
            ablation=ablation,
            note=note,
        )
    found = trial.speedup
    # Timed as candidate against the champion, so its slowness is the inverse of its speed-up.
    slower = found.model_copy(update={"estimate": 1 / found.estimate, "low": 1 / found.high, "high": 1 / found.low})
    saved = sum(m.weight * (m.paired_candidate_s - m.incumbent_s) for m in trial.measurements)
    return _classify_method(method, mechanism, slower, saved, trial.candidate, state["noise_floor"])


def _classify_method(
    method: str, mechanism: signatures.MechanismCheck, ratio: Interval, saved: float, without: str, noise: float
) -> MethodOutcome:
    """Classify a method (A9): implementation_failed if it does not show in the machine code, effective if it is surely
    worth more than the noise, ineffective if it surely is not, else unattributed.

    A gain whose mechanism could not be checked is not_checked, and unclear where the twin shows the mechanism, too. A
    failed implementation has no effect, whatever the twin's time.
    """
    status: AttributionStatus = "unattributed"
    note = ""
    if ratio.low > 1 + max(noise, MIN_EFFECT):
        status = "effective" if mechanism.shown else "unclear" if mechanism.unclear else "not_checked"
    elif ratio.high <= 1 + MIN_EFFECT:
        status = "ineffective"
    else:
        note = "the noise hides what it is worth"
    found = MethodOutcome(
        method=method, status=status, visible=mechanism.shown, seconds=saved, ratio=ratio, ablation=without, note=note
    )
    if mechanism.shown is False:
        return _without_effect(found, "implementation_failed", "", idle=ratio.low <= 1)
    return found


def gate(state: State, services: Services) -> State:
    """Decide on the iteration from records, write the version's artifacts and make one commit."""
    promoted = promote_runner_up(state, services)
    verdict, record, commit = close_iteration(State(**{**state, **promoted}), services)
    accepted = verdict.outcome == "accept"
    parent = accepted_version_of(services.workspace.root, state["incumbent"])
    # The reasons in full are in the commit; the last one is the one that decided.
    summary = f"{worth_words(verdict)} over {parent}" if accepted else f"against {parent}: {verdict.reasons[-1]}"
    at_least = (
        state.get("speedup", 1.0) * verdict.reported_speedup.low if accepted and verdict.reported_speedup else None
    )
    details = {
        "candidate": verdict.candidate or "",
        "parent": parent,
        **events.interval_details(verdict.reported_speedup),
        **events.figure_details(at_least=at_least),
    }
    services.emit(
        "verdict", {"iteration": str(state["iteration"]), "outcome": verdict.outcome, "summary": summary, **details}
    )
    # A failure of the machine says nothing about the plan.
    stale = 0 if accepted else state.get("stale", 0) + (verdict.outcome != "infra_error")
    timed = sum(isinstance(judged.trial, Passed) for judged in trials_of_iteration(state, services))
    tested = 0 if accepted else state.get("tested", 0) + timed
    update = State(**promoted, verdict=record, outcome=verdict.outcome, stale=stale, tested=tested, summary=commit[:12])
    if accepted and verdict.candidate and at_least:
        update["incumbent"] = verdict.candidate
        update["speedup"] = at_least
        calibration = services.judge.read_or_measure_calibration(services.candidate(verdict.candidate))
        update["noise_floor"] = evidence.noise_floor(calibration, services.settings.judge.objective)
        update["calibration"] = calibration.id
    return update


def promote_runner_up(state: State, services: Services) -> State:
    """Return an update with the runner-up as champion if the gate refuses the champion and accepts the runner-up."""
    rest = [trial.candidate for trial in _proven_gains(state, services) if trial.candidate != state.get("champion")]
    if not state.get("champion") or not rest:
        return State()
    first, second = dry_run_verdict(state, services), State(**{**state, "champion": rest[0], "attribution": None})
    if not first.outcome.startswith("reject") or dry_run_verdict(second, services).outcome != "accept":
        return State()
    services.save_record("refused", first, iteration=state["iteration"])
    return State(champion=rest[0], attribution=attribute_gain(second, services)["attribution"])


def learn(state: State, services: Services) -> State:
    """Add the outcomes to the experience log (never failures of the machine) and set the stop reason at a cap."""
    path = services.workspace.root / "memory" / f"v{state['iteration']}.json"
    memory = parse_memory(path.read_bytes(), services.workspace.root, path.stem)
    commit = services.workspace.repository.find_commit("Version", f"v{state['iteration']}") or ""
    for attempt in memory.attempts:
        services.experience.add(attempt.model_copy(update={"commit": commit}))
    over = services.find_reached_cap()
    stop = state.get("stop") or Routes(services.settings).stop_reason_if_exhausted(state, over)
    if over and stop == "budget":
        services.record_reached_cap(over)
    unexplained = any(not attempt.explained for attempt in memory.attempts)
    marked = ", the accepted one as unexplained: its mechanism did not show" if unexplained else ""
    return State(
        stop=stop,
        summary=f"{len(memory.attempts)} outcome{'s' * (len(memory.attempts) != 1)} "
        f"kept{marked}{f'; stop: {stop}' if stop else ''}",
    )
