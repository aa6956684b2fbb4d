"""One workload in memory: a ring of input sets at distinct addresses, output slots, and the oracle's view of both."""

import copy
import math
import random

from harness.memory import host_buffers

SWAPS_PER_CALL = 4
"""Pairs of elements exchanged in each floating input before a timed call, at secret places."""
TRIAL_SWAPS = 64
"""Pairs exchanged when the frozen kernel is asked whether it bears that at all: so many that none gets through by
luck. Inputs with fewer elements are exchanged as often as it takes (`Ring.trials`)."""
SECRET_RANDOM = random.SystemRandom()
TOLERANCE_HINT = "`tolerance: as_stated` in the config takes the reference's rtol and atol beyond it"
FLOATING = ("float64", "float32", "float16", "bfloat16")


class WorkloadError(Exception):
    """The reference cannot do this workload, or it does not fit; the text is a sentence."""

    log = ""


class InfraError(Exception):
    """The machine or the harness failed; the text is a sentence."""


def element_count(shape: list[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


class Ring:
    """`values` input sets (ids known to the oracle) laid out at `addresses` places, and `slots` output slots."""

    def __init__(self, place, made: list[list[dict]], addresses: int, slots: int, edge: str = ""):
        self.backend = place
        self.oracle = place.oracle
        self.lane = 0
        self.made = made
        first = made[0]
        self.ins = [a for a in first if a["role"] == "input"]
        self.outs = [a for a in first if a["role"] == "output"]
        self.names = [a["name"] for a in self.ins]
        if any([a["shape"] for a in args] != [a["shape"] for a in first] for args in made):
            raise WorkloadError(
                "reference.py: make_inputs gives other shapes for other seeds; make them depend on dims alone"
            )
        self._lay(addresses, slots, edge)

    def _lay(self, addresses: int, slots: int, edge: str) -> None:
        self.inputs = self.backend.inputs([self._bytes(a) for a in self.ins], addresses, edge)
        self._open(slots, edge)
        for at, offsets in enumerate(self.inputs.offsets):
            self.oracle.call("place", id=self.value(at), offsets=offsets)

    def _open(self, slots: int, edge: str = "") -> None:
        floating = [a["dtype"] in FLOATING for a in self.outs]
        self.slots = self.backend.slots(self.lane, [self._bytes(a) for a in self.outs], floating, slots, edge)

    def move(self, edge: str) -> None:
        """Lay the same values of one set and one slot against pages that are not mapped at the other edge."""
        self.inputs.close()
        self.slots.close()
        self._lay(1, 1, edge)

    def with_own_slots(self, lane: int, slots: int) -> "Ring":
        """The same inputs with output slots of its own (lane 1, 2 ...), for a process that must not see the others'
        outputs."""
        other = copy.copy(self)
        other.lane = lane
        other._open(slots)
        return other

    @staticmethod
    def set_bytes(args: list[dict]) -> int:
        return sum(Ring._bytes(a) for a in args if a["role"] != "scalar")

    @staticmethod
    def output_bytes(args: list[dict]) -> list[int]:
        return [Ring._bytes(a) for a in args if a["role"] == "output"]

    @staticmethod
    def _bytes(argument: dict) -> int:
        return element_count(argument["shape"]) * host_buffers.item_bytes(argument["dtype"])

    @property
    def addresses(self) -> int:
        return len(self.inputs.offsets)

    def value(self, at: int) -> int:
        """Which values lie at an address."""
        return at % len(self.made)

    def arguments(self, at: int) -> list[dict]:
        return self.made[self.value(at)]

    def swap(self, addresses: list[int], pairs: int) -> dict[int, list[tuple[int, int, int]]]:
        """Exchange `pairs` of elements of the floating inputs at each address, so that nobody can know the answer from
        before.

        Address -> the (input, element, element) that were exchanged and differed.
        """
        chosen = [(at, *pair) for at in addresses for pair in self._choose(pairs)]
        differed = self.inputs.exchange([self._places(*one) for one in chosen])
        done: dict[int, list[tuple[int, int, int]]] = {at: [] for at in addresses}
        for (at, *pair), differs in zip(chosen, differed, strict=True):
            if differs:
                done[at].append(tuple(pair))
        return done

    def trials(self) -> int:
        """How often the frozen kernel is asked: once, or more often where the floating inputs are so small that one
        permutation of theirs may do no harm by luck."""
        elements = max((element_count(a["shape"]) for a in self.ins if a["dtype"] in FLOATING), default=0)
        return math.ceil(2 * TRIAL_SWAPS / elements) if elements > 1 else 1

    def unswap(self, done: dict[int, list[tuple[int, int, int]]]) -> None:
        self.inputs.exchange([self._places(at, *pair) for at, pairs in done.items() for pair in pairs])

    def _choose(self, pairs: int) -> list[tuple[int, int, int]]:
        """Disjoint pairs of elements, so that their order does not matter."""
        found = []
        for which, argument in enumerate(self.ins):
            elements = element_count(argument["shape"])
            if argument["dtype"] not in FLOATING or elements < 2:
                continue
            picked = SECRET_RANDOM.sample(range(elements), 2 * min(pairs, elements // 2))
            found += [(which, i, j) for i, j in zip(picked[::2], picked[1::2], strict=True)]
        return found

    def _places(self, at: int, which: int, i: int, j: int) -> tuple[int, int, int]:
        size = host_buffers.item_bytes(self.ins[which]["dtype"])
        start = self.inputs.offsets[at][which]
        return start + i * size, start + j * size, size

    def check(self, entries: list[dict]) -> list[dict]:
        """The oracle's answers; an entry is {at, slot, swaps, tag, full}."""
        asked = [
            {
                "id": self.value(e["at"]),
                "lane": self.lane,
                "offsets": self.slots.plan.offsets[e["slot"]],
                "swaps": e.get("swaps", []),
                "tag": e.get("tag", ""),
                "full": e.get("full", True),
            }
            for e in entries
        ]
        return self.oracle.call("check", slots=asked)["slots"]

    def inputs_intact(self) -> bool:
        return all(
            not self.oracle.call("intact", id=self.value(at), offsets=offsets)["changed"]
            for at, offsets in enumerate(self.inputs.offsets)
        )

    def flush(self, at: list[int], slots: list[int]) -> None:
        """Put the inputs at these addresses and these slots out of the caches, where that can be done."""
        self.backend.flush([(self.inputs, sorted(set(at))), (self.slots, sorted(set(slots)))])

    def close(self) -> None:
        if self.lane == 0:
            self.oracle.call("drop")
            self.inputs.close()
        self.slots.close()


class OutputVerdict:
    """What the tolerance rule says of one call's outputs."""

    def __init__(
        self, answers: list[dict], numeric: dict, widen: list[float | None] | None = None, *, secret: bool = False
    ):
        self.ok = True
        self.max_error: float | None = None
        self.tolerance: float | None = None
        self.torch_error: float | None = None
        self.errors = [a["error"] for a in answers]
        self.reason = ""
        ratio = -1.0
        for at, answer in enumerate(answers):
            error, torch_error = answer["error"], answer["torch_error"]
            base = widen[at] if widen else None
            limit = tolerance(numeric, answer["dtype"], torch_error, base)
            ok = error is not None and error <= limit
            share = float("inf") if error is None else error / limit if limit else (0.0 if error == 0 else float("inf"))
            if share > ratio:
                ratio, self.max_error, self.tolerance, self.torch_error = share, error, limit, torch_error
            if not ok and self.ok:
                self.ok = False
                self.reason = describe_failure(answer, limit, secret=secret)
                floor, cap = (numeric[name].get(answer["dtype"]) for name in ("floor", "cap"))
                if not secret and cap and (numeric.get("atol") or floor == cap) and (error or 0.0) > cap:
                    self.reason += f"; the cap for {answer['dtype']} is {cap:g}, and {TOLERANCE_HINT}"


def tolerance(numeric: dict, dtype: str, torch_error: float | None, baseline_error: float | None) -> float:
    """min(cap, max(floor, 2 e(torch), 2 e(baseline))); integers and bool are exact."""
    if dtype not in FLOATING:
        return 0.0
    floor, cap = numeric["floor"].get(dtype, 0.0), numeric["cap"].get(dtype, float("inf"))
    return min(cap, max(floor, 2 * (torch_error or 0.0), 2 * (baseline_error or 0.0)))


def describe_failure(answer: dict, limit: float, *, secret: bool) -> str:
    what = answer["problem"] or f"relative error {answer['error']:.3g} exceeds the tolerance {limit:.3g}"
    if secret:
        return f"output {answer['name']}: {'wrong values' if answer['problem'] else 'the error exceeds the tolerance'}"
    place = f"{answer['name']}[{', '.join(map(str, answer['index']))}]"
    return f"{what}; {place} is {answer['got']}, expected {answer['expected']}"


def parameter_kinds(task: dict) -> tuple[str, ...]:
    """The signature as the trampoline wants it."""
    return tuple(a["dtype"] if a["role"] == "scalar" else "pointer" for a in task["arguments"])


def format_dims(dims: dict) -> str:
    return " ".join(f"{name}={value}" for name, value in dims.items())
