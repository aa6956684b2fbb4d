"""The data that the tools exchange: frozen pydantic models with a docstring under each field.

Jobs and devices are declared in `tools.executors.base`, figures of the hardware in `tools.roofline.hardware`. Times are
in seconds, sizes in bytes and rates per second, unless a field says otherwise.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import math
import operator
import re
import textwrap
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

Role = Literal["input", "output", "inout", "scalar"]
"""An `inout` argument is read and written: its content is restored before each call."""
DType = Literal[
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8",
    "uint8", "bool",
]  # fmt: skip
ProductType = Literal["", "float64", "float32", "float16", "bfloat16", "float8", "int8", "other"]
Number = int | float
Dims = dict[str, Number]
"""A workload's named sizes and scalars, e.g. {"M": 4096, "N": 1024, "eps": 1e-5}."""
Axis = Literal["compute", "memory", "latency", "occupancy"]
Bound = Literal["memory", "compute", "latency", "occupancy", "mixed", "unknown"]
Outcome = Literal["accept", "reject_correctness", "reject_policy", "reject_perf", "inconclusive", "infra_error"]
Stage = Literal["screen", "build", "correctness", "timing"]
TaskClock = Literal["device", "launch", "graph"]
"""Clock of a GPU task's objective: the device's events, the wall clock with launches, or the wall clock over replays of
captured CUDA graphs."""


class Artifact(BaseModel):
    """Base of all artifacts: immutable, no unknown fields, field docstrings in the schema."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schema with each field's docstring as its description.

        The source is read when a schema is requested. Pydantic's own `use_attribute_docstrings` reads it for every
        class at import, which took a fifth of the time to import `graph.lifecycle.run`.
        """
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in field_docstrings(cls).items():
            if name in properties:
                properties[name].setdefault("description", text)
        return schema


