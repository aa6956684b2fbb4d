"""What the nodes leave as records and the reports render."""

from __future__ import annotations

from typing import Literal

from agents.artifacts import Analysis, KernelObservations, PlannedMethod
from knowledge_base.artifacts import Attempt
from tools.analysis.signatures import MechanismCheck
from tools.artifacts import Artifact, Bound, Finding, Interval, Profile, Quantity, Trial
from tools.cli.formatting import describe_bottleneck
from tools.languages.triton_interpreter import InterpreterResult
from tools.roofline.hardware import Headroom, Roof, Spec, Target, UnknownSpec

PROTOCOL = 1
"""Version of a run's commits: it changes when the trailers mean something else."""


class Reached(Artifact):
    """The cap that ended a run."""

    reason: str
    """One sentence that names it in the config, with what was spent."""


class Placeholder(Artifact):
    """What a person said for a number that the wiki lacks (`on_unknown: ask`). No Spec: it is shown, and nothing
    rests on it."""

    metric: str
    value: float
    unit: str

    def __str__(self) -> str:
        return f"{self.metric}: {self.value:g} {self.unit} PLACEHOLDER (said by a person, not from the gpu-wiki)"


class SpecSheet(Artifact):
    """Step 0 (E2): what is published, what is unknown, what was measured, and when the run stops."""

    product: str
    specs: tuple[Spec, ...]
    gaps: tuple[UnknownSpec, ...]
    placeholders: tuple[Placeholder, ...] = ()
    """For some of the gaps, which stay gaps."""
    roofs: tuple[Roof, ...]
    wiki: str
    """Root of the gpu-wiki that was asked."""
    elsewhere: bool = False
    """Whether `product` is known not to be the device that measures."""
    remark: str = ""
    """One sentence on all of it."""

    @property
    def here(self) -> tuple[Spec, ...]:
        """Those on which targets may rest: of the device that measures."""
        return () if self.elsewhere else self.specs


class WorkloadRoofline(Artifact):
    """One workload of one kernel against the roofs."""

    workload: str
    seconds: float
    """Median seconds a call."""
    flops: float | None
    unique_bytes: int
    headroom: Headroom


class KernelRoofline(Artifact):
    """roofline.json of a version."""

    record: str
    """Of the inspection."""
    candidate: str
    workloads: tuple[WorkloadRoofline, ...]
    objective: Headroom
    target: Target
    published: Target | None
    """As in `Inspection`."""


AbsenceReason = Literal[
    "no candidate became champion",
    "no candidate came as far as this check",
    "no profiler ran",
    "refused before profiling",
    "The coder wrote no candidate for this plan",
    "No candidate of this plan was judged",
    "Nothing was ablated: no champion, or one with a single method, whose own trial says what it is worth",
    "No candidate: nothing differs",
]
"""Why something of a version is not there; nothing else is an excuse."""


class NotAvailable(Artifact):
    """In the place of what a version does not have."""

    not_available: AbsenceReason
    parent: str = ""
    """Record of what is known of its parent instead, where there is one."""


class InstructionsSeen(Artifact):
    """sass_check.json of a version."""

    architecture: str
    methods: dict[str, bool | None]
    """Method -> whether its signature is in the machine code; None: the page gives none for this architecture."""
    record: str | None
    """Of the attribution."""
    checks: dict[str, MechanismCheck] = {}
    """Method -> what `methods` rests on, where that was kept."""


class Inspection(Artifact):
    """Everything the profile node learnt about one kernel."""

    candidate: str
    profiles: tuple[Profile, ...]
    profile_records: tuple[str, ...]
    missing: dict[str, str]
    """Profiler -> why it has nothing to say; its metrics are N/A."""
    facts: dict[str, Quantity]
    findings: tuple[Finding, ...]
    bottleneck: Bound
    rooflines: tuple[WorkloadRoofline, ...]
    headroom: Headroom
    """Of the objective."""
    target: Target
    """The stop condition: measured roofs before published ones."""
    published: Target | None = None
    """The same held against what is published alone, to compare; None: nothing is."""
    doubt: str = ""
    """Why the roof that binds may lie higher, where the kernel is so near to it that this decides; empty where
    nothing speaks for it."""
    analysis: Analysis
    seen: KernelObservations = KernelObservations()
    """What all who read of this kernel are shown; empty in records from before it was kept."""

    @property
    def metrics(self) -> dict[str, Quantity]:
        """Of all profiles, and the facts."""
        return {name: quantity for profile in self.profiles for name, quantity in profile.metrics.items()} | self.facts

    @property
    def profiled(self) -> bool:
        """Whether a profiler had anything to say, where one should have."""
        return bool(self.profiles) or not self.missing

    @property
    def limit(self) -> str:
        """What limits the kernel, in words; the roofline alone would name something, while rules that ask for
        counters are silent."""
        return describe_bottleneck(self.bottleneck) if self.profiled else "not profiled"


class EarlierAttempts(Artifact):
    """Outcomes of earlier runs, frozen for this one."""

    attempts: tuple[Attempt, ...]
    """Newest first."""
    forecasts: str = ""
    """How the predictions of the planner's model fared, of any operator; empty: too few of them were scored."""


class Lifted(Artifact):
    """What torch.compile makes of the reference, as a kernel of the task's language."""

    source: str = ""
    refused: str = ""
    """Why there is none, in one sentence."""


class Judged(Artifact):
    """One trial of one iteration."""

    iteration: int
    trial: Trial
    purpose: Literal["search", "ablation"] = "search"


