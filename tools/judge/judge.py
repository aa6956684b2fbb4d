"""Task + Candidate + Executor -> Trial: screen, build, correctness, timing, cheap first (design 6).

The judge asks, the harness beside the device answers, and each answer becomes one record under a key that names what
was asked. Asked again, it returns the record and runs nothing: that is how a killed run resumes. What records amount to
is computed by the pure functions of `tools.judge.evidence`, so that the gate and `verify` come to the same answer from
the records alone.

An output element's error is `|out - ref64| / (|ref64| + rms of its output row)`; it must not exceed
`max(floor of the dtype, 2 x torch's error, 2 x the frozen baseline's error)`, and never the dtype's cap.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from tools.artifacts import Artifact, Candidate, Dims, Failed, Passed, Record, Task, Trial, Unmeasured
from tools.contracts import checked_cases
from tools.errors import BudgetError
from tools.executors.base import Executor, Job, Limits, Needs, pick
from tools.executors.harness_job import Answer, answer, harness_files, harness_job
from tools.executors.protocol import (
    PROTOCOL,
    Contestant,
    ContestRequest,
    ContestResult,
    CorrectnessRequest,
    CorrectnessResult,
    NeededRequest,
    NeededResult,
    PrepareRequest,
    PrepareResult,
    Question,
    TimedWorkload,
    TimingRequest,
    TimingResult,
)
from tools.gate import confirmation, sanitizers
from tools.gate.judge_settings import JudgeSettings, Limited, possible_regression, regression, with_margins
from tools.gate.ranking import FRAMEWORKS
from tools.gate.statistics import compare_samples, corrected
from tools.judge import evidence
from tools.judge.build import Builds
from tools.languages.base import Language
from tools.screen.screen import screen
from tools.store.records import Records, key

Emit = Callable[[str, Mapping[str, str]], None]
REHEARSAL = "rehearsed_"
"""In front of the kinds of records that no verdict may rest on."""
SANITIZER_S = 120.0
"""Seconds that each of compute-sanitizer's tools may take: it slows a kernel by ten to a hundred times."""
QUICK_PAIRS = 8
"""Pairs a workload in a rehearsal."""


