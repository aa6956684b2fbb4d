"""What crosses to the harness and back: `request.json` and `result.json`, typed on our side.

The harness itself imports nothing of ours (it is copied beside the device) and reads the same JSON as plain dicts; this
module is the single description of it. `PROTOCOL` changes whenever a measurement made before would no longer be
comparable.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from tools.artifacts import Artifact, Dims, DType, Role, Task
from tools.executors.base import DeviceKind

PROTOCOL = 1

Distribution = Literal["as_given", "scaled", "shifted", "outliers", "near_zero"]
"""How the floating-point inputs that make_inputs gave are transformed before the call; integers stay as they are."""


KWARGS_PARAMETER = "**kwargs"
"""Name of the parameter that takes whatever has no parameter of its own."""


class Parameter(Artifact):
    """One parameter of the kernel's entry, as parsed."""

    name: str
    dtype: DType | None
    """None where the language does not say; then the reference does, and arguments are passed by name."""
    pointer: bool | None
    const: bool = False
    optional: bool = False
    """It has a default, so that nothing need be given for it."""


# ---------------------------------------------------------------- probe: what does reference.py say?


class ProbeRequest(Artifact):
    """Import the reference, make inputs at each dims, call it once, and say what was seen. Oracle only, no kernel."""

    kind: Literal["probe"] = "probe"
    reference: str
    """Source text."""
    dims: tuple[Dims, ...] = ()
    """Empty: the reference's own `workloads` are used."""
    parameters: tuple[Parameter, ...] = ()
    """The kernel's parameters; needed where the reference has no make_inputs (seed style)."""
    pointer_elements: int = 0
    memory_bytes: int = 8 << 30
    """Inputs, outputs and the float64 copies must fit; beyond, the probe says so."""
    tentative: tuple[tuple[Dims, ...], ...] = ()
    """Only to see whether the reference takes other sizes: of each choice they are tried up to the first that it
    takes."""
    roles: dict[str, Role] = Field(default_factory=dict)
    """Of the arguments, for these."""
    library: tuple[str, ...] = ()
    """Operators that torch must have."""


class ProbedArgument(Artifact):
    """An argument at one dims, in ABI order."""

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]
    value: bool | int | float | None = None
    """Of a scalar."""
    compared: int | None = None
    """Of an output: the elements that the reference defines at these dims, which are those that are checked."""


class ProbedWorkload(Artifact):
    """One dims as probed."""

    name: str
    dims: Dims
    weight: float
    margin: float | None = None
    """As in Workload."""
    arguments: tuple[ProbedArgument, ...]
    flops: float | None
    """Operations that the reference's ATen calls amount to (matmul: 2mnk; elementwise, reductions: 1 per element);
    None: not counted."""
    unique_bytes: int
    """What the outputs depend on of the inputs, with those that were probed, plus what is defined of the outputs;
    each once."""


class ProbeResult(Artifact):
    """Answer to a probe. `error` is one sentence for the user and then the rest is empty."""

    kind: Literal["probe"] = "probe"
    error: str | None = None
    error_log: str = ""
    has_make_inputs: bool = False
    workloads: tuple[ProbedWorkload, ...] = ()
    tried: tuple[ProbedWorkload, ...] = ()
    """Of the tentative sizes those that the reference took."""
    refused: tuple[str, ...] = ()
    """Of the tentative sizes the others, each with its dims and what the reference said."""
    dims_range: dict[str, tuple[int, int]] = Field(default_factory=dict)
    operations: tuple[str, ...] = ()
    """What the reference calls on the first workload, in ATen's words without overloads; views and copies are left
    out, and what comes behind the first hundred."""
    products: tuple[str, ...] = ()
    """Of these the products, convolutions and attention, with those that may stand for them: `aten.mm`."""
    rtol: float | None = None
    atol: float | None = None
    coarse: dict[str, float] = Field(default_factory=dict)
    """Where an rtol is stated: type -> largest error of the float32 outputs when the inputs alone are rounded to
    that type."""
    inferred: tuple[str, ...] = ()


