"""One workload in memory: a ring of input sets at distinct addresses, output slots, and the oracle's access to both."""

import copy
import random

from harness.memory import host_buffers

SECRET_RANDOM = random.SystemRandom()
TOLERANCE_HINT = "`tolerance: as_stated` in the config takes the reference's rtol and atol beyond it"
ULPS = 8
"""Units in the last place by which an output at a timed shape may differ, relative to |reference| + rms of its row,
where neither torch nor the frozen baseline differ by half of it or more."""
UNITS_IN_LAST_PLACE = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
FLOATING = (*UNITS_IN_LAST_PLACE, "float8_e4m3fn", "float8_e5m2")


READ_ROLES, WRITTEN_ROLES = ("input", "inout"), ("output", "inout")
"""Roles of the arguments whose content a kernel is given, and of those that it writes."""


class WorkloadError(Exception):
    """The reference cannot compute this workload, or it does not fit in memory; the text is a sentence."""

    log = ""
    wrong = 0
    """The input, from 1, for which a contestant computed something else than the reference; 0: it did not."""


class InfraError(Exception):
    """The machine or the harness failed; the text is a sentence."""


def element_count(shape: list[int]) -> int:
    """Return the product of a shape's extents."""
    total = 1
    for extent in shape:
        total *= extent
    return total


class InputSets:
    """The input set at each address; rings with slots of their own share it."""

    def __init__(self, made: list[list[dict]], addresses: int):
        self.made = dict(enumerate(made))
        self.ids = [at % len(made) for at in range(addresses)]
        """Address -> id of its set."""
        self.last = len(made) - 1
        self.scalar_changes = 0
        """Times that a new set had other scalars than the first one."""
        self._check_shapes(made)

    def replace(self, dropped: list[int], made: dict[int, list[dict]]) -> None:
        """Forget the sets `dropped` and remember the arguments of new ones."""
        first = next(iter(self.made.values()))
        self._check_shapes([first, *made.values()])
        self.scalar_changes += any(scalars_of(args) != scalars_of(first) for args in made.values())
        self.made |= made
        for identity in dropped:
            del self.made[identity]

    @staticmethod
    def _check_shapes(made: list[list[dict]]) -> None:
        if any([a["shape"] for a in args] != [a["shape"] for a in made[0]] for args in made):
            raise WorkloadError(
                "reference.py: make_inputs gives other shapes for other seeds; make the shapes depend on dims alone"
            )


def scalars_of(arguments: list[dict]) -> dict:
    """Return the scalars among a set's arguments by name."""
    return {a["name"]: a["value"] for a in arguments if a["role"] == "scalar"}


def secret_seed() -> int:
    """Return a new seed that cannot be told from earlier ones, in the 31 bits that every generator takes."""
    return SECRET_RANDOM.randrange(1 << 31)


