"""Answers a timing request: incumbent and candidate alternate in one process in randomised pairs, and every timed
call is checked.

A share of the pairs, at random, has new inputs: drawn by the task's own generator right before the pair, another set
for each call. A kernel that remembers earlier calls is slower there than on inputs that it has seen, by more than the
incumbent is.
"""

import math
import random
import statistics
import time

from harness.measurement import backend
from harness.measurement.paired_samples import (
    BrokenRuleError,
    ClockError,
    ProcessStateCheck,
    TelemetryMeter,
    TimingSession,
    baseline_errors,
    make_sets,
    pick_addresses,
)
from harness.memory.input_ring import SECRET_RANDOM, InfraError, Ring, WorkloadError
from harness.workers.cpu_kernel import KernelError, KernelProcess

DIRTY_PAIR_WAIT_S = 100e-6
"""A pair is dirty when its threads had to wait for a core for longer than a share of it plus these seconds."""
MAX_TIMING_RETRIES = 3
"""Times that a workload's pairs are made before clocks that disagree are the candidate's doing: neighbours hold up a
few pairs too."""
FAST_TRAIN_SHARE, LONGEST_TRAIN_S = 0.1, 20e-3
"""A train of the faster kernel takes at least this share of what the slower one's must take, unless the slower one's
then exceeded these seconds."""
LAUNCHED_TRAIN_S = 2e-3
"""A train that is timed with its launches included takes about this long."""
KERNEL_NAMES = ("incumbent", "candidate")
NEW_INPUT_SHARE, LEAST_NEW_PAIRS = 0.25, 3
"""Share and least number of the pairs of a batch that have new inputs, unless all have."""
MOST_NEW_CALLS = 64
"""Most calls of a sample on new inputs, each of which needs a set of its own and its reference."""


def answer(supervisor, request: dict) -> dict:
    where = backend.backend_for(supervisor, request)
    meter = TelemetryMeter(where, time.perf_counter)
    order = random.Random(request["order_seed"])
    found, kernel = [], None
    try:
        kernel, calm = load_kernels(where, request)
        for workload in request["workloads"]:
            found.append(time_workload(where, request, workload, kernel, calm, order))
            if found[-1]["problem"]:
                break
    except BrokenRuleError as error:
        found.append(workload_failure(request["workloads"][0]["name"], error))
    except WorkloadError as error:
        raise InfraError(f"a workload cannot be timed: {error}") from error
    finally:
        if kernel:
            kernel.close()
    return {"kind": "timing", "workloads": found, "telemetry": meter.read()}


def load_kernels(where: backend.TimingBackend, request: dict) -> tuple[KernelProcess, ProcessStateCheck]:
    """Load both kernels in one process; returns it with the check of the state that neither may change."""
    culprit = "incumbent"
    kernel = where.kernel({name: request["libraries"][name] for name in KERNEL_NAMES})
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
    return kernel, ProcessStateCheck(kernel, first["flags"], first["omp"] or second["omp"])


def time_workload(
    where: backend.TimingBackend,
    request: dict,
    workload: dict,
    kernel: KernelProcess,
    calm: ProcessStateCheck,
    order: random.Random,
) -> dict:
    """Measure one workload: warm up, choose the length of the trains, then time pairs in chunks."""
    oracle = where.oracle
    oracle.call("release_all")
    made = oracle.call("make_inputs", id=0, dims=workload["dims"], seed=workload["seed"], distribution="as_given")[
        "args"
    ]
    timed = WorkloadTiming(where, request, workload, kernel, calm, order, made)
    try:
        timed.prepare()
        timed.measure_cold_pairs()
        timed.measure_warm_pairs()
        timed.measure_launches()
        timed.session.check_inputs_intact("candidate")
        return timed.result()
    except BrokenRuleError as error:
        return timed.result() | workload_failure(workload["name"], error)
    finally:
        timed.close()


def workload_failure(name: str, error: BrokenRuleError) -> dict:
    return {"workload": name, "pairs": [], "problem": f"the {error.culprit} {error}", "culprit": error.culprit}


