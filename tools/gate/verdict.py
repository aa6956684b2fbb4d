"""Derives a verdict from evidence, in the order of design 7 (pure).

The gate measures nothing and trusts no prose: all of its evidence is computed from records, which its reasons cite. A
model's review can only reject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tools.artifacts import Artifact, Claim, Failed, Interval, Outcome, Passed, Record, Trial, Unmeasured, Verdict
from tools.executors.protocol import CaseResult
from tools.gate import confirmation
from tools.gate.judge_settings import JudgeSettings, first_possible_regression, first_regression, with_margins
from tools.gate.sanitizers import SanitizerReport
from tools.gate.statistics import compare_samples, competing_candidates, is_futile, is_surely_slower, seems_slower
from tools.roofline.lower_bounds import PhysicalLimits


class Veto(Artifact):
    """A review's rejection, with the line of the diff that it is based on."""

    quote: str
    """Line of the diff; empty if the review cannot be used, and nothing is accepted without a review."""
    reason: str


class GateEvidence(Artifact):
    """All evidence of a verdict."""

    incumbent: str
    trial: Trial | None
    """The champion's trial, or the best candidate's if there is no champion; None if nothing was proposed."""
    siblings: int = 1
    """Number of candidates judged in this iteration, for the best-of-K correction."""
    earlier: int = 0
    """Number of candidates timed since the last accept before this iteration, for the same correction."""
    task_at_start: str
    """Task.identity() as frozen at the start of the run."""
    task_now: str
    """Task.identity() of the task in the workspace."""
    workloads: tuple[str, ...]
    """Names of the visible workloads."""
    margins: dict[str, float] = {}
    """Workload -> its own margin, in place of the settings' one."""
    screen: tuple[str, ...] = ()
    """The screen's sentences about the champion's files."""
    veto: Veto | None = None
    earlier_refusal: str = ""
    """The candidate refused before this one in the same iteration, with the reason; empty if there is none."""
    cases: tuple[CaseResult, ...] = ()
    """Results in the champion's correctness record."""
    physics: PhysicalLimits = PhysicalLimits()
    noise_floor: float | None
    """Relative noise floor of this run's A/A blocks; None if it was not measured."""
    looks: int = 1
    """Number of timing batches looked at."""
    needs_new_inputs: bool = False
    """Whether the gain was smaller on new inputs, so that only batches with new inputs alone count."""
    confirmation: Interval | None = None
    """Incumbent / candidate in separate processes (`confirmation.confirmed_speedup`); None if no confirmation ran."""
    confirmed_by_graphs: bool = False
    """Whether the clock of `confirmation` is that over replays of graphs (`confirmation.is_confirmed_by_graphs`)."""
    unconfirmed: str = ""
    """Why no confirmation ran, if something prevented it."""
    confirmation_problem: str | None = None
    """The candidate's fault in the confirmation; None if there is none."""
    confirmation_policy: bool = False
    """Whether that fault is what the candidate executed, and not a wrong result."""
    confirmation_disturbed: bool = False
    """Whether other processes disturbed more than half of the confirmation's rounds (`confirmation.any_disturbed`)."""
    confirmation_on_device: Interval | None = None
    """Incumbent / candidate by the device's own events, if launches hide the gain from the wall clock
    (`confirmation.speedup_on_device`); else None."""
    claim: Claim | None = None
    """The confirmed gain with its clocks (`confirmation.claim_of`); None if no confirmation ran or the candidate failed
    in it."""
    confirmation_contradicted: bool = False
    """Whether the candidate's own process reported a gain that the supervisor's clock surely did not see
    (`confirmation.is_contradicted_by_wall_clock`)."""
    library_share: float | None = None
    """Share of the candidate's device time that the task's `library` took; None if it called no library or the share is
    unknown."""
    unseen: str | None = None
    """Why it is unknown what the candidate executed on its device; None if it is known, or if nothing is launched."""
    sanitized: SanitizerReport | None = None
    """compute-sanitizer's report; None if it did not run."""
    mechanisms: dict[str, bool | None] = {}
    """Claimed mechanism -> whether the machine code shows it, and shows it less without the change; None if it was not
    checked or is unclear."""
    unclear: tuple[str, ...] = ()
    """Mechanisms that were searched for with and without the change and are neither shown nor excluded."""
    idle: tuple[str, ...] = ()
    """Mechanisms that are visible neither in the machine code nor in the time."""
    records: tuple[str, ...] = ()
    """Ids of further records that the evidence comes from: calibration, confirmation, roofs, review."""


