"""Turns a candidate into a trial: screen, build, correctness, timing, the cheapest stage first (design 6).

The judge sends requests to the harness beside the device, and each answer becomes one record under a key that names the
request. Every method called `read_or_…` returns the record where it exists and measures nothing: so a killed run
resumes. The pure functions of `tools.judge.evidence` compute what records amount to, so that the gate and `verify`
reach the same answer from the records alone.

An output element's error is `|out - ref64| / (|ref64| + rms of its output row)`; it must not exceed
`max(8 units in the last place, 2 x torch's error, 2 x the frozen baseline's error)` at the shapes that are timed, with
the floor of the dtype in place of the units at hidden sizes, and never the dtype's cap.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from tools.artifacts import Artifact, BaselineFunction, Candidate, Dims, Failed, Passed, Record, Task, Trial, Unmeasured
from tools.contracts import checked_cases
from tools.errors import BudgetError
from tools.executors.base import DeviceKind, Executor, Job, Limits, Needs, pick_device
from tools.executors.harness_job import Answer, harness_files, harness_job, read_answer
from tools.executors.protocol import (
    PROTOCOL,
    Contestant,
    ContestRequest,
    ContestResult,
    CorrectnessRequest,
    CorrectnessResult,
    HarnessRequest,
    NeededBytesRequest,
    NeededBytesResult,
    PrepareRequest,
    PrepareResult,
    TimedWorkload,
    TimingRequest,
    TimingResult,
)
from tools.executors.toolchain_job import read_toolchain
from tools.gate import confirmation, sanitizers
from tools.gate.judge_settings import (
    JudgeSettings,
    MeasuredWithMargin,
    first_possible_regression,
    first_regression,
    with_margins,
)
from tools.gate.ranking import FRAMEWORKS, USER_FUNCTION
from tools.gate.statistics import compare_samples, competing_candidates, pairs_of_batch
from tools.judge import evidence
from tools.judge.build import KernelBuilder
from tools.languages.base import Language
from tools.screen.screen import screen
from tools.store.records import Records, record_key

Emit = Callable[[str, Mapping[str, str]], None]
REHEARSAL_PREFIX = "rehearsed_"
"""Prefix of the kinds of records that no verdict may rest on."""
SHOWN_GRAPH_ROUNDS = 5
"""Rounds of replayed CUDA graphs in a benchmark of a task with another clock."""
SANITIZER_LIMIT_S = 120.0
"""Seconds that each tool of compute-sanitizer may take; it slows a kernel by a factor of ten to a hundred."""
REHEARSAL_PAIRS = 8
"""Pairs for each workload in a rehearsal."""


@dataclass(eq=False, repr=False)
class Judge:
    """Measures candidates of one task on one device; its only state is the records."""

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
        self.draw_hidden(self.secret)
        self.builder = KernelBuilder(self.task, self.language, self.executor, self.records, self.environment)
        self.reason_unmeasured: dict[str, str] = {}
        """Candidate id -> why the machine could not measure it in this process, after all retries."""
        self._is_rehearsal = False

    def draw_hidden(self, secret: bytes) -> None:
        """Draw hidden workloads and seeds from `secret` from now on."""
        self.secret = secret
        hidden = self.policy.hidden_workloads if self.policy.inputs == "hardened" else 0
        self.hidden = checked_cases.draw_hidden_workloads(self.task, secret, hidden)

    # ------------------------------------------------------------ the whole trial

    def judge(
        self,
        candidate: Candidate,
        incumbent: Candidate,
        baseline: Candidate,
        *,
        siblings: int,
        iteration: int,
        earlier: int = 0,
        noise_floor: float = 0.0,
    ) -> Trial:
        """Judge one of `siblings` candidates against the incumbent, after `earlier` ones since the last accept; the
        frozen baseline widens the tolerance.

        A failure of the kernel is the returned trial; a failure of the machine is an InfrastructureError. Batches are
        timed while the decision is open, against the larger of `min_effect` and `noise_floor`. Where the gain is shown
        but noise may be what puts a workload beyond its margin, all remaining batches are timed, unless one shows that
        the workload surely is beyond it: to stop as soon as the estimate is back within the margin would accept more
        workloads that are truly slower. `iteration` only labels the events.
        """
        self._report_stage(candidate, "screen", iteration)
        refused = self.screen_failure(candidate)
        if refused is not None:
            return refused
        self._report_stage(candidate, "build", iteration)
        built = self.builder.read_or_build(candidate)
        failed = evidence.build_failure(built)
        if failed is None:
            self._report_stage(candidate, "correctness", iteration)
            checked = self.read_or_check_correctness(candidate, baseline, "judge")
            failed = evidence.correctness_failure(checked, (built.id,))
        if failed is not None:
            return failed
        threshold = max(self.policy.min_effect, noise_floor)
        candidates, looks = competing_candidates(siblings, earlier), self.policy.batches
        first = self.policy.first_pairs(candidates, len(self.task.workloads))
        timings: list[Record] = []
        only_margin_open = needs_new_inputs = False
        for batch in range(looks):
            self._report_stage(candidate, "timing", iteration, batch, looks)
            pairs = pairs_of_batch(first, batch)
            try:
                timings.append(
                    self.read_or_measure_timing(
                        candidate, incumbent, baseline, batch, pairs=pairs, new_inputs=needs_new_inputs
                    )
                )
            except BudgetError:
                if not only_margin_open:
                    raise
                # The gain is shown already; the budget ends only the check of the margin.
                break
            failed = evidence.timing_failure(timings[-1], (built.id, checked.id))
            if failed is not None:
                return failed
            if not needs_new_inputs and evidence.gain_needs_seen_inputs(timings) and batch + 1 < looks:
                needs_new_inputs, only_margin_open = True, False
                continue
            confidence = self.policy.confidence_of_look(batch + 1, candidates)
            if only_margin_open:
                if first_regression(self._with_margins(timings, confidence)) is not None:
                    break
                continue
            interval = evidence.speedup(timings, self.policy.objective, confidence)
            decision = compare_samples(
                interval, threshold, batch + 1, looks, candidates, confidence=self.policy.confidence
            )
            only_margin_open = decision == "faster" and self._margin_is_open(timings, confidence)
            if decision != "more" and not only_margin_open:
                break
        return evidence.passed_trial(built, checked, timings, self.policy.objective, confidence)

    def requests_of_trials(
        self,
        candidates: Iterable[Candidate],
        incumbent: Candidate,
        baseline: Candidate,
        *,
        siblings: int = 1,
        earlier: int = 0,
    ) -> Iterator[Callable[[], object]]:
        """Yield all measurements that judging and confirming `candidates` may need, for `Executor.gather`."""
        first = self.policy.first_pairs(competing_candidates(siblings, earlier), len(self.task.workloads))
        for candidate in candidates:
            if self.screen_failure(candidate) is not None:
                continue
            yield partial(self.builder.read_or_build, candidate)
            yield partial(self.read_or_check_correctness, candidate, baseline, "judge")
            for batch in range(self.policy.batches):
                pairs = pairs_of_batch(first, batch)
                yield partial(self.read_or_measure_timing, candidate, incumbent, baseline, batch, pairs=pairs)
            yield partial(self.read_or_measure_calibration, candidate)
            yield partial(self.read_or_measure_confirmation, candidate, incumbent)
            yield partial(self.read_or_run_sanitizers, candidate)

    def build_in_parallel(self, candidates: Collection[Candidate], iteration: int) -> None:
        """Compile the candidates that pass the screen at the same time, where the language compiles slowly; `judge`
        reports their compile errors later."""
        if not self.language.has_slow_builds or len(candidates) < 2:
            return
        passed = [candidate for candidate in candidates if self.screen_failure(candidate) is None]
        for candidate in passed:
            self._report_stage(candidate, "build", iteration)
        self.executor.gather(partial(self.builder.read_or_build, candidate) for candidate in passed)
        self.builder.build_in_parallel(passed)

    def with_executor(self, executor: Executor) -> Judge:
        """A copy that sends its jobs through `executor`, which must reach the same device."""
        other = copy.copy(self)
        other.executor = executor
        other.builder = self.builder.with_executor(executor)
        return other

    def rehearsal_judge(self) -> Judge:
        """A judge for the author of an unfinished kernel: fewer cases, no hidden workload, other seeds, few pairs.

        Its records have kinds of their own (`REHEARSAL_PREFIX`), from which no trial can be made; it shares the builds.
        """
        policy = self.policy.model_copy(
            update={"hidden_workloads": 0, "pairs": REHEARSAL_PAIRS, "warm_pairs": 0, "batches": 1}
        )
        secret = bytes.fromhex(checked_cases.secret_digest(self.secret, REHEARSAL_PREFIX))
        rehearsing = replace(self, secret=secret, policy=policy)
        rehearsing._is_rehearsal = True
        return rehearsing

    # ------------------------------------------------------------ single measurements

    def screen_failure(self, candidate: Candidate) -> Failed | Unmeasured | None:
        """The trial of a candidate that must not be built: the screen refuses its source, or the language lacks a
        dtype; None where neither holds."""
        toolchain = read_toolchain(self.executor, self.records.blobs)
        for argument in self.task.arguments:
            unsupported = self.language.reason_unsupported(argument.dtype, toolchain)
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

    def read_or_check_correctness(
        self, candidate: Candidate, baseline: Candidate | None, purpose: str, attempt: int = 0
    ) -> Record:
        """The record of `candidate` checked on every case of `tools.contracts.checked_cases`. Payload:
        `evidence.Correctness`, in which an HMAC stands for the dims of each hidden workload; only the request holds
        these dims, and no record names it.
        """
        key_fields = {
            "purpose": purpose,
            "attempt": attempt,
            "workloads": self._workload_names(),
            "hidden": self._hidden_digests(),
            "settings": self.policy.fields_of(CorrectnessRequest),
        }
        contestants = {"candidate": candidate} | ({"baseline": baseline} if baseline else {})

        def request(libraries: Mapping[str, str]) -> CorrectnessRequest:
            def seed(case: str) -> int:
                return checked_cases.draw_seed(self.secret, "correctness", candidate.id, purpose, attempt, case)

            rounds = 1 if self._is_rehearsal else checked_cases.DISTRIBUTION_REPEATS
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
                cases=evidence.redact_hidden_cases(result.cases),
                hidden=self._hidden_digests(),
            )

        return self._read_or_measure("correctness", key_fields, contestants, request, CorrectnessResult, payload)

    def read_or_measure_timing(
        self,
        candidate: Candidate,
        incumbent: Candidate,
        baseline: Candidate | None,
        batch: int = 0,
        attempt: int = 0,
        *,
        pairs: int | None = None,
        new_inputs: bool = False,
    ) -> Record:
        """The record of one batch of paired timing of the visible workloads in one process: `pairs`, or as many as the
        settings say, with `new_inputs` in all of them or in a share. Warm pairs are part of the first batch. Payload:
        `evidence.Timing`."""
        contestants = {"incumbent": incumbent, "candidate": candidate} | ({"baseline": baseline} if baseline else {})
        warm, wanted = self.policy.warm_pairs if batch == 0 else 0, pairs or self.policy.pairs
        return self._read_or_time_pairs("timing", contestants, batch, attempt, wanted, warm, new_inputs=new_inputs)

    def read_or_count_needed_bytes(self, trial: Passed, names: Collection[str]) -> Record:
        """The record of the bytes that the outputs of the workloads `names` depend on, for exactly the inputs that
        `trial` was timed on. Payload: `NeededBytesResult`."""

        def request(libraries: Mapping[str, str]) -> NeededBytesRequest:
            cited = [self.records.get(identity) for identity in trial.records]
            timings = [evidence.Timing.model_validate(record.payload) for record in cited if record.kind == "timing"]
            seeds = [("timing", t.candidate, t.incumbent, t.batch, t.attempt) for t in timings]
            timed = tuple(w for seed in seeds for w in self._timed_workloads(seed, 1, 0) if w.name in names)
            return NeededBytesRequest(task=self.task, workloads=timed, device=self.language.device)

        return self._read_or_measure(
            "needed",
            {"trial": trial.records, "workloads": sorted(names)},
            {},
            request,
            NeededBytesResult,
            lambda _, result: result,
        )

    def read_or_measure_calibration(self, incumbent: Candidate, attempt: int = 0) -> Record:
        """The record of an A/A timing, the incumbent against a copy of itself, for `evidence.noise_floor` and
        `evidence.incumbent_seconds`; another `attempt` is another record. Payload: `evidence.Timing`."""
        contestants = {"incumbent": incumbent, "candidate": incumbent}
        pairs = max(self.policy.calibration_pairs, self._least_rounds())
        return self._read_or_time_pairs("calibration", contestants, 0, attempt, pairs, 0)

    def read_or_measure_confirmation(self, candidate: Candidate, incumbent: Candidate, attempt: int = 0) -> Record:
        """The record of a contest of the two kernels in separate processes, clocked from outside. Payload:
        `confirmation.Contest`."""
        rounds = max(self.policy.confirm_rounds, self.policy.least_confirm_rounds(len(self.task.workloads)))
        return self._read_or_run_contest(
            "confirmation", {"incumbent": incumbent, "candidate": candidate}, (), rounds, attempt
        )

    def confirm_until_settled(
        self, candidate: Candidate, incumbent: Candidate, *, iteration: int = 0
    ) -> tuple[Record, ...]:
        """The confirmation records of one candidate, for `confirmation.confirmed_speedup`: a second contest where noise
        or other processes may hide the gain."""
        contests: list[Record] = []
        while len(contests) < confirmation.MAX_CONFIRMATIONS:
            self._report_stage(candidate, "confirmation", iteration, len(contests), confirmation.MAX_CONFIRMATIONS)
            contests.append(self.read_or_measure_confirmation(candidate, incumbent, attempt=len(contests)))
            if confirmation.contest_problem(contests[-1]) is not None:
                break
            speedup = confirmation.confirmed_speedup(contests, self.policy.objective, self.policy.confidence)
            disturbed = confirmation.any_disturbed(contests)
            if not confirmation.needs_another_contest(speedup, self.policy.min_effect, disturbed=disturbed):
                break
        return tuple(contests)

    def read_or_run_sanitizers(self, candidate: Candidate) -> Record | None:
        """The record of one call of `candidate` under compute-sanitizer, on the smallest workload; None on a CPU.
        Payload: `sanitizers.SanitizerReport`."""
        if self.language.device != "cuda":
            return None
        key = record_key(
            "sanitizers", task=self.task.identity(), device=self.device, protocol=PROTOCOL, candidate=candidate.id
        )
        return self.records.once(key, lambda: self._run_sanitizers(candidate, key))

    def _run_sanitizers(self, candidate: Candidate, key: str) -> Record:
        blobs, workload, built = (
            self.records.blobs,
            checked_cases.smallest_workload(self.task),
            self.builder.read_or_build(candidate),
        )
        arguments = [a.model_dump(mode="json", include={"name", "dtype", "role"}) for a in self.task.arguments]
        limit = self.policy.job_limit_s
        launch = {
            "dims": workload.dims,
            "seed": 0,
            "arguments": arguments,
            "limit_s": min(SANITIZER_LIMIT_S, limit / 2),
        }
        launch["precision"] = self.task.numeric.precision
        files = {"reference.py": blobs.put(self.task.reference), "launch.json": blobs.put(json.dumps(launch))}
        job = Job(
            files={
                **harness_files(blobs),
                **files,
                self.language.build_output: self.builder.shared_object_of(candidate) or "",
            },
            argv=("{python}", "harness/device/sanitizer_target.py"),
            limits=Limits(wall_s=limit),
            needs=Needs(device=self.language.device),
            results=("sanitizers.json",),
        )
        results = self.executor.run(job).files
        sanitizer_output = json.loads(blobs.text(results["sanitizers.json"])) if "sanitizers.json" in results else None
        sanitizer_output = sanitizer_output or {
            "missing": f"the job left no answer: {blobs.text(results['stderr.txt']).strip()[-200:]}",
            "seconds": 0.0,
        }
        payload = sanitizers.parse_answer(sanitizer_output, candidate.id, workload.name).model_dump(mode="json")
        return Record(
            kind="sanitizers",
            key=key,
            parents=(built.id,),
            environment=self.environment,
            device=self.device,
            protocol=PROTOCOL,
            payload=payload,
        )

    def read_or_measure_benchmark(
        self,
        contestants: Mapping[str, Candidate],
        frameworks: tuple[str, ...] = ("eager", "compile"),
        rounds: int | None = None,
        attempt: int = 0,
    ) -> Record:
        """The record of the final comparison, e.g. {"baseline": …, "best": …} with torch eager and torch.compile.
        Payload: `confirmation.Contest`.

        On a GPU torch.compile also runs with its longest search, max-autotune. The task's rivals take part wherever a
        framework does, and the task's own function always does. Fewer `rounds` than the judge's settings demand may
        leave the interval without ends.
        """
        rounds = rounds or max(self.policy.benchmark_rounds, self._least_rounds())
        return self._read_or_run_contest("benchmark", contestants, self._all_contestants(frameworks), rounds, attempt)

    def read_or_check_user_function(self, device: DeviceKind) -> Record:
        """The record of a contest of the task's own function alone, on a device of this kind: a few rounds."""
        return self._read_or_run_contest("user_function", {}, (USER_FUNCTION,), 3, 0, device=device)

    def start_torch_contestants(self, frameworks: tuple[str, ...], dims: Sequence[Dims]) -> None:
        """Start torch's contestants of the benchmark ahead of time and compile them at `dims` where that needs no
        device; they are idle while kernels are timed. No record is made, and the benchmark starts them itself where
        this was not called. HarnessError when the harness fails.
        """
        device = pick_device(self.executor.devices(), self.language.device)
        request = PrepareRequest(
            task=self.task,
            frameworks=self._all_contestants(frameworks),
            dims=tuple(dims),
            device=device.kind,
            capability=int(device.architecture.removeprefix("sm_")) if device.kind == "cuda" else 0,
        )
        limits = Limits(wall_s=self.policy.job_limit_s)
        job = harness_job(request, {}, self.records.blobs, needs=Needs(device=self.language.device), limits=limits)
        read_answer(self.executor.run(job), self.records.blobs, PrepareResult)

    # ------------------------------------------------------------ inside

    def _all_contestants(self, frameworks: tuple[str, ...]) -> tuple[str, ...]:
        """`frameworks`, with torch.compile's longest search where that differs, the task's rivals and its own function,
        beside which eager always runs."""
        longest = ("max_autotune",) if "compile" in frameworks and self.language.device != "cpu" else ()
        rivals = self.task.rivals.names if frameworks and self.task.rivals else ()
        own = ("eager", USER_FUNCTION) if self.task.baseline_function else ()
        return tuple(dict.fromkeys((*frameworks, *longest, *rivals, *own)))

    def _margin_is_open(self, timings: Sequence[Record], confidence: float) -> bool:
        """Whether more pairs are needed to tell if every workload keeps its margin."""
        limited = self._with_margins(timings, confidence)
        return first_regression(limited) is None and first_possible_regression(limited) is not None

    def _with_margins(self, timings: Sequence[Record], confidence: float) -> tuple[MeasuredWithMargin, ...]:
        measured = evidence.measurements(timings, {}, confidence)
        return with_margins(measured, self.task.margins, self.policy.workload_margin)

    def _read_or_time_pairs(
        self,
        kind: str,
        contestants: Mapping[str, Candidate],
        batch: int,
        attempt: int,
        pairs: int,
        warm_pairs: int,
        *,
        new_inputs: bool = False,
    ) -> Record:
        candidate, incumbent = contestants["candidate"].id, contestants["incumbent"].id
        key_fields = {
            "batch": batch,
            "attempt": attempt,
            "pairs": pairs,
            "warm_pairs": warm_pairs,
            "new_inputs": new_inputs,
            "workloads": self._workload_names(),
            "settings": self.policy.fields_of(TimingRequest),
        }
        seed_parts = (kind, candidate, incumbent, batch, attempt)

        def request(libraries: Mapping[str, str]) -> TimingRequest:
            return TimingRequest(
                task=self.task,
                libraries=dict(libraries),  # type: ignore[arg-type]
                workloads=self._timed_workloads(seed_parts, pairs, warm_pairs),
                order_seed=checked_cases.draw_seed(self.secret, *seed_parts, "order"),
                **self.policy.fields_of(TimingRequest),
                new_inputs=new_inputs,
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
                new_inputs=new_inputs,
                result=result,
            )

        return self._read_or_measure(kind, key_fields, contestants, request, TimingResult, payload, exclusive=True)

    def _read_or_run_contest(
        self,
        kind: str,
        kernels: Mapping[str, Candidate],
        frameworks: tuple[str, ...],
        rounds: int,
        attempt: int,
        device: DeviceKind | None = None,
    ) -> Record:
        device = device or self.language.device
        functions = {USER_FUNCTION: self.task.baseline_function}
        key_fields = {
            "attempt": attempt,
            "rounds": rounds,
            "frameworks": frameworks,
            "workloads": self._workload_names(),
        }
        graph_rounds = rounds if self.task.clock in ("device", "graph") else SHOWN_GRAPH_ROUNDS * (kind == "benchmark")
        if graph_rounds := graph_rounds * (device == "cuda"):
            key_fields["graph_rounds"] = graph_rounds
        seed_parts = (kind, *(c.id for c in kernels.values()), attempt)

        def request(libraries: Mapping[str, str]) -> ContestRequest:
            contestants = [Contestant(name=name, kind="library", library=libraries[name]) for name in kernels]
            contestants += [_contestant(name, functions.get(name)) for name in frameworks]
            return ContestRequest(
                task=self.task,
                contestants=tuple(contestants),
                workloads=self._timed_workloads(seed_parts, rounds, 0),
                order_seed=checked_cases.draw_seed(self.secret, *seed_parts, "order"),
                graph_rounds=graph_rounds,
                device=device,
            )

        def payload(request: ContestRequest, result: ContestResult) -> Artifact:
            evidence.check_contest(request, result)
            ids = {name: candidate.id for name, candidate in kernels.items()}
            return confirmation.Contest(
                candidates=ids, attempt=attempt, weights=self._weights(), clock=self.task.clock, result=result
            )

        return self._read_or_measure(
            kind,
            key_fields,
            kernels,
            request,
            ContestResult,
            payload,
            exclusive=device == self.language.device,
            device=device,
        )

    def _read_or_measure(
        self,
        kind: str,
        key_fields: Mapping[str, object],
        contestants: Mapping[str, Candidate],
        request: Callable[[Mapping[str, str]], HarnessRequest],
        answer_type: type[Answer],
        payload: Callable[..., Artifact],
        *,
        exclusive: bool = False,
        device: DeviceKind | None = None,
    ) -> Record:
        """The record of `kind` for `contestants` and `key_fields`. Where there is none, the job that `request`
        describes is run, and `payload` turns its result into the record, whose parents are the contestants' builds."""
        ids = {name: candidate.id for name, candidate in contestants.items()}
        kind = REHEARSAL_PREFIX + kind if self._is_rehearsal else kind
        key = record_key(
            kind, task=self.task.identity(), device=self.device, protocol=PROTOCOL, candidates=ids, **key_fields
        )

        def measure() -> Record:
            libraries, files = self.builder.shared_objects_for_job(contestants)
            sent = request(libraries)
            needs = Needs(device=device or self.language.device, exclusive=exclusive)
            limits = Limits(wall_s=self.policy.job_limit_s)
            job = harness_job(sent, files, self.records.blobs, needs=needs, limits=limits)
            result = read_answer(self.executor.run(job), self.records.blobs, answer_type)
            return Record(
                kind=kind,
                key=key,
                parents=tuple(dict.fromkeys(self.builder.read_or_build(c).id for c in contestants.values())),
                environment=self.environment,
                device=self.device,
                protocol=PROTOCOL,
                payload=payload(sent, result).model_dump(mode="json"),
            )

        return self.records.once(key, measure)

    def _timed_workloads(
        self, seed_parts: tuple[object, ...], pairs: int, warm_pairs: int
    ) -> tuple[TimedWorkload, ...]:
        return tuple(
            TimedWorkload(
                name=w.name,
                dims=w.dims,
                weight=w.weight,
                seed=checked_cases.draw_seed(self.secret, *seed_parts, w.name),
                pairs=pairs,
                warm_pairs=warm_pairs,
            )
            for w in self.task.workloads
        )

    def _least_rounds(self) -> int:
        return self.policy.least_rounds(len(self.task.workloads))

    def _workload_names(self) -> tuple[str, ...]:
        return tuple(w.name for w in self.task.workloads)

    def _weights(self) -> dict[str, float]:
        return {w.name: w.weight for w in self.task.workloads}

    def _hidden_digests(self) -> dict[str, str]:
        return {
            name: checked_cases.secret_digest(self.secret, *(sorted(dims.items()) for dims in choices))[:16]
            for name, choices in self.hidden
        }

    def _report_stage(self, candidate: Candidate, stage: str, iteration: int, batch: int = 0, batches: int = 1) -> None:
        """Emit an event that `candidate` is at `stage`; `batch` counts from 0, and `batches` is its maximum."""
        batch_fields = {"batch": str(batch + 1), "batches": str(batches)} if batches > 1 else {}
        self.emit("judge", {"candidate": candidate.id, "stage": stage, "iteration": str(iteration), **batch_fields})


def _contestant(name: str, function: BaselineFunction | None) -> Contestant:
    """Return the contestant `name`, which is no kernel; `function`: its own code."""
    if function is not None:
        return Contestant(name=name, kind="function", function=function)
    return Contestant(name=name, kind=name if name in FRAMEWORKS else "rival")  # type: ignore[arg-type]
