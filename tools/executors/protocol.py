"""Defines the messages to the harness and back, `request.json` and `result.json`, as types.

The harness is copied to the device's machine and imports no other package of Kernelwright; it reads the same JSON as
plain dicts. This module is the only description of that JSON. `PROTOCOL` changes whenever earlier measurements are no
longer comparable.
"""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from tools.artifacts import Artifact, BaselineFunction, Dims, DType, ProductType, Role, Task
from tools.executors.base import DeviceKind

PROTOCOL = 1

Distribution = Literal["as_given", "scaled", "shifted", "outliers", "near_zero"]
"""How the floating-point inputs of make_inputs are transformed before the call; integers stay unchanged."""


KWARGS_PARAMETER = "**kwargs"
"""Name of the parameter that takes the arguments without a parameter of their own."""


class Parameter(Artifact):
    """One parameter of the kernel's entry, as parsed."""

    name: str
    dtype: DType | None
    """None if the language does not state it; then the reference does, and arguments are passed by name."""
    pointer: bool | None
    const: bool = False
    optional: bool = False
    """Whether the parameter has a default, so that it needs no argument."""


# ---------------------------------------------------------------- probe: the content of reference.py


class ProbeRequest(Artifact):
    """Request to import the reference, make inputs at each dims, call it once, and report the result. It needs the
    oracle only, no kernel."""

    kind: Literal["probe"] = "probe"
    reference: str
    """Source text of reference.py."""
    device: DeviceKind = "cpu"
    """Device on which the reference is called."""
    dims: tuple[Dims, ...] = ()
    """Sizes to probe; if empty, the reference's own `workloads`."""
    parameters: tuple[Parameter, ...] = ()
    """The kernel's parameters; needed if the reference has no make_inputs (seed style)."""
    pointer_elements: int = 0
    memory_bytes: int = 0
    """Bytes that inputs, outputs and the float64 copies may take; above that, the probe reports an error. 0 stands for
    the memory that is available there."""
    tentative: tuple[tuple[Dims, ...], ...] = ()
    """Lists of other sizes to try; each list is tried up to the first sizes that the reference accepts."""
    roles: dict[str, Role] = Field(default_factory=dict)
    """Roles of the arguments at the tentative sizes."""
    library: tuple[str, ...] = ()
    """Operators that torch must have."""
    module: str = Field(default="", exclude_if=operator.not_)
    """Module whose package is asked for."""


class ProbedArgument(Artifact):
    """An argument at one dims; arguments are in ABI order."""

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]
    value: bool | int | float | None = None
    """Value of a scalar."""
    compared: int | None = None
    """For an output: number of elements that the reference defines at these dims, which are the ones checked."""


class ProbedWorkload(Artifact):
    """Result of a probe at one dims."""

    name: str
    dims: Dims
    weight: float
    margin: float | None = None
    """Same as `Workload.margin`."""
    arguments: tuple[ProbedArgument, ...]
    flops: float | None
    """Operations of the reference's ATen calls (2mnk for a matmul, 1 per element for elementwise operators and
    reductions); None if they were not counted."""
    unique_bytes: int
    """Bytes of the inputs that the outputs depend on, for the probed values, plus the bytes of the outputs that are
    defined; each byte counts once."""


class ProbeResult(Artifact):
    """Answer to a probe. If `error`, a sentence for the user, is set, the other fields are empty."""

    kind: Literal["probe"] = "probe"
    error: str | None = None
    error_log: str = ""
    unusable: str = ""
    """A sentence for the user if no kernel can be judged by the reference, although its arguments are known."""
    has_make_inputs: bool = False
    workloads: tuple[ProbedWorkload, ...] = ()
    tried: tuple[ProbedWorkload, ...] = ()
    """Tentative sizes that the reference accepted."""
    refused: tuple[str, ...] = ()
    """Tentative sizes that the reference refused, each as its dims with the reference's message."""
    dims_range: dict[str, tuple[int, int]] = Field(default_factory=dict)
    operations: tuple[str, ...] = ()
    """First hundred ATen operators that the reference calls on the first workload, without overloads, views and
    copies."""
    products: tuple[str, ...] = ()
    """Products, convolutions and attention among the operators, with those that may replace them: `aten.mm`."""
    product_type: ProductType | None = None
    """Same as `Task.product_type`."""
    restructured: bool = Field(default=False, exclude_if=operator.not_)
    """Same as `Task.restructured`."""
    rtol: float | None = None
    atol: float | None = None
    coarse: dict[str, float] = Field(default_factory=dict)
    """If the reference states an rtol: type -> largest error of the float32 outputs when only the inputs are rounded to
    that type."""
    inferred: tuple[str, ...] = ()
    package: str = ""
    """Same as `BaselineFunction.package`."""


