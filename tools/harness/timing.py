"""Answers a timing request: incumbent and candidate alternate in one process in randomised pairs, and every timed call is checked."""

import math
import random
import time

import telemetry
from kernels import Kernel, KernelError
from pairs import BrokenRuleError, Calm, Meter, Session, baseline_errors, make_sets, pick, ring_size
from workload import SWAPS, TRIAL_SWAPS, InfraError, Ring, WorkloadError, kinds

SHORT_S = 50e-6
"""Kernels below this run as trains."""
SAMPLE_S = 120e-6
LONGEST_TRAIN = 1000
CHUNK_BYTES = 128 << 20
DIRTY_SHARE, DIRTY_S = 0.10, 100e-6
"""A pair is dirty when its threads had to wait for a core for longer than this share of it plus these seconds."""
BOTH = ("incumbent", "candidate")


def answer(supervisor, request: dict) -> dict:
    oracle = supervisor.oracle()
    oracle.call("begin", task=request["task"])
    meter = Meter(supervisor, time.perf_counter)
    order = random.Random(request["order_seed"])
    found, kernel = [], None
    try:
        kernel, calm = load(supervisor, request)
        for workload in request["workloads"]:
            found.append(one(supervisor, request, workload, kernel, calm, order))
            if found[-1]["problem"]:
                break
    except BrokenRuleError as error:
        found.append(failed(request["workloads"][0]["name"], error))
    except WorkloadError as error:
        raise InfraError(f"a workload cannot be timed: {error}") from error
    finally:
        if kernel:
            kernel.close()
    return {"kind": "timing", "workloads": found, "telemetry": meter.read()}


def load(supervisor, request: dict) -> tuple[Kernel, Calm]:
    """Both libraries in one process, with what each may not change noted."""
    paths = {name: supervisor.library(request["libraries"][name]) for name in BOTH}
    culprit = "incumbent"
    kernel = supervisor.kernel(kinds(request["task"]), paths, request["call_limit_s"])
    try:
        first = kernel.load("incumbent")
        culprit = "candidate"
        second = kernel.load("candidate")
    except KernelError as error:
        kernel.close()
        raise BrokenRuleError(culprit, str(error)) from error
    if first["flags"] != second["flags"]:
        kernel.close()
        raise BrokenRuleError("candidate", "changed the floating-point mode of the process while being loaded")
    return kernel, Calm(kernel, first["flags"], first["omp"] or second["omp"])


def one(supervisor, request: dict, workload: dict, kernel: Kernel, calm: Calm, order: random.Random) -> dict:
    """One workload: warm up, size the trains, then the pairs in chunks."""
    oracle = supervisor.oracle()
    oracle.call("drop")
    made = oracle.call("make", id=0, dims=workload["dims"], seed=workload["seed"], distribution="as_given")["args"]
    timed = Timed(supervisor, request, workload, kernel, calm, order, made)
    try:
        timed.prepare()
        timed.cold_pairs()
        timed.session.clocks_agree()
        timed.warm()
        timed.session.inputs_intact("candidate")
        return timed.result()
    except BrokenRuleError as error:
        return timed.result() | failed(workload["name"], error)
    finally:
        timed.close()


def failed(name: str, error: BrokenRuleError) -> dict:
    return {"workload": name, "pairs": [], "problem": f"the {error.culprit} {error}", "culprit": error.culprit}