def with_confirmations(evidence: GateEvidence, confirmed: Sequence[Record], settings: JudgeSettings) -> GateEvidence:
    """Return `evidence` with the results of a confirmation's records (`Judge.confirm_until_settled`), unchanged if
    there are none."""
    if not confirmed:
        return evidence
    problem = confirmation.contest_problem(confirmed[-1])
    update: dict[str, object] = {
        "confirmation_problem": problem,
        "confirmation_policy": confirmation.is_policy_violation(confirmed[-1]),
        "confirmation_disturbed": confirmation.any_disturbed(confirmed),
        "records": (*evidence.records, *(record.id for record in confirmed)),
    }
    if problem is None:
        claim = confirmation.claim_of(confirmed, settings.objective, settings.confidence, settings.min_effect)
        on_device = claim.clock == "device-only"
        update |= {
            "confirmation": confirmation.confirmed_speedup(confirmed, settings.objective, settings.confidence),
            "confirmed_by_graphs": confirmation.is_confirmed_by_graphs(confirmed),
            "confirmation_on_device": claim.speedup if on_device else None,
            "claim": claim,
            "confirmation_contradicted": confirmation.is_contradicted_by_wall_clock(
                confirmed, settings.objective, settings.confidence
            ),
            "unseen": confirmation.reason_unprofiled(confirmed),
            "library_share": confirmation.library_share(confirmed),
        }
    return evidence.model_copy(update=update)


def with_sanitizers(
    evidence: GateEvidence, run_sanitizers: Callable[[], Record | None], settings: JudgeSettings
) -> GateEvidence:
    """Return `evidence` with compute-sanitizer's report. The tool runs (`Judge.read_or_run_sanitizers`) only if all
    other checks allow an accept."""
    if (
        settings.sanitize == "off"
        or decide_verdict(evidence, settings).outcome != "accept"
        or (record := run_sanitizers()) is None
    ):
        return evidence
    report = SanitizerReport.model_validate(record.payload)
    return evidence.model_copy(update={"sanitized": report, "records": (*evidence.records, record.id)})


def decide_verdict(evidence: GateEvidence, settings: JudgeSettings) -> Verdict:
    """Return the verdict: the first check that does not pass decides; if all pass, accept."""
    passed: list[str] = []
    for outcome, reason in _run_checks(evidence, settings):
        if outcome is not None:
            return _make_verdict(evidence, outcome, (reason,))
        passed.append(reason)
    observable = {name: seen for name, seen in evidence.mechanisms.items() if name not in evidence.idle}
    shown, absent, unchecked = (
        sorted(n for n, seen in observable.items() if seen is expected) for expected in (True, False, None)
    )
    names_by_state = {
        "checked": [name for name in unchecked if name not in evidence.unclear],
        "clear": [name for name in unchecked if name in evidence.unclear],
    }
    passed += [
        f"Not {what} in the machine code: {', '.join(names)}." for what, names in names_by_state.items() if names
    ]
    if absent:
        passed.append(
            f"Accepted as unexplained: {', '.join(absent)} cannot be seen in the machine code, or no more than "
            f"without it."
        )
    elif shown:
        claimed = (
            "The claimed mechanisms are visible" if not evidence.idle else "Of the claimed mechanisms these are visible"
        )
        idle_clause = f"; visible neither there nor in the time: {', '.join(evidence.idle)}" if evidence.idle else ""
        passed.append(f"{claimed}: {', '.join(shown)}{idle_clause}.")
    if remark := _distance_remark(evidence):
        passed.append(remark)
    return _make_verdict(evidence, "accept", tuple(passed), explained=not absent)


