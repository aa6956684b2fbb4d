"""The Brief that each role is given and the answer that it owes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, FiniteFloat

from knowledge_base.artifacts import Attempt, Page, Passage
from tools.artifacts import Artifact, Axis, Finding, Interval, Quantity, Remark, Task
from tools.gate.ranking import FrameworkTimes
from tools.roofline.hardware import Headroom, Spec

RoleName = Literal["planner", "coder", "profiler_analyst", "knowledge_retriever", "gatekeeper"]


class Figure(Artifact):
    """A value copied from the material."""

    metric: str
    value: FiniteFloat
    unit: str
    citation: str
    """`<gpu-wiki>/path:line`, or id of a record."""

    def __str__(self) -> str:
        """As reports print it, with its citation."""
        return f"{self.metric}: {self.value:.10g} {self.unit} <- {self.citation}"


class Movement(Artifact):
    """A prediction that the gate will score (F6)."""

    metric: str
    """A metric's name with its tool, or "time"."""
    direction: Literal["up", "down"]
    factor: FiniteFloat
    """Expected new / old value; for "time" e.g. 0.5 means twice as fast."""
    confidence: FiniteFloat
    """0..1."""


class Hypothesis(Artifact):
    """One intended change with its parts (B3)."""

    change: str
    rationale: str
    citations: tuple[str, ...]
    """`<gpu-wiki>/path:line`, ids of records or findings."""
    expected: tuple[Movement, ...]


class PlannedMethod(Artifact):
    """One method of a plan."""

    method: str
    """Page id, or `own:<slug>`."""
    axis: Axis
    hypothesis: Hypothesis
    signature: dict[str, str] = Field(default_factory=dict)
    """Architecture -> pattern expected in the machine code."""


class Plan(Artifact):
    """Planner's answer; an empty plan of no candidates says that nothing applicable is left."""

    methods: tuple[PlannedMethod, ...]
    candidates: int
    """Candidates wanted."""
    reason: str = ""
    """Why nothing is left, or what guided the choice."""
    figures: tuple[Figure, ...] = ()
    """Values on which the plan rests."""


class Draft(Artifact):
    """One candidate from the coder."""

    source: str
    """Whole text of the kernel file."""
    methods: tuple[str, ...]
    """Methods really applied."""
    knobs: dict[str, str] = Field(default_factory=dict)
    note: str = ""


class Drafts(Artifact):
    """Coder's answer: the candidates, plus one simplified kernel for each method left out (ablation) when asked."""

    drafts: tuple[Draft, ...]
    skipped: dict[str, str] = Field(default_factory=dict)
    """Method -> why it could not be applied to this source."""


class Analysis(Artifact):
    """Profiler-analyst's answer: localises and ranks the findings."""

    ranking: tuple[str, ...]
    """Rule ids of the findings, most important first."""
    text: str
    """Prose: `[rule:ID]` stands for a finding and `[record:ID METRIC]` for a value; both are filled in."""
    section: str = ""
    """A section of the profiler's report that would decide; with it in sight the question is asked once more. Empty:
    none."""
    figures: tuple[Figure, ...] = ()
    """Values on which the analysis rests."""


class Query(Artifact):
    """One archived question to the knowledge base (C3)."""

    text: str
    purpose: Literal["kernel", "bottleneck"]


class Queries(Artifact):
    """Knowledge-retriever's answer: what to ask. At least one kernel-specific and one bottleneck query."""

    queries: tuple[Query, ...]


class Dossier(Artifact):
    """What retrieval found, all cited."""

    queries: tuple[Query, ...]
    passages: tuple[Passage, ...]
    methods: tuple[Page, ...]
    """Own experience from like conditions, then method pages whose rules fired or whose triggers hold, those that
    fit best first."""
    attempts: tuple[Attempt, ...]
    """Past outcomes in like conditions."""
    earlier: tuple[Page, ...] = ()
    """Methods and skills that this run listed before and no longer asks for; they stay to be planned and cited."""
    shortfall: str = ""
    """Why passages were found by their words alone; empty where vectors had a say."""


class Review(Artifact):
    """Gatekeeper's answer: may veto with a quoted line, never accept."""

    veto: bool = False
    quote: str = ""
    reason: str = ""


# ---------------------------------------------------------------- briefs


class Tried(Artifact):
    """An earlier attempt of this run."""

    iteration: int
    methods: tuple[str, ...]
    """Of the candidate that was weighed."""
    knobs: dict[str, str]
    verdict: str
    reason: str
    planned: tuple[str, ...] = ()
    """Of the plan; a candidate may have left some out."""
    speedup: Interval | None = None
    """Incumbent / candidate; None: it was not timed."""
    predicted: str = ""
    """How many of the predictions that could be scored held (F6), and what came of the others; empty: none could be
    scored."""
    moved: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Counter -> before and after, of those that changed; the last attempts'."""