# ---------------------------------------------------------------- correctness


class Case(Artifact):
    """One call whose outputs are compared with the float64 oracle."""

    workload: str
    dims: Dims
    spares: tuple[Dims, ...] = ()
    """Sizes that are tried in their order if the reference refuses `dims`."""
    seed: int
    distribution: Distribution = "as_given"
    hidden: bool = False
    required: bool = True
    """If False, the case counts only if the frozen baseline passes it (derived sizes and distributions)."""


class DeviceRequest(Artifact):
    """Base of requests about a task on a device."""

    task: Task
    device: DeviceKind = "cpu"
    device_index: int = 0
    """Index among the devices of that kind that the harness can see."""


class JudgedRequest(DeviceRequest):
    """Base of requests that carry settings of the judge, as fields with the same names (`JudgeSettings.fields_of`)."""

    call_limit_s: float = 30.0


class CorrectnessRequest(JudgedRequest):
    """Request to run `candidate` (and `baseline`, whose own error widens the tolerance) on each case."""

    kind: Literal["correctness"] = "correctness"
    libraries: dict[Literal["candidate", "baseline"], str]
    """Name -> path of the shared object or module in the job."""
    cases: tuple[Case, ...]


class CaseResult(Artifact):
    """Result of one case."""

    case: Case
    status: Literal["passed", "failed", "dropped"]
    """`dropped` means that the frozen baseline does not pass the case either, or that the reference refuses its
    dims."""
    reason: str = ""
    """Why the case did not pass; for a passed case, the dims that the reference refused before it accepted a spare."""
    policy: bool = False
    """True if the values are correct but the device executed kernels that are not the candidate's own; `reason` then
    completes "the kernel …"."""
    max_error: float | None = None
    """Maximum over the elements of |out - ref64| / (|ref64| + rms of its output row)."""
    tolerance: float | None = None
    torch_error: float | None = None
    baseline_error: float | None = None


class CorrectnessResult(Artifact):
    """Results of the cases in the requested order, up to the first failure of the candidate."""

    kind: Literal["correctness"] = "correctness"
    cases: tuple[CaseResult, ...]


# ---------------------------------------------------------------- paired timing in one process


class TimedWorkload(Artifact):
    """A workload to time, with the seed of its ring of input sets."""

    name: str
    dims: Dims
    weight: float
    seed: int
    pairs: int
    """Pairs to measure in this job."""
    warm_pairs: int = 0


class TimingRequest(JudgedRequest):
    """Request to alternate incumbent and candidate in one process in randomised pairs; the outputs of every timed call
    are checked."""

    kind: Literal["timing"] = "timing"
    libraries: dict[Literal["incumbent", "candidate", "baseline"], str]
    """Name -> path in the job; `baseline` only widens the tolerance."""
    workloads: tuple[TimedWorkload, ...]
    order_seed: int
    new_inputs: bool = False
    """Whether all pairs have new inputs, and not only a share."""


class TimedPair(Artifact):
    """Seconds per call of the two kernels, measured one right after the other in random order; on a GPU without the
    launch."""

    incumbent_s: float
    candidate_s: float
    candidate_first: bool
    new_inputs: bool = False
    """Whether both calls had inputs that no kernel had seen."""


class TimingOfWorkload(Artifact):
    """Timing of one workload."""

    workload: str
    pairs: tuple[TimedPair, ...]
    warm_pairs: tuple[TimedPair, ...] = ()
    calls_per_sample: int = 1
    """Calls in one sample: kernels under 50 us run in trains of this many calls."""
    max_error: float | None = None
    tolerance: float | None = None
    problem: str | None = None
    """Why a timed call was wrong, crashed or broke a rule; the times are then invalid."""
    culprit: Literal["incumbent", "candidate"] | None = None
    repeated: int = 0
    """Dirty pairs (the machine was disturbed by others) that were measured again."""
    dirty: int = 0
    """Pairs that were still dirty when no repeat was left."""
    discarded: int = 0
    """Pairs discarded and measured again because the kernel's own clock and the supervisor's disagreed."""
    launched_incumbent_s: float | None = None
    launched_candidate_s: float | None = None
    """On a GPU: seconds per call of the two kernels with launches included, by the supervisor's clock."""