def _distance_remark(evidence: GateEvidence) -> str:
    """Return a remark if the confirmed gain is far from the paired one, in either direction; empty: it is not."""
    if evidence.claim is None or not isinstance(evidence.trial, Passed):
        return ""
    launched = any(m.launched_candidate_s is not None for m in evidence.trial.measurements)
    paired, confirmed = evidence.trial.speedup, evidence.claim.speedup_by("device-only" if launched else "wall")
    lower, higher = sorted((paired, confirmed), key=lambda interval: interval.estimate)
    if lower.high >= higher.low * (1 - confirmation.MACHINE_SPREAD):
        return ""
    return (
        f"The confirmed gain is far from the paired one, by more than both intervals and "
        f"{confirmation.MACHINE_SPREAD:.0%}: {_interval_text(confirmed)} and {_interval_text(paired)}; the claim is "
        f"the confirmed one."
    )


Check = tuple[Outcome | None, str]
"""None and the statement that holds, or the outcome that the check demands and its reason."""


def _run_checks(evidence: GateEvidence, settings: JudgeSettings) -> Iterator[Check]:
    """Yield the checks in their order; the caller stops at the first with an outcome."""
    if evidence.task_now != evidence.task_at_start:
        yield (
            "infra_error",
            (
                f"The task changed during the run, {evidence.task_at_start[:12]} to {evidence.task_now[:12]}; restore "
                f"it or start a new run."
            ),
        )
    yield None, f"The task is the one that the run began with ({evidence.task_at_start[:12]})."
    if evidence.earlier_refusal:
        yield None, evidence.earlier_refusal
    yield from _policy_checks(evidence)
    trial = evidence.trial
    if trial is None:
        yield "inconclusive", "No candidate was proposed."
    elif isinstance(trial, Unmeasured):
        outcome: Outcome = "inconclusive" if trial.capped else "infra_error"
        yield outcome, f"Candidate {trial.candidate} could not be measured: {trial.reason.rstrip('.')}."
    elif isinstance(trial, Failed):
        outcome = "reject_policy" if trial.stage == "screen" else "reject_correctness"
        yield (
            outcome,
            (
                f"Candidate {trial.candidate} failed at {trial.stage}: {trial.reason.rstrip('.')}"
                f"{_citation(trial.records)}."
            ),
        )
    else:
        yield _correctness_check(evidence, trial, settings)
        yield from _physics_checks(evidence, trial)
        if evidence.needs_new_inputs:
            yield None, "The gain was smaller on new inputs than on seen ones; it is measured on new inputs alone."
        yield _speedup_check(evidence, trial, settings)
        yield _confirmation_check(evidence, settings)
        yield _regression_check(trial, evidence.margins, settings)
        if evidence.unseen is not None:
            yield _profiler_check(evidence.unseen, settings)
        if evidence.library_share is not None:
            yield (
                None,
                (
                    f"Of the candidate's device time {evidence.library_share:.0%} passed in the task's library, "
                    f"outside of its own kernels."
                ),
            )
        if evidence.sanitized is not None:
            refusal = evidence.sanitized.refusal()
            yield ("reject_correctness", refusal) if refusal else (None, evidence.sanitized.sentence())


def _policy_checks(evidence: GateEvidence) -> Iterator[Check]:
    """Yield the checks of the screen and of the review."""
    if evidence.screen:
        yield "reject_policy", f"The screen refuses the source: {evidence.screen[0].rstrip('.')}."
    if evidence.veto is not None:
        if not evidence.veto.quote.strip():
            # A veto without a quoted line does not reject the idea, and nothing overrules it either.
            yield "inconclusive", f"The review cannot be used: {evidence.veto.reason.rstrip('.')}."
        yield (
            "reject_policy",
            f'The review vetoes the line "{evidence.veto.quote.strip()}": {evidence.veto.reason.rstrip(".")}.',
        )
    yield None, "Screen and review found nothing to refuse."


