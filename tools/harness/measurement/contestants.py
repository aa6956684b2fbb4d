"""Contestants: a kernel in a child of the fork server, the reference under torch, or another library's function."""

import contextlib
import time

from harness.device import telemetry
from harness.isolation import sandbox
from harness.measurement import backend, kernel_trace
from harness.measurement.paired_samples import BrokenRuleError, ProcessStateCheck, TimingSession
from harness.memory.input_ring import InfraError, Ring, WorkloadError, scalars_of
from harness.workers.cpu_kernel import KernelError, KernelProcess
from harness.workers.gpu_kernel import BUSY_WAIT_S

RIVAL_START_LIMIT_S = 300.0
"""Seconds in which a function that is not ours must be built, imported, compile its first call, and be compared with
the reference."""
INTERPRETED = "it agrees with the reference in Triton's interpreter, which tells nothing about its time"
REST_CPU_S, REST_CPU_SHARE = 20e-3, 0.05
"""CPU seconds, and share of the time, for which a function that is not ours may run between its turns."""
MAX_TRAIN_PIECES = 8
"""Most pieces of a train on a CPU. A piece calls a function at most once at each address, and all addresses get new
inputs before the next piece."""
MAX_DEVICE_TRAIN_CALLS = 64
"""Most calls of a train on a GPU, which is a single piece: each call needs new inputs and their reference."""


class KernelContestant:
    """A kernel in a child of the fork server; its outputs are checked after each round."""

    def __init__(self, where: backend.TimingBackend, request: dict, contestant: dict, lane: int):
        self.name, self.lane, self.request, self.backend = contestant["name"], lane, request, where
        self.operators = request["task"].get("library", ())
        """Names of torch's operators that the kernel may call."""
        self.library = contestant["library"]
        self.kernel: KernelProcess | None = None
        self.session: TimingSession | None = None
        self.order_s = 0.0
        """Seconds of an order without calls, which are subtracted from a train."""
        self.device_s = 0.0
        """Seconds of the last train by the device's own events."""
        self.uncaptured = ""
        """Why its calls cannot be captured in a CUDA graph, once that is known."""

    def open(self) -> None:
        """Start a new process and load the kernel; BrokenRuleError where that fails."""
        self.close()
        self.kernel = self.backend.kernel({self.name: self.library})
        self.kernel.spin = False
        try:
            loaded = self.kernel.load(self.name)
        except KernelError as error:
            raise BrokenRuleError(self.name, str(error)) from error
        self.calm = ProcessStateCheck(self.kernel, loaded["flags"], loaded["omp"])

    def prepare(self, ring: Ring, widen: list | None, calls: int | None = None) -> None:
        """Make new output slots for a train of `calls`, or as many as fit where `calls` is None."""
        self.finish()
        slots = self.backend.contest_slots(
            ring.addresses, self.backend.slot_bytes(Ring.output_bytes(ring.arguments(0)))
        )
        self.slots = min(slots, calls or slots)
        own = ring.with_own_slots(self.lane, self.slots)
        self.session = TimingSession(
            self.kernel, own, self.request["task"]["numeric"], widen, flush=0, calm=None, owner=self.name
        )

    def restart(self, ring: Ring, widen: list | None, calls: int, at: int) -> None:
        """Start a new process with new slots for the next sitting, and warm it up with a train from address `at` on,
        whose outputs are not checked."""
        self.open()
        self.prepare(ring, widen, calls)
        train = [(at + i) % ring.addresses for i in range(self.slots)]
        self.session.sample(self.name, train, list(range(self.slots)), keep=False)
        self.settle()

    def clear_slots(self) -> None:
        self.session.clear(self.slots)

    def announce(self, piece: list[int]) -> None:
        """Tell the process the addresses of its next train."""
        self.session.announce(self.name, piece, list(range(len(piece))))

    def time_piece(self, piece: list[int], replay: bool = False) -> float:
        """Call the kernel once at each address of `piece`, or `replay` the graph of these calls, and return the
        seconds by the supervisor's clock. The slots are poisoned before, so that no call finds an output in its
        slot."""
        self.clear_slots()
        sample = self.session.sample(self.name, piece, list(range(len(piece))), replay=replay)
        self.device_s = sample.seconds
        return max(sample.wall - self.order_s, sample.wall / 2)

    def time_device_only(self, piece: list[int]) -> tuple[float, bool]:
        """(device seconds per call, with the launches queued behind a spin; whether launching outlasted the spin). The
        outputs are checked."""
        self.clear_slots()
        self.kernel.spin = True
        try:
            sample = self.session.sample(self.name, piece, list(range(len(piece))))
        finally:
            self.kernel.spin = False
        self.verify()
        return sample.seconds / len(piece), sample.starved

    def capture(self, piece: list[int]) -> str | None:
        """Capture the calls at the addresses of `piece` in a graph; return why that is impossible, or None."""
        try:
            seen = self.executed()
            answer = self.kernel.capture(self.name, self.kernel.train(self.session.ring, piece, piece))
        except (KernelError, BrokenRuleError) as error:
            return str(error)
        self.settle()  # the profiler's threads stay
        return answer.get("uncaptured") or kernel_trace.missing_from_graph(seen, answer["nodes"], len(piece))

    reopen = open
    """Start a new process after one that could not be captured."""

    def piece_calls(self) -> int:
        """Most calls of a piece."""
        return self.slots

    def settle(self) -> None:
        """Record the process's state after the first call, when its thread pool exists; later calls must keep it."""
        self.calm.settle()
        self.session.calm = self.calm
        self.order_s = min(self.session.run_unchecked(self.name, [], []).wall for _ in range(9))

    def verify(self) -> None:
        self.session.verify()

    def pid(self) -> int:
        return self.kernel.pid

    def executed(self) -> dict:
        """The profiler's report of what the device ran in one call; {} on a CPU."""
        if not self.kernel.launches:
            return {}
        self.clear_slots()
        self.session.ring.restore([0], [0])
        try:
            return self.kernel.profile(self.name, self.kernel.train(self.session.ring, [0], [0]), bool(self.operators))
        except KernelError as error:
            raise BrokenRuleError(self.name, str(error)) from error

    def finish(self) -> None:
        if self.session:
            self.session.ring.close()
            self.session = None

    def close(self) -> None:
        self.finish()
        if self.kernel:
            self.kernel.close()
            self.kernel = None


