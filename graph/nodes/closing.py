"""The gate's own hands: gather the evidence, ask for the verdict, write the version's artifacts, make the one commit."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from agents import gatekeeper
from agents.artifacts import GatekeeperBrief, Plan
from graph.artifacts import Attribution, Inspection, Judged, Scored, VersionMemory
from graph.nodes.propose import trials
from graph.report import version as artifacts
from graph.report.render import ratio
from graph.services import Services
from graph.state import State
from knowledge_base.artifacts import Attempt
from tools import evidence, gate
from tools import task as tasks
from tools.artifacts import Candidate, Failed, Passed, Record, Trial, Verdict
from tools.errors import WorkspaceError
from tools.protocol import PROTOCOL, CaseResult
from tools.records import key
from tools.repository import stored_paths
from tools.roofline import best as best_roof
from tools.screen import screen


@dataclass(frozen=True)
class Closed:
    """An iteration after its gate."""

    verdict: Verdict
    record: str
    commit: str


def close(state: State, services: Services) -> Closed:
    """Verdict, artifacts, commit. Called again after a kill it finds the commit, or does what was left to do."""
    iteration = state["iteration"]
    commit = services.workspace.repository.find_commit("Version", f"v{iteration}")
    if commit is not None:
        record = services.records.get(services.workspace.repository.trailers(commit)["Evidence"])
        return Closed(Verdict.model_validate(record.payload), record.id, commit)
    weighed = _gather(state, services)
    verdict = gate.decide(weighed, services.settings.judge)
    parents = tuple(r for r in (*verdict.records, state["plan"], state.get("attribution")) if r)
    record = services.keep("verdict", verdict, parents=parents, iteration=iteration)
    verdict = Verdict.model_validate(record.payload)
    _write(state, services, weighed, verdict, record)
    services.emit("commit", {"state": "started", "iteration": str(iteration)})
    made = _commit(state, services, verdict, record)
    services.emit("commit", {"state": "finished", "iteration": str(iteration), "commit": made})
    return Closed(verdict, record.id, made)


# ---------------------------------------------------------------- evidence


def _gather(state: State, services: Services) -> gate.Evidence:
    """Everything the verdict rests on; a champion is reviewed and confirmed in separate processes first."""
    champion = state.get("champion")
    trial = _weighed_trial(state, services)
    incumbent = services.candidate(state["incumbent"])
    inspection = Inspection.model_validate(services.records.get(state["profile"]).payload)
    calibration = services.judge.calibrate(incumbent)
    records = [calibration.id]
    confirmation, problem, veto = None, None, None
    if champion:
        candidate = services.candidate(champion)
        veto = _review(candidate, incumbent, services)
        confirmed = services.judge.confirm(candidate, incumbent)
        records.append(confirmed.id)
        problem = evidence.contest_problem(confirmed)
        if problem is None:
            confirmation = evidence.contest_speedup(confirmed, services.settings.judge.objective, services.settings.judge.confidence)
    launch = best_roof(services.roofs, "launch_latency")
    return gate.Evidence(
        incumbent=incumbent.id,
        trial=trial,
        siblings=max(1, len(state.get("drafts", []))),
        task_at_start=services.task.identity(),
        task_now=tasks.thaw(services.workspace.task_folder).identity(),
        workloads=tuple(w.name for w in services.task.workloads),
        screen=_screened(champion, services),
        veto=veto,
        cases=_cases(trial, services),
        floors=tuple(
            gate.Floor(workload=row.workload, unique_bytes=row.unique_bytes, roof_s=row.headroom.roof_s) for row in inspection.rooflines
        ),
        last_level_cache=services.executor.devices()[0].last_level_cache,
        launch_s=launch.value if launch else None,
        noise_floor=state["noise_floor"],
        looks=_looks(trial, services),
        confirmation=confirmation,
        confirmation_problem=problem,
        mechanisms=_mechanisms(state, services),
        records=tuple(records),
    )


def _weighed_trial(state: State, services: Services) -> Trial | None:
    """The champion's trial; else the fastest correct one, else a kernel's failure, else a machine's."""
    judged = [j.trial for j in trials(state, services)]
    champion = state.get("champion")
    passed = sorted((t for t in judged if isinstance(t, Passed)), key=lambda t: (t.candidate != champion, -t.speedup.estimate))
    failed = [t for t in judged if isinstance(t, Failed)]
    return next(iter([*passed, *failed, *judged]), None)