def _correctness_check(evidence: GateEvidence, trial: Passed, settings: JudgeSettings) -> Check:
    """Check that every visible workload passed as given, and that no case that counts failed."""
    citation = _citation(trial.records)
    failed = [c for c in evidence.cases if c.status == "failed" or (c.case.required and c.status != "passed")]
    if failed:
        return "reject_correctness", f"The record says {failed[0].status} for {failed[0].case.workload}{citation}."
    passed_workloads = {
        c.case.workload for c in evidence.cases if c.status == "passed" and c.case.distribution == "as_given"
    }
    unchecked = [name for name in evidence.workloads if name not in passed_workloads]
    if unchecked:
        return "reject_correctness", f"Workload {unchecked[0]} was never checked{citation}."
    dropped = sum(c.status == "dropped" for c in evidence.cases)
    refused = sum(c.status == "dropped" and c.reason.startswith("the reference refuses") for c in evidence.cases)
    drop_reasons = (
        [f"{dropped - refused} dropped, which the frozen baseline does not pass either"] if dropped > refused else []
    )
    drop_reasons += [f"{refused} dropped at sizes that the reference refuses"] if refused else []
    dropped_clause = f" ({', '.join(drop_reasons)})" if drop_reasons else ""
    inputs_clause = ", the task's own draws alone," if settings.inputs == "as_published" else ""
    return None, f"All {len(evidence.cases) - dropped} cases{inputs_clause} are right{dropped_clause}{citation}."


def _physics_checks(evidence: GateEvidence, trial: Passed) -> Iterator[Check]:
    """Check that no time is below its physical lower bound, and report corrections of these bounds."""
    physics = evidence.physics
    for measured in physics.impossible_measurements(trial.measurements):
        bound = physics.lower_bound(measured.workload)
        comparison = (
            f"Workload {measured.workload} took {measured.candidate_s:.3e} s where {bound.what} allows no less "
            f"than {bound.seconds:.3e} s"
        )
        citation = _citation((*trial.records, *physics.records))
        if bound.doubt:
            yield (
                "inconclusive",
                f"{comparison}: the work was not done, or the roof is too low, for {bound.doubt}{citation}.",
            )
        unknown_users_clause = (
            "" if bound.watched else " (whether others used the machine while that was measured is not known)"
        )
        yield "reject_policy", f"{comparison}: the work cannot have been done{unknown_users_clause}{citation}."
    if physics.counted:
        needs = ", ".join(f"{name} needs {size} bytes" for name, size in physics.counted.items())
        yield None, f"Fewer bytes than assumed: with the inputs that were timed {needs}{_citation(physics.records)}."
    if physics.refuted:
        names = ", ".join(physics.refuted)
        yield (
            None,
            (
                f"No floor from the bytes of {names}: the frozen baseline, which agrees with the reference, is faster "
                f"than they allow."
            ),
        )
    applied = sum(physics.exceeds_cache(measured.workload) for measured in trial.measurements)
    roof_clause = (
        f"the memory roof applied to {applied} of {len(trial.measurements)} workloads, those whose data cannot "
        f"stay in the cache"
    )
    yield None, f"No time is shorter than physics allows ({roof_clause}){_citation(physics.records)}."