@cache
def field_docstrings(kind: type[BaseModel]) -> dict[str, str]:
    """Return field name -> docstring below the field, including fields of base classes.

    A class whose source cannot be read contributes no docstrings.
    """
    docstrings: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if issubclass(base, BaseModel) and base is not BaseModel]):
        with suppress(OSError, TypeError):
            (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(node, ast.ClassDef), "the source of a class"
            for field, following in pairwise(node.body):
                match field, following:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        docstrings[name] = inspect.cleandoc(text)
    return docstrings


def digest(text: str | bytes) -> str:
    """Return the sha256 of text (as UTF-8) or bytes, in hex."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


# ---------------------------------------------------------------- the task


class Argument(Artifact):
    """One parameter of the kernel, in ABI order."""

    name: str
    role: Role
    dtype: DType
    """Element type of a tensor; a scalar's C type (int32, int64, float32, float64, bool)."""
    shape: tuple[str, ...] = ()
    """Extent of each axis: the name of the dim that it equals in all visible workloads, else a number. Scalars have
    no axes."""

    @property
    def is_read(self) -> bool:
        """Whether it is a tensor whose content the kernel is given."""
        return self.role in ("input", "inout")

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes it."""
        return self.role in ("output", "inout")


class Workload(Artifact):
    """One set of dims at which the kernel must be correct and is timed."""

    name: str
    dims: Dims
    weight: float = 1.0
    """Weight of the workload in the objective (relative call count)."""
    hidden: bool = False
    """True: the judge drew the workload from the run's secret, and no prompt contains it."""
    margin: float | None = None
    """Relative slowdown against the incumbent above which the gate rejects a candidate; None:
    `judge.workload_margin`."""


class NumericTolerance(Artifact):
    """Error limits of the outputs; `tools.judge.judge` states the rule that uses them."""

    precision: Literal["ieee", "tf32", "bf16"] = "ieee"
    floor: dict[DType, float] = Field(default_factory=lambda: dict(DEFAULT_ERROR_FLOORS))
    """Relative error per dtype up to which an output always passes."""
    cap: dict[DType, float] = Field(default_factory=lambda: dict(DEFAULT_ERROR_CAPS))
    """Relative error per dtype above which an output never passes, even if torch and the baseline are worse. A dtype
    without an entry has no cap."""
    rtol: float | None = None
    """Relative tolerance as the user stated it; `floor` holds the value that is used."""
    atol: float | None = None
    """Absolute tolerance that the user stated: an element within atol + floor · |reference| passes, up to the cap."""


DEFAULT_ERROR_FLOORS: dict[DType, float] = {
    "float64": 1e-12,
    "float32": 4e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float8_e4m3fn": 4e-3,
    "float8_e5m2": 4e-3,
}
"""Of a type of 8 bits, what comes on top of half a unit in the last place: the floor of float16."""
DEFAULT_ERROR_CAPS: dict[DType, float] = {
    "float64": 1e-9,
    "float32": 1e-3,
    "float16": 2e-2,
    "bfloat16": 1e-1,
    "float8_e4m3fn": 2e-2,
    "float8_e5m2": 2e-2,
}


class Rivals(Artifact):
    """Functions of other packages that a benchmark times beside the reference; each takes the reference's arguments."""

    source: str
    """Text of the Python file that defines the functions."""
    names: tuple[str, ...]
    """Names of the functions, in the order of the file."""


class BaselineFunction(Artifact):
    """A Python function that computes what the task computes, as its owner calls it; nothing of it is rewritten."""

    call: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")
    """`module:name` of a function, of a class of torch.nn.Module or of one of torch.autograd.Function."""
    init: tuple[str | int | float | bool | None, ...] | dict[str, str | int | float | bool | None] = ()
    """Arguments of the constructor of a module, by position or by name."""
    build: tuple[str, ...] = ()
    """A command that is run beside `files` before the import, such as `["{python}", "setup.py", "build_ext",
    "--inplace"]`; `{python}` is the Python that runs jobs."""
    files: dict[str, str] = Field(default_factory=dict)
    """Path -> text of the files among which the module is looked up before the installed packages."""
    package: str = Field(default="", exclude_if=operator.not_)
    """Name and version of the package that holds the module, as an index gave it; empty: the submitter's own."""


class Authors(Artifact):
    """Who wrote a task and what its gain is measured against: the submitter, unless somebody else is known."""

    task: Literal["submitter", "suite", "observed"] = "submitter"
    """suite: a reader of a suite's problems wrote it; observed: `capture` did, from a run of the user's program."""
    baseline: Literal["submitter", "package", "run"] = "submitter"
    """package: of an index; run: v0, which this run wrote."""


class Task(Artifact):
    """What a kernel must compute, frozen for a whole run. Any field but `product_type` changes `identity()`."""

    name: str
    language: str
    arguments: tuple[Argument, ...]
    """Parameters of the kernel in ABI order."""
    reference: str
    """Source text of reference.py."""
    baseline: str | None = None
    """Source text of the user's kernel; None: the user gave a reference only."""
    workloads: tuple[Workload, ...]
    """The visible workloads."""
    dims_range: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Inclusive range of each integer dim from which hidden workloads are drawn; empty: none are drawn."""
    numeric: NumericTolerance = NumericTolerance()
    build_flags: tuple[str, ...] = ()
    """The user's compiler flags, for the baseline and all candidates; empty: the language's defaults."""
    seed_style: bool = False
    """True: the reference has no make_inputs, so pointers are flat buffers that the harness fills (see
    `pointer_elements`)."""
    pointer_elements: int = 0
    """Elements of every pointer buffer in the seed style; 0: the product of the two largest dims of the workload."""
    inferred: tuple[str, ...] = ()
    """One sentence for each property that was inferred and not declared; `check` prints them."""
    restructured: bool = Field(default=False, exclude_if=operator.not_)
    """True: make_inputs gives lists, structs or fixed values, so that the reference takes other arguments than the
    kernel."""
    library: tuple[str, ...] | None = None
    """Operators of torch (`aten.mm`) that host code may call on the arguments and its own buffers; None: none."""
    rivals: Rivals | None = None
    """Functions of other packages that compute the same; None: the user named none."""
    baseline_function: BaselineFunction | None = None
    """The user's own function, over which a gain is reported; None: the user named none."""
    authors: Authors = Field(default=Authors(), exclude_if=lambda authors: authors == Authors())
    """Who wrote the task and what its gain is measured against."""
    product_type: ProductType | None = None
    """Type of the values that the reference's products take, where most of its operations are products; "" where they
    are not, None if they were not counted."""
    clock: TaskClock | None = None
    """Clock of the objective; None: the device's events where launches hide a gain, else the wall clock."""

    def identity(self) -> str:
        """Return the sha256 of the canonical JSON of the task, in hex, without `product_type`, which follows from the
        reference, and without a clock and a function that nobody named."""
        unnamed = {name for name in ("clock", "baseline_function") if not getattr(self, name)}
        return digest(self.model_dump_json(exclude={"product_type", *unnamed}))

    @property
    def margins(self) -> dict[str, float]:
        """Relative slowdown that the gate allows, by workload, for the visible workloads with a margin of their own."""
        return {w.name: w.margin for w in self.workloads if w.margin is not None}

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the tensor arguments, in ABI order."""
        return tuple(a.name for a in self.arguments if a.role != "scalar")

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that the kernel writes, in ABI order."""
        return tuple(a for a in self.arguments if a.is_written)


class Candidate(Artifact):
    """A kernel to be judged; the values of its knobs are already written into its files."""

    language: str
    files: dict[str, str]
    """File name -> source text. The entry file is `kernel.<ext>`."""
    parent: str | None = None
    """Id of the candidate that this one was made from."""
    methods: tuple[str, ...] = ()
    """Ids of the applied methods (wiki page ids)."""
    knobs: dict[str, str] = Field(default_factory=dict)

    @property
    def id(self) -> str:
        """First 12 hex digits of the sha256 of language and files: candidates with equal code have equal ids."""
        body = self.language + "".join(f"\0{name}\0{text}" for name, text in sorted(self.files.items()))
        return digest(body)[:12]

    @property
    def source(self) -> str:
        """Text of the entry file."""
        return next(text for name, text in self.files.items() if name.startswith("kernel."))


# ---------------------------------------------------------------- measurements and trials


class Quantity(Artifact):
    """A number with its unit as the measuring tool writes it."""

    value: float
    unit: str = ""


UNBOUNDED_RATIO = 1e12
"""Stands for infinity as the upper end of a ratio's interval, its inverse for zero as the lower end; it is not
printed."""


class Interval(Artifact):
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float
    confidence: float = 0.95

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are finite: with too few samples for the confidence, an end stays open."""
        # The factor 2 tolerates rounding of an interval that was inverted (1 / end).
        return self.low > 2 / UNBOUNDED_RATIO and self.high < UNBOUNDED_RATIO / 2

    def is_close_to(self, other: Interval) -> bool:
        """Whether two intervals are equal up to the last digits, in which machines may differ."""
        pairs = zip(self.model_dump().values(), other.model_dump().values(), strict=True)
        return all(math.isclose(a, b, rel_tol=1e-9) for a, b in pairs)


class Measurement(Artifact):
    """Paired timing of one workload: the incumbent against the candidate."""

    workload: str
    weight: float
    incumbent_s: float
    """Median seconds of one call of the incumbent."""
    candidate_s: float
    """Median seconds of one call of the candidate."""
    pairs: int
    """How many pairs of blocks were timed."""
    speedup: Interval
    """Time of the incumbent / time of the candidate, from paired blocks."""
    warm_candidate_s: float | None = None
    """Median seconds with inputs and outputs in cache; None: not measured."""
    warm_incumbent_s: float | None = None
    """Median seconds of the incumbent with inputs and outputs in cache; None: not measured."""
    max_error: float | None = None
    """Largest relative error in the checked calls of this workload."""
    launched_incumbent_s: float | None = None
    """Seconds of a call including its launches, on a device that runs asynchronously. If set, all other times of
    this measurement are the device's own. None: the device is synchronous."""
    launched_candidate_s: float | None = None
    """Seconds of the candidate's call including its launches; None: the device is synchronous."""

    @property
    def paired_candidate_s(self) -> float:
        """The incumbent's median divided by the estimated speed-up: the candidate's seconds that agree with
        `speedup`. The ratio of the two medians differs from the paired estimate by noise."""
        return self.incumbent_s / self.speedup.estimate


class Passed(Artifact):
    """The trial of a candidate that is correct and timed."""

    kind: Literal["passed"] = "passed"
    candidate: str
    measurements: tuple[Measurement, ...]
    speedup: Interval
    """Speed-up of the task's objective: time of the incumbent / time of the candidate."""
    records: tuple[str, ...]
    """Ids of the build, correctness and timing records."""


class Failed(Artifact):
    """The trial of a candidate that failed by a fault of the kernel."""

    kind: Literal["failed"] = "failed"
    candidate: str
    stage: Stage
    reason: str
    """Why the candidate failed, in one sentence."""
    log: str = ""
    """Shortened compiler log, or the report of the mismatch."""
    records: tuple[str, ...] = ()


class Unmeasured(Artifact):
    """The trial of a candidate that could not be measured (no device, or the machine failed); it is never committed."""

    kind: Literal["unmeasured"] = "unmeasured"
    candidate: str
    reason: str
    records: tuple[str, ...] = ()
    capped: bool = False
    """True: a cap left no time for the trial, or the candidate is masked; neither kernel nor machine failed."""


Trial = Annotated[Passed | Failed | Unmeasured, Field(discriminator="kind")]


class Record(Artifact):
    """One piece of evidence. Its id is the hash of its content, its key the hash of the question that it answers."""

    kind: str
    """Kind of evidence: build, correctness, timing, confirmation, calibration, profile, roof, environment, probe,
    benchmark, verdict, exchange …"""
    key: str
    """Hash of the question that the record answers."""
    parents: tuple[str, ...] = ()
    """Ids of the records that this one depends on."""
    environment: str = ""
    """Id of the environment record; empty for the environment record itself."""
    device: str = ""
    protocol: int = 1
    """Version of the measurement protocol."""
    payload: dict[str, Any]
    """JSON of the artifact or result."""
    blobs: dict[str, str] = Field(default_factory=dict)
    """Name -> sha256 of large content that is stored as a blob."""

    @property
    def id(self) -> str:
        """First 16 hex digits of the sha256 of the canonical JSON."""
        return digest(self.model_dump_json())[:16]


# ---------------------------------------------------------------- profiles and findings


class Remark(Artifact):
    """A message of the compiler or profiler about a line."""

    tool: str
    line: int
    """Line in the kernel's source; 0: the tool names no line."""
    kind: Literal["applied", "missed", "note"]
    text: str


class Launch(Artifact):
    """One launch of a profiled call."""

    kernel: str
    seconds: float
    """Seconds under the profiler, which starts each launch with empty caches; not a measurement. 0: unknown."""
    share: float
    """Share of the seconds of all launches of the call."""
    own: bool = True
    """False: the kernel is a library's, so that no source of the candidate contains it."""
    metrics: dict[str, Quantity] = {}

    @property
    def name(self) -> str:
        """The kernel's name without its parameters, at most 60 characters."""
        return re.sub(r"^void |\s|\(.*", "", self.kernel)[:60]


class Profile(Artifact):
    """The output of one profiler for one kernel."""

    tool: str
    launch: str
    """Name of the workload, the target, or "static"."""
    workload: str = ""
    """The profiled workload; empty: the profile holds for all of them."""
    source: str
    """Id of the candidate."""
    binary: str = ""
    """sha256 of the shared object."""
    metrics: dict[str, Quantity]
    """Metrics by the tool's own names: those of ncu verbatim, `compiler.loops_missed`, `objdump.omp_regions`. Those of
    a call are of the whole call."""
    launches: tuple[Launch, ...] = ()
    """All launches of the profiled call, in order; empty without counters."""
    remarks: tuple[Remark, ...] = ()


class Finding(Artifact):
    """A rule of rules.yaml that fired."""

    rule: str
    """Id of the rule; skills and methods name it in their front matter."""
    severity: Literal["high", "medium", "low"]
    axis: Axis
    text: str
    """One sentence with the values that made the rule fire."""
    line: int = 0
    """Line of the kernel's source; 0: no line can be named."""
    kernel: str = ""
    """The kernel whose counters made the rule fire; empty: the whole call, or the machine code of all kernels."""
    evidence: tuple[str, ...] = ()
    """Ids of the records that the finding rests on."""


Clock = Literal["wall", "launch-included", "device-only", "graph"]
"""The clock of a time. "wall": the host's clock around a call on the CPU; "launch-included": the host's clock around a
call that launches work on a device; "device-only": the device's own events; "graph": the host's clock around the
replay of a CUDA graph that holds many calls."""


class Claim(Artifact):
    """The gain that is claimed for a version: the speed-up by which the gate decided, measured with the two kernels in
    separate processes."""

    speedup: Interval
    clock: Clock
    other: Interval | None = None
    """Speed-up by the other clock of a device, with launches if the claim is the device's own; None: there is none."""

    def speedup_by(self, clock: Clock) -> Interval:
        """Return the speed-up by `clock` if it was measured, else by the claim's own clock."""
        other_clock = "launch-included" if self.clock == "device-only" else "device-only"
        return self.other if self.other is not None and clock == other_clock else self.speedup


class Verdict(Artifact):
    """The gate's decision on one iteration, derived from records alone."""

    outcome: Outcome
    reasons: tuple[str, ...]
    candidate: str | None
    incumbent: str
    speedup: Interval | None = None
    """Speed-up by which the candidate was chosen among its siblings; biased upwards, as it is the best of several."""
    claim: Claim | None = None
    """Confirmed gain; None: nothing was confirmed."""
    noise_floor: float | None = None
    """Relative spread of the A/A blocks."""
    explained: bool = True
    """False: the candidate was accepted, but a claimed mechanism is not visible in the machine code."""
    records: tuple[str, ...] = ()

    @property
    def reported_speedup(self) -> Interval | None:
        """The speed-up that reports show for the candidate: its claim, or the search's measurement if nothing was
        confirmed."""
        return self.claim.speedup if self.claim is not None else self.speedup
