"""Who takes part in a contest: a kernel library in a child of the fork server, or the reference under torch."""

import contextlib
import time

from harness.measurement import backend
from harness.measurement.paired_samples import BrokenRuleError, Calm, Session
from harness.memory.input_ring import InfraError, Ring, WorkloadError
from harness.workers.cpu_kernel import Kernel, KernelError
from harness.workers.gpu_kernel import WATCHED_S

LONGEST_TRAIN = 5000
RIVAL_S = 150.0
"""For another library to be imported, to compile what it does at its first call, and to be compared with the
reference."""
PIECES = 8
"""A kernel's train is told in at most this many pieces of as many calls as there are slots."""


class Library:
    """A kernel library in a child of the fork server; its outputs are checked after each round."""

    def __init__(self, where: backend.Host, request: dict, contestant: dict, lane: int):
        self.name, self.lane, self.request, self.place = contestant["name"], lane, request, where
        self.operators = request["task"].get("library", ())
        """Of torch, that it may call."""
        self.library = contestant["library"]
        self.kernel: Kernel | None = None
        self.session: Session | None = None
        self.order_s = 0.0
        """What an order without calls takes on a GPU: no part of a train."""
        self.device_s = 0.0
        """Of the last go, by the device's own events."""

    def open(self) -> None:
        """Another process, with the library loaded."""
        self.close()
        self.kernel = self.place.kernel({self.name: self.library})
        self.kernel.spin = False
        try:
            loaded = self.kernel.load(self.name)
        except KernelError as error:
            raise BrokenRuleError(self.name, str(error)) from error
        self.calm = Calm(self.kernel, loaded["flags"], loaded["omp"])

    def prepare(self, ring: Ring, widen: list | None, calls: int | None = None) -> None:
        """Fresh output slots for a train of `calls`; without them as many as there may be."""
        self.finish()
        slots = self.place.contest_slots(ring.addresses, self.place.slot_bytes(Ring.output_bytes(ring.made[0])))
        self.slots = min(slots, calls or slots)
        own = ring.beside(self.lane, self.slots)
        self.session = Session(self.kernel, own, self.request["task"]["numeric"], widen, flush=0, calm=None)

    def renew(self, ring: Ring, widen: list | None, calls: int, at: int) -> None:
        """For the next sitting: another process, other slots, and a train from address `at` on, of which nothing is
        kept, to warm up."""
        exchange = self.session.exchange
        self.open()
        self.prepare(ring, widen, calls)
        self.session.exchange = exchange
        train = [(at + i) % ring.addresses for i in range(self.slots)]
        self.session.sample(self.name, train, list(range(self.slots)), keep=False)
        self.settle()

    def ready(self) -> None:
        self.session.clear(self.slots)

    def go(self, train: list[int]) -> float:
        """Seconds by the supervisor's clock. No call finds its slot already holding an output: between pieces all
        are poisoned."""
        wall = self.device_s = 0.0
        for start in range(0, len(train), self.slots):
            piece = train[start : start + self.slots]
            if start:
                self.ready()
            sample = self.session.sample(self.name, piece, list(range(len(piece))))
            wall += max(sample.wall - self.order_s, sample.wall / 2)
            self.device_s += sample.seconds
        return wall

    def behind(self, train: list[int]) -> tuple[float, bool]:
        """Seconds a call of the device alone, with the launches queued behind a spin, and whether launching
        outlasted that; outputs are checked."""
        piece = train[: self.slots]
        self.ready()
        self.kernel.spin = True
        try:
            sample = self.session.sample(self.name, piece, list(range(len(piece))))
        finally:
            self.kernel.spin = False
        self.verify()
        return sample.seconds / len(piece), sample.starved

    def longest(self) -> int:
        return min(PIECES * self.slots, LONGEST_TRAIN)

    def settle(self) -> None:
        """After the first call its pool of threads is there; from now on the process may not change."""
        self.calm.settle()
        self.session.calm = self.calm
        self.order_s = min(self.session.order(self.name, [], []).wall for _ in range(9))

    def verify(self) -> None:
        self.session.verify()

    def try_exchange(self) -> bool:
        """Does the frozen kernel pass with exchanged elements? Where inputs must stay in order (sorted, say) it does
        not."""
        try:
            self.session.verify()
        except BrokenRuleError as error:
            if not error.wrong:
                raise
            self.session.ring.oracle.call("forget")
            return False
        return True

    def pid(self) -> int:
        return self.kernel.pid

    def executed(self) -> dict:
        """What the device ran in one call, under the profiler; {} where kernels are not launched."""
        if not self.kernel.launches:
            return {}
        self.ready()
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