@dataclass(eq=False, repr=False)
class Judge:
    """Measures candidates of one task on one device; owns no state but the records."""

    task: Task
    language: Language
    executor: Executor
    records: Records
    _: KW_ONLY
    environment: str
    device: str
    secret: bytes
    policy: JudgeSettings
    emit: Emit

    def __post_init__(self) -> None:
        hidden = self.policy.hidden_workloads if self.policy.inputs == "hardened" else 0
        self.hidden = checked_cases.draw_hidden_workloads(self.task, self.secret, hidden)
        self.builds = Builds(self.task, self.language, self.executor, self.records, self.environment)
        self.unanswered: dict[str, str] = {}
        """Candidates that the machine failed to measure for good in this process, and how."""
        self._rehearsed = False

    # ------------------------------------------------------------ the whole trial

    def judge(
        self,
        candidate: Candidate,
        incumbent: Candidate,
        baseline: Candidate,
        *,
        siblings: int,
        iteration: int,
        noise_floor: float = 0.0,
    ) -> Trial:
        """Judge one of `siblings` candidates against the incumbent; the frozen baseline widens the tolerance.

        A kernel's failure is the answer; a machine's is an InfrastructureError. Timing goes on while the decision is
        open, against the larger of `min_effect` and `noise_floor`. Where that is won and noise may be what puts a
        workload beyond its margin, all batches that are left are timed before it may be said to hold (that it surely
        does not ends them): to stop as soon as the estimate came back within the margin would let more of what is truly
        slower pass. Where batches stray by as much as the margin, some of it still does. `iteration` only labels the
        events: equal questions share their records.
        """
        self._say(candidate, "screen", iteration)
        refused = self.screened(candidate)
        if refused is not None:
            return refused
        self._say(candidate, "build", iteration)
        built = self.builds.build(candidate)
        failed = evidence.build_failure(built)
        if failed is None:
            self._say(candidate, "correctness", iteration)
            checked = self.correctness(candidate, baseline, "judge")
            failed = evidence.correctness_failure(checked, (built.id,))
        if failed is not None:
            return failed
        threshold = max(self.policy.min_effect, noise_floor)
        confidence = corrected(self.policy.confidence, self.policy.batches, siblings)
        timings: list[Record] = []
        only_margin_open = False
        for batch in range(self.policy.batches):
            self._say(candidate, "timing", iteration, batch, self.policy.batches)
            try:
                timings.append(self.timing(candidate, incumbent, baseline, batch))
            except BudgetError:
                if not only_margin_open:
                    raise
                # The gain is proven, and must not be lost with what was to be seen on top of it.
                break
            failed = evidence.timing_failure(timings[-1], (built.id, checked.id))
            if failed is not None:
                return failed
            if only_margin_open:
                if regression(self._limited(timings, confidence)) is not None:
                    break
                continue
            interval = evidence.speedup(timings, self.policy.objective, confidence)
            decision = compare_samples(
                interval, threshold, batch + 1, self.policy.batches, siblings, confidence=self.policy.confidence
            )
            only_margin_open = decision == "faster" and self._unsettled(timings, confidence)
            if decision != "more" and not only_margin_open:
                break
        return evidence.passed(built, checked, timings, self.policy.objective, confidence)

    def build_ahead(self, candidates: Collection[Candidate], iteration: int) -> None:
        """Compile side by side those that pass the screen, where one takes long to compile; what a compiler says is
        met in `judge`."""
        if not self.language.has_slow_builds or len(candidates) < 2:
            return
        fit = [candidate for candidate in candidates if self.screened(candidate) is None]
        for candidate in fit:
            self._say(candidate, "build", iteration)
        self.builds.build_all(fit)

    def through(self, executor: Executor) -> Judge:
        """The same judge, whose jobs go through another executor to the same device."""
        other = copy.copy(self)
        other.executor = executor
        other.builds = self.builds.through(executor)
        return other

    def rehearsal(self) -> Judge:
        """The same judge for whoever still writes a kernel: fewer cases, no hidden workload, other seeds, few pairs.

        Its records are of kinds of their own (`REHEARSAL`), from which no trial can be made; builds are shared.
        """
        policy = self.policy.model_copy(
            update={"hidden_workloads": 0, "pairs": QUICK_PAIRS, "warm_pairs": 0, "batches": 1}
        )
        secret = bytes.fromhex(checked_cases.secret_digest(self.secret, REHEARSAL))
        rehearsing = replace(self, secret=secret, policy=policy)
        rehearsing._rehearsed = True
        return rehearsing

    # ------------------------------------------------------------ single questions

    def screened(self, candidate: Candidate) -> Failed | Unmeasured | None:
        """Why `candidate` is not built at all; None where nothing stands against it."""
        for argument in self.task.arguments:
            unsupported = self.language.reason_unsupported(argument.dtype)
            if unsupported:
                return Unmeasured(
                    candidate=candidate.id, reason=f"`{argument.name}` is {argument.dtype}, but {unsupported}."
                )
        files, task = candidate.files, self.task
        refused = [
            s
            for text in files.values()
            for s in screen(text, self.language.name, files, task.tensors, task.library or ())
        ]
        return (
            Failed(candidate=candidate.id, stage="screen", reason=refused[0], log="\n".join(refused))
            if refused
            else None
        )

    def correctness(self, candidate: Candidate, baseline: Candidate | None, purpose: str, attempt: int = 0) -> Record:
        """Check `candidate` on every case of `tools.contracts.checked_cases`. Payload: `evidence.Correctness`.

        The dims of hidden workloads are blanked there (an HMAC names them); only the request holds them, and no record
        names it.
        """
        asked = {
            "purpose": purpose,
            "attempt": attempt,
            "workloads": self._workloads(),
            "hidden": self._hidden_digests(),
            "settings": self.policy.fields_of(CorrectnessRequest),
        }
        contestants = {"candidate": candidate} | ({"baseline": baseline} if baseline else {})

        def request(libraries: Mapping[str, str]) -> CorrectnessRequest:
            def seed(case: str) -> int:
                return checked_cases.draw_seed(self.secret, "correctness", candidate.id, purpose, attempt, case)

            rounds = 1 if self._rehearsed else checked_cases.DISTRIBUTION_REPEATS
            hardened = baseline is not None and self.policy.inputs == "hardened"
            chosen = checked_cases.cases_to_check(
                self.task, self.hidden, seed, against_baseline=hardened, repeats=rounds
            )
            return CorrectnessRequest(
                task=self.task,
                libraries=dict(libraries),  # type: ignore[arg-type]
                cases=chosen,
                **self.policy.fields_of(CorrectnessRequest),
                device=self.language.device,
            )

        def payload(request: CorrectnessRequest, result: CorrectnessResult) -> Artifact:
            evidence.check_correctness(request, result)
            return evidence.Correctness(
                candidate=candidate.id,
                baseline=baseline.id if baseline else None,
                purpose=purpose,
                attempt=attempt,
                cases=evidence.blanked(result.cases),
                hidden=self._hidden_digests(),
            )

        return self._ask("correctness", asked, contestants, request, CorrectnessResult, payload)

    def timing(
        self, candidate: Candidate, incumbent: Candidate, baseline: Candidate | None, batch: int = 0, attempt: int = 0
    ) -> Record:
        """Paired timing of the visible workloads in one process. Payload: `evidence.Timing`."""
        contestants = {"incumbent": incumbent, "candidate": candidate} | ({"baseline": baseline} if baseline else {})
        return self._paired("timing", contestants, batch, attempt, self.policy.pairs, self.policy.warm_pairs)

    def needed(self, trial: Passed, names: Collection[str]) -> Record:
        """What the outputs of the workloads `names` depend on with the very inputs that `trial` was timed on.
        Payload: `NeededResult`."""

        def request(libraries: Mapping[str, str]) -> NeededRequest:
            cited = [self.records.get(identity) for identity in trial.records]
            timings = [evidence.Timing.model_validate(record.payload) for record in cited if record.kind == "timing"]
            seeds = [("timing", t.candidate, t.incumbent, t.batch, t.attempt) for t in timings]
            timed = tuple(w for named in seeds for w in self._timed(named, 1, 0) if w.name in names)
            return NeededRequest(task=self.task, workloads=timed, device=self.language.device)

        return self._ask(
            "needed",
            {"trial": trial.records, "workloads": sorted(names)},
            {},
            request,
            NeededResult,
            lambda _, found: found,
        )

    def calibrate(self, incumbent: Candidate, attempt: int = 0) -> Record:
        """A/A: the incumbent against a copy of itself, for `evidence.noise_floor` and `evidence.seconds`. Payload:
        `evidence.Timing`.

        An equal question is not measured twice: the record that answers it already is returned, unless `attempt` is
        another.
        """
        contestants = {"incumbent": incumbent, "candidate": incumbent}
        pairs = max(self.policy.calibration_pairs, self._least())
        return self._paired("calibration", contestants, 0, attempt, pairs, 0)

    def confirm(self, candidate: Candidate, incumbent: Candidate, attempt: int = 0) -> Record:
        """The two kernels in processes of their own, clocked from outside. Payload: `confirmation.Contest`."""
        rounds = max(self.policy.confirm_rounds, self.policy.least_confirm_rounds(len(self.task.workloads)))
        return self._contest("confirmation", {"incumbent": incumbent, "candidate": candidate}, (), rounds, attempt)

    def confirmations(self, candidate: Candidate, incumbent: Candidate, *, iteration: int = 0) -> tuple[Record, ...]:
        """The confirmations of one candidate, for `confirmation.confirmation`: another while noise or others hide
        the gain, as in timing."""
        made: list[Record] = []
        while len(made) < confirmation.CONFIRMATIONS:
            self._say(candidate, "confirmation", iteration, len(made), confirmation.CONFIRMATIONS)
            made.append(self.confirm(candidate, incumbent, attempt=len(made)))
            if confirmation.problem(made[-1]) is not None:
                break
            found = confirmation.confirmation(made, self.policy.objective, self.policy.confidence)
            if not confirmation.unsettled(found, self.policy.min_effect, company=confirmation.disturbed(made)):
                break
        return tuple(made)

    def sanitize(self, candidate: Candidate) -> Record | None:
        """One call of `candidate` under compute-sanitizer, on the smallest workload. Payload:
        `sanitizers.Sanitized`; None on a CPU."""
        if self.language.device != "cuda":
            return None
        name = key(
            "sanitizers", task=self.task.identity(), device=self.device, protocol=PROTOCOL, candidate=candidate.id
        )
        found = self.records.find(name)
        if found is not None:
            return found
        blobs, workload, built = (
            self.records.blobs,
            checked_cases.smallest_workload(self.task),
            self.builds.build(candidate),
        )
        arguments = [a.model_dump(mode="json", include={"name", "dtype"}) for a in self.task.arguments]
        limit = self.policy.job_limit_s
        launch = {"dims": workload.dims, "seed": 0, "arguments": arguments, "limit_s": min(SANITIZER_S, limit / 2)}
        launch["precision"] = self.task.numeric.precision
        files = {"reference.py": blobs.put(self.task.reference), "launch.json": blobs.put(json.dumps(launch))}
        job = Job(
            files={**harness_files(blobs), **files, self.language.build_output: self.builds.library(candidate) or ""},
            argv=("{python}", "harness/device/sanitizer_target.py"),
            limits=Limits(wall_s=limit),
            needs=Needs(device=self.language.device),
            results=("sanitizers.json",),
        )
        left = self.executor.run(job).files
        told = json.loads(blobs.text(left["sanitizers.json"])) if "sanitizers.json" in left else None
        told = told or {
            "missing": f"it left no answer: {blobs.text(left['stderr.txt']).strip()[-200:]}",
            "seconds": 0.0,
        }
        payload = sanitizers.read(told, candidate.id, workload.name).model_dump(mode="json")
        return self.records.add(
            Record(
                kind="sanitizers",
                key=name,
                parents=(built.id,),
                environment=self.environment,
                device=self.device,
                protocol=PROTOCOL,
                payload=payload,
            )
        )

    def benchmark(
        self,
        contestants: Mapping[str, Candidate],
        frameworks: tuple[str, ...] = ("eager", "compile"),
        rounds: int | None = None,
        attempt: int = 0,
    ) -> Record:
        """The final comparison, e.g. {"baseline": …, "best": …} with torch eager and torch.compile. Payload:
        `confirmation.Contest`.

        On a GPU torch.compile also runs with its longest search, max-autotune. The task's rivals run beside any of
        these.

        `rounds` is for a quick look at medians: fewer than the policy's may leave the interval without ends.
        """
        rounds = rounds or max(self.policy.benchmark_rounds, self._least())
        return self._contest("benchmark", contestants, self._all(frameworks), rounds, attempt)

    def prepare(self, frameworks: tuple[str, ...], dims: Sequence[Dims]) -> None:
        """Have torch's contestants of `benchmark` started, and compiled at `dims` where that needs no device; they rest
        while kernels are timed. Nothing is recorded: without it the benchmark starts them itself. HarnessError when the
        harness failed.
        """
        device = pick(self.executor.devices(), self.language.device)
        request = PrepareRequest(
            task=self.task,
            frameworks=self._all(frameworks),
            dims=tuple(dims),
            device=device.kind,
            capability=int(device.architecture.removeprefix("sm_")) if device.kind == "cuda" else 0,
        )
        limits = Limits(wall_s=self.policy.job_limit_s)
        job = harness_job(request, {}, self.records.blobs, needs=Needs(device=self.language.device), limits=limits)
        answer(self.executor.run(job), self.records.blobs, PrepareResult)

    # ------------------------------------------------------------ inside

    def _all(self, frameworks: tuple[str, ...]) -> tuple[str, ...]:
        """`frameworks`, with torch.compile's longest search where that differs, and the task's rivals."""
        longest = ("max_autotune",) if "compile" in frameworks and self.language.device != "cpu" else ()
        rivals = self.task.rivals.names if frameworks and self.task.rivals else ()
        return (*frameworks, *longest, *rivals)

    def _unsettled(self, timings: Sequence[Record], confidence: float) -> bool:
        """Whether it takes more pairs to tell if every workload keeps its margin."""
        limited = self._limited(timings, confidence)
        return regression(limited) is None and possible_regression(limited) is not None

    def _limited(self, timings: Sequence[Record], confidence: float) -> tuple[Limited, ...]:
        measured = evidence.measurements(timings, {}, confidence)
        return with_margins(measured, self.task.margins, self.policy.workload_margin)

    def _paired(
        self, kind: str, contestants: Mapping[str, Candidate], batch: int, attempt: int, pairs: int, warm_pairs: int
    ) -> Record:
        candidate, incumbent = contestants["candidate"].id, contestants["incumbent"].id
        asked = {
            "batch": batch,
            "attempt": attempt,
            "pairs": pairs,
            "warm_pairs": warm_pairs,
            "workloads": self._workloads(),
            "settings": self.policy.fields_of(TimingRequest),
        }
        named = (kind, candidate, incumbent, batch, attempt)

        def request(libraries: Mapping[str, str]) -> TimingRequest:
            return TimingRequest(
                task=self.task,
                libraries=dict(libraries),  # type: ignore[arg-type]
                workloads=self._timed(named, pairs, warm_pairs),
                order_seed=checked_cases.draw_seed(self.secret, *named, "order"),
                **self.policy.fields_of(TimingRequest),
                device=self.language.device,
            )

        def payload(request: TimingRequest, result: TimingResult) -> Artifact:
            evidence.check_timing(request, result)
            return evidence.Timing(
                candidate=candidate,
                incumbent=incumbent,
                batch=batch,
                attempt=attempt,
                weights=self._weights(),
                result=result,
            )

        return self._ask(kind, asked, contestants, request, TimingResult, payload, exclusive=True)

    def _contest(
        self, kind: str, kernels: Mapping[str, Candidate], frameworks: tuple[str, ...], rounds: int, attempt: int
    ) -> Record:
        asked = {"attempt": attempt, "rounds": rounds, "frameworks": frameworks, "workloads": self._workloads()}
        named = (kind, *(c.id for c in kernels.values()), attempt)

        def request(libraries: Mapping[str, str]) -> ContestRequest:
            contestants = [Contestant(name=name, kind="library", library=libraries[name]) for name in kernels]
            contestants += [Contestant(name=name, kind=name if name in FRAMEWORKS else "rival") for name in frameworks]  # type: ignore[arg-type]
            return ContestRequest(
                task=self.task,
                contestants=tuple(contestants),
                workloads=self._timed(named, rounds, 0),
                order_seed=checked_cases.draw_seed(self.secret, *named, "order"),
                device=self.language.device,
            )

        def payload(request: ContestRequest, result: ContestResult) -> Artifact:
            evidence.check_contest(request, result)
            ids = {name: candidate.id for name, candidate in kernels.items()}
            return confirmation.Contest(candidates=ids, attempt=attempt, weights=self._weights(), result=result)

        return self._ask(kind, asked, kernels, request, ContestResult, payload, exclusive=True)

    def _ask(
        self,
        kind: str,
        asked: Mapping[str, object],
        contestants: Mapping[str, Candidate],
        request: Callable[[Mapping[str, str]], Question],
        answer_type: type[Answer],
        payload: Callable[..., Artifact],
        *,
        exclusive: bool = False,
    ) -> Record:
        """The record that answers, or the job that makes it; its parents are the builds of the contestants."""
        ids = {name: candidate.id for name, candidate in contestants.items()}
        kind = REHEARSAL + kind if self._rehearsed else kind
        name = key(kind, task=self.task.identity(), device=self.device, protocol=PROTOCOL, candidates=ids, **asked)
        found = self.records.find(name)
        if found is not None:
            return found
        libraries, files = self.builds.libraries(contestants)
        put = request(libraries)
        needs = Needs(device=self.language.device, exclusive=exclusive)
        job = harness_job(put, files, self.records.blobs, needs=needs, limits=Limits(wall_s=self.policy.job_limit_s))
        result = answer(self.executor.run(job), self.records.blobs, answer_type)
        return self.records.add(
            Record(
                kind=kind,
                key=name,
                parents=tuple(dict.fromkeys(self.builds.build(c).id for c in contestants.values())),
                environment=self.environment,
                device=self.device,
                protocol=PROTOCOL,
                payload=payload(put, result).model_dump(mode="json"),
            )
        )

    def _timed(self, named: tuple[object, ...], pairs: int, warm_pairs: int) -> tuple[TimedWorkload, ...]:
        return tuple(
            TimedWorkload(
                name=w.name,
                dims=w.dims,
                weight=w.weight,
                seed=checked_cases.draw_seed(self.secret, *named, w.name),
                pairs=pairs,
                warm_pairs=warm_pairs,
            )
            for w in self.task.workloads
        )

    def _least(self) -> int:
        return self.policy.least_rounds(len(self.task.workloads))

    def _workloads(self) -> tuple[str, ...]:
        return tuple(w.name for w in self.task.workloads)

    def _weights(self) -> dict[str, float]:
        return {w.name: w.weight for w in self.task.workloads}

    def _hidden_digests(self) -> dict[str, str]:
        return {
            name: checked_cases.secret_digest(self.secret, *(sorted(dims.items()) for dims in asked))[:16]
            for name, asked in self.hidden
        }

    def _say(self, candidate: Candidate, stage: str, iteration: int, batch: int = 0, batches: int = 1) -> None:
        """`batch`, from 0, of `batches` at most."""
        counted = {"batch": str(batch + 1), "batches": str(batches)} if batches > 1 else {}
        self.emit("judge", {"candidate": candidate.id, "stage": stage, "iteration": str(iteration), **counted})