class GpuTelemetry(Artifact):
    """State of the GPU before and after a batch, as NVML reports it; None for values that it does not report."""

    source: Literal["nvml", "pynvml", "nvidia-smi", "absent"]
    sm_mhz_before: float | None = None
    sm_mhz_after: float | None = None
    memory_mhz_before: float | None = None
    memory_mhz_after: float | None = None
    celsius_before: float | None = None
    celsius_after: float | None = None
    watts_before: float | None = None
    watts_after: float | None = None
    slowed_by: tuple[str, ...] = ()
    """Reasons for lower clocks during the batch: power cap, thermal … They do not make a round dirty, because a kernel
    can cause them."""
    foreign_processes: int | None = None
    """Other users' processes with a context on the GPU; None if unknown (in a container, for example)."""
    foreign_busy: int | None = None
    """Samples in which those processes computed."""
    idle_share: int | None = None
    """Per cent of the time in which kernels ran on the GPU before the harness's first one."""


class Telemetry(Artifact):
    """State of the machine during a batch."""

    load_before: float
    load_after: float
    foreign_cpu_fraction: float | None
    """CPU time of other processes during the batch, over cores x wall time; None if unknown."""
    stolen_fraction: float | None = None
    """Share of the wall time that a hypervisor took from the core that lost most; None if unknown."""
    cores: int = 1
    seconds: float
    gpu: GpuTelemetry | None = None


class TimingResult(Artifact):
    """Answer to a timing request."""

    kind: Literal["timing"] = "timing"
    workloads: tuple[TimingOfWorkload, ...]
    telemetry: Telemetry


# ---------------------------------------------------------------- contest: separate processes, timed from outside


class Contestant(Artifact):
    """One program in a process of its own."""

    name: str
    kind: Literal["library", "eager", "compile", "max_autotune", "rival", "function"]
    """A kernel (`library`), the reference under torch eager, under torch.compile or under torch.compile with its
    longest search, the function `name` of the task's rivals, or a `function` of its own files."""
    library: str | None = None
    function: BaselineFunction | None = None


class ContestRequest(DeviceRequest):
    """Request to run each contestant in its own process, alternated in random order and timed from outside
    (confirmation, final benchmark).

    On a CPU, each round has new processes of the kernels, while torch's processes stay. On a GPU all processes stay.
    """

    kind: Literal["contest"] = "contest"
    contestants: tuple[Contestant, ...]
    workloads: tuple[TimedWorkload, ...]
    """Workloads to time; `pairs` is the number of rounds."""
    order_seed: int
    graph_rounds: int = 0
    """On a GPU: rounds of replays of captured CUDA graphs, after the others; 0: nothing is captured."""
    call_limit_s: float = 120.0


class ContestOfWorkload(Artifact):
    """Rounds of one workload."""

    workload: str
    rounds: tuple[dict[str, float], ...]
    """One dict per round: contestant -> seconds per call."""
    calls_per_sample: dict[str, int] = Field(default_factory=dict)
    repeated: int = 0
    """Dirty rounds that were measured again."""
    dirty: int = 0
    """Rounds that were still dirty when no repeat was left."""
    sittings: int = 1
    """How often the kernels' processes were started, repeated rounds included."""
    device_rounds: tuple[dict[str, float], ...] = ()
    """On a GPU: the same rounds by the device's events."""
    kernel_rounds: tuple[dict[str, float], ...] = ()
    """On a GPU: seconds per call by the device's events with all launches queued behind a spin, so that gaps between
    launches do not count."""
    host_bound: dict[str, int] = Field(default_factory=dict)
    """Contestant -> number of its `kernel_rounds` in which launching outlasted the spin, so that they may contain
    gaps."""
    graph_rounds: tuple[dict[str, float], ...] = ()
    """Seconds per call by the supervisor's clock over the replay of a CUDA graph that holds a call for each slot, on
    inputs drawn after its capture."""
    graph_device_rounds: tuple[dict[str, float], ...] = ()
    """The same rounds by the device's events."""
    uncaptured: dict[str, str] = Field(default_factory=dict)
    """Contestant -> why its calls cannot be captured in a CUDA graph; it has no `graph_rounds`."""


class ContestResult(Artifact):
    """Answer to a contest."""

    kind: Literal["contest"] = "contest"
    workloads: tuple[ContestOfWorkload, ...]
    unavailable: dict[str, str] = Field(default_factory=dict)
    """Contestant -> why it could not run (for example torch.compile without a compiler)."""
    wrong: tuple[str, ...] = ()
    """Those of `unavailable` that ran, and computed something else than the reference."""
    problem: str | None = None
    culprit: str | None = None
    policy: bool = False
    """True if the problem is what the culprit executed on its device, and not a wrong result."""
    executed: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """On a GPU: kernel contestant (all but the first) -> names of the kernels that it executed, as the profiler
    reported them."""
    library_share: dict[str, float] = Field(default_factory=dict)
    """Contestant that called operators of the task's `library` -> their share of its device time, over one call of each
    workload."""
    telemetry: Telemetry


