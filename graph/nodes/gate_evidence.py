"""The gate's own hands: gather the evidence, ask for the verdict, write the version's artifacts, make the one
commit."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from agents.artifacts import GatekeeperBrief, Plan
from agents.checks.cited_sources import WIKI_LINE_PATTERN
from agents.roles import gatekeeper
from graph.artifacts import SIZE, Attribution, Inspection, Judged, MethodOutcome, Scored, VersionMemory
from graph.nodes.commits import commit_version
from graph.nodes.prepare import inspected
from graph.nodes.propose import trials
from graph.report.content import version_files as artifacts
from graph.services import Services
from graph.specs import datasheet
from graph.state import State, siblings
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

WORDS = 800
"""Characters that experience keeps of what a plan says of a method of its own."""


def close(state: State, services: Services) -> tuple[Verdict, str, str]:
    """Verdict, its record, and the commit of the artifacts. Called again after a kill it finds the commit, or does
    what was left to do."""
    iteration = state["iteration"]
    commit = oldest_with_trailer(services.workspace.repository.log(), "Version", f"v{iteration}")
    if commit is not None:
        record = services.records.get(commit.trailers["Evidence"])
        return Verdict.model_validate(record.payload), record.id, commit.id
    drift.refuse(services.workspace.repository)
    # A verdict must not rest on an archive whose citations no longer hold.
    datasheet.verified_sheet(state["specs"], services)
    weighed = _gather(state, services)
    verdict = decide_verdict(weighed, services.settings.judge)
    parents = tuple(r for r in (*verdict.records, state["plan"], state.get("attribution")) if r)
    record = services.keep("verdict", verdict, parents=parents, iteration=iteration)
    verdict = Verdict.model_validate(record.payload)
    own = None
    if verdict.outcome == "accept" and verdict.candidate:
        own = inspected(services.candidate(verdict.candidate, iteration), state, services)
    _write(state, services, weighed.trial, verdict, record, own)
    services.emit("commit", {"state": "started", "iteration": str(iteration)})
    made = commit_version(state, services, verdict, record)
    services.emit("commit", {"state": "finished", "iteration": str(iteration), "commit": made})
    return verdict, record.id, made


def abandon(state: State, services: Services, back: VersionMemory) -> None:
    """Close the iteration under way unjudged: a mask, or the end of one, took the kernel away that it was planned
    for, and HEAD has that of `back`. With its parent's mask it is masked too."""
    parent = accepted_version_of(services.workspace.root, state["incumbent"])
    reason = (
        f"Not judged: it was planned for the kernel of {parent}, in whose place a mask, or its end, put that of "
        f"v{back.iteration}."
    )
    verdict = Verdict(outcome="inconclusive", reasons=(reason,), candidate=None, incumbent=state["incumbent"])
    # A verdict of its own, for the gate may have been killed with another one on record.
    asked = {"iteration": state["iteration"], "instead": back.iteration}
    record = services.keep("verdict", verdict, parents=(state["plan"],), **asked)
    _write(State(**{**state, "champion": None, "attribution": None}), services, None, verdict, record, None)
    told = {
        "iteration": str(state["iteration"]),
        "outcome": verdict.outcome,
        "candidate": "",
        "parent": parent,
        "summary": reason,
    }
    services.emit("verdict", told)
    commit_version(
        State(**{**state, "incumbent": back.candidate or ""}), services, verdict, record, restores=f"v{back.iteration}"
    )


# ---------------------------------------------------------------- evidence


def dry_run_verdict(state: State, services: Services) -> Verdict:
    """Return the gate's verdict on the champion without closing the iteration.

    What it needs is measured on the first call and read from the records afterwards.
    """
    return decide_verdict(_gather(state, services), services.settings.judge)


def refused(state: State, services: Services) -> tuple[Record, Verdict] | None:
    """The record of the champion that was put to the gate first in this iteration and refused, and its verdict."""
    record = services.records.find(record_key("refused", iteration=state["iteration"]))
    return (record, Verdict.model_validate(record.payload)) if record else None