class Seen(Artifact):
    """What was measured of the kernel at HEAD; the same for all roles that read of it, so that a cache keeps it
    once."""

    times: dict[str, dict[str, float | None]] = Field(default_factory=dict)
    """Workload -> what was timed or worked out for it -> seconds a call; None: not known."""
    counters: dict[str, dict[str, Quantity]] = Field(default_factory=dict)
    """Record -> metric -> value: what an analysis may refer to."""
    machine_code: tuple[str, ...] = ()
    """Of the hot loops, the longest first."""
    section: tuple[str, ...] = ()
    """What the section of the profiler's report that the analyst asked for says of each kernel."""
    operator: tuple[Passage, ...] = ()
    """The page on what the reference computes, whole."""


class AnalystBrief(Artifact):
    """For the profiler-analyst."""

    kind: Literal["analyst"] = "analyst"
    source: str
    findings: tuple[Finding, ...]
    remarks: tuple[Remark, ...]
    headroom: Headroom
    records: tuple[str, ...]
    seen: Seen = Seen()
    specs: tuple[Spec, ...] = ()
    """What is published of the device: the only hardware figures that an answer may rest on, each with its
    citation."""
    architecture: str = ""
    """Of the device, as pages and signatures name it; empty: not known."""
    sections: tuple[str, ...] = ()
    """Of the profiler's report, one of which may be asked for."""
    task: Task | None = None
    """None: the kernel's source says it all."""
    skills: tuple[Page, ...] = ()
    """The skill pages whose signal fired, most important first."""


class RetrieverBrief(Artifact):
    """For the knowledge-retriever; what it has in common with the planner's is the same in both."""

    kind: Literal["retriever"] = "retriever"
    task: Task
    findings: tuple[Finding, ...]
    bottleneck: str
    source: str = ""
    """The incumbent; empty: the baseline says it all."""
    headroom: Headroom | None = None
    specs: tuple[Spec, ...] = ()
    """As in AnalystBrief."""
    architecture: str = ""
    """As in AnalystBrief."""
    skills: tuple[Page, ...] = ()
    """As in AnalystBrief."""
    seen: Seen = Seen()


class PlannerBrief(Artifact):
    """For the planner."""

    kind: Literal["planner"] = "planner"
    task: Task
    source: str
    findings: tuple[Finding, ...]
    headroom: Headroom
    dossier: Dossier
    tried: tuple[Tried, ...]
    budget: dict[Axis, int]
    """How many methods each axis is worth this iteration; a guide that a plan goes beyond with a reason."""
    methods_per_iteration: int
    candidates: int
    records: tuple[str, ...]
    specs: tuple[Spec, ...] = ()
    """As in AnalystBrief."""
    architecture: str = ""
    """As in AnalystBrief."""
    memory: tuple[Attempt, ...] = ()
    """Outcomes of earlier runs in like conditions, newest first, as they stood when this run first asked."""
    forecasts: str = ""
    """How the predictions of this model fared in them all; empty: too few were scored."""
    shape_class: str = ""
    """Of the task's visible workloads, as an Attempt names it."""
    skills: tuple[Page, ...] = ()
    """As in AnalystBrief."""
    seen: Seen = Seen()
    analysis: str = ""
    """What the profiler-analyst says of these findings, its figures put in place from the records."""
    frameworks: FrameworkTimes | None = None
    """Torch's times beside the incumbent's; None: not known."""


class CoderBrief(Artifact):
    """For the coder."""

    kind: Literal["coder"] = "coder"
    task: Task
    source: str
    plan: Plan
    pages: tuple[Page, ...]
    """The planned methods' pages (knobs and recipe names are in their heads)."""
    tried: tuple[Tried, ...]
    without: tuple[str, ...] = ()
    """Ablation: write the champion's kernel once without each of these methods."""
    champion: str = ""
    """Its source, then."""
    champion_knobs: dict[str, str] = Field(default_factory=dict)
    failures: tuple[str, ...] = ()
    """Reasons, logs and sources of drafts of this iteration that failed, to be mended (A10)."""
    sound: tuple[str, ...] = ()
    """What compiler and check say of those that stand."""
    specs: tuple[Spec, ...] = ()
    """As in AnalystBrief."""
    architecture: str = ""
    """As in AnalystBrief."""
    memory: tuple[Attempt, ...] = ()
    """As in PlannerBrief."""
    shape_class: str = ""
    """As in PlannerBrief."""
    findings: tuple[Finding, ...] = ()
    headroom: Headroom | None = None
    skills: tuple[Page, ...] = ()
    """As in AnalystBrief."""
    seen: Seen = Seen()
    hints: tuple[str, ...] = ()
    """What the handlers of the kernel's shape say, in words of ours."""
    frameworks: FrameworkTimes | None = None
    """As in PlannerBrief."""
    lifted: str = ""
    """What torch.compile makes of the reference, as a kernel, where the plan names the method of that."""

    @property
    def first(self) -> bool:
        """Whether v0 is owed: there is no source yet, and nothing is planned."""
        return not self.source and not self.plan.methods


class GatekeeperBrief(Artifact):
    """For the gatekeeper: the diff and the task, nothing else."""

    kind: Literal["gatekeeper"] = "gatekeeper"
    task: Task
    diff: str


Brief = AnalystBrief | RetrieverBrief | PlannerBrief | CoderBrief | GatekeeperBrief
Answer = Analysis | Queries | Plan | Drafts | Review