# ---------------------------------------------------------------- torch's processes, started before the contest


class PrepareRequest(DeviceRequest):
    """Request to start torch's contestants of a later contest: they import torch and, on a CPU, compile while nothing
    is timed.

    The contest's measurements stay the same; only its start is faster. The answer is not stored.
    """

    kind: Literal["prepare"] = "prepare"
    frameworks: tuple[str, ...]
    """Names of contestants that are not kernels. If empty, those already started are stopped until the next timing is
    over."""
    dims: tuple[Dims, ...] = ()
    """Sizes to compile for."""
    capability: int = 0
    """Compute capability of a GPU, e.g. 90: the harness then also imports what kernels' processes need there."""


class PrepareResult(Artifact):
    """Answer to a prepare request: the processes were started."""

    kind: Literal["prepare"] = "prepare"


class NeededBytesRequest(DeviceRequest):
    """Request to count the bytes that the outputs depend on, for the inputs that these workloads were timed with. Of
    several workloads with one name the least counts. It needs the oracle only."""

    kind: Literal["needed"] = "needed"
    workloads: tuple[TimedWorkload, ...]


class NeededBytesResult(Artifact):
    """Answer to a needed request, and payload of a `needed` record."""

    kind: Literal["needed"] = "needed"
    unique_bytes: dict[str, int]
    """Workload -> bytes, as in `ProbedWorkload.unique_bytes`."""


# ---------------------------------------------------------------- torch.compile's code for the reference


class InductorRequest(DeviceRequest):
    """Request to compile the reference with torch.compile and return the generated code as text. It needs the oracle
    only; on a GPU the code is tuned there."""

    kind: Literal["inductor"] = "inductor"
    others: tuple[tuple[Dims, ...], ...] = ()
    """Lists of sizes beside the visible ones that the code must support; of each list the first sizes that the
    reference accepts count."""
    search_s: float
    """Seconds after which Inductor starts no further search; on a GPU it searches at each visible size."""


class TritonLaunch(Artifact):
    """How Inductor launches one of its Triton kernels."""

    extra: tuple[str, ...] = ()
    """Names of arguments that the wrapper passes after the kernel's own, for the grid only."""
    config: dict[str, bool | int | float | str | None]
    """Constants and block sizes by name, `num_warps` and `num_stages`."""
    grid: tuple[str, str, str]
    """Python expressions of arguments and block sizes."""


class GeneratedCode(Artifact):
    """Inductor's code for one set of sizes, or for many."""

    code: str
    """The module with kernels and wrapper."""
    inputs: tuple[str, ...]
    """The wrapper's parameters in order: an argument's name, or the name with `.1` for the size of its second
    dimension."""
    conditions: tuple[str, ...]
    """Python expressions of the task's scalars, all of which must hold."""
    scalars: dict[str, bool | int | float]
    """Scalars of the sizes for which the code was generated."""
    launches: dict[str, TritonLaunch] = Field(default_factory=dict)
    """On a GPU: name of a kernel -> its launch."""
    helpers: dict[str, str] = Field(default_factory=dict)
    """On a GPU: name -> text of Inductor's own Triton functions that the kernels use, each after those that it
    needs."""
    unsearched: bool = False
    """True if no time was left to search for faster code, or for code without a library call."""


class InductorResult(Artifact):
    """Answer to an inductor request."""

    kind: Literal["inductor"] = "inductor"
    refused: str = ""
    """Why there is no code, as the end of "reference.py cannot be lifted: "."""
    shapes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Shape of each tensor, as Python expressions of the task's scalars."""
    variants: tuple[GeneratedCode, ...] = ()
    """Variants in the order in which their conditions are checked; those for one set of sizes come first."""
    vector_bytes: int = 0
    """Bytes of the vectors that the C++ code assumes."""


class HarnessFailure(Artifact):
    """The harness itself failed, which is the machine's fault."""

    kind: Literal["infra"] = "infra"
    error: str


HarnessRequest = (
    ProbeRequest
    | CorrectnessRequest
    | TimingRequest
    | ContestRequest
    | PrepareRequest
    | NeededBytesRequest
    | InductorRequest
)
Request = Annotated[HarnessRequest, Field(discriminator="kind")]
HarnessResult = (
    ProbeResult
    | CorrectnessResult
    | TimingResult
    | ContestResult
    | PrepareResult
    | NeededBytesResult
    | InductorResult
    | HarnessFailure
)
Result = Annotated[HarnessResult, Field(discriminator="kind")]
RESULT_ADAPTER: TypeAdapter[HarnessResult] = TypeAdapter(Result)
