"""One workload in memory: a ring of input sets at distinct addresses, output slots, and the oracle's access to both."""

import copy
import math
import random

from harness.memory import host_buffers

SWAPS_PER_CALL = 4
"""Pairs of elements exchanged in each floating input before a timed call, at secret places."""
TRIAL_SWAPS = 64
"""Pairs of elements exchanged in a trial of whether the frozen kernel tolerates exchanged inputs: so many that no
intolerant kernel passes by luck. Inputs with fewer elements need several trials (`Ring.trials`)."""
SECRET_RANDOM = random.SystemRandom()
TOLERANCE_HINT = "`tolerance: as_stated` in the config takes the reference's rtol and atol beyond it"
FLOATING = ("float64", "float32", "float16", "bfloat16")


class WorkloadError(Exception):
    """The reference cannot compute this workload, or it does not fit in memory; the text is a sentence."""

    log = ""


class InfraError(Exception):
    """The machine or the harness failed; the text is a sentence."""


def element_count(shape: list[int]) -> int:
    """Return the product of a shape's extents."""
    total = 1
    for extent in shape:
        total *= extent
    return total


class Ring:
    """`made` input sets at `addresses` addresses, and `slots` output slots.

    `made` holds the arguments of each set, whose ids the oracle knows.
    """

    def __init__(self, backend, made: list[list[dict]], addresses: int, slots: int, edge: str = ""):
        self.backend = backend
        self.oracle = backend.oracle
        self.lane = 0
        self.made = made
        first = made[0]
        self.ins = [a for a in first if a["role"] == "input"]
        self.outs = [a for a in first if a["role"] == "output"]
        self.names = [a["name"] for a in self.ins]
        if any([a["shape"] for a in args] != [a["shape"] for a in first] for args in made):
            raise WorkloadError(
                "reference.py: make_inputs gives other shapes for other seeds; make the shapes depend on dims alone"
            )
        self._allocate(addresses, slots, edge)

    def _allocate(self, addresses: int, slots: int, edge: str) -> None:
        """Allocate inputs and slots, and copy the input sets to their addresses."""
        self.inputs = self.backend.inputs([self._bytes(a) for a in self.ins], addresses, edge)
        self._allocate_slots(slots, edge)
        for at, offsets in enumerate(self.inputs.offsets):
            self.oracle.call("copy_inputs", id=self.set_id(at), offsets=offsets)

    def _allocate_slots(self, slots: int, edge: str = "") -> None:
        floating = [a["dtype"] in FLOATING for a in self.outs]
        self.slots = self.backend.slots(self.lane, [self._bytes(a) for a in self.outs], floating, slots, edge)

    def move_to_edge(self, edge: str) -> None:
        """Place the same values, one set and one slot, with unmapped pages at the other edge."""
        self.inputs.close()
        self.slots.close()
        self._allocate(1, 1, edge)

    def with_own_slots(self, lane: int, slots: int) -> "Ring":
        """Return a ring of the same inputs with output slots of its own (lane 1, 2 ...), for a process that must not
        see the others' outputs."""
        ring = copy.copy(self)
        ring.lane = lane
        ring._allocate_slots(slots)
        return ring

    @staticmethod
    def set_bytes(args: list[dict]) -> int:
        """Return the bytes of one set's inputs and outputs."""
        return sum(Ring._bytes(a) for a in args if a["role"] != "scalar")

    @staticmethod
    def output_bytes(args: list[dict]) -> list[int]:
        """Return the bytes of each output."""
        return [Ring._bytes(a) for a in args if a["role"] == "output"]

    @staticmethod
    def _bytes(argument: dict) -> int:
        return element_count(argument["shape"]) * host_buffers.item_bytes(argument["dtype"])

    @property
    def addresses(self) -> int:
        """Return the number of addresses."""
        return len(self.inputs.offsets)

    def set_id(self, at: int) -> int:
        """Return the id of the input set at an address."""
        return at % len(self.made)

    def arguments(self, at: int) -> list[dict]:
        """Return the arguments at an address."""
        return self.made[self.set_id(at)]

    def swap(self, addresses: list[int], pairs: int) -> dict[int, list[tuple[int, int, int]]]:
        """Exchange `pairs` of elements of each floating input at each address, so that no result can be known in
        advance.

        Returns address -> the (input, element, element) that were exchanged and differed.
        """
        chosen = [(at, *pair) for at in addresses for pair in self._choose_pairs(pairs)]
        differed = self.inputs.exchange([self._pair_offsets(*one) for one in chosen])
        exchanged: dict[int, list[tuple[int, int, int]]] = {at: [] for at in addresses}
        for (at, *pair), differs in zip(chosen, differed, strict=True):
            if differs:
                exchanged[at].append(tuple(pair))
        return exchanged

    def trials(self) -> int:
        """Return how many trials with exchanged inputs the frozen kernel gets: several if the floating inputs are so
        small that one permutation may be harmless by luck."""
        elements = max((element_count(a["shape"]) for a in self.ins if a["dtype"] in FLOATING), default=0)
        return math.ceil(2 * TRIAL_SWAPS / elements) if elements > 1 else 1

    def unswap(self, exchanged: dict[int, list[tuple[int, int, int]]]) -> None:
        """Undo the exchanges that `swap` returned."""
        self.inputs.exchange([self._pair_offsets(at, *pair) for at, pairs in exchanged.items() for pair in pairs])

    def _choose_pairs(self, pairs: int) -> list[tuple[int, int, int]]:
        """Return disjoint pairs of elements, so that their order does not matter."""
        chosen = []
        for which, argument in enumerate(self.ins):
            elements = element_count(argument["shape"])
            if argument["dtype"] not in FLOATING or elements < 2:
                continue
            elements_of_pairs = SECRET_RANDOM.sample(range(elements), 2 * min(pairs, elements // 2))
            chosen += [(which, i, j) for i, j in zip(elements_of_pairs[::2], elements_of_pairs[1::2], strict=True)]
        return chosen

    def _pair_offsets(self, at: int, which: int, i: int, j: int) -> tuple[int, int, int]:
        """Return the offsets of both elements of a pair and the bytes of each."""
        size = host_buffers.item_bytes(self.ins[which]["dtype"])
        start = self.inputs.offsets[at][which]
        return start + i * size, start + j * size, size

    def check(self, entries: list[dict]) -> list[dict]:
        """Return the oracle's comparison of outputs; an entry is {at, slot, swaps, tag, full}."""
        slots = [
            {
                "id": self.set_id(e["at"]),
                "lane": self.lane,
                "offsets": self.slots.plan.offsets[e["slot"]],
                "swaps": e.get("swaps", []),
                "tag": e.get("tag", ""),
                "full": e.get("full", True),
            }
            for e in entries
        ]
        return self.oracle.call("compare_slots", slots=slots)["slots"]

    def inputs_intact(self) -> bool:
        """Whether no input has changed."""
        return all(
            not self.oracle.call("changed_inputs", id=self.set_id(at), offsets=offsets)["changed"]
            for at, offsets in enumerate(self.inputs.offsets)
        )

    def flush(self, at: list[int], slots: list[int]) -> None:
        """Evict the inputs at these addresses and these slots from the caches, where that is possible."""
        self.backend.flush([(self.inputs, sorted(set(at))), (self.slots, sorted(set(slots)))])

    def close(self) -> None:
        if self.lane == 0:
            self.oracle.call("release_all")
            self.inputs.close()
        self.slots.close()


class OutputVerdict:
    """Result of the tolerance rule for one call's outputs."""

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
    """Return min(cap, max(floor, 2 e(torch), 2 e(baseline))), the largest error allowed; 0 for integers and bool."""
    if dtype not in FLOATING:
        return 0.0
    floor, cap = numeric["floor"].get(dtype, 0.0), numeric["cap"].get(dtype, float("inf"))
    return min(cap, max(floor, 2 * (torch_error or 0.0), 2 * (baseline_error or 0.0)))


def describe_failure(answer: dict, limit: float, *, secret: bool) -> str:
    """Return why an output is wrong; without its values if the inputs are `secret`."""
    difference = answer["problem"] or f"relative error {answer['error']:.3g} exceeds the tolerance {limit:.3g}"
    if secret:
        return f"output {answer['name']}: {'wrong values' if answer['problem'] else 'the error exceeds the tolerance'}"
    element = f"{answer['name']}[{', '.join(map(str, answer['index']))}]"
    return f"{difference}; {element} is {answer['got']}, expected {answer['expected']}"


def parameter_kinds(task: dict) -> tuple[str, ...]:
    """Return the signature in the trampoline's form."""
    return tuple(a["dtype"] if a["role"] == "scalar" else "pointer" for a in task["arguments"])


def format_dims(dims: dict) -> str:
    """Return the sizes as text, "M=4 N=8"."""
    return " ".join(f"{name}={value}" for name, value in dims.items())