def _review(candidate: Candidate, incumbent: Candidate, services: Services) -> gate.Veto | None:
    brief = GatekeeperBrief(task=services.task, diff=diff(incumbent, candidate))
    answer = gatekeeper.review(services.agents["gatekeeper"], brief)
    return gate.Veto(quote=answer.quote, reason=answer.reason) if answer.veto else None


def _screened(champion: str | None, services: Services) -> tuple[str, ...]:
    if champion is None:
        return ()
    texts = services.candidate(champion).files.values()
    return tuple(sentence for text in texts for sentence in screen(text, services.language.name))


def _correctness(trial: Trial | None, services: Services) -> Record | None:
    found = [services.records.get(identity) for identity in (trial.records if trial else ())]
    return next((record for record in found if record.kind == "correctness"), None)


def _cases(trial: Trial | None, services: Services) -> tuple[CaseResult, ...]:
    record = _correctness(trial, services)
    return evidence.Correctness.model_validate(record.payload).cases if record else ()


def _looks(trial: Trial | None, services: Services) -> int:
    kinds = [services.records.get(identity).kind for identity in (trial.records if trial else ())]
    return max(1, kinds.count("timing"))


def _mechanisms(state: State, services: Services) -> dict[str, bool]:
    found = _attribution(state, services)
    return {o.method: o.visible for o in found.methods if o.visible is not None} if found else {}


def _attribution(state: State, services: Services) -> Attribution | None:
    identity = state.get("attribution")
    return Attribution.model_validate(services.records.get(identity).payload) if identity else None