class ContestantLostError(Exception):
    """A contestant that is not a kernel failed; the contest goes on without it."""

    policy = False
    """The contestant's own failure, and no broken rule."""

    def __init__(self, name: str, reason: str):
        super().__init__(reason)
        self.name = self.culprit = name


class TorchContestant:
    """The reference under torch eager or torch.compile, or another library's function for it."""

    opened = False
    untimed = ""
    """Why it is checked and not timed; empty: it is timed."""

    def __init__(self, where: backend.TimingBackend, request: dict, contestant: dict, lane: int):
        self.name, self.limit_s, self.backend = contestant["name"], request["call_limit_s"], where
        self.request = request
        self.is_foreign = contestant["kind"] in ("rival", "function")
        """Whether it runs a function that is not torch's."""
        self.start = {"limit_s": RIVAL_START_LIMIT_S} if self.is_foreign else {}
        self.function = contestant.get("function")
        self.order_s = self.device_s = self.call_s = 0.0
        """Seconds of an order without calls; of the last train by the device's events; of its calls from outside."""
        self.uncaptured = ""
        self._begin()

    def _begin(self) -> None:
        task, request = self.request["task"], self.request
        self.turn_end: tuple[float, float] | None = None
        """When its last turn ended, and the CPU seconds of its processes until then."""
        self.rest_s = self.rest_run_s = 0.0
        """Seconds between its turns, and CPU seconds of its processes in them."""
        self.process = self.backend.supervisor.torch_process(self.name)
        self.process.send(
            "begin",
            task={name: task.get(name) for name in ("reference", "rivals", "numeric")},
            mode=self.name,
            function=self.function,
            device=request.get("device", "cpu"),
        )

    def open(self) -> None:
        """Wait until the process has imported torch and the compiler, which takes seconds; `__init__` sent it the
        reference."""
        if self.process.is_warming_up:
            self.process.answer("warm_up")
            self.process.is_warming_up = False
        self.process.answer("begin", **self.start)
        self.opened = True

    def prepare(self, ring: Ring, widen: list | None) -> None:
        """Hand over the shared inputs; under compile the reference is compiled for their shapes."""
        arguments = [ring.arguments(at) for at in range(ring.addresses)]
        self.ring, inputs, self.turn_end = ring, ring.inputs, None
        answer = self.process.call(
            "attach", arguments=arguments, offsets=inputs.offsets, size=inputs.size, fds=[inputs.fd], **self.start
        )
        self.untimed = INTERPRETED if answer.get("interpreted") else ""
        self.has_copies = answer["has_copies"]
        self.order_s, self.scalar_changes = 0.0, ring.sets.scalar_changes
        self.order_s = min(self.time_piece([]) for _ in range(9))

    def announce(self, piece: list[int]) -> None:
        """Do nothing: torch's processes run no kernel that is judged."""

    def time_piece(self, piece: list[int], replay: bool = False) -> float:
        """Call the function once at each address of `piece`, or `replay` the graph of these calls, and return the
        seconds by the supervisor's clock."""
        self._check_rest()
        self._update_scalars()
        self._restore(piece)
        self.ring.flush(piece, [])
        start = time.perf_counter()
        watched_s = BUSY_WAIT_S if self.backend.launched else 0.0
        answer = self._call_or_lose("run", watched_s=watched_s, train=piece, replay=replay)
        took = time.perf_counter() - start
        self.turn_end = time.perf_counter(), self._run_s()
        # The device's events are read in the function's own process, which cannot have taken longer than seen here.
        self.device_s, self.call_s = min(answer.get("seconds", 0.0), took), took / max(len(piece), 1)
        return max(took - self.order_s, took / 2)

    def _restore(self, piece: list[int]) -> None:
        """Renew what the process holds copies of, and leave none of it in a cache."""
        if self.has_copies:
            self._call_or_lose("restore", train=piece)
            self.backend.evict_cache()

    def _run_s(self) -> float:
        """CPU seconds of a foreign function's process and of all that it started and that still lives."""
        pids = {self.pid(), *sandbox.descendant_pids(self.pid())} if self.is_foreign else ()
        return sum(map(telemetry.run_ns, pids)) * 1e-9

    def _check_rest(self) -> None:
        """ContestantLostError where a foreign function went on working while others had their turns."""
        if self.turn_end and self.is_foreign:
            self.rest_s += time.perf_counter() - self.turn_end[0]
            self.rest_run_s += max(self._run_s() - self.turn_end[1], 0.0)
        if self.rest_run_s > REST_CPU_S + REST_CPU_SHARE * self.rest_s:
            raise ContestantLostError(
                self.name,
                f"it worked on for {self.rest_run_s:.2g} s of CPU time in the {self.rest_s:.2g} s between its turns",
            )

    def _update_scalars(self) -> None:
        """Send the scalars of all addresses if new inputs have others than the last ones."""
        if self.scalar_changes != self.ring.sets.scalar_changes:
            self.scalar_changes = self.ring.sets.scalar_changes
            scalars = [scalars_of(self.ring.arguments(at)) for at in range(self.ring.addresses)]
            self._call_or_lose("set_scalars", scalars=scalars)

    def time_device_only(self, train: list[int]) -> tuple[float, bool]:
        """(device seconds per call, whether launching outlasted the spin even with few calls); torch's outputs are not
        checked."""
        self._check_rest()
        for divisor in (1, 4):
            part = train[: max(len(train) // divisor, 1)]
            self._restore(part)
            answer = self._call_or_lose("run_queued", train=part)
            if not answer["starved"]:
                break
        self.turn_end = time.perf_counter(), self._run_s()
        return min(answer["seconds"], self.call_s or answer["seconds"]), answer["starved"]

    def capture(self, piece: list[int]) -> str | None:
        """Capture the calls at the addresses of `piece` in a graph; return why that is impossible, or None."""
        self.turn_end = None
        with contextlib.suppress(ContestantLostError):
            return self._call_or_lose("capture", train=piece)["uncaptured"]
        return "its process ended while it was captured"

    def reopen(self) -> None:
        """Start a new process after one that could not be captured; ContestantLostError if it does not start."""
        self.process.close()
        try:
            self._begin()
            self.open()
        except (WorkloadError, InfraError) as error:
            raise ContestantLostError(self.name, str(error)) from error

    def _call_or_lose(self, verb: str, **message) -> dict:
        try:
            return self.process.call(verb, limit_s=self.limit_s, **message)
        except (WorkloadError, InfraError) as error:
            raise ContestantLostError(self.name, str(error)) from error

    def verify(self) -> None:
        pass

    def piece_calls(self) -> int:
        """Most calls of a piece."""
        return self.ring.addresses

    def restart(self, ring: Ring, widen: list | None, calls: int, at: int) -> None:
        """Do nothing: torch's processes are kept for the whole contest."""

    def pid(self) -> int:
        return self.process.process.pid

    def finish(self) -> None:
        pass

    def close(self) -> None:
        """Keep a process of torch's for the next contest on a CPU; end it on a GPU, where it would hold a context, and
        where it runs what is not ours."""
        if self.opened and self.process.is_alive and not self.backend.launched and not self.is_foreign:
            with contextlib.suppress(InfraError, WorkloadError):
                self.process.call("release_inputs", limit_s=self.limit_s)
                self.backend.supervisor.keep_process(self.name, self.process)
                return
        self.process.close()