class Ring:
    """`made` input sets at `addresses` addresses, and `slots` output slots.

    `made` holds the arguments of each set, whose ids the oracle knows.
    """

    def __init__(self, backend, made: list[list[dict]], addresses: int, slots: int, edge: str = ""):
        self.backend = backend
        self.oracle = backend.oracle
        self.lane = 0
        self.sets = InputSets(made, addresses)
        first = made[0]
        self.ins = [a for a in first if a["role"] in READ_ROLES]
        self.outs = [a for a in first if a["role"] in WRITTEN_ROLES]
        self.changed = [
            (self.ins.index(a), at, self._bytes(a)) for at, a in enumerate(self.outs) if a["role"] == "inout"
        ]
        """Place among the inputs, place among the outputs and bytes of each in/out argument. Its content lies among the
        inputs, where no kernel can change it, and is copied into the slot of each call."""
        self.names = [a["name"] for a in self.ins]
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
        return sum(Ring._bytes(a) * (1 + (a["role"] == "inout")) for a in args if a["role"] != "scalar")

    @staticmethod
    def output_bytes(args: list[dict]) -> list[int]:
        """Return the bytes of each output."""
        return [Ring._bytes(a) for a in args if a["role"] in WRITTEN_ROLES]

    @staticmethod
    def _bytes(argument: dict) -> int:
        return element_count(argument["shape"]) * host_buffers.item_bytes(argument["dtype"])

    @property
    def addresses(self) -> int:
        """Return the number of addresses."""
        return len(self.inputs.offsets)

    def set_id(self, at: int) -> int:
        """Return the id of the input set at an address."""
        return self.sets.ids[at]

    def arguments(self, at: int) -> list[dict]:
        """Return the arguments at an address."""
        return self.sets.made[self.set_id(at)]

    def renew(self, addresses: list[int], dims: dict) -> None:
        """Replace the inputs at `addresses` by sets that no kernel has seen, drawn by the task's own generator; no two
        addresses share a set, and no set's seed tells another's."""
        sets, before = self.sets, [self.sets.ids[at] for at in addresses]
        drawn = []
        for at in addresses:
            sets.ids[at] = sets.last = sets.last + 1
            drawn.append({"id": sets.last, "seed": secret_seed(), "offsets": self.inputs.offsets[at]})
        dropped = sorted(set(before) - set(sets.ids))
        made = self.oracle.call("renew_inputs", dims=dims, sets=drawn, dropped=dropped)["made"]
        sets.replace(dropped, {one["id"]: args for one, args in zip(drawn, made, strict=True)})

    def restore(self, at: list[int], slots: list[int], *, cold: bool = False) -> None:
        """Give the in/out arguments of each slot the content of the input set at its address."""
        inputs, outputs = self.inputs.offsets, self.slots.plan.offsets
        if self.changed:
            pairs = zip(at, slots, strict=True)
            copies = [(inputs[a][i], outputs[s][o], size) for a, s in pairs for i, o, size in self.changed]
            self.slots.restore(self.inputs, copies, cold=cold)

    def check(self, entries: list[dict]) -> list[dict]:
        """Return the oracle's comparison of outputs; an entry is {at, slot, tag}."""
        slots = [
            {
                "id": self.set_id(e["at"]),
                "lane": self.lane,
                "offsets": self.slots.plan.offsets[e["slot"]],
                "tag": e.get("tag", ""),
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


def numeric_at_timed_shape(numeric: dict, widen: list | None) -> dict:
    """Return the limits for a kernel at a shape that is timed: `ULPS` units in the last place take the place of the
    floor, which serves hidden sizes. A tolerance that the user stated stays, and the floor where no frozen baseline is
    compared with."""
    if widen is None or numeric.get("rtol") is not None or numeric.get("atol") is not None:
        return numeric
    units = {dtype: ULPS * unit for dtype, unit in UNITS_IN_LAST_PLACE.items()}
    return numeric | {"floor": numeric["floor"] | units}


def tolerance(numeric: dict, dtype: str, torch_error: float | None, baseline_error: float | None) -> float:
    """Return min(cap, max(floor, 2 e(torch), 2 e(baseline))), the largest error allowed; 0 for integers and bool."""
    if dtype not in FLOATING:
        return 0.0
    floor, cap = numeric["floor"].get(dtype, 0.0), numeric["cap"].get(dtype, float("inf"))
    return min(cap, max(floor, 2 * (torch_error or 0.0), 2 * (baseline_error or 0.0)))


def describe_failure(answer: dict, limit: float, *, secret: bool) -> str:
    """Return why an output is wrong; without its values if the inputs are `secret`."""
    difference = answer["problem"] or f"relative error {answer['error']:.3g} exceeds the tolerance {limit:.3g}"
    difference += answer["ties"]
    if secret:
        said = f"wrong values{answer['ties']}" if answer["problem"] else "the error exceeds the tolerance"
        return f"output {answer['name']}: {said}"
    element = f"{answer['name']}[{', '.join(map(str, answer['index']))}]"
    return f"{difference}; {element} is {answer['got']}, expected {answer['expected']}"


def parameter_kinds(task: dict) -> tuple[str, ...]:
    """Return the signature in the trampoline's form."""
    return tuple(a["dtype"] if a["role"] == "scalar" else "pointer" for a in task["arguments"])


def format_dims(dims: dict) -> str:
    """Return the sizes as text, "M=4 N=8"."""
    return " ".join(f"{name}={value}" for name, value in dims.items())