# ---------------------------------------------------------------- correctness


class Case(Artifact):
    """One call whose outputs are compared with the float64 oracle."""

    workload: str
    dims: Dims
    spares: tuple[Dims, ...] = ()
    """Asked in their order in place of `dims` that the reference refuses."""
    seed: int
    distribution: Distribution = "as_given"
    hidden: bool = False
    required: bool = True
    """False: admitted only where the frozen baseline passes it (derived sizes and distributions)."""


class DeviceRequest(Artifact):
    """A question about a task, put on a device."""

    task: Task
    device: DeviceKind = "cpu"
    device_index: int = 0
    """Among the devices of that kind that the harness can see."""


class JudgedRequest(DeviceRequest):
    """A request that carries settings of the judge: fields that are called like one (`JudgeSettings.fields_of`)."""

    call_limit_s: float = 30.0


class CorrectnessRequest(JudgedRequest):
    """Run `candidate` (and `baseline`, whose own error widens the tolerance) on each case."""

    kind: Literal["correctness"] = "correctness"
    libraries: dict[Literal["candidate", "baseline"], str]
    """Name -> path in the job."""
    cases: tuple[Case, ...]


class CaseResult(Artifact):
    """What one case showed."""

    case: Case
    status: Literal["passed", "failed", "dropped"]
    """dropped: the frozen baseline does not pass it either, or the reference refuses its dims."""
    reason: str = ""
    """Of one that passed: which dims the reference refused before it took a spare."""
    policy: bool = False
    """The values are right, but the device executed other kernels than the candidate's own; `reason` completes "the
    kernel …"."""
    max_error: float | None = None
    """max over elements of |out - ref64| / (|ref64| + rms of its output row)."""
    tolerance: float | None = None
    torch_error: float | None = None
    baseline_error: float | None = None


class CorrectnessResult(Artifact):
    """Cases in the order asked; ends early after a failure of the candidate."""

    kind: Literal["correctness"] = "correctness"
    cases: tuple[CaseResult, ...]


# ---------------------------------------------------------------- paired timing in one process


class TimedWorkload(Artifact):
    """A point to time, with seeds for its ring of input sets."""

    name: str
    dims: Dims
    weight: float
    seed: int
    pairs: int
    """Pairs wanted in this job."""
    warm_pairs: int = 0


class TimingRequest(JudgedRequest):
    """Alternate incumbent and candidate in one process in randomised pairs; every timed call's outputs are checked."""

    kind: Literal["timing"] = "timing"
    libraries: dict[Literal["incumbent", "candidate", "baseline"], str]
    """`baseline` only widens the tolerance."""
    workloads: tuple[TimedWorkload, ...]
    order_seed: int


class TimedPair(Artifact):
    """Seconds a call of the two kernels, measured one right after the other in random order; on a GPU without the
    launch."""

    incumbent_s: float
    candidate_s: float
    candidate_first: bool


class TimingOfWorkload(Artifact):
    """What one workload showed."""

    workload: str
    pairs: tuple[TimedPair, ...]
    warm_pairs: tuple[TimedPair, ...] = ()
    calls_per_sample: int = 1
    """Kernels under 50 us run as trains of this many calls."""
    max_error: float | None = None
    tolerance: float | None = None
    problem: str | None = None
    """Set when a timed call was wrong, crashed or broke a rule; then the times are worth nothing."""
    culprit: Literal["incumbent", "candidate"] | None = None
    repeated: int = 0
    """Dirty pairs (machine disturbed by others) that were measured again."""
    dirty: int = 0
    """Pairs that were dirty all the same when no repeat was left."""
    discarded: int = 0
    """Pairs thrown away and made again, since in them the kernel's own clock and the supervisor's did not agree."""
    launched_incumbent_s: float | None = None
    launched_candidate_s: float | None = None
    """On a GPU: seconds a call with the launches included, by the supervisor's clock."""