def _gather(state: State, services: Services) -> GateEvidence:
    """Everything the verdict rests on; a champion is reviewed and confirmed in separate processes first."""
    champion = state.get("champion")
    trial = _weighed_trial(state, services)
    if champion:
        # Its own A/A blocks are needed next; a kernel that fails in them must not get that far.
        trial = _calibrated(champion, trial, services)
    if champion and not isinstance(trial, Passed):
        champion = None
    incumbent = services.candidate(state["incumbent"])
    inspection = Inspection.model_validate(services.records.get(state["profile"]).payload)
    calibration = services.judge.read_or_measure_calibration(incumbent)
    veto: Veto | None = None
    confirmed: tuple[Record, ...] = ()
    unconfirmed = ""
    possible = lower_bounds.PhysicalLimits()
    needs = {w.workload: w.unique_bytes for w in inspection.rooflines}
    candidate = services.candidate(champion) if champion else None
    if candidate is not None:
        veto = _review(candidate, incumbent, services)
    try:
        jobs = services.capped_executor()
        cache, roofs = services.device.last_level_cache, services.all_roofs
        judge = services.judge.with_executor(jobs)
        again, v0 = (lambda: services.roofs_again(jobs)), services.candidate(state["baseline"])
        possible = lower_bounds.limits_for_trial(
            trial,
            needs,
            cache,
            roofs,
            again,
            judge.read_or_count_needed_bytes,
            lambda: evidence.incumbent_seconds(services.judge.read_or_measure_calibration(v0)),
        )
        if candidate is not None:
            confirmed = _confirmed(candidate, incumbent, state["iteration"], services)
    except BudgetError as error:
        # Nothing is accepted unconfirmed, and nobody accused of what roofs forbid that could not be measured again.
        unconfirmed = str(error)
        services.out_of_budget(unconfirmed)
    methods = made.methods if (made := _attribution(state, services)) else ()
    weighed = GateEvidence(
        incumbent=incumbent.id,
        trial=trial,
        siblings=siblings(state),
        task_at_start=services.task.identity(),
        task_now=tasks.read_frozen_task(services.workspace.task_folder).identity(),
        workloads=tuple(w.name for w in services.task.workloads),
        margins=services.task.margins,
        screen=_screened(champion, services),
        veto=veto,
        unconfirmed=unconfirmed,
        cases=evidence.correctness_cases(trial, services.records),
        physics=possible,
        noise_floor=state["noise_floor"],
        looks=max(1, len(_cited(trial, "timing", services))),
        mechanisms={o.method: o.visible for o in methods},
        idle=_idle(methods),
        unclear=tuple(o.method for o in methods if o.mechanism and o.mechanism.without and o.mechanism.without.present),
        records=tuple(dict.fromkeys((calibration.id, state.get("calibration", calibration.id)))),
    )
    before = refused(state, services)
    if before and before[1].candidate != state.get("champion"):
        said = (
            f"Candidate {before[1].candidate} was put to the gate first: {before[1].outcome}, {before[1].reasons[-1]}"
        )
        weighed = weighed.model_copy(update={"earlier_refusal": said, "records": (*weighed.records, before[0].id)})
    policy = services.settings.judge
    weighed = with_confirmations(weighed, confirmed, policy)
    if candidate is None:
        return weighed
    return with_sanitizers(weighed, lambda: services.judge.read_or_run_sanitizers(candidate), policy)


def _calibrated(champion: str, trial: Trial | None, services: Services) -> Trial | None:
    """The champion's trial, or its failure in its own A/A blocks; where the cap leaves no time for these, no
    confirmation follows."""
    try:
        calibration = services.capped_judge.read_or_measure_calibration(services.candidate(champion))
    except BudgetError as error:
        services.out_of_budget(str(error))
        return trial
    return evidence.timing_failure(calibration, trial.records if trial else ()) or trial


def _confirmed(candidate: Candidate, incumbent: Candidate, iteration: int, services: Services) -> tuple[Record, ...]:
    """The confirmations of a candidate whose A/A blocks are measured; BudgetError where the cap leaves no time for
    both."""
    services.capped_judge.read_or_measure_calibration(candidate)
    return services.capped_judge.confirm_until_settled(candidate, incumbent, iteration=iteration)


def _weighed_trial(state: State, services: Services) -> Trial | None:
    """The champion's trial; else the fastest correct one, else a kernel's failure, else a machine's; recomputed from
    its records."""
    judged = [j.trial for j in trials(state, services)]
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


def _review(candidate: Candidate, incumbent: Candidate, services: Services) -> Veto | None:
    brief = GatekeeperBrief(task=services.task, diff=diff(incumbent, candidate))
    try:
        answer = gatekeeper.review_diff(services.agents["gatekeeper"], brief)
    except BudgetError as error:
        # Nobody looked, and nothing is accepted without a review.
        services.out_of_budget(str(error))
        return Veto(quote="", reason=f"there was none ({error})")
    return Veto(quote=answer.quote, reason=answer.reason) if answer.veto else None


def _screened(champion: str | None, services: Services) -> tuple[str, ...]:
    if champion is None:
        return ()
    texts = services.candidate(champion).files.values()
    task = services.task
    return tuple(
        sentence for text in texts for sentence in screen(text, task.language, (), task.tensors, task.library or ())
    )


