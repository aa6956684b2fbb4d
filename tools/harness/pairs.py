"""Samples of kernels over a ring: exchange elements, flush, call, look at the process, fingerprint; later verify.

What is checked of each timed call. Its inputs lie at an address that no other call of its train uses, and (floating inputs) a few of
their elements were exchanged just before, so that no answer from before is right. Its output slot was poisoned since its last use.
After the train the slot's guard bands must be whole, and what stood at secret places of it right after the train must still stand there
when all has been checked. Its values are compared with a float64 reference of exactly its inputs, every element, if it is one of those
chosen at random: of each kernel's calls since the last check at least a quarter (or LEAST of more than that), and of a kernel that
was not accepted before all of them as long as that takes no more than BUDGET_SHARE of the job. Of the other calls the oracle compares
the bits with a call that was so compared, and does the full comparison after all whenever that leaves a doubt (see oracle.py: an
element unwritten, NaN or Inf, one that the exchanged inputs cannot explain, or no difference at all). What remains possible is to be
wrong, with finite values, in the elements that the exchanged inputs reach (few, or few rows) of calls that were not chosen; cheating in
k calls of n goes unseen with a probability of at most about (1 - share)^k.
"""

import math
import random
import statistics
import time

from calm import BrokenRuleError, Calm, Watch
from kernels import Kernel, KernelError, Sample
from workload import CHANCE, Ring, Verdict, kinds

PLACES, FEW_PLACES = 256, 16
"""Secret places of each output that are read right after a sample and again at the end; fewer a call in long trains."""
SHARE, LEAST = 0.25, 64
"""Of a kernel's calls between two checks, at least this share, or this many if that is less, are compared in full."""
BUDGET_SHARE = 0.3
"""Beyond those, calls are compared in full while such comparisons have taken less than this share of the job's time."""
SLACK_S, SLACK_SHARE = 3e-4, 0.25
"""How much more the supervisor's clock may show beyond the kernel's own for the candidate than for the incumbent, in the median."""
COLD = 2
"""The ring and what lies between two uses of a buffer exceed this many times the last-level cache."""
FEW_ADDRESSES, MOST_ADDRESSES = 128, 2048
"""Addresses of a ring at most: to outgrow the cache, and for trains that use none twice."""
REST_S = 5e-3


class Call:
    """One call made: where, with which exchanges, and what its output looked like right afterwards (at the first `places`)."""

    def __init__(self, name: str, at: int, slot: int, swaps: list, places: int, seen: bytes):
        self.name, self.at, self.slot, self.swaps, self.places, self.seen = name, at, slot, swaps, places, seen


class Budget:
    """How many calls beyond the least are compared in full, over a whole job."""

    def __init__(self):
        self.start = time.perf_counter()
        self.spent = self.cost = 0.0
        """Seconds that full comparisons took in all, and the last ones each."""

    def affordable(self) -> int:
        left = BUDGET_SHARE * (time.perf_counter() - self.start) - self.spent
        return int(max(left, 0.0) / self.cost) if self.cost else 0

    def paid(self, seconds: list[float]) -> None:
        if seconds:
            self.spent += sum(seconds)
            self.cost = sum(seconds) / len(seconds)