class GpuTelemetry(Artifact):
    """State of the GPU before and after a batch, as NVML reports it; None where it does not."""

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
    """Reasons for lower clocks that were seen: power cap, thermal … They spoil no round: a kernel can bring them
    about."""
    foreign_processes: int | None = None
    """Processes of others with a context on it; None: not known (in a container, say)."""
    foreign_busy: int | None = None
    """Samples in which they computed."""
    idle_share: int | None = None
    """Per cent of the time in which kernels ran on it before any of ours did."""


class Telemetry(Artifact):
    """State of the machine around a batch."""

    load_before: float
    load_after: float
    foreign_cpu_fraction: float | None
    """CPU time that other processes took meanwhile, over cores x wall time; None: not known."""
    stolen_fraction: float | None = None
    """Share of the wall time that a hypervisor took of the core that lost most; None: not known."""
    cores: int = 1
    seconds: float
    gpu: GpuTelemetry | None = None


class TimingResult(Artifact):
    """Answer to a timing request."""

    kind: Literal["timing"] = "timing"
    workloads: tuple[TimingOfWorkload, ...]
    telemetry: Telemetry


# ---------------------------------------------------------------- contest: processes of their own, clocked from outside


class Contestant(Artifact):
    """One program in a process of its own."""

    name: str
    kind: Literal["library", "eager", "compile", "max_autotune", "rival"]
    """A kernel library, the reference under torch eager, under torch.compile, or under torch.compile with its
    longest search, or the function `name` of the task's rivals."""
    library: str | None = None


class ContestRequest(DeviceRequest):
    """Each contestant runs in its own process, alternated in random order and clocked from outside (confirmation, final
    benchmark).

    On a CPU each round has other processes of the kernel libraries than the one before; torch's are kept, and on a GPU
    all are.
    """

    kind: Literal["contest"] = "contest"
    contestants: tuple[Contestant, ...]
    workloads: tuple[TimedWorkload, ...]
    """`pairs` is the number of rounds."""
    order_seed: int
    call_limit_s: float = 120.0


class ContestOfWorkload(Artifact):
    """Rounds of one workload."""

    workload: str
    rounds: tuple[dict[str, float], ...]
    """Contestant name -> seconds a call, one dict a round."""
    calls_per_sample: dict[str, int] = Field(default_factory=dict)
    repeated: int = 0
    """Dirty rounds that were measured again."""
    dirty: int = 0
    """Rounds that were dirty all the same when no repeat was left."""
    sittings: int = 1
    """How often the kernel libraries' processes were started anew, repeated rounds included."""
    device_rounds: tuple[dict[str, float], ...] = ()
    """On a GPU: the same rounds by the device's events."""
    kernel_rounds: tuple[dict[str, float], ...] = ()
    """On a GPU: seconds a call by the device's events, with all launches queued behind a spin, so that no gap
    that the host left between them counts."""
    host_bound: dict[str, int] = Field(default_factory=dict)
    """Contestant -> those of `kernel_rounds` in which launching outlasted the spin, so that gaps may be in them."""


class ContestResult(Artifact):
    """Answer to a contest."""

    kind: Literal["contest"] = "contest"
    workloads: tuple[ContestOfWorkload, ...]
    unavailable: dict[str, str] = Field(default_factory=dict)
    """Contestant -> why it could not run (torch.compile without a compiler, say)."""
    problem: str | None = None
    culprit: str | None = None
    policy: bool = False
    """The problem is what the culprit executed on its device, not what came out."""
    executed: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """On a GPU: kernel library (all but the first) -> names of what it executed, as the profiler saw them."""
    library_share: dict[str, float] = Field(default_factory=dict)
    """Of those that called operators of the task's `library`: these operators' part of its device time, one call of
    each workload."""
    telemetry: Telemetry


# ---------------------------------------------------------------- torch's processes, started ahead of the contest


