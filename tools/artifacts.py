"""What the tools make and exchange: frozen pydantic models, one docstring under each field.

Jobs and devices are declared at the seam that they cross (`tools.executors.base`), figures of the hardware in
`tools.roofline.hardware`. Times are seconds, sizes bytes, rates per second, unless a field says otherwise. Nothing here
computes.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

Role = Literal["input", "output", "scalar"]
DType = Literal["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
Number = int | float
Dims = dict[str, Number]
"""A workload's named sizes and scalars, e.g. {"M": 4096, "N": 1024, "eps": 1e-5}."""
Axis = Literal["compute", "memory", "latency", "occupancy"]
Bound = Literal["memory", "compute", "latency", "occupancy", "mixed", "unknown"]
Outcome = Literal["accept", "reject_correctness", "reject_policy", "reject_perf", "inconclusive", "infra_error"]
Stage = Literal["screen", "build", "correctness", "timing"]


class Artifact(BaseModel):
    """Base of all artifacts: immutable, no unknown fields, field docstrings in the schema."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The schema with each field's docstring as its description.

        Read from the source when a schema is asked for: pydantic's own `use_attribute_docstrings` does so for every
        class at import, which was a fifth of what it took to import `graph.lifecycle.run`.
        """
        found = handler(core_schema)
        properties = handler.resolve_ref_schema(found).get("properties", {})
        for name, text in field_docstrings(cls).items():
            if name in properties:
                properties[name].setdefault("description", text)
        return found