AttributionStatus = Literal["effective", "not_checked", "ineffective", "implementation_failed", "unattributed"]
"""not_checked: worth more than the noise, by what mechanism was not seen."""


class MethodOutcome(Artifact):
    """What one method of a champion was worth (A7-A9)."""

    method: str
    status: AttributionStatus
    visible: bool | None
    """Its signature is in the machine code because of it; None: not checked, as where the page gives none for this
    architecture."""
    seconds: float | None
    """t_without_m - t_champion of the objective; None: could not be taken out alone."""
    ratio: Interval | None
    """Champion's speed-up over the kernel without it."""
    ablation: str | None
    """Candidate id of the kernel without it."""
    note: str = ""
    mechanism: MechanismCheck | None = None
    """What `visible` rests on; None in records from before it was kept."""

    @property
    def seen(self) -> str:
        """`visible` with what it rests on."""
        return str(self.mechanism or {None: "not checked", True: "yes", False: "no"}[self.visible])


class Attribution(Artifact):
    """All methods of one champion."""

    champion: str
    methods: tuple[MethodOutcome, ...]


SIZE = 2.0
"""A predicted factor counts as right when the observed one lies within this factor of it."""


class Scored(Artifact):
    """One prediction of a plan and what came of it (F6)."""

    planned: PlannedMethod
    observed_factor: float | None
    """New / old time, by the method's own ablation where there is one, else over the whole plan; None when nothing
    was measured."""
    hit: bool | None
    """Shown in the direction that was predicted, and within a factor of `SIZE`; None: nothing can be said, or noise
    hides it."""

    @property
    def borne_out(self) -> str:
        """`hit` in a word; N/A where nothing was measured."""
        return "N/A" if self.observed_factor is None else {None: "unknown", True: "yes", False: "no"}[self.hit]


class VersionMemory(Artifact):
    """memory/v<N>.json (E5); its schema lies beside it as memory/schema.json."""

    schema_version: Literal[1] = 1
    """Of this schema; files from before it was written down are of version 1, too."""
    iteration: int
    parent: str
    """Candidate id at HEAD before."""
    candidate: str | None
    verdict: str
    reasons: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    knobs: dict[str, str] = {}
    speedup: Interval | None = None
    predictions: tuple[Scored, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    records: tuple[str, ...]
    masked: bool = False


class ContestantTime(Artifact):
    """One contestant of the final benchmark on one workload."""

    contestant: str
    workload: str
    seconds: float | None
    """The baseline's median; for the others what their paired ratios make of it (`tools.gate.ranking`). None: not
    available."""
    against_best: Interval | None
    """contestant / best: above 1 the best kernel is faster. None: it is the best kernel itself."""
    note: str = ""


class FinalBenchmark(Artifact):
    """The last comparison, each contestant in a process of its own."""

    best: Literal["baseline", "best"] = "best"
    """The contestant that is the best kernel: the baseline where no version was accepted."""
    standings: tuple[ContestantTime, ...]
    overall: dict[str, Interval]
    """Contestant -> its objective time / the best kernel's."""
    objective_s: dict[str, float]
    """Contestant -> objective time; quotients of two are the ratios of `overall`."""
    objective_of: str = ""
    """What those times are of where that is not one call of one workload."""
    host_bound: dict[str, int] = {}
    """Contestant -> rounds by the device's events in which gaps between launches could not be kept out."""
    device_s: dict[str, float] = {}
    """Where calls only launch: contestant -> weighted sum of its median times on the device alone. All other times
    here are then by the wall clock, launches included."""
    unavailable: dict[str, str]
    disturbed: bool = False
    """Others kept the machine busy in more than half of the rounds of a workload."""
    wall_s: float
    """Wall time of the run up to here, over all its processes."""
    spent_device_s: float | None = None
    """What of it jobs took on the device; None: not collected."""
    proposals: dict[int, tuple[str, ...]] = {}
    """Iteration -> records of its dossier, its plan and the trial that was put to the gate; none in records of
    before that was kept."""


class AttainableTime(Artifact):
    """What published figures say about one workload; seconds a call, None where the wiki names no roof."""

    workload: str
    flops: float | None
    unique_bytes: int
    least_s: float | None
    """Below it lies no honest time: that of moving inputs and outputs once."""
    roof_s: float | None
    """The roof's time for the reference's own operations and bytes."""
    bound: Bound


class NotMeasured(Artifact):
    """How a run ends whose device is not here: what was found without it. No time and no speed-up is in it."""

    status: Literal["not_measured"] = "not_measured"
    reason: str
    """One sentence."""
    speedup: None = None
    workspace: None = None
    """Such a run leaves none: nothing was measured that could be resumed, committed or verified."""
    task: str
    identity: str
    interpreted: InterpreterResult | None
    """Correctness at small sizes; None: the language has no way to tell without its device."""
    profiles: tuple[Profile, ...]
    """What the kernel compiles to."""
    missing: dict[str, str]
    """Profiler -> why it has nothing to say."""
    product: str | None
    """Whose published figures were asked for; None: the settings name none."""
    specs: tuple[Spec, ...]
    gaps: tuple[UnknownSpec, ...]
    placeholders: tuple[Placeholder, ...] = ()
    """As in SpecSheet."""
    reach: tuple[AttainableTime, ...]
    inferred: tuple[str, ...] = ()
    """The task's: what was inferred, pinned or frozen."""