def diff(before: Candidate, after: Candidate) -> str:
    """Unified diff of two kernels' entry files."""
    names = [next(name for name in c.files if name.startswith("kernel.")) for c in (before, after)]
    lines = difflib.unified_diff(
        before.source.splitlines(keepends=True), after.source.splitlines(keepends=True), f"a/{names[0]}", f"b/{names[1]}"
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


# ---------------------------------------------------------------- what is written


def _write(state: State, services: Services, weighed: gate.Evidence, verdict: Verdict, record: Record) -> None:
    iteration = state["iteration"]
    dossier = services.records.get(state["dossier"])
    plan = services.records.get(state["plan"])
    inspection = services.records.get(state["profile"])
    champion = services.candidate(verdict.candidate) if verdict.candidate else None
    contents = artifacts.Contents(
        iteration=iteration,
        incumbent=services.candidate(state["incumbent"]),
        candidate=champion,
        dossier=dossier,
        plan=plan,
        inspection=inspection,
        trials=trials(state, services),
        candidates={j.trial.candidate: services.candidate(j.trial.candidate) for j in trials(state, services)},
        ablations=_ablations(state, services),
        attribution=_attribution(state, services),
        attribution_record=state.get("attribution"),
        correctness=_correctness(weighed.trial, services),
        evidence=weighed,
        diff=diff(services.candidate(state["incumbent"]), champion) if champion else "",
        architecture=services.architecture,
    )
    folder = f"versions/v{iteration}"
    for name, text in artifacts.render_version(contents).items():
        services.workspace.write(f"{folder}/{name}", text)
    missing = gate.audit(services.workspace.root, iteration)
    if missing:
        raise WorkspaceError(f"{services.workspace.root}: {missing[0]}")
    services.workspace.write(f"{folder}/{gate.VERDICT}", verdict.model_dump_json(indent=1) + "\n")
    memory = _memory(state, services, verdict, record, champion)
    services.workspace.write(f"memory/v{iteration}.json", memory.model_dump_json(indent=1) + "\n")


def _ablations(state: State, services: Services) -> dict[str, Judged]:
    """Method -> the trial of the champion without it, where one was made."""
    champion = state.get("champion")
    if not champion:
        return {}
    found = {}
    for method in services.candidate(champion).methods:
        record = services.records.find(key("ablation", iteration=state["iteration"], champion=champion, method=method))
        if record is not None:
            found[method] = Judged.model_validate(record.payload)
    return found


def _memory(state: State, services: Services, verdict: Verdict, record: Record, champion: Candidate | None) -> VersionMemory:
    made = Plan.model_validate(services.records.get(state["plan"]).payload)
    return VersionMemory(
        iteration=state["iteration"],
        parent=state["incumbent"],
        candidate=verdict.candidate,
        verdict=verdict.outcome,
        reasons=verdict.reasons,
        methods=champion.methods if champion else tuple(item.method for item in made.methods),
        knobs=champion.knobs if champion else {},
        speedup=verdict.speedup,
        predictions=_scored(made, verdict, _attribution(state, services), services.settings.judge.min_effect),
        attempts=_attempts(state, services, verdict, record, champion),
        records=tuple(r for r in (record.id, state["plan"], state["dossier"], state["profile"], state.get("attribution")) if r),
    )


def _scored(made: Plan, verdict: Verdict, attribution: Attribution | None, min_effect: float) -> tuple[Scored, ...]:
    """Each prediction on time against the method's own ablation where there is one, else against the whole plan (F6)."""
    own = {o.method: 1 / o.ratio.estimate for o in attribution.methods if o.ratio} if attribution else {}
    whole = 1 / verdict.speedup.estimate if verdict.speedup else None
    scored = []
    for item in made.methods:
        observed = own.get(item.method, whole)
        expected = next((e.factor for e in item.hypothesis.expected if e.metric == "time"), None)
        hit = None if observed is None or expected is None else (observed < 1 - min_effect) == (expected < 1)
        scored.append(Scored(planned=item, observed_factor=observed, hit=hit))
    return tuple(scored)


def _attempts(state: State, services: Services, verdict: Verdict, record: Record, champion: Candidate | None) -> tuple[Attempt, ...]:
    """What experience may keep: nothing of a machine's failure, nothing that was accepted without its mechanism showing."""
    if champion is None or verdict.outcome == "infra_error" or not verdict.explained:
        return ()
    inspection = Inspection.model_validate(services.records.get(state["profile"]).payload)
    results = {"accept": "success", "reject_correctness": "crash", "inconclusive": "neutral"}
    largest = max(seen.unique_bytes for seen in services.seen)
    return (
        Attempt(
            operator=services.task.name,
            language=services.task.language,
            architecture=services.architecture,
            dtype=services.task.outputs[0].dtype,
            shape_class=f"2^{max(largest, 1).bit_length() - 1}B",
            bottleneck=inspection.bottleneck,
            methods=champion.methods,
            result=results.get(verdict.outcome, "failure"),  # type: ignore[arg-type]
            verdict=verdict.outcome,
            effect=verdict.speedup,
            evidence=record.id,
            workspace=services.workspace.root.name,
            iteration=state["iteration"],
            note="; ".join(verdict.reasons)[:500],
        ),
    )


# ---------------------------------------------------------------- commits


def _commit(state: State, services: Services, verdict: Verdict, record: Record) -> str:
    """One commit an iteration: `accept vN` changes the kernel, `close vN` only adds what was learnt."""
    workspace = services.workspace
    iteration = state["iteration"]
    kernel = f"kernel{services.language.suffix}"
    head = workspace.repository.head()
    if head is None or workspace.repository.show(head, kernel).decode() != services.candidate(state["incumbent"]).source:
        raise WorkspaceError(f"{workspace.root}: HEAD does not hold the kernel that was measured; restore it with git, or start a new run")
    accepted = verdict.outcome == "accept" and verdict.candidate is not None
    changed = [f"versions/v{iteration}", "memory", "current_iteration.txt", *stored(services)]
    if accepted and verdict.candidate:
        workspace.write(kernel, services.candidate(verdict.candidate).source)
        changed.append(kernel)
    workspace.write(gate.POINTER, f"{iteration}\n")
    services.emit("commit", {"state": "written", "iteration": str(iteration)})
    subject = f"accept v{iteration}: {ratio(verdict.speedup)}" if accepted else f"close v{iteration}: {verdict.outcome}"
    message = "\n".join([subject, "", *verdict.reasons])
    return workspace.repository.commit(changed, message, trailers(services, f"v{iteration}", verdict, record.id), head)


def trailers(services: Services, version: str, verdict: Verdict, record: str) -> dict[str, str]:
    """What a commit says of itself in a form that programs read."""
    found = {
        "Version": version,
        "Task": services.task.identity()[:16],
        "Candidate": verdict.candidate or "none",
        "Verdict": verdict.outcome,
        "Evidence": record,
        "Protocol": str(PROTOCOL),
    }
    if verdict.speedup is not None:
        found["Speedup"] = f"{verdict.speedup.estimate:.4g} [{verdict.speedup.low:.4g}, {verdict.speedup.high:.4g}]"
        found["Confidence"] = f"{verdict.speedup.confidence:.4f}"
    return found


def stored(services: Services) -> list[str]:
    """Paths of all records and of the blobs that they name."""
    return [path for record in services.records for path in stored_paths(record)]


def commit_baseline(state: State, services: Services, inspection: Record) -> str:
    """v0: the frozen inputs, the user's kernel and everything measured about it, as the first commit."""
    workspace = services.workspace
    known = workspace.repository.find_commit("Version", "v0")
    if known is not None:
        return known
    baseline = services.candidate(state["baseline"])
    checked = services.judge.correctness(baseline, None, "baseline")
    calibration = services.judge.calibrate(baseline)
    for name, text in artifacts.render_baseline(services, state, baseline, checked, calibration, inspection).items():
        workspace.write(name, text)
    verdict = Verdict(
        outcome="accept",
        reasons=("The baseline: correct, timed, and from here on the one to beat.",),
        candidate=baseline.id,
        incumbent=baseline.id,
        noise_floor=state["noise_floor"],
        records=(checked.id, calibration.id, inspection.id),
    )
    record = services.keep("verdict", verdict, parents=verdict.records, iteration=0)
    memory = VersionMemory(
        iteration=0,
        parent="",
        candidate=baseline.id,
        verdict="baseline",
        reasons=(),
        methods=(),
        knobs={},
        speedup=None,
        predictions=(),
        attempts=(),
        records=(record.id, checked.id, calibration.id, inspection.id),
    )
    workspace.write("memory/v0.json", memory.model_dump_json(indent=1) + "\n")
    workspace.write(f"versions/v0/{gate.VERDICT}", verdict.model_dump_json(indent=1) + "\n")
    workspace.write(gate.POINTER, "0\n")
    everything = [
        *(".gitignore", "README.md", "settings.yaml", "env_check.md", "baseline_report.md", "test_kernel.py", "task"),
        *(f"kernel{services.language.suffix}", "versions/v0", "memory", gate.POINTER, *stored(services)),
    ]
    message = "baseline v0\n\nThe user's kernel: correct against the float64 reference and timed against itself."
    said = trailers(services, "v0", verdict, record.id) | {"Verdict": "baseline"}
    return workspace.repository.commit(everything, message, said, workspace.repository.head())


def commit_report(services: Services, record: str, texts: Mapping[str, str]) -> str:
    """The final report and benchmark (`record`) as the last commit; made once, so that a second call writes nothing."""
    repository = services.workspace.repository
    made = repository.find_commit("Report", record)
    if made is not None:
        return made
    for name, text in texts.items():
        services.workspace.write(name, text)
    services.emit("commit", {"state": "written", "iteration": "report"})
    paths = [*texts, *stored(services)]
    return repository.commit(paths, "report\n\nFinal audit, benchmark and report.", {"Report": record}, repository.head())
