"""Answers a contest: each contestant in a process of its own, all held ready, one at a time told to go, clocked from outside."""

import math
import random
import time

import executed
import place
from devicekernels import WATCHED_S
from kernels import Kernel, KernelError
from pairs import BrokenRuleError, Calm, Meter, Session, baseline_errors, make_sets, ring_size
from workload import SWAPS, TRIAL_SWAPS, InfraError, Ring, WorkloadError

LONGEST_TRAIN = 5000
PIECES = 8
"""A kernel's train is told in at most this many pieces of as many calls as there are slots."""
DIRTY_S = 200e-6
SLOT_ROOM = 256 << 20


class Library:
    """A kernel library in a child of the nursery; its outputs are checked after each round."""

    def __init__(self, where: place.Host, request: dict, contestant: dict, lane: int):
        self.name, self.lane, self.request, self.place = contestant["name"], lane, request, where
        self.kernel: Kernel = where.kernel({self.name: contestant["library"]})
        self.kernel.spin = False
        try:
            loaded = self.kernel.load(self.name)
        except KernelError as error:
            raise BrokenRuleError(self.name, str(error)) from error
        self.calm = Calm(self.kernel, loaded["flags"], loaded["omp"])
        self.session: Session | None = None
        self.order_s = 0.0
        """What an order without calls takes on a GPU: no part of a train."""
        self.device_s = 0.0
        """Of the last go, by the device's own events."""

    def prepare(self, ring: Ring, widen: list | None) -> None:
        self.finish()
        slots = self.place.contest_slots(ring.addresses, self.place.slot_bytes(Ring.output_bytes(ring.made[0])))
        own = ring.beside(self.lane, slots)
        self.session = Session(self.kernel, own, self.request["task"]["numeric"], widen, flush=0, calm=None)
        self.slots = slots

    def ready(self) -> None:
        self.session.clear(self.slots)

    def go(self, train: list[int]) -> float:
        """Seconds by the supervisor's clock. No call finds its slot already holding an output: between pieces all are poisoned."""
        wall = self.device_s = 0.0
        for start in range(0, len(train), self.slots):
            piece = train[start : start + self.slots]
            if start:
                self.ready()
            sample = self.session.sample(self.name, piece, list(range(len(piece))))
            wall += max(sample.wall - self.order_s, sample.wall / 2)
            self.device_s += sample.seconds
        return wall

    def longest(self) -> int:
        return min(PIECES * self.slots, LONGEST_TRAIN)

    def settle(self) -> None:
        """After the first call its pool of threads is there; from now on the process may not change."""
        self.calm.settle()
        self.session.calm = self.calm
        if self.kernel.launches:
            self.order_s = min(self.session.order(self.name, [], []).wall for _ in range(9))

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

    def pid(self) -> int:
        return self.kernel.pid

    def executed(self) -> dict:
        """What the device ran in one call, under the profiler; {} where kernels are not launched."""
        if not self.kernel.launches:
            return {}
        self.ready()
        return self.kernel.profile(self.name, self.kernel.train(self.session.ring, [0], [0]))

    def finish(self) -> None:
        if self.session:
            self.session.ring.close()
            self.session = None

    def close(self) -> None:
        self.finish()
        self.kernel.close()


class Torch:
    """The reference under eager or compile."""

    def __init__(self, where: place.Host, request: dict, contestant: dict, lane: int):
        self.name, self.limit_s, self.place = contestant["name"], request["call_limit_s"], where
        self.process = where.supervisor.torch_process("torchhost.py")
        self.order_s = self.device_s = 0.0
        task = request["task"]
        self.process.call(
            "begin",
            reference=task["reference"],
            precision=task["numeric"]["precision"],
            mode=contestant["kind"],
            device=request.get("device", "cpu"),
        )

    def prepare(self, ring: Ring, widen: list | None) -> None:
        arguments = [ring.arguments(at) for at in range(ring.addresses)]
        inputs = ring.inputs
        self.process.call("attach", arguments=arguments, offsets=inputs.offsets, size=inputs.size, fds=[inputs.fd])
        if self.place.launched:
            self.order_s = 0.0
            self.order_s = min(self.go([]) for _ in range(9))

    def ready(self) -> None:
        pass

    def go(self, train: list[int]) -> float:
        start = time.perf_counter()
        answer = self.process.call("run", limit_s=self.limit_s, watched_s=WATCHED_S if self.place.launched else 0.0, train=train)
        wall = time.perf_counter() - start
        self.device_s = answer.get("seconds", 0.0)
        return max(wall - self.order_s, wall / 2)

    def verify(self) -> None:
        pass

    def longest(self) -> int:
        return LONGEST_TRAIN

    def pid(self) -> int:
        return self.process.process.pid

    def finish(self) -> None:
        pass

    def close(self) -> None:
        self.process.close()