def _speedup_check(evidence: GateEvidence, trial: Passed, settings: JudgeSettings) -> Check:
    """Check that the paired timings show a gain above the threshold."""
    if evidence.noise_floor is None:
        return "inconclusive", "The noise floor of this run was not measured."
    threshold = max(settings.min_effect, evidence.noise_floor)
    launched = any(m.launched_candidate_s is not None for m in trial.measurements)
    clock = " on the device, launches not included" if launched else ""
    comparison = (
        f"{_interval_text(trial.speedup)} over the incumbent{clock}, threshold {1 + threshold:.3f}x (noise floor "
        f"{evidence.noise_floor:.1%})"
    )
    candidates, look = competing_candidates(evidence.siblings, evidence.earlier), evidence.looks
    after = f" after {evidence.earlier} others since the last accept" if evidence.earlier else ""
    if trial.speedup.confidence < settings.confidence_of_look(look, candidates) - 1e-12:
        return (
            "inconclusive",
            f"The interval is not corrected for {evidence.siblings} candidates{after}: {comparison}.",
        )
    answer = compare_samples(
        trial.speedup, threshold, look, settings.batches, candidates, confidence=settings.confidence
    )
    citation = _citation(trial.records)
    if answer == "faster":
        return (
            None,
            (
                f"Faster: {comparison}, corrected for {evidence.siblings} candidates{after}, and at look {look} of "
                f"{settings.batches}{citation}."
            ),
        )
    if answer == "not_faster":
        if trial.speedup.high <= 1.0 + settings.min_effect:
            return "reject_perf", f"Not faster by enough: {comparison}{citation}."
        # A gain that a noisy machine hides is not a failure.
        remedy = "stop what else runs on the machine, or raise judge.calibration_pairs"
        seems_faster = trial.speedup.estimate > 1.0
        complaint = (
            "The noise floor is too high to see such a gain"
            if seems_faster
            else "No gain is seen, and the noise floor is too high to exclude one"
        )
        return "inconclusive", f"{complaint}; {remedy}: {comparison}{citation}."
    regression_check = _regression_check(trial, evidence.margins, settings)
    if regression_check[0] == "reject_perf":
        # The judge stops at a sure regression, before all batches are spent on the gain.
        return regression_check
    spent = f"{evidence.looks} of {settings.batches} batches"
    if look < settings.batches and is_futile(trial.speedup, threshold, look, settings.batches):
        return (
            "inconclusive",
            (
                f"Given up as futile after {spent}, for more pairs would probably not show the gain: {comparison}"
                f"{citation}."
            ),
        )
    return "inconclusive", f"The noise hides the answer after {spent}: {comparison}{citation}."


def _confirmation_check(evidence: GateEvidence, settings: JudgeSettings) -> Check:
    """Check that the gain recurs in separate processes: surely above 1, and not surely below the required effect."""
    if evidence.confirmation_problem is not None:
        problem = evidence.confirmation_problem.rstrip(".")
        if evidence.confirmation_policy:
            return "reject_policy", f"The device executed kernels that are not the candidate's own: {problem}."
        return "reject_correctness", f"In a process of its own the candidate failed: {problem}."
    if evidence.confirmation is None:
        reason = f": {evidence.unconfirmed.rstrip('.')}" if evidence.unconfirmed else ""
        return "inconclusive", f"The gain was not confirmed in separate processes{reason}."
    wall = evidence.confirmation
    outside = "by the wall clock over replays of CUDA graphs" if evidence.confirmed_by_graphs else ""
    comparison = f"{_interval_text(wall)} {outside} in separate processes".replace("  ", " ")
    citation = _citation(evidence.records)
    confirmed = wall
    if evidence.confirmation_on_device is not None:
        # Launches are part of both wall times, unless graphs are replayed, and make a gain on the device look small.
        # The events may show how large it is. That there is one must be visible to the supervisor's clock, because the
        # candidate's own process reads the events.
        confirmed = evidence.confirmation_on_device
        comparison = (
            f"{_interval_text(confirmed)} on the device, {_interval_text(wall)} "
            f"{outside or 'by the wall clock with launches'}, in separate processes"
        )
        outer = "In replayed graphs" if outside else "With launches"
        if is_surely_slower(wall, settings.workload_margin):
            return "reject_perf", f"{outer} the candidate is slower: {comparison}{citation}."
        if seems_slower(wall, settings.workload_margin):
            return "inconclusive", f"{outer} the candidate may be slower: {comparison}{citation}."
    if any(
        confirmation.is_explained_by_disturbance(seen, disturbed=evidence.confirmation_disturbed)
        for seen in (confirmed, wall)
    ):
        return (
            "inconclusive",
            (
                f"Others kept the machine busy in more than half of the rounds of the confirmation: {comparison}"
                f"{citation}."
            ),
        )
    if evidence.confirmation_contradicted:
        return (
            "reject_perf",
            (
                f"The supervisor's clock surely saw less than half of the time saved that the candidate's process "
                f"reports: {comparison}{citation}."
            ),
        )
    if confirmed.high <= 1.0 + settings.min_effect or (wall.low <= 1.0 and wall.high <= 1.0 + settings.min_effect):
        return "reject_perf", f"The gain did not recur: {comparison}{citation}."
    if confirmed.low <= 1.0 or wall.low <= 1.0:
        return "inconclusive", f"The gain is not confirmed: {comparison}{citation}."
    return None, f"Confirmed: {comparison}{citation}."