class LeftError(Exception):
    """A contestant that is no kernel cannot go on; the others can."""

    def __init__(self, name: str, reason: str):
        super().__init__(reason)
        self.name = name


class Torch:
    """The reference under eager or compile, or another library's function for it."""

    opened = False

    def __init__(self, where: backend.Host, request: dict, contestant: dict, lane: int):
        self.name, self.limit_s, self.place = contestant["name"], request["call_limit_s"], where
        self.request = request
        self.start = {"limit_s": RIVAL_S} if contestant["kind"] == "rival" else {}
        self.process = where.supervisor.torch_host(self.name)
        self.order_s = self.device_s = 0.0
        task = request["task"]
        self.process.tell(
            "begin",
            task={name: task.get(name) for name in ("reference", "rivals", "numeric")},
            mode=self.name,
            device=request.get("device", "cpu"),
        )

    def open(self) -> None:
        """Wait for the process, which takes seconds to import torch and the compiler; it was given the reference
        when it was made."""
        if self.process.ahead:
            self.process.answer("ahead")
            self.process.ahead = False
        self.process.answer("begin", **self.start)
        self.opened = True

    def prepare(self, ring: Ring, widen: list | None) -> None:
        """Hand over the shared inputs; under compile the reference is compiled for their shapes."""
        arguments = [ring.arguments(at) for at in range(ring.addresses)]
        self.ring, inputs = ring, ring.inputs
        self.process.call(
            "attach", arguments=arguments, offsets=inputs.offsets, size=inputs.size, fds=[inputs.fd], **self.start
        )
        self.order_s = 0.0
        self.order_s = min(self.go([]) for _ in range(9))

    def ready(self) -> None:
        pass

    def go(self, train: list[int]) -> float:
        """As of a kernel library: on a CPU no piece comes to an address again."""
        wall = self.device_s = 0.0
        size = max(len(train), 1) if self.place.launched else self.ring.addresses
        for piece in [train[start : start + size] for start in range(0, len(train), size)] or [[]]:
            self.ring.flush(piece, [])
            start = time.perf_counter()
            answer = self._asked("run", watched_s=WATCHED_S if self.place.launched else 0.0, train=piece)
            took = time.perf_counter() - start
            self.device_s += answer.get("seconds", 0.0)
            wall += max(took - self.order_s, took / 2)
        return wall

    def behind(self, train: list[int]) -> tuple[float, bool]:
        """As of a kernel library; nobody checks torch's outputs."""
        answer = self._asked("behind", train=train)
        return answer["seconds"], answer["starved"]

    def _asked(self, verb: str, **message) -> dict:
        try:
            return self.process.call(verb, limit_s=self.limit_s, **message)
        except (WorkloadError, InfraError) as error:
            raise LeftError(self.name, str(error)) from error

    def verify(self) -> None:
        pass

    def longest(self) -> int:
        return LONGEST_TRAIN if self.place.launched else min(PIECES * self.ring.addresses, LONGEST_TRAIN)

    def renew(self, ring: Ring, widen: list | None, calls: int, at: int) -> None:
        """It keeps its process."""

    def pid(self) -> int:
        return self.process.process.pid

    def finish(self) -> None:
        pass

    def close(self) -> None:
        """On a CPU its process rests until the next contest; on a GPU it would hold a context."""
        if self.opened and self.process.alive and not self.place.launched:
            with contextlib.suppress(InfraError, WorkloadError):
                self.process.call("rest", limit_s=self.limit_s)
                self.place.supervisor.keep(self.name, self.process)
                return
        self.process.close()
