"""The artifacts that the nodes store as records and the reports render."""

from __future__ import annotations

import math
from typing import Literal

from agents.artifacts import Analysis, KernelObservations, PlannedMethod, Prediction
from agents.models.ledger import Spending
from graph.state import State
from knowledge_base.artifacts import Attempt
from tools.analysis.signatures import MechanismCheck
from tools.artifacts import Artifact, Bound, Clock, Finding, Interval, Profile, Quantity, Trial
from tools.cli.formatting import describe_bottleneck
from tools.gate.judge_settings import MIN_EFFECT
from tools.languages.triton_interpreter import InterpreterResult
from tools.roofline.hardware import Headroom, Roof, Spec, Target, UnknownSpec
from tools.roofline.roofline import reason_faster_than_roof

COMMIT_PROTOCOL = 2
"""The protocol number of a run's commits, which changes when their trailers change meaning."""


class Masking(Artifact):
    """The versions that one `mask` or `unmask` hides or shows again."""

    version: str
    """The version that was named, such as v2."""
    masked: bool
    """True: hidden; False: shown again."""
    versions: tuple[int, ...]
    """The iterations of that version and its descendants."""


class Closing(Artifact):
    """The content of a commit's texts that is in no other record, so that anybody can render the texts again."""

    workspace: str
    """The folder name of the workspace."""
    state: State
    """The state of the run at the commit."""
    wall_s: float
    """Wall seconds of the run so far."""
    device_s: float
    """Seconds that jobs took on the device so far."""
    spent: Spending
    """The spending on models so far."""
    sources: str
    """Digest of the sources of Kernelwright that rendered the texts (`tools.environment.sources_digest`)."""
    changed: tuple[str, ...] = ()
    """Metrics whose cited line had changed when the report was rendered."""
    restores: str = ""
    """v<N>, the version whose kernel a mask has put at HEAD; empty: none."""
    masking: Masking | None = None
    """What the commit masks or unmasks; None: it closes an iteration or the run."""


class ReachedCap(Artifact):
    """The cap that ended a run."""

    reason: str
    """One sentence with the cap's key in the config and the amount spent."""


class Placeholder(Artifact):
    """A person's figure for a number that the wiki lacks (`on_unknown: ask`); it is only shown, and no target rests on
    it."""

    metric: str
    value: float
    unit: str

    def __str__(self) -> str:
        return f"{self.metric}: {self.value:g} {self.unit} PLACEHOLDER (given by a person, not from the gpu-wiki)"


class SpecSheet(Artifact):
    """The Hardware Spec of a run (E2): published figures, gaps, placeholders and measured roofs."""

    product: str
    specs: tuple[Spec, ...]
    gaps: tuple[UnknownSpec, ...]
    placeholders: tuple[Placeholder, ...] = ()
    """Figures that a person gave for some of the gaps, which remain gaps."""
    roofs: tuple[Roof, ...]
    wiki: str
    """The folder name of the gpu-wiki."""
    elsewhere: bool = False
    """The product is known to be another device than the one that measures."""
    remark: str = ""
    """One sentence about the whole sheet; may be empty."""

    @property
    def target_specs(self) -> tuple[Spec, ...]:
        """The published specs on which targets may rest; empty if they describe another device."""
        return () if self.elsewhere else self.specs


class WorkloadRoofline(Artifact):
    """The time and headroom of one kernel on one workload."""

    workload: str
    seconds: float
    """Median seconds a call."""
    flops: float | None
    unique_bytes: int
    headroom: Headroom

    @property
    def remark(self) -> str:
        """The sentence that says why the kernel is faster than its roof; empty where it is not."""
        return reason_faster_than_roof(self.seconds, self.headroom.roof_s, self.headroom.bound)


class KernelRoofline(Artifact):
    """The content of roofline.json: the distance of a version's kernel from the roofs."""

    record: str
    """The id of the record of the inspection."""
    candidate: str
    workloads: tuple[WorkloadRoofline, ...]
    objective: Headroom
    target: Target
    published: Target | None
    """The target from published figures alone; None: there are none."""


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
"""The reasons for which an artifact of a version may be absent; no other reason passes the audit."""


class NotAvailable(Artifact):
    """The content of an artifact that a version does not have."""

    not_available: AbsenceReason
    parent: str = ""
    """The id of the record about the parent kernel, if there is one."""


class InstructionCheck(Artifact):
    """The content of sass_check.json: which methods show in the machine code of a version."""

    architecture: str
    methods: dict[str, bool | None]
    """Method -> whether its signature is in the machine code; None: the page gives none for this architecture."""
    record: str | None
    """The id of the record of the attribution."""
    checks: dict[str, MechanismCheck] = {}
    """Method -> the check behind `methods`, if it was stored."""