def answer(supervisor, request: dict) -> dict:
    where = place.of(supervisor, request)
    meter = Meter(where, time.perf_counter)
    unavailable: dict[str, str] = {}
    field: dict[str, Library | Torch] = {}
    found, ran, problem, culprit = [], {}, None, None
    order = random.Random(request["order_seed"])
    try:
        for lane, contestant in enumerate(request["contestants"], start=1):
            kind = Library if contestant["kind"] == "library" else Torch
            try:
                field[contestant["name"]] = kind(where, request, contestant, lane)
            except (WorkloadError, InfraError) as error:
                if kind is Library:
                    raise
                unavailable[contestant["name"]] = str(error)
        where.settled()
        for workload in request["workloads"]:
            one(where, request, workload, field, unavailable, order, found, ran)
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
        "executed": ran,
        "problem": problem,
        "culprit": culprit,
        "telemetry": meter.read(),
    }


def one(
    where: place.Host, request: dict, workload: dict, field: dict, unavailable: dict, order: random.Random, found: list, ran: dict
) -> None:
    """One workload's rounds to `found`; on a GPU, what each kernel but the first executed to `ran`."""
    oracle = where.oracle
    oracle.call("drop")
    first = oracle.call("make", id=0, dims=workload["dims"], seed=workload["seed"], distribution="as_given")["args"]
    size, slot_bytes = Ring.set_bytes(first), where.slot_bytes(Ring.output_bytes(first))
    distinct, addresses, _ = ring_size(size, where.cache(), 1, where.memory())
    where.room(addresses * size + len(field) * (max(SLOT_ROOM, where.contest_slots(addresses, slot_bytes) * slot_bytes) + size))
    ring = Ring(where, make_sets(oracle, workload["dims"], workload["seed"], distinct, first), addresses, 1)
    try:
        widen = baseline_errors({"libraries": {}, **request}, ring)
        calls = warm_up(field, unavailable, ring, widen)
        played = play(field, calls, ring, workload["pairs"], order)
        if not ring.inputs_intact():
            raise InfraError("the inputs changed during a contest")
        found.append({"workload": workload["name"], "calls_per_sample": calls, **played})
        for contestant in [c for c in field.values() if isinstance(c, Library)][1:]:
            look_at(contestant, ran)
    finally:
        for contestant in field.values():
            contestant.finish()
        ring.close()


def look_at(contestant: Library, ran: dict) -> None:
    """Note what a kernel executed on the device; BrokenRuleError unless that was its own."""
    seen = contestant.executed()
    if not seen:
        return
    if "unavailable" in seen:
        ran.setdefault(contestant.name, []).append(f"not known: {seen['unavailable']}")
        return
    known = ran.setdefault(contestant.name, [])
    known += [name for name in dict.fromkeys(seen["kernels"]) if name not in known]
    said = executed.complaint(seen, contestant.kernel.source(contestant.name))
    if said:
        raise BrokenRuleError(contestant.name, said)


def warm_up(field: dict, unavailable: dict, ring: Ring, widen: list | None) -> dict[str, int]:
    """Map, warm up and size the train of each contestant; those that cannot run leave the field.

    The first library is the one that was accepted before: it alone says whether inputs may be exchanged, for all.
    """
    calls, exchange, go_s = {}, None, ring.place.go_s
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
        train = [at % ring.addresses for at in range(min(math.ceil(go_s / guess), contestant.longest()))]
        contestant.ready()
        guess = contestant.go(train) / len(train)
        contestant.verify()
        calls[name] = min(max(math.ceil(go_s / max(guess, 1e-7)), 1), contestant.longest())
    return calls


def play(field: dict, calls: dict[str, int], ring: Ring, wanted: int, order: random.Random) -> dict:
    where, rounds, on_device = ring.place, [], []
    spare, repeated, dirty = max(wanted // 2, 2), 0, 0
    while len(rounds) < wanted:
        names = list(calls)
        order.shuffle(names)
        seconds, device, disturbed = {}, {}, False
        for name in names:
            field[name].ready()
        for name in names:
            start = order.randrange(ring.addresses)
            train = [(start + i) % ring.addresses for i in range(calls[name])]
            before = where.disturbance([field[name].pid()])
            wall = field[name].go(train)
            disturbed |= where.disturbed(before, where.disturbance([field[name].pid()]), wall, [], DIRTY_S)
            seconds[name] = wall / calls[name]
            device[name] = field[name].device_s / calls[name]
        for name in names:
            field[name].verify()
        if disturbed and repeated < spare:
            repeated += 1
            continue
        dirty += disturbed
        rounds.append(seconds)
        on_device.append(device)
    played = {"rounds": rounds, "repeated": repeated, "dirty": dirty}
    return played | ({"device_rounds": on_device} if where.launched else {})