class Timed:
    """The measurement of one workload."""

    def __init__(self, supervisor, request, workload, kernel, calm, order, made):
        self.supervisor, self.request, self.workload = supervisor, request, workload
        self.kernel, self.calm, self.order, self.made = kernel, calm, order, made
        self.cache = telemetry.last_level_cache()
        self.calls = 1
        self.repeated = 0
        self.pairs: list[dict] = []
        self.warm_pairs: list[dict] = []
        self.ring: Ring | None = None
        self.session: Session | None = None
        self.slots = 0

    def prepare(self) -> None:
        """Lay out the ring; warm both kernels up; where they are short, lay it out again for trains."""
        self.lay_out()
        per_call = self.warm_up()
        if min(per_call) < SHORT_S:
            self.calls = min(math.ceil(SAMPLE_S / max(min(per_call), 1e-8)), LONGEST_TRAIN)
            self.lay_out()
            self.warm_up()

    def lay_out(self) -> None:
        memory = min(self.supervisor.memory, telemetry.available_memory())
        set_bytes, slot_bytes = Ring.set_bytes(self.made), Ring.slot_bytes(self.made)
        distinct, addresses, flush = ring_size(set_bytes, self.cache, self.calls, memory)
        budget = min(max(CHUNK_BYTES, 4 * self.cache), memory // 4)
        pairs = max(self.workload["pairs"], self.workload["warm_pairs"], 1)
        # At least one pair's slots; a train whose slots do not fit uses them again.
        self.slots = max(min(2 * self.calls * pairs, budget // slot_bytes), 2)
        self.supervisor.room(addresses * set_bytes + self.slots * slot_bytes)
        if self.ring:
            self.ring.close()
        oracle = self.supervisor.oracle()
        first = oracle.call("make", id=0, dims=self.workload["dims"], seed=self.workload["seed"], distribution="as_given")["args"]
        made = make_sets(oracle, self.workload["dims"], self.workload["seed"], distinct, first)
        self.ring = Ring(oracle, made, addresses, self.slots)
        widen = self.session.widen if self.session else baseline_errors(self.supervisor, self.request, self.ring)
        self.session = Session(self.kernel, self.ring, self.request["task"]["numeric"], widen, flush=flush, calm=None)

    def warm_up(self) -> list[float]:
        """Seconds a call of each kernel, the second of two samples; their outputs are checked too."""
        session, seconds = self.session, []
        session.calm, self.calm.threads = self.calm, 0
        session.clear(2)
        for slot, name in enumerate(BOTH):
            train = [0] * self.calls
            slots = [slot] * self.calls
            seen = [session.sample(name, train, slots, keep=False).seconds]
            if seen[0] < 10 * SHORT_S:
                seen += [session.sample(name, train, slots, flush=False, keep=False).seconds for _ in range(3)]
            session.clear(2)
            session.swaps = TRIAL_SWAPS if name == "incumbent" else SWAPS
            seen.append(session.sample(name, train, slots).seconds)
            seconds.append(min(seen) / self.calls)
            self.check_exchange(name)
        self.calm.settle()
        return seconds

    def check_exchange(self, name: str) -> None:
        """The incumbent must also pass with exchanged elements; where it does not (sorted inputs, say) nothing is exchanged."""
        session = self.session
        try:
            session.verify()
        except BrokenRuleError as error:
            if name != "incumbent" or not session.exchange or not error.wrong:
                raise
            session.exchange = False
            self.supervisor.oracle().call("forget")
            session.clear(2)
            session.sample(name, [0], [0])
            session.verify()

    def cold_pairs(self) -> None:
        per_chunk = max(self.slots // (2 * self.calls), 1)
        wanted = self.workload["pairs"]
        spare = max(wanted // 2, 2)
        while len(self.pairs) < wanted:
            batch = min(per_chunk, wanted - len(self.pairs))
            self.session.clear(min(2 * self.calls * batch, self.slots))
            measured = [self.pair(at) for at in range(batch)]
            self.session.verify()
            for pair, dirty in measured:
                if dirty and self.repeated < spare:
                    self.repeated += 1
                else:
                    self.pairs.append(pair)

    def pair(self, at: int) -> tuple[dict, bool]:
        first = self.order.random() < 0.5
        names = BOTH[::-1] if first else BOTH
        places = pick(self.order, self.ring.addresses, self.calls)
        seconds, before = {}, self.kernel.waited()
        for turn, (name, addresses) in enumerate(zip(names, places, strict=True)):
            base = (2 * at + turn) * self.calls
            slots = [(base + i) % self.slots for i in range(self.calls)]
            seconds[name] = self.session.sample(name, addresses, slots).seconds
        waited = self.kernel.waited() - before
        dirty = waited > DIRTY_SHARE * sum(seconds.values()) + DIRTY_S
        return pair_of(seconds, self.calls, first), dirty

    def warm(self) -> None:
        """Each timed call follows an untimed one on the same set and slot, poisoned in between."""
        for _ in range(self.workload["warm_pairs"]):
            first = self.order.random() < 0.5
            seconds = {}
            for slot, name in enumerate(BOTH[::-1] if first else BOTH):
                train, slots = [0] * self.calls, [slot] * self.calls
                self.session.clear(2)
                self.session.sample(name, train, slots, flush=False, keep=False)
                self.session.ring.slots.poison_slot(slot)
                seconds[name] = self.session.sample(name, train, slots, flush=False).seconds
                self.session.verify()
            self.warm_pairs.append(pair_of(seconds, self.calls, first))

    def result(self) -> dict:
        session = self.session
        return {
            "workload": self.workload["name"],
            "pairs": self.pairs,
            "warm_pairs": self.warm_pairs,
            "calls_per_sample": self.calls,
            "max_error": session.max_error if session else None,
            "tolerance": session.tolerance if session else None,
            "problem": None,
            "culprit": None,
            "repeated": self.repeated,
        }

    def close(self) -> None:
        if self.ring:
            self.ring.close()


def pair_of(seconds: dict, calls: int, candidate_first: bool) -> dict:
    return {
        "incumbent_s": seconds["incumbent"] / calls,
        "candidate_s": seconds["candidate"] / calls,
        "candidate_first": candidate_first,
    }