class Inspection(Artifact):
    """The profile, findings, rooflines and analysis of one kernel."""

    candidate: str
    profiles: tuple[Profile, ...]
    profile_records: tuple[str, ...]
    missing: dict[str, str]
    """Profiler -> the reason why it has no profile."""
    workload: str
    """The workload with most weight, whose facts these are."""
    facts: dict[str, Quantity]
    findings: tuple[Finding, ...]
    rooflines: tuple[WorkloadRoofline, ...]
    headroom: Headroom
    """The headroom of the whole objective; its bound is the kernel's one bottleneck."""
    target: Target
    """The target of the stop condition, from measured roofs if there are any."""
    published: Target | None = None
    """The target from published figures alone, for comparison; None: none are published."""
    doubt: str = ""
    """The reason why the binding roof may lie higher, if the kernel is so near that this matters; else empty."""
    analysis: Analysis
    seen: KernelObservations = KernelObservations()
    """The figures and passages about this kernel that every prompt shows; empty in old records."""

    @property
    def metrics(self) -> dict[str, Quantity]:
        """The metrics of all profiles and the facts, by name."""
        # The profile of the workload with most weight comes before that of another.
        found = (item for profile in reversed(self.profiles) for item in profile.metrics.items())
        return dict(found) | self.facts

    @property
    def bottleneck(self) -> Bound:
        """What limits the kernel."""
        return self.headroom.bound

    @property
    def profiled(self) -> bool:
        """A profiler ran, or none was expected to."""
        return bool(self.profiles) or not self.missing

    @property
    def limit(self) -> str:
        """The kernel's bottleneck in words; "not profiled" without counters, since the roofline alone would be
        misleading."""
        return describe_bottleneck(self.bottleneck) if self.profiled else "not profiled"


class EarlierAttempts(Artifact):
    """The outcomes of earlier runs, frozen for this run."""

    attempts: tuple[Attempt, ...]
    """The attempts, the newest first."""
    forecasts: str = ""
    """How often predictions of the planner's model held, over all operators; empty: too few were scored."""


class LiftResult(Artifact):
    """The kernel that torch.compile generates from the reference, in the task's language, or the reason why there is
    none."""

    source: str = ""
    refused: str = ""
    """The reason why there is no kernel, in one sentence."""


class JudgedTrial(Artifact):
    """A trial with its iteration and purpose."""

    iteration: int
    trial: Trial
    purpose: Literal["search", "ablation"] = "search"


AttributionStatus = Literal[
    "effective", "not_checked", "unclear", "ineffective", "implementation_failed", "unreached", "unattributed"
]
"""The status of a method. Worth more than the noise are effective, not_checked (its mechanism could not be checked) and
unclear (the machine code shows its mechanism without it, too). unreached: no workload runs its code."""


class MethodOutcome(Artifact):
    """The worth of one method of a champion, from its ablation (A7-A9)."""

    method: str
    status: AttributionStatus
    visible: bool | None
    """The method's signature is in the machine code because of the method; None: not checked, e.g. without a
    signature."""
    seconds: float | None
    """Objective time without the method minus the champion's, in seconds; None: it could not be removed alone."""
    ratio: Interval | None
    """The champion's speed-up over the kernel without the method."""
    ablation: str | None
    """The candidate id of the kernel without the method."""
    note: str = ""
    mechanism: MechanismCheck | None = None
    """The check behind `visible`; None in old records."""
    idle: bool = False
    """It shows in neither the machine code nor the time."""

    @property
    def seen(self) -> str:
        """`visible` in words, with the evidence if there is any."""
        return str(self.mechanism or {None: "not checked", True: "yes", False: "no"}[self.visible])


class Attribution(Artifact):
    """The outcomes of all methods of one champion."""

    champion: str
    methods: tuple[MethodOutcome, ...]


BAND_SHARES = (0.25, 0.5)
"""The least and the greatest half-width of a prediction's band, as a share of the predicted change in logarithms."""


def is_borne_out(expected: Prediction, factor: Interval, noise: float = MIN_EFFECT) -> bool | None:
    """Return whether the measured `factor` (new / old) lies in the band of a prediction; None: noise leaves that open.

    The band reaches as far around the predicted factor as the stated confidence leaves open (in logarithms, a share
    `1 - confidence` of the predicted change, within `BAND_SHARES`), and by `noise` further. Noise leaves it open where
    the interval reaches out of the band with its estimate, or to where nothing changes.
    """
    change = math.log(expected.factor)
    share = min(max(1 - expected.confidence, BAND_SHARES[0]), BAND_SHARES[1])
    ends = sorted((change * (1 - share), change * (1 + share)))
    low, high = math.exp(ends[0]) / (1 + noise), math.exp(ends[1]) * (1 + noise)
    if factor.low > high or factor.high < low:
        return False
    is_shown = factor.high < 1 or factor.low > 1 or low <= 1 <= high
    return True if is_shown and low <= factor.estimate <= high else None


