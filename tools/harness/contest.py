"""Answers a contest: each contestant in a process of its own, all held ready, one at a time told to go, clocked from outside."""

import math
import random
import time

import telemetry
from kernels import Kernel, KernelError
from pairs import BrokenRuleError, Calm, Meter, Session, baseline_errors, make_sets, ring_size
from workload import SWAPS, TRIAL_SWAPS, InfraError, Ring, WorkloadError, kinds

GO_S = 5e-3
"""One go takes at least this long, so that the message there and back does not count."""
LONGEST_TRAIN = 5000
PIECES = 8
"""A kernel's train is told in at most this many pieces of as many calls as there are slots."""
DIRTY_SHARE, DIRTY_S = 0.10, 200e-6
SLOT_BYTES = 256 << 20


class Library:
    """A kernel library in a child of the nursery; its outputs are checked after each round."""

    def __init__(self, supervisor, request: dict, contestant: dict, lane: int):
        self.name, self.lane, self.request = contestant["name"], lane, request
        path = supervisor.library(contestant["library"])
        self.kernel: Kernel = supervisor.kernel(kinds(request["task"]), {self.name: path}, request["call_limit_s"])
        try:
            loaded = self.kernel.load(self.name)
        except KernelError as error:
            raise BrokenRuleError(self.name, str(error)) from error
        self.calm = Calm(self.kernel, loaded["flags"], loaded["omp"])
        self.session: Session | None = None

    def prepare(self, ring: Ring, widen: list | None) -> None:
        self.finish()
        slots = max(min(ring.addresses, SLOT_BYTES // Ring.slot_bytes(ring.made[0])), 1)
        own = ring.beside(self.lane, slots)
        self.session = Session(self.kernel, own, self.request["task"]["numeric"], widen, flush=0, calm=None)
        self.slots = slots

    def ready(self) -> None:
        self.session.clear(self.slots)

    def go(self, train: list[int]) -> float:
        """Seconds by the supervisor's clock. No call finds its slot already holding an output: between pieces all are poisoned."""
        wall = 0.0
        for start in range(0, len(train), self.slots):
            piece = train[start : start + self.slots]
            if start:
                self.ready()
            wall += self.session.sample(self.name, piece, list(range(len(piece)))).wall
        return wall

    def longest(self) -> int:
        return min(PIECES * self.slots, LONGEST_TRAIN)

    def settle(self) -> None:
        """After the first call its pool of threads is there; from now on the process may not change."""
        self.calm.settle()
        self.session.calm = self.calm

    def verify(self) -> None:
        self.session.verify()

    def try_exchange(self) -> bool:
        """Does the frozen kernel pass with exchanged elements? Where inputs must stay in order (sorted, say) it does not."""
        try:
            self.session.verify()
        except BrokenRuleError as error:
            if not error.wrong:
                raise
            self.session.ring.oracle.call("forget")
            return False
        return True

    def waited(self) -> float:
        return self.kernel.waited()

    def finish(self) -> None:
        if self.session:
            self.session.ring.close()
            self.session = None

    def close(self) -> None:
        self.finish()
        self.kernel.close()


class Torch:
    """The reference under eager or compile."""

    def __init__(self, supervisor, request: dict, contestant: dict, lane: int):
        self.name, self.limit_s = contestant["name"], request["call_limit_s"]
        self.process = supervisor.torch_process("torchhost.py")
        task = request["task"]
        self.process.call("begin", reference=task["reference"], precision=task["numeric"]["precision"], mode=contestant["kind"])

    def prepare(self, ring: Ring, widen: list | None) -> None:
        arguments = [ring.arguments(at) for at in range(ring.addresses)]
        self.process.call("attach", arguments=arguments, offsets=ring.plan.offsets, size=ring.shared.size, fds=[ring.shared.fd])

    def ready(self) -> None:
        pass

    def go(self, train: list[int]) -> float:
        start = time.perf_counter()
        self.process.call("run", limit_s=self.limit_s, train=train)
        return time.perf_counter() - start

    def verify(self) -> None:
        pass

    def longest(self) -> int:
        return LONGEST_TRAIN

    def waited(self) -> float:
        return telemetry.run_delay(self.process.process.pid)

    def finish(self) -> None:
        pass

    def close(self) -> None:
        self.process.close()


def answer(supervisor, request: dict) -> dict:
    supervisor.oracle().call("begin", task=request["task"])
    meter = Meter(supervisor, time.perf_counter)
    unavailable: dict[str, str] = {}
    field: dict[str, Library | Torch] = {}
    found, problem, culprit = [], None, None
    order = random.Random(request["order_seed"])
    try:
        for lane, contestant in enumerate(request["contestants"], start=1):
            kind = Library if contestant["kind"] == "library" else Torch
            try:
                field[contestant["name"]] = kind(supervisor, request, contestant, lane)
            except (WorkloadError, InfraError) as error:
                if kind is Library:
                    raise
                unavailable[contestant["name"]] = str(error)
        found.extend(one(supervisor, request, workload, field, unavailable, order) for workload in request["workloads"])
    except BrokenRuleError as error:
        problem, culprit = f"the {error.culprit} {error}", error.culprit
    except WorkloadError as error:
        raise InfraError(f"a workload cannot be timed: {error}") from error
    finally:
        for contestant in field.values():
            contestant.close()
    return {
        "kind": "contest",
        "workloads": found,
        "unavailable": unavailable,
        "problem": problem,
        "culprit": culprit,
        "telemetry": meter.read(),
    }


def one(supervisor, request: dict, workload: dict, field: dict, unavailable: dict, order: random.Random) -> dict:
    oracle = supervisor.oracle()
    oracle.call("drop")
    first = oracle.call("make", id=0, dims=workload["dims"], seed=workload["seed"], distribution="as_given")["args"]
    memory = min(supervisor.memory, telemetry.available_memory())
    size = Ring.set_bytes(first)
    distinct, addresses, _ = ring_size(size, telemetry.last_level_cache(), 1, memory)
    supervisor.room(addresses * size + len(field) * (SLOT_BYTES + size))
    ring = Ring(oracle, make_sets(oracle, workload["dims"], workload["seed"], distinct, first), addresses, 1)
    try:
        widen = baseline_errors(supervisor, {"libraries": {}, **request}, ring)
        calls = warm_up(field, unavailable, ring, widen)
        rounds = play(field, calls, ring, workload["pairs"], order)
        if not ring.inputs_intact():
            raise InfraError("the inputs changed during a contest")
        return {"workload": workload["name"], "rounds": rounds, "calls_per_sample": calls}
    finally:
        for contestant in field.values():
            contestant.finish()
        ring.close()


def warm_up(field: dict, unavailable: dict, ring: Ring, widen: list | None) -> dict[str, int]:
    """Map, warm up and size the train of each contestant; those that cannot run leave the field.

    The first library is the one that was accepted before: it alone says whether inputs may be exchanged, for all.
    """
    calls, exchange = {}, None
    for name, contestant in list(field.items()):
        try:
            contestant.prepare(ring, widen)
            contestant.ready()
            if isinstance(contestant, Library):
                if exchange is None:
                    contestant.session.swaps = TRIAL_SWAPS
                else:
                    contestant.session.exchange = exchange
                contestant.go([0])
                contestant.settle()
                if exchange is None:
                    exchange = contestant.session.exchange = contestant.try_exchange()
                    contestant.session.swaps = SWAPS
                    contestant.ready()
                    contestant.go([0])
            else:
                contestant.go([0])
            contestant.verify()
            contestant.ready()
            seconds = [contestant.go([at % ring.addresses]) for at in range(3)]
            contestant.verify()
        except (WorkloadError, InfraError) as error:
            if isinstance(contestant, Library):
                raise
            unavailable[name] = str(error)
            field.pop(name).close()
            continue
        guess = max(min(seconds), 1e-6)
        train = [at % ring.addresses for at in range(min(math.ceil(GO_S / guess), contestant.longest()))]
        contestant.ready()
        guess = contestant.go(train) / len(train)
        contestant.verify()
        calls[name] = min(max(math.ceil(GO_S / max(guess, 1e-7)), 1), contestant.longest())
    return calls


def play(field: dict, calls: dict[str, int], ring: Ring, wanted: int, order: random.Random) -> list[dict[str, float]]:
    rounds: list[dict[str, float]] = []
    spare = max(wanted // 2, 2)
    while len(rounds) < wanted:
        names = list(calls)
        order.shuffle(names)
        seconds, dirty = {}, False
        for name in names:
            field[name].ready()
        for name in names:
            start = order.randrange(ring.addresses)
            train = [(start + i) % ring.addresses for i in range(calls[name])]
            waited = field[name].waited()
            wall = field[name].go(train)
            dirty |= field[name].waited() - waited > DIRTY_SHARE * wall + DIRTY_S
            seconds[name] = wall / calls[name]
        for name in names:
            field[name].verify()
        if dirty and spare:
            spare -= 1
        else:
            rounds.append(seconds)
    return rounds