@cache
def field_docstrings(kind: type[BaseModel]) -> dict[str, str]:
    """Field -> the docstring below it, those of base classes included; a class whose source cannot be had has its
    bases' only."""
    found: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if issubclass(base, BaseModel) and base is not BaseModel]):
        with suppress(OSError, TypeError):
            (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(node, ast.ClassDef), "the source of a class"
            for field, below in pairwise(node.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = inspect.cleandoc(text)
    return found


def digest(text: str | bytes) -> str:
    """sha256 of text (UTF-8) or bytes, in hex."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


# ---------------------------------------------------------------- the task


class Argument(Artifact):
    """One parameter of the kernel, in ABI order."""

    name: str
    role: Role
    dtype: DType
    """Element type of a tensor; a scalar's C type (int32, int64, float32, float64, bool)."""
    shape: tuple[str, ...] = ()
    """Extent of each axis: a dim's name where it follows that dim over the visible workloads, else a number. Empty
    for scalars."""


class Workload(Artifact):
    """One point at which the kernel must be right and is timed."""

    name: str
    dims: Dims
    weight: float = 1.0
    """Its share in the objective (relative call count)."""
    hidden: bool = False
    """Drawn by the judge from the run's secret; never in a file that a prompt can contain."""
    margin: float | None = None
    """How much longer a call may take than the incumbent's before the gate refuses, relative; None:
    `judge.workload_margin`."""


class NumericPolicy(Artifact):
    """How exact an output must be; see `tools.judge.judge` for the rule these feed."""

    precision: Literal["ieee", "tf32", "bf16"] = "ieee"
    floor: dict[DType, float] = Field(default_factory=lambda: dict(DEFAULT_FLOORS))
    """Relative error per dtype that always passes."""
    cap: dict[DType, float] = Field(default_factory=lambda: dict(DEFAULT_CAPS))
    """Relative error per dtype that never passes, however bad torch and the baseline are; no entry: the user lifted
    it."""
    rtol: float | None = None
    """As the user stated it; `floor` has what counts."""
    atol: float | None = None
    """Stated by the user: an element within atol + floor · |reference| passes up to the cap."""


DEFAULT_FLOORS: dict[DType, float] = {"float64": 1e-12, "float32": 4e-5, "float16": 4e-3, "bfloat16": 3e-2}
DEFAULT_CAPS: dict[DType, float] = {"float64": 1e-9, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}


class Rivals(Artifact):
    """Functions of other libraries that a benchmark times beside the reference; each takes what the reference takes."""

    source: str
    """Text of the Python file that defines them."""
    names: tuple[str, ...]
    """Of its functions, in order."""


class Task(Artifact):
    """What must be computed, frozen for a whole run. `identity()` changes when any constraint does."""

    name: str
    language: str
    arguments: tuple[Argument, ...]
    """In ABI order."""
    reference: str
    """Source text of reference.py."""
    baseline: str | None = None
    """Source text of the user's kernel; None where only PyTorch logic is given."""
    workloads: tuple[Workload, ...]
    """The visible ones."""
    dims_range: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Inclusive range of each integer dim from which hidden workloads are drawn; empty: none are drawn."""
    numeric: NumericPolicy = NumericPolicy()
    build_flags: tuple[str, ...] = ()
    """The user's own compiler flags, for baseline and candidates alike; empty: the language's defaults."""
    seed_style: bool = False
    """The reference has no make_inputs: pointers are flat buffers filled by the harness (see `pointer_elements`)."""
    pointer_elements: int = 0
    """Seed style only: elements of every pointer buffer; 0: the product of the two largest dims of the workload."""
    inferred: tuple[str, ...] = ()
    """One sentence for each thing that was inferred rather than declared; `check` prints them."""
    library: tuple[str, ...] | None = None
    """Operators of torch (`aten.mm`) that host code may call, on the arguments and its own scratch; None: none."""
    rivals: Rivals | None = None
    """What other libraries compute the same with; None: nothing was named."""

    def identity(self) -> str:
        """sha256 over the canonical JSON of the task."""
        return digest(self.model_dump_json())

    @property
    def margins(self) -> dict[str, float]:
        """Of the visible workloads that have one of their own."""
        return {w.name: w.margin for w in self.workloads if w.margin is not None}

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the arguments that are no scalars, in ABI order."""
        return tuple(a.name for a in self.arguments if a.role != "scalar")

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that the kernel writes, in order."""
        return tuple(a for a in self.arguments if a.role == "output")


class Candidate(Artifact):
    """A kernel to be judged: knobs are already rendered into its files."""

    language: str
    files: dict[str, str]
    """File name -> source text. The entry is `kernel.<ext>`."""
    parent: str | None = None
    """Id of the candidate that it was made from."""
    methods: tuple[str, ...] = ()
    """Ids of the methods applied (wiki page ids)."""
    knobs: dict[str, str] = Field(default_factory=dict)

    @property
    def id(self) -> str:
        """First 12 hex digits of sha256 over language and files: equal code is the same candidate."""
        body = self.language + "".join(f"\0{name}\0{text}" for name, text in sorted(self.files.items()))
        return digest(body)[:12]

    @property
    def source(self) -> str:
        """Text of the entry file."""
        return next(text for name, text in self.files.items() if name.startswith("kernel."))


# ---------------------------------------------------------------- measurements and trials


class Quantity(Artifact):
    """A number with its unit, in the measuring tool's own words."""

    value: float
    unit: str = ""


UNBOUNDED = 1e12
"""Stands for infinity where a ratio's interval has no upper end, and its inverse where it has no lower one; never a
figure to print."""


class Interval(Artifact):
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float
    confidence: float = 0.95

    @property
    def bounded(self) -> bool:
        """Whether both ends are figures: too few samples for the confidence leave an end open."""
        # Half, for an interval may have been turned over (1 / end).
        return self.low > 2 / UNBOUNDED and self.high < UNBOUNDED / 2


class Measurement(Artifact):
    """Paired timing of one workload: incumbent against candidate."""

    workload: str
    weight: float
    incumbent_s: float
    """Median seconds a call."""
    candidate_s: float
    pairs: int
    speedup: Interval
    """incumbent / candidate, from paired blocks."""
    warm_candidate_s: float | None = None
    """Median with inputs and outputs in cache, where measured."""
    warm_incumbent_s: float | None = None
    max_error: float | None = None
    """Largest relative error seen on this workload's checked calls."""
    launched_incumbent_s: float | None = None
    """On a device to which calls only launch their work: seconds with the launches. All other times here are then
    the device's own."""
    launched_candidate_s: float | None = None

    @property
    def paired_candidate_s(self) -> float:
        """The candidate's seconds a call that agree with `speedup`, the estimate; the two medians alone do not share
        its noise."""
        return self.incumbent_s / self.speedup.estimate


class Passed(Artifact):
    """Correct and timed."""

    kind: Literal["passed"] = "passed"
    candidate: str
    measurements: tuple[Measurement, ...]
    speedup: Interval
    """Of the task's objective, incumbent / candidate."""
    records: tuple[str, ...]
    """Ids of build, correctness and timing records."""


class Failed(Artifact):
    """The kernel's own fault: data, not an exception."""

    kind: Literal["failed"] = "failed"
    candidate: str
    stage: Stage
    reason: str
    """One sentence."""
    log: str = ""
    """Trimmed compiler log or mismatch report."""
    records: tuple[str, ...] = ()


class Unmeasured(Artifact):
    """Could not be measured here (no device, machine failure); never committed."""

    kind: Literal["unmeasured"] = "unmeasured"
    candidate: str
    reason: str
    records: tuple[str, ...] = ()
    capped: bool = False
    """A cap left no time for it, or it is masked: neither kernel nor machine is to blame."""


Trial = Annotated[Passed | Failed | Unmeasured, Field(discriminator="kind")]


class Record(Artifact):
    """One piece of evidence. Its id is the hash of its content, its key the hash of what was asked."""

    kind: str
    """build, correctness, timing, confirmation, calibration, profile, roof, environment, probe, benchmark, verdict,
    exchange …"""
    key: str
    parents: tuple[str, ...] = ()
    """Ids of the records that it rests on."""
    environment: str = ""
    """Id of the environment record, empty for the environment itself."""
    device: str = ""
    protocol: int = 1
    """Version of the measuring protocol."""
    payload: dict[str, Any]
    """JSON of the artifact or result that it holds."""
    blobs: dict[str, str] = Field(default_factory=dict)
    """Name -> sha256 of large content."""

    @property
    def id(self) -> str:
        """First 16 hex digits of sha256 over the canonical JSON."""
        return digest(self.model_dump_json())[:16]


# ---------------------------------------------------------------- profiles and findings


class Remark(Artifact):
    """Something that the compiler or profiler itself says about a line."""

    tool: str
    line: int
    """Line in the kernel's source; 0 when it names none."""
    kind: Literal["applied", "missed", "note"]
    text: str


class Profile(Artifact):
    """What one profiler saw of one kernel."""

    tool: str
    launch: str
    """Workload name and what was launched, or "static"."""
    source: str
    """Candidate id."""
    binary: str = ""
    """sha256 of the library."""
    metrics: dict[str, Quantity]
    """Names are the tool's own: ncu's verbatim, `gcc.loops_vectorized`, `objdump.packed_float`, `callgrind.Ir`."""
    remarks: tuple[Remark, ...] = ()


class Finding(Artifact):
    """A rule that fired."""

    rule: str
    """Id in rules.yaml; skills and methods name it in their front matter."""
    severity: Literal["high", "medium", "low"]
    axis: Axis
    text: str
    """One sentence with the values that made it fire."""
    line: int = 0
    """Source line, where one can be named."""
    evidence: tuple[str, ...] = ()
    """Record ids."""


Clock = Literal["wall", "launch-included", "device-only"]
"""Of a time: the host's, of what launches nothing; the host's, with the launches of what runs on a device; the
device's own events."""


class Claim(Artifact):
    """What a version is said to be worth: the gain by which the gate decided, of two kernels in processes of their
    own."""

    speedup: Interval
    clock: Clock
    other: Interval | None = None
    """By the other clock, where a device has one."""

    def by(self, clock: Clock) -> Interval:
        """The gain by `clock`, where that is known; else by the claim's own."""
        return self.other if self.other is not None and clock != self.clock else self.speedup


class Verdict(Artifact):
    """The gate's answer on one iteration, from records alone."""

    outcome: Outcome
    reasons: tuple[str, ...]
    candidate: str | None
    incumbent: str
    speedup: Interval | None = None
    """By which the candidate was chosen among its siblings: somewhat high, since it is the best of several."""
    claim: Claim | None = None
    """None: nothing was confirmed."""
    noise_floor: float | None = None
    """Relative: the A/A blocks' own spread."""
    explained: bool = True
    """False: accepted, but a claimed mechanism is not visible in the machine code."""
    records: tuple[str, ...] = ()

    @property
    def worth(self) -> Interval | None:
        """What is said of the candidate everywhere: its claim; what chose it, where nothing was confirmed."""
        return self.claim.speedup if self.claim is not None else self.speedup