class PrepareRequest(DeviceRequest):
    """Start torch's contestants of the contest to come: they import torch and, on a CPU, compile whenever nothing is
    timed.

    What a contest measures stays the same, only it waits for less. Nobody keeps the answer.
    """

    kind: Literal["prepare"] = "prepare"
    frameworks: tuple[str, ...]
    """Names of contestants that are no kernels. None: those that were started rest until the next timing is over."""
    dims: tuple[Dims, ...] = ()
    """Sizes to compile for."""
    capability: int = 0
    """Of a GPU, e.g. 90: what kernels' processes there import is imported meanwhile, too."""


class PrepareResult(Artifact):
    """Answer to a prepare request: the processes were started."""

    kind: Literal["prepare"] = "prepare"


class NeededRequest(DeviceRequest):
    """Count what the outputs depend on with the very inputs that these were timed on; several of one name: the
    least. Oracle only."""

    kind: Literal["needed"] = "needed"
    workloads: tuple[TimedWorkload, ...]


class NeededResult(Artifact):
    """Answer to a needed request, and payload of a `needed` record."""

    kind: Literal["needed"] = "needed"
    unique_bytes: dict[str, int]
    """Workload -> as SeenWorkload's."""


# ---------------------------------------------------------------- what torch.compile makes of the reference


class InductorRequest(DeviceRequest):
    """Compile the reference with torch.compile and hand over the generated code as text. Oracle only; on a GPU it is
    tuned there."""

    kind: Literal["inductor"] = "inductor"
    others: tuple[tuple[Dims, ...], ...] = ()
    """Sizes beside the visible ones that the code must do: of each choice the first that the reference takes."""
    search_s: float
    """Seconds after which Inductor's search on a GPU, which goes on at each visible size, ends with what it has."""


class TritonLaunch(Artifact):
    """How Inductor launches one of its Triton kernels."""

    extra: tuple[str, ...] = ()
    """Names of what the wrapper gives behind the kernel's own arguments, for the grid alone."""
    config: dict[str, bool | int | float | str | None]
    """Constants and block sizes by name, `num_warps` and `num_stages`."""
    grid: tuple[str, str, str]
    """Python expressions of arguments and block sizes."""


class GeneratedCode(Artifact):
    """The code for one set of sizes, or for many."""

    code: str
    """The module with kernels and wrapper."""
    inputs: tuple[str, ...]
    """What the wrapper takes, in order: an argument's name, or that and `.1` for the size of its second dimension."""
    conditions: tuple[str, ...]
    """Python expressions of the task's scalars, all of which must hold."""
    scalars: dict[str, bool | int | float]
    """Of the sizes for which it was made."""
    launches: dict[str, TritonLaunch] = Field(default_factory=dict)
    """On a GPU, by the kernel's name."""
    helpers: dict[str, str] = Field(default_factory=dict)
    """Then also Inductor's own Triton functions that the kernels use, name -> text, in an order in which they can be
    written."""
    unsearched: bool = False
    """There was no time left to search for faster code, or for code without a library's call."""


class InductorResult(Artifact):
    """Answer to an inductor request."""

    kind: Literal["inductor"] = "inductor"
    refused: str = ""
    """Why there is no code, to stand behind "reference.py cannot be lifted: "."""
    shapes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Of each tensor, as Python expressions of the task's scalars."""
    variants: tuple[GeneratedCode, ...] = ()
    """In the order in which they are to be asked; those for one set of sizes first."""
    vector_bytes: int = 0
    """Of the vectors that C++ code counts on."""


class HarnessFailure(Artifact):
    """The harness itself could not do its work: the machine's fault."""

    kind: Literal["infra"] = "infra"
    error: str


HarnessRequest = (
    ProbeRequest
    | CorrectnessRequest
    | TimingRequest
    | ContestRequest
    | PrepareRequest
    | NeededRequest
    | InductorRequest
)
Request = Annotated[HarnessRequest, Field(discriminator="kind")]
HarnessResult = (
    ProbeResult
    | CorrectnessResult
    | TimingResult
    | ContestResult
    | PrepareResult
    | NeededResult
    | InductorResult
    | HarnessFailure
)
Result = Annotated[HarnessResult, Field(discriminator="kind")]
RESULT_ADAPTER: TypeAdapter[HarnessResult] = TypeAdapter(Result)