class WorkloadTiming:
    """The measurement of one workload."""

    def __init__(self, where, request, workload, kernel, calm, order, made):
        self.backend, self.request, self.workload = where, request, workload
        self.kernel, self.calm, self.order, self.made = kernel, calm, order, made
        self.calls = 1
        self.repeated = self.dirty = self.discarded = 0
        self.pairs: list[dict] = []
        self.warm_pairs: list[dict] = []
        self.launched: dict[str, float] = {}
        self.ring: Ring | None = None
        self.session: TimingSession | None = None
        self.slots = 0
        self.changes_arguments = any(a["role"] == "inout" for a in made)
        """Whether each call needs a slot of its own, because it changes what the next one in its slot would find."""
        self.seen_addresses = self.new_addresses = range(0)
        """Addresses whose inputs stay, and those that get new inputs before each pair that uses them."""

    def prepare(self) -> None:
        """Lay out the ring and warm up both kernels; where they are short, lay it out again for trains of calls."""
        self.lay_out()
        per_call = self.warm_up()
        fast, slow = (max(seconds, 1e-8) for seconds in sorted(per_call))
        wanted_s = max(
            self.backend.sample_s, min(FAST_TRAIN_SHARE * self.backend.sample_s / fast * slow, LONGEST_TRAIN_S)
        )
        most = self.slots_that_fit() // 2 if self.changes_arguments else self.backend.longest
        calls = min(math.ceil(wanted_s / slow), self.backend.longest, most)
        if fast < self.backend.short_s and calls > 1:
            self.calls = calls
            self.lay_out()
            self.warm_up()

    def slots_that_fit(self) -> int:
        """Return how many slots a chunk of pairs may take; two at least."""
        return max(self.backend.slot_budget() // self.backend.slot_bytes(Ring.output_bytes(self.made)), 2)

    def train_slots(self, turn: int) -> list[int]:
        """Return the slots of a train outside of the cold pairs: one for all of its calls where none changes what the
        next one finds there."""
        return [turn * self.calls + i for i in range(self.calls)] if self.changes_arguments else [turn] * self.calls

    def lay_out(self) -> None:
        where = self.backend
        set_bytes, slot_bytes = Ring.set_bytes(self.made), where.slot_bytes(Ring.output_bytes(self.made))
        distinct, addresses, flush = where.ring(set_bytes, self.calls)
        pairs = max(self.workload["pairs"], self.workload["warm_pairs"], 1)
        # At least one pair's slots; a train whose slots do not fit uses them again.
        self.slots = min(2 * self.calls * pairs, self.slots_that_fit())
        self.seen_addresses = range(addresses)
        self.new_addresses = range(addresses, addresses + 2 * min(self.calls, max(addresses // 2, 1), MOST_NEW_CALLS))
        addresses = self.new_addresses.stop
        where.require_memory(addresses * set_bytes + self.slots * slot_bytes)
        if self.ring:
            self.ring.close()
            first = where.oracle.call(
                "make_inputs", id=0, dims=self.workload["dims"], seed=self.workload["seed"], distribution="as_given"
            )
            self.made = first["args"]
        made = make_sets(where.oracle, self.workload["dims"], distinct, self.made)
        self.ring = Ring(where, made, addresses, self.slots)
        widen = self.session.widen if self.session else baseline_errors(self.request, self.ring)
        where.wait_until_settled()
        self.session = TimingSession(
            self.kernel, self.ring, self.request["task"]["numeric"], widen, flush=flush, calm=None
        )

    def warm_up(self) -> list[float]:
        """Seconds a call of each kernel with a cold cache; the outputs are checked too."""
        session, seconds = self.session, []
        session.calm, self.calm.threads = self.calm, 0
        used = max(self.train_slots(1)) + 1
        session.clear(used)
        for turn, name in enumerate(KERNEL_NAMES):
            train = [0] * self.calls
            slots = self.train_slots(turn)
            seen = [session.sample(name, train, slots, keep=False).seconds]
            if seen[0] < 10 * self.backend.short_s:
                seen += [session.sample(name, train, slots, flush=False, keep=False).seconds for _ in range(3)]
            session.clear(used)
            seen.append(session.sample(name, train, slots).seconds)
            # Timed calls find a cold cache, as the first and the last of these do.
            seconds.append(min(seen[0], seen[-1]) / self.calls)
            session.verify()
        self.calm.settle()
        return seconds

    def measure_cold_pairs(self) -> None:
        """Time pairs until the clocks agree; pairs in which they do not are discarded and timed again."""
        for look in range(1, MAX_TIMING_RETRIES + 1):
            self.make_pairs()
            self.session.check_no_trailing_work()
            try:
                self.session.check_clocks_agree()
                break
            except ClockError:
                if look == MAX_TIMING_RETRIES:
                    raise
            self.discarded += len(self.pairs)
            self.pairs, self.dirty = [], 0
            self.session.clocks = {}

    def make_pairs(self) -> None:
        """Measure all pairs, in chunks of as many as have slots; of those with new inputs no kernel can tell when."""
        per_chunk = max(self.slots // (2 * self.calls), 1)
        wanted = self.workload["pairs"]
        spare = max(wanted // 2, 2)
        new = wanted if self.request["new_inputs"] else max(round(NEW_INPUT_SHARE * wanted), LEAST_NEW_PAIRS)
        kinds = [at < new for at in range(wanted)]
        SECRET_RANDOM.shuffle(kinds)
        while kinds:
            chunk, kinds = kinds[:per_chunk], kinds[per_chunk:]
            self.session.clear(min(2 * self.calls * len(chunk), self.slots))
            measured = [self.measure_pair(at, is_new) for at, is_new in enumerate(chunk)]
            self.session.verify()
            for is_new, (pair, dirty) in zip(chunk, measured, strict=True):
                if dirty and self.repeated < spare:
                    self.repeated += 1
                    kinds.append(is_new)
                else:
                    self.dirty += dirty
                    self.pairs.append(pair)

    def measure_pair(self, at: int, is_new: bool) -> tuple[dict, bool]:
        """Measure pair number `at` of a chunk; the pair, and whether other processes disturbed it."""
        first = self.order.random() < 0.5
        names = KERNEL_NAMES[::-1] if first else KERNEL_NAMES
        calls = len(self.new_addresses) // 2 if is_new else self.calls
        places = pick_addresses(self.order, self.new_addresses if is_new else self.seen_addresses, calls)
        drawn = places if is_new else ([], [])
        if is_new:
            self.session.verify()  # of the inputs that are replaced now
            if self.kernel.launches:  # the device stays busy between the two samples
                drawn = ([*places[0], *places[1]], [])
        samples, before = {}, self.backend.disturbance([self.kernel.pid])
        for turn, (name, addresses) in enumerate(zip(names, places, strict=True)):
            base = (2 * at + turn) * self.calls
            slots = [(base + i) % self.slots for i in range(calls)]
            if drawn[turn]:
                self.session.announce(name, addresses, slots)
                self.ring.renew(drawn[turn], self.workload["dims"])
            samples[name] = self.session.sample(name, addresses, slots)
        seconds = {name: sample.seconds for name, sample in samples.items()}
        after = self.backend.disturbance([self.kernel.pid])
        dirty = self.backend.disturbed(before, after, sum(seconds.values()), list(samples.values()), DIRTY_PAIR_WAIT_S)
        return pair_record(seconds, calls, first, is_new), dirty

    def measure_warm_pairs(self) -> None:
        """Each timed call follows an untimed one on the same set and slot, poisoned in between."""
        for _ in range(self.workload["warm_pairs"]):
            first = self.order.random() < 0.5
            seconds = {}
            for turn, name in enumerate(KERNEL_NAMES[::-1] if first else KERNEL_NAMES):
                train, slots = [0] * self.calls, self.train_slots(turn)
                self.session.clear(max(self.train_slots(1)) + 1)
                self.session.sample(name, train, slots, flush=False, keep=False)
                self.session.ring.slots.poison(sorted(set(slots)))
                seconds[name] = self.session.sample(name, train, slots, flush=False).seconds
                self.session.verify()
            self.warm_pairs.append(pair_record(seconds, self.calls, first, False))

    def measure_launches(self) -> None:
        """On a GPU, measure seconds per call by the supervisor's clock with the launches included; BrokenRuleError
        where they disagree with the device's events."""
        if not self.kernel.launches:
            return
        for name, which in zip(KERNEL_NAMES, ("incumbent_s", "candidate_s"), strict=True):
            alone = statistics.median(pair[which] for pair in self.pairs)
            calls = min(math.ceil(LAUNCHED_TRAIN_S / alone), self.backend.longest)
            calls = min(calls, self.slots) if self.changes_arguments else calls
            train = [i % self.ring.addresses for i in range(calls)]
            slots = [i % self.slots for i in range(calls)]
            empty, walls, told = [], [], []
            for _ in range(5):
                empty.append(self.session.run_unchecked(name, [], []).wall)
                sample = self.session.run_unchecked(name, train, slots)
                walls.append((sample.wall - min(empty)) / calls)
                told.append(max(alone, sample.enqueue / calls))
            self.session.clear(self.slots)
            self.launched[f"launched_{name}_s"] = seen = statistics.median(walls)
            if name == "candidate" and seen > 1.3 * statistics.median(told) + 300e-6 / calls:
                raise BrokenRuleError(
                    name,
                    f"took {seen:.3g} s a call by the supervisor's clock, but its device events say {alone:.3g} "
                    f"s a call",
                )

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
            "dirty": self.dirty,
            "discarded": self.discarded,
            **self.launched,
        }

    def close(self) -> None:
        if self.ring:
            self.ring.close()


def pair_record(seconds: dict, calls: int, candidate_first: bool, is_new: bool) -> dict:
    return {
        "incumbent_s": seconds["incumbent"] / calls,
        "candidate_s": seconds["candidate"] / calls,
        "candidate_first": candidate_first,
        "new_inputs": is_new,
    }