def _cited(trial: Trial | None, kind: str, services: Services) -> list[Record]:
    """The records of a kind that a trial rests on."""
    found = [services.records.get(identity) for identity in (trial.records if trial else ())]
    return [record for record in found if record.kind == kind]


def _idle(methods: Sequence[MethodOutcome]) -> tuple[str, ...]:
    """What is in neither the machine code nor the time explains nothing, and leaves nothing unexplained where
    another method is seen."""
    idle = tuple(o.method for o in methods if o.visible is False and o.ratio is not None and o.ratio.low <= 1)
    return idle if any(o.visible for o in methods) else ()


def _attribution(state: State, services: Services) -> Attribution | None:
    identity = state.get("attribution")
    return Attribution.model_validate(services.records.get(identity).payload) if identity else None


def diff(before: Candidate, after: Candidate) -> str:
    """Unified diff of two kernels' entry files."""
    names = [next(name for name in c.files if name.startswith("kernel.")) for c in (before, after)]
    lines = difflib.unified_diff(
        before.source.splitlines(keepends=True),
        after.source.splitlines(keepends=True),
        f"a/{names[0]}",
        f"b/{names[1]}",
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


# ---------------------------------------------------------------- what is written


def _write(
    state: State, services: Services, trial: Trial | None, verdict: Verdict, record: Record, own: Record | None
) -> None:
    """`own`: the accepted kernel's inspection; a refused one was not looked at."""
    iteration = state["iteration"]
    champion = services.candidate(verdict.candidate, iteration) if verdict.candidate else None
    changed = diff(services.candidate(state["incumbent"]), champion) if champion else ""
    made, checked = _attribution(state, services), next(iter(_cited(trial, "correctness", services)), None)
    folder = f"versions/v{iteration}"
    told = artifacts.render_version(
        state, services, trials(state, services), _ablations(state, services), made, checked, changed, own, verdict
    )
    services.workspace.write({f"{folder}/{name}": text for name, text in told.items()})
    missing = completeness.audit(services.workspace.root, iteration)
    if missing:
        raise WorkspaceError(f"{services.workspace.root}: {missing[0]}")
    memory = _memory(state, services, verdict, record, champion)
    closing = {f"{folder}/{completeness.VERDICT}": verdict, f"memory/v{iteration}.json": memory}
    services.workspace.write({name: artifact.model_dump_json(indent=1) + "\n" for name, artifact in closing.items()})


def _ablations(state: State, services: Services) -> dict[str, Judged]:
    """Method -> the trial of the champion without it, where one was made."""
    champion = state.get("champion")
    methods = services.candidate(champion, state["iteration"]).methods if champion else ()
    return {
        method: judged
        for method in methods
        if (judged := ablation(state, services, champion or "", method)) is not None
    }


def ablation(state: State, services: Services, champion: str, method: str) -> Judged | None:
    """The trial of a champion without one of its methods; None: none is on record."""
    record = services.records.find(
        record_key("ablation", iteration=state["iteration"], champion=champion, method=method)
    )
    return Judged.model_validate(record.payload) if record else None


def _memory(
    state: State, services: Services, verdict: Verdict, record: Record, champion: Candidate | None
) -> VersionMemory:
    made = Plan.model_validate(services.records.get(state["plan"]).payload)
    predictions = _scored(made, verdict, champion, _attribution(state, services), services.settings.judge.min_effect)
    forecasts = tuple(
        Forecast(model=services.settings.planned_by, method=one.planned.method, confidence=e.confidence, held=one.hit)
        for one in predictions
        for e in one.planned.hypothesis.expected
        if e.metric == "time" and one.hit is not None
    )
    attempts = _attempts(state, services, verdict, record, champion)
    root = services.workspace.root
    return VersionMemory(
        iteration=state["iteration"],
        parent=state["incumbent"],
        candidate=verdict.candidate,
        verdict=verdict.outcome,
        reasons=verdict.reasons,
        methods=champion.methods if champion else tuple(item.method for item in made.methods),
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


def _scored(
    made: Plan, verdict: Verdict, champion: Candidate | None, attribution: Attribution | None, min_effect: float
) -> tuple[Scored, ...]:
    """Each prediction on time against the method's own ablation where there is one, else against the whole plan (F6).

    A method that the coder left out is not scored. A hit has the direction shown (the interval leaves 1 + `min_effect`
    out) and the size within a factor of `SIZE` either way; a miss has the opposite shown, or no size within that factor
    left in its interval. What noise hides is neither.
    """
    own = {o.method: o.ratio for o in attribution.methods if o.ratio} if attribution else {}
    scored = []
    for item in made.methods:
        applied = champion is not None and item.method in champion.methods
        gain = own.get(item.method, verdict.reported_speedup) if applied else None
        expected = next((e.factor for e in item.hypothesis.expected if e.metric == "time"), None)
        hit = None
        if gain is not None and expected is not None:
            shown, gone = gain.low > 1 + min_effect, gain.high <= 1 + min_effect
            if expected >= 1:
                shown, gone = gain.high < 1, gain.low >= 1
            far = gain.high * expected < 1 / SIZE or gain.low * expected > SIZE
            hit = False if gone or far else True if shown and 1 / SIZE <= gain.estimate * expected <= SIZE else None
        scored.append(Scored(planned=item, observed_factor=1 / gain.estimate if gain else None, hit=hit))
    return tuple(scored)


def _attempts(
    state: State, services: Services, verdict: Verdict, record: Record, champion: Candidate | None
) -> tuple[Attempt, ...]:
    """What experience may keep: nothing of a machine's failure or of a cap's, nothing that was accepted without its
    mechanism showing, and no success of a method that did not show.

    A refusal by screen, review or physics is kept (D8): it is about what was written, which need not be written again,
    and says nothing of what the methods are worth.
    """
    unmeasured = verdict.outcome == "inconclusive" and verdict.speedup is None
    if champion is None or unmeasured or verdict.outcome == "infra_error":
        return ()
    if not verdict.explained:
        return tuple(_siblings(state, services, champion))
    made = _attribution(state, services) if verdict.outcome == "accept" else None
    absent = {o.method for o in made.methods if o.status == "implementation_failed"} if made else set()
    shared = champion.model_copy(update={"methods": tuple(name for name in champion.methods if name not in absent)})
    weighed = _attempt(
        state, services, shared, verdict.outcome, verdict.reported_speedup, record.id, "; ".join(verdict.reasons)
    )
    if verdict.outcome == "accept":
        weighed = weighed.model_copy(update={"free": tuple(_free(state, services, champion, verdict.reported_speedup))})
    # The newest line about a set of methods is what counts, so that the one that was weighed comes last.
    return (*_siblings(state, services, champion), weighed)


def _free(state: State, services: Services, champion: Candidate, worth: Interval | None) -> Iterator[FreeMethod]:
    """The methods of an accepted version that its plan named itself, but for those that were shown to have no part
    in the gain."""
    made, found = Plan.model_validate(services.records.get(state["plan"]).payload), _attribution(state, services)
    outcomes = {outcome.method: outcome for outcome in found.methods} if found else {}
    for item in made.methods:
        seen = outcomes.get(item.method)
        if not item.method.startswith(FREE_METHOD_PREFIX) or item.method not in champion.methods:
            continue
        if seen is None or seen.status not in ("ineffective", "implementation_failed"):
            yield FreeMethod(
                method=item.method,
                axis=item.axis,
                change=_without_wiki_lines(item.hypothesis.change)[:WORDS],
                rationale=_without_wiki_lines(item.hypothesis.rationale)[:WORDS],
                signature=item.signature,
                effect=worth if len(champion.methods) == 1 else seen.ratio if seen else None,
                device=services.device.name,
            )


def _without_wiki_lines(text: str) -> str:
    """`text` on one line; another run has another wiki, in which the lines that it cites say something else."""
    return " ".join(WIKI_LINE_PATTERN.sub("the wiki", text).split())


def _siblings(state: State, services: Services, champion: Candidate) -> Iterator[Attempt]:
    """The iteration's other candidates: what failed, and what was timed without being put to the gate."""
    before = refused(state, services)
    for judged in trials(state, services):
        trial = judged.trial
        if before and trial.candidate == before[1].candidate:
            record, verdict = before
            tried = services.candidate(trial.candidate, state["iteration"])
            yield _attempt(
                state, services, tried, verdict.outcome, verdict.reported_speedup, record.id, "; ".join(verdict.reasons)
            )
            continue
        if trial.candidate == champion.id or isinstance(trial, Unmeasured):
            continue
        evidence = state["trials"][f"{state['iteration']}/{trial.candidate}"]
        candidate = services.candidate(trial.candidate, state["iteration"])
        if isinstance(trial, Failed):
            outcome: Outcome = "reject_policy" if trial.stage == "screen" else "reject_correctness"
            yield _attempt(state, services, candidate, outcome, None, evidence, f"{trial.stage}: {trial.reason}")
        else:
            slower = trial.speedup.high < 1
            note = (
                "slower than the incumbent"
                if slower
                else "timed, but another candidate of its iteration was put to the gate"
            )
            outcome = "reject_perf" if slower else "inconclusive"
            # Nothing confirmed the figure: it is said, and no effect.
            effect = trial.speedup if slower else None
            yield _attempt(
                state,
                services,
                candidate,
                outcome,
                effect,
                evidence,
                f"{note}: {format_speedup(trial.speedup)}, not confirmed",
            )


def _attempt(
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