def _profiler_check(reason: str, settings: JudgeSettings) -> Check:
    """Report that no profiler works on this machine, so that a library's kernels could have run instead of the
    candidate's."""
    sentence = f"The kernels that the candidate executed on the device are unknown: {reason.rstrip('.')}"
    if settings.unprofiled == "accept":
        return None, f"{sentence}; judge.unprofiled: accept lets it pass."
    return "inconclusive", f"{sentence}; make the profiler work, or set judge.unprofiled: accept."


def _regression_check(trial: Passed, margin_by_workload: Mapping[str, float], settings: JudgeSettings) -> Check:
    """Check single workloads: a sure slowdown beyond the margin rejects, one by the estimate alone leaves the verdict
    open."""
    citation = _citation(trial.records)
    limited = with_margins(trial.measurements, margin_by_workload, settings.workload_margin)
    if (found := first_regression(limited)) is not None:
        measured, margin = found
        allowance = _margin_text(measured.workload, margin, margin_by_workload)
        slower = f"Workload {measured.workload} became slower by more than {allowance}"
        return "reject_perf", f"{slower}: {_interval_text(measured.speedup)}{citation}."
    if (found := first_possible_regression(limited)) is not None:
        measured, margin = found
        allowance = _margin_text(measured.workload, margin, margin_by_workload)
        slower = f"Workload {measured.workload} may be slower by more than {allowance}"
        return "inconclusive", f"{slower}, the noise hides it: {_interval_text(measured.speedup)}{citation}."
    # The workload nearest to its margin, which need not be the slowest if workloads have their own margins.
    worst, margin = min(limited, key=lambda pair: pair[0].speedup.low * (1.0 + pair[1]))
    allowed = f"the margin of {100 * settings.workload_margin:.3g}%" if not margin_by_workload else "its margin"
    worst_text = f"{_interval_text(worst.speedup)} on {worst.workload}" + (
        f" (margin {100 * margin:.3g}%)" if margin_by_workload else ""
    )
    if worst.speedup.low < 1.0 / (1.0 + margin):
        return (
            None,
            (
                f"No workload seems slower by more than {allowed}, though the noise does not exclude it; the worst "
                f"is {worst_text}."
            ),
        )
    return None, f"No workload is slower by more than {allowed}; the worst is {worst_text}."


def _margin_text(workload: str, margin: float, margin_by_workload: Mapping[str, float]) -> str:
    return f"{'its own' if workload in margin_by_workload else 'the'} margin of {100 * margin:.3g}%"


def _make_verdict(
    evidence: GateEvidence, outcome: Outcome, reasons: tuple[str, ...], *, explained: bool = True
) -> Verdict:
    trial = evidence.trial
    return Verdict(
        outcome=outcome,
        reasons=reasons,
        candidate=trial.candidate if trial else None,
        incumbent=evidence.incumbent,
        speedup=trial.speedup if isinstance(trial, Passed) else None,
        claim=evidence.claim,
        noise_floor=evidence.noise_floor,
        explained=explained,
        records=tuple(dict.fromkeys((*(trial.records if trial else ()), *evidence.records, *evidence.physics.records))),
    )


def _interval_text(interval: Interval) -> str:
    ends = f"[{interval.low:.3f}, {interval.high:.3f}]" if interval.is_bounded else "[N/A]"
    return f"{interval.estimate:.3f}x {ends} at {interval.confidence:.2%} confidence"


def _citation(records: tuple[str, ...]) -> str:
    return f" (records {', '.join(records)})" if records else ""