class Deck:
    """Deals the ring's addresses in random order; none comes again before about half of the others did."""

    def __init__(self, order: random.Random, addresses: int):
        self.order, self.cards, self.next = order, list(range(addresses)), 0
        order.shuffle(self.cards)
        self.longest = max(addresses // 2, 1)

    def deal(self, calls: int) -> list[int]:
        """Different addresses; at most `longest`."""
        dealt = []
        for _ in range(calls):
            if self.next == len(self.cards):
                halves = self.cards[: self.longest], self.cards[self.longest :]
                for half in halves:
                    self.order.shuffle(half)
                self.cards, self.next = [*halves[0], *halves[1]], 0
            dealt.append(self.cards[self.next])
            self.next += 1
        return dealt


class Session:
    """Samples on one workload's ring in one process. `frozen` names the kernel that was accepted before, where it is among them."""

    def __init__(
        self,
        kernel: Kernel,
        ring: Ring,
        numeric: dict,
        widen: list | None,
        budget: Budget,
        *,
        flush: int,
        calm: Calm,
        frozen: str | None,
        watch: Watch | None = None,
    ):
        self.kernel, self.ring, self.numeric, self.widen, self.budget = kernel, ring, numeric, widen, budget
        self.flush, self.calm, self.frozen, self.watch = flush, calm, frozen, watch
        self.places = [CHANCE.random() for _ in range(PLACES)]
        self.calls: list[Call] = []
        self.clocks: dict[str, list[tuple[float, float]]] = {}
        self.max_error = 0.0
        self.tolerance: float | None = None
        self.exchange = True
        kernel.map(ring.shared, ring.plan, ring.slots)

    def sample(self, name: str, at: list[int], slots: list[int], *, flush: bool = True, keep: bool = True, stale: bool = False) -> Sample:
        """A train of calls, each on an address of its own and into a slot that was poisoned since its last use (or is `stale`).

        Without `keep` nothing is exchanged and the outputs are not checked: only to warm up.
        """
        ring, swaps = self.ring, {}
        if len(set(at)) != len(at):
            raise RuntimeError("a train would meet the same inputs twice")
        ring.slots.take(slots, stale=stale)
        if keep and self.exchange:
            swaps = {address: ring.swap(address) for address in at}
        packed = b"".join(self.kernel.pack(ring.arguments(a), a, s) for a, s in zip(at, slots, strict=True))
        try:
            if flush and self.flush:
                self.kernel.flush(self.flush)
            if self.watch:
                self.watch.look()
            result = self.kernel.run(name, packed, len(at), ring.names)
        except KernelError as error:
            raise BrokenRuleError(name, str(error), "died") from error
        finally:
            for address, done in swaps.items():
                ring.unswap(address, done)
        if keep:
            self.clocks.setdefault(name, []).append((result.wall, result.seconds))
            places = max(PLACES // len(at), FEW_PLACES)
            for a, s in zip(at, slots, strict=True):
                self.calls.append(Call(name, a, s, swaps.get(a, []), places, ring.slots.fingerprint(s, self.places[:places])))
        self.calm.check(name, result)
        return result

    def verify(self, *, full: bool = False, where: str = "") -> None:
        """Check every call made since the last time, all in full if so asked; BrokenRuleError names the one to blame."""
        ring, calls = self.ring, self.calls
        self.calls = []
        self.calm.begin_rest()
        chosen = set(range(len(calls))) if full else self._chosen(calls)
        answers = ring.check(
            [
                {"at": c.at, "slot": c.slot, "swaps": c.swaps, "tag": f"{c.name}/{ring.value(c.at)}", "full": k in chosen}
                for k, c in enumerate(calls)
            ]
        )
        for call, answer in zip(calls, answers, strict=True):
            if answer["full"]:
                self._judge(call, answer, where)
        for call in calls:
            if ring.slots.fingerprint(call.slot, self.places[: call.places]) != call.seen:
                raise BrokenRuleError(call.name, "went on writing its output after it had returned", "late")
            if not ring.slots.guards_intact(call.slot):
                raise BrokenRuleError(call.name, "wrote outside its output (the guard band beside it is changed)", "bounds")
        self.budget.paid([answer["seconds"] for answer in answers if answer["full"]])
        self.rested(calls)

    def _judge(self, call: Call, answer: dict, where: str) -> None:
        verdict = Verdict(answer["outputs"], self.numeric, self.widen)
        self.max_error = max(self.max_error, verdict.max_error or 0.0)
        self.tolerance = verdict.tolerance
        if not verdict.ok:
            raise BrokenRuleError(call.name, f"is wrong on a timed call{where}: {verdict.reason}", "wrong")

    def _chosen(self, calls: list[Call]) -> set[int]:
        """Which calls are compared in full."""
        affordable, chosen = self.budget.affordable(), set()
        for name in {call.name for call in calls}:
            own = [k for k, call in enumerate(calls) if call.name == name]
            wanted = min(math.ceil(SHARE * len(own)), LEAST) + (affordable if name != self.frozen else 0)
            chosen.update(CHANCE.sample(own, min(wanted, len(own))))
        return chosen

    def rested(self, calls: list[Call]) -> None:
        """The process had nothing to do since the check began. In a process of two, the frozen kernel was looked at before by itself."""
        names = {call.name for call in calls}
        if names:
            name = next(iter(names - {self.frozen}), self.frozen)
            self.calm.end_rest(name, frozen=name == self.frozen)

    def introduce(self, name: str, deck: Deck) -> None:
        """The first checked calls of a kernel; the frozen one must be right with exchanged elements, else nothing is exchanged."""
        try:
            self._introduce(name, deck)
        except BrokenRuleError as error:
            if not self.give_in(error):
                raise
            self._introduce(name, deck)

    def _introduce(self, name: str, deck: Deck) -> None:
        """Once on poison, and once where the output holds a good answer to nearly the same question: it must not be taken for this one."""
        at = deck.deal(1)
        self.clear([0])
        self.sample(name, at, [0], flush=False)
        self.verify(full=True)
        self.sample(name, at, [0], flush=False, stale=True)
        self.verify(full=True, where=" (its output held an earlier answer)")
        self.calm.begin_rest()
        time.sleep(REST_S)
        self.calm.end_rest(name, frozen=name == self.frozen)

    def give_in(self, error: BrokenRuleError) -> bool:
        """Stop exchanging elements where the frozen kernel, accepted long ago, is wrong with them: inputs must stay sorted, say."""
        if not self.exchange or error.kind != "wrong" or error.culprit != self.frozen:
            return False
        self.exchange = False
        self.max_error, self.calls = 0.0, []
        self.ring.oracle.call("forget")
        return True

    def next_values(self) -> None:
        """Where nothing is exchanged, an address must at least not keep its values."""
        if not (self.exchange and self.ring.exchangeable):
            self.ring.reshuffle()

    def clocks_agree(self) -> None:
        """The process's own times against the supervisor's clock: what lies between must be alike for both kernels."""
        beyond = {name: statistics.median(wall - own for wall, own in seen) for name, seen in self.clocks.items()}
        if set(beyond) < {"incumbent", "candidate"}:
            return
        wall = statistics.median(wall for wall, _ in self.clocks["candidate"])
        if beyond["candidate"] - beyond["incumbent"] > SLACK_S + SLACK_SHARE * wall:
            raise BrokenRuleError("candidate", f"took {wall:.2g} s by the supervisor's clock, much longer than by its own", "clock")

    def inputs_intact(self, name: str) -> None:
        """Once a workload: the kernels' process cannot map the inputs for writing, so this only guards against the unforeseen."""
        if not self.ring.inputs_intact():
            raise BrokenRuleError(name, "changed its inputs", "inputs")

    def clear(self, slots) -> None:
        for slot in slots:
            self.ring.slots.poison_slot(slot)


def make_sets(oracle, dims: dict, seed: int, distinct: int, first: list[dict]) -> list[list[dict]]:
    """`distinct` value sets with ids 0..; set 0 is there already."""
    return [first] + [oracle.call("make", id=i, dims=dims, seed=seed + i, distribution="as_given")["args"] for i in range(1, distinct)]


def ring_size(set_bytes: int, cache: int, calls: int, memory: int) -> tuple[int, int, int]:
    """(distinct value sets, addresses, bytes to flush before each sample) so that no call finds its buffers in the cache."""
    wanted = COLD * cache // max(set_bytes, 1) + 1
    fits = max(memory // 4 // max(set_bytes, 1), 3)
    addresses = min(max(3, min(wanted, FEW_ADDRESSES), 2 * calls), MOST_ADDRESSES, fits)
    flush = 0 if addresses * set_bytes > COLD * cache else COLD * cache
    distinct = 2 if set_bytes > 8 << 20 else 3 if set_bytes > 1 << 20 else 6
    return min(addresses, distinct), addresses, flush


def baseline_errors(supervisor, request: dict, ring: Ring) -> list | None:
    """The frozen baseline's own errors on address 0, which widen the tolerance; None without one or when it fails."""
    if "baseline" not in request["libraries"]:
        return None
    path = supervisor.library(request["libraries"]["baseline"])
    try:
        kernel = supervisor.kernel(kinds(request["task"]), {"baseline": path}, request["call_limit_s"])
        try:
            kernel.load("baseline")
            kernel.map(ring.shared, ring.plan, ring.slots)
            ring.slots.poison_slot(0)
            ring.slots.take([0])
            kernel.run("baseline", kernel.pack(ring.arguments(0), 0, 0), 1)
        finally:
            kernel.close()
    except KernelError:
        return None
    verdict = Verdict(ring.check([{"at": 0, "slot": 0}])[0]["outputs"], request["task"]["numeric"])
    return verdict.errors if verdict.ok else None