class ScoredPrediction(Artifact):
    """A prediction of a plan with the observed effect (F6)."""

    planned: PlannedMethod
    observed_factor: float | None
    """New time / old time, from the method's ablation, or of the version if this is its only method; None: not
    measured, or not separable."""
    hit: bool | None
    """The effect lies in the band of the prediction (`is_borne_out`); None: unknown or hidden by noise."""

    @property
    def borne_out(self) -> str:
        """`hit` in a word: yes, no or unknown; N/A if nothing was measured."""
        return "N/A" if self.observed_factor is None else {None: "unknown", True: "yes", False: "no"}[self.hit]


class VersionMemory(Artifact):
    """The content of memory/v<N>.json (E5); memory/schema.json holds its schema."""

    schema_version: Literal[1] = 1
    """The version of this schema."""
    iteration: int
    parent: str
    """The candidate id of the kernel at HEAD before this version."""
    candidate: str | None
    verdict: str
    reasons: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    knobs: dict[str, str] = {}
    speedup: Interval | None = None
    predictions: tuple[ScoredPrediction, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    records: tuple[str, ...]
    masked: bool = False


class ContestantTime(Artifact):
    """The time of one contestant of the final benchmark on one workload."""

    contestant: str
    workload: str
    seconds: float | None
    """The median of the baseline; of the others that median scaled by their paired ratios; None: not available."""
    against_best: Interval | None
    """Time of the contestant / time of the best kernel, above 1 if the best kernel is faster; None: the best kernel
    itself."""
    note: str = ""


class FinalBenchmark(Artifact):
    """The comparison at the end of a run, with each contestant in a process of its own."""

    best: Literal["baseline", "best"] = "best"
    """The contestant that is the best kernel; the baseline if no version was accepted."""
    standings: tuple[ContestantTime, ...]
    overall: dict[str, Interval]
    """Contestant -> its objective time / the best kernel's objective time."""
    objective_s: dict[str, float]
    """Contestant -> objective time in seconds, consistent with the ratios of `overall`."""
    objective_of: str = ""
    """The quantity that those times measure, in words; empty: one call of one workload."""
    host_bound: dict[str, int] = {}
    """Contestant -> the number of rounds whose device time may include gaps between launches."""
    device_s: dict[str, float] = {}
    """Contestant -> weighted sum of its median device times, if calls only launch; all other times then include
    launches, or are those of graphs."""
    graph_s: dict[str, float] = {}
    """Contestant -> weighted sum of its median times by the wall clock over replays of its CUDA graphs, each of one
    call."""
    over_function: dict[Clock, Interval] = {}
    """Clock -> time of the user's own function / the best kernel's."""
    doubts: tuple[str, ...] = ()
    """Sentences about the user's own function: why it was not timed, or why the factors over it may say little."""
    uncaptured: dict[str, str] = {}
    """Contestant -> why its calls cannot be captured in a CUDA graph."""
    by_graphs: bool = False
    """Whether the standings are by those replays, as the task's clock asks."""
    unavailable: dict[str, str]
    disturbed: bool = False
    """Other processes kept the machine busy in more than half of the rounds of a workload."""
    wall_s: float
    """Wall time of the run so far in seconds, over all its processes."""
    spent_device_s: float | None = None
    """Seconds that jobs took on the device; None: not collected."""
    proposals: dict[int, tuple[str, ...]] = {}
    """Iteration -> ids of the records of its dossier, its plan and the gate's trial; empty in old records."""


class AttainableTime(Artifact):
    """The least times of one workload by published figures, in seconds a call; None: the wiki has no roof."""

    workload: str
    flops: float | None
    unique_bytes: int
    least_s: float | None
    """The time to move inputs and outputs once, a lower bound of every correct kernel."""
    roof_s: float | None
    """The time at the roof for the operations and bytes of the reference."""
    bound: Bound


class NotMeasured(Artifact):
    """The result of a run without the device of its language: what could be found without it, and no time or
    speed-up."""

    status: Literal["not_measured"] = "not_measured"
    reason: str
    """Why nothing was measured, in one sentence."""
    speedup: None = None
    workspace: None = None
    """Always None: such a run has no workspace, since nothing can be resumed, committed or verified."""
    task: str
    identity: str
    interpreted: InterpreterResult | None
    """The correctness at small sizes; None: the language cannot check it without its device."""
    profiles: tuple[Profile, ...]
    """The profiles of the compiled kernel."""
    missing: dict[str, str]
    """Profiler -> the reason why it has no profile."""
    product: str | None
    """The product whose published figures were looked up; None: the settings name no product."""
    specs: tuple[Spec, ...]
    gaps: tuple[UnknownSpec, ...]
    placeholders: tuple[Placeholder, ...] = ()
    """Figures that a person gave for some of the gaps."""
    reach: tuple[AttainableTime, ...]
    inferred: tuple[str, ...] = ()
    """The task's sentences on what was inferred, pinned or frozen."""
