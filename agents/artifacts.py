"""The brief that each role receives, and the type of answer that it returns."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, FiniteFloat

from knowledge_base.artifacts import Attempt, Page, Passage
from tools.artifacts import Artifact, Axis, Finding, Interval, Quantity, Remark, Task
from tools.gate.ranking import FrameworkTimes
from tools.roofline.hardware import Headroom, Spec

RoleName = Literal["planner", "coder", "profiler_analyst", "knowledge_retriever", "gatekeeper"]


class Figure(Artifact):
    """A value that a model copies from the material of its prompt, with its source."""

    metric: str
    value: FiniteFloat
    unit: str
    citation: str
    """`<gpu-wiki>/path:line`, or the id of a record."""

    def __str__(self) -> str:
        """The figure with its citation, as reports print it."""
        return f"{self.metric}: {self.value:.10g} {self.unit} <- {self.citation}"


class Prediction(Artifact):
    """One predicted change of a metric, which the gate scores after the measurement (F6)."""

    metric: str
    """Name of a metric together with its tool, or "time"."""
    direction: Literal["up", "down"]
    factor: FiniteFloat
    """Expected new value / old value; for "time", 0.5 means twice as fast."""
    confidence: FiniteFloat
    """Probability that the prediction holds, 0..1."""


class Hypothesis(Artifact):
    """One intended change, why it should help, and what it should change in the measurements (B3)."""

    change: str
    rationale: str
    citations: tuple[str, ...]
    """`<gpu-wiki>/path:line`, or ids of records or findings."""
    expected: tuple[Prediction, ...]


class PlannedMethod(Artifact):
    """One method of a plan with its hypothesis."""

    method: str
    """Id of a method page, or `own:<slug>` for an idea of the model's own."""
    axis: Axis
    hypothesis: Hypothesis
    signature: dict[str, str] = Field(default_factory=dict)
    """Architecture -> regular expression that the machine code should match."""


class PassedOver(Artifact):
    """A page that a plan leaves out, with its own reason."""

    method: str
    reason: str


class Plan(Artifact):
    """The planner's answer. A plan without methods and candidates says that no applicable method is left."""

    methods: tuple[PlannedMethod, ...]
    candidates: int
    """Number of candidates that the coder should write."""
    parent: str = ""
    """Id of a correct candidate that lost, from which the coder starts; empty: the incumbent."""
    passed_over: tuple[PassedOver, ...] = ()
    """Pages of higher priority on a planned axis that the plan leaves out."""
    reason: str = ""
    """Why no method is left, or what guided the choice."""
    figures: tuple[Figure, ...] = ()
    """Hardware figures and counters on which the plan rests."""


class Draft(Artifact):
    """One candidate kernel that the coder wrote."""

    source: str
    """The whole text of the kernel file."""
    methods: tuple[str, ...]
    """Ids of the methods that the source really applies."""
    knobs: dict[str, str] = Field(default_factory=dict)
    note: str = ""


class Drafts(Artifact):
    """The coder's answer: its candidates, or for an ablation one kernel for each method that is left out."""

    drafts: tuple[Draft, ...]
    skipped: dict[str, str] = Field(default_factory=dict)
    """Method -> reason why it cannot be applied to this source."""


class Analysis(Artifact):
    """The profiler-analyst's answer: it ranks the findings and locates them in the source."""

    ranking: tuple[str, ...]
    """Rule ids of the findings, most important first."""
    text: str
    """Prose in which `[rule:ID]` stands for a finding and `[record:ID METRIC]` for a value; reports fill in both."""
    section: str = ""
    """Name of a section of the profiler's report that would decide between causes; the analyst is asked once more with
    it. Empty: no section is wanted."""
    figures: tuple[Figure, ...] = ()
    """Hardware figures on which the analysis rests."""


class KnowledgeQuery(Artifact):
    """One question to the knowledge base; it is stored with its results (C3)."""

    text: str
    purpose: Literal["kernel", "bottleneck"]


class Queries(Artifact):
    """The knowledge-retriever's answer: at least one query about the kernel and one about the bottleneck."""

    queries: tuple[KnowledgeQuery, ...]


class Dossier(Artifact):
    """Everything that retrieval found, with citations."""

    queries: tuple[KnowledgeQuery, ...]
    passages: tuple[Passage, ...]
    methods: tuple[Page, ...]
    """Pages of this installation's own experience under similar conditions, then method pages whose rules fired or
    whose triggers hold; the best match comes first."""
    attempts: tuple[Attempt, ...]
    """Outcomes of earlier runs under similar conditions."""
    earlier: tuple[Page, ...] = ()
    """Method and skill pages that earlier iterations of this run listed; a plan may still use and cite them."""
    shortfall: str = ""
    """Why the passages were found by words alone; empty when vectors took part."""


class Review(Artifact):
    """The gatekeeper's answer: a veto with a quoted line, or no objection. It can never accept a candidate."""

    veto: bool = False
    quote: str = ""
    reason: str = ""


# ---------------------------------------------------------------- briefs


class RunAttempt(Artifact):
    """One earlier iteration of this run: what was planned and written, and the verdict."""

    iteration: int
    methods: tuple[str, ...]
    """Methods of the candidate that was judged."""
    knobs: dict[str, str]
    verdict: str
    reason: str
    planned: tuple[str, ...] = ()
    """Methods of the plan, of which the candidate may lack some."""
    speedup: Interval | None = None
    """Incumbent time / candidate time; None when the candidate was not timed."""
    predicted: str = ""
    """How many of the scored predictions held (F6), and the outcome of the others; empty when none could be scored."""
    counter_changes: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Counter -> value before and after, for counters that changed; filled for the latest attempts only."""


class FrontierKernel(RunAttempt):
    """A correct candidate of this run that is not at HEAD, on which a plan may build (A6)."""

    candidate: str
    speedup: Interval
    """Time of `timed_against` / time of the candidate; not confirmed."""
    timed_against: str
    """The version that was at HEAD, such as v2."""


class KernelObservations(Artifact):
    """Measurements of the incumbent kernel. All roles receive the same text of them, so that a prompt cache stores it
    once."""

    times: dict[str, dict[str, float | None]] = Field(default_factory=dict)
    """Workload -> label of a measured or computed time -> seconds per call; None when unknown."""
    counters: dict[str, dict[str, Quantity]] = Field(default_factory=dict)
    """Record id -> metric -> value; an analysis may refer to these values."""
    calls: dict[str, str] = Field(default_factory=dict)
    """Record id of a profile -> its workload and the launches of the profiled call, as text."""
    machine_code: tuple[str, ...] = ()
    """Machine code of the hot loops, the longest first."""
    section: tuple[str, ...] = ()
    """Text of the profiler section that the analyst asked for, one entry per kernel."""
    operator: tuple[Passage, ...] = ()
    """The whole wiki page about the operator that the reference computes."""
    thresholds: str = ""
    """Noise floor, least gain that counts, and margin of a workload, in words."""


class KernelBrief(Artifact):
    """What every role that thinks about the kernel at HEAD receives, with the same values for all."""

    task: Task | None = None
    """The task; None when a brief of the analyst is about the kernel's source alone."""
    findings: tuple[Finding, ...] = ()
    headroom: Headroom | None = None
    specs: tuple[Spec, ...] = ()
    """Published figures of the device with their citations; an answer may rest on no other hardware figure."""
    architecture: str = ""
    """The device's architecture as pages and signatures name it; empty when unknown."""
    machine: tuple[str, ...] = ()
    """The device's name and limits as its driver reports them, and the versions of compiler and language."""
    skills: tuple[Page, ...] = ()
    """Skill pages whose signal fired, the most important first."""
    observations: KernelObservations = KernelObservations()


class AnalystBrief(KernelBrief):
    """Everything that the profiler-analyst receives."""

    kind: Literal["analyst"] = "analyst"
    source: str
    remarks: tuple[Remark, ...]
    headroom: Headroom
    records: tuple[str, ...]
    sections: tuple[str, ...] = ()
    """Names of the profiler's report sections; the analyst may ask for one."""


class RetrieverBrief(KernelBrief):
    """Everything that the knowledge-retriever receives; fields that the planner also has hold the same values there."""

    kind: Literal["retriever"] = "retriever"
    task: Task
    bottleneck: str
    source: str = ""
    """Source of the incumbent; empty when it is not shown."""


class PlannerBrief(KernelBrief):
    """Everything that the planner receives."""

    kind: Literal["planner"] = "planner"
    task: Task
    source: str
    headroom: Headroom
    dossier: Dossier
    tried: tuple[RunAttempt, ...]
    budget: dict[Axis, int]
    """Number of methods that each axis deserves in this iteration; a plan may exceed it if it gives a reason."""
    methods_per_iteration: int
    methods_per_axis: int = 2
    candidates: int
    frontier: tuple[FrontierKernel, ...] = ()
    """Correct candidates that lost, the fastest first."""
    records: tuple[str, ...]
    memory: tuple[Attempt, ...] = ()
    """Outcomes of earlier runs under similar conditions, the newest first, as of this run's first look-up."""
    remarks: tuple[Remark, ...] = ()
    """Advice of the profiler's own rules."""
    signals: tuple[str, ...] = ()
    """Rules of this language that did not fire, one line for each axis."""
    forecasts: str = ""
    """How often this model's earlier predictions held; empty when too few were scored."""
    shape_class: str = ""
    """Shape class of the task's visible workloads, as `Attempt.shape_class` names it."""
    analysis: str = ""
    """The profiler-analyst's text on these findings, with values filled in from the records."""
    frameworks: FrameworkTimes | None = None
    """Times of torch and of the incumbent; None when they were not measured."""


class CoderBrief(KernelBrief):
    """Everything that the coder receives."""

    kind: Literal["coder"] = "coder"
    task: Task
    source: str
    plan: Plan
    pages: tuple[Page, ...]
    """Pages of the planned methods; their heads hold knobs and recipe names."""
    tried: tuple[RunAttempt, ...]
    ablated_methods: tuple[str, ...] = ()
    """Methods of an ablation: the coder writes the champion's kernel once without each of them."""
    champion: str = ""
    """Source of the champion, in an ablation; else empty."""
    champion_knobs: dict[str, str] = Field(default_factory=dict)
    failures: tuple[str, ...] = ()
    """Reasons, logs and sources of this iteration's drafts that failed and that the coder should repair (A10)."""
    passing_drafts: tuple[str, ...] = ()
    """Reports of compiler and quick check on this iteration's drafts that passed."""
    memory: tuple[Attempt, ...] = ()
    """See PlannerBrief."""
    shape_class: str = ""
    """See PlannerBrief."""
    hints: tuple[str, ...] = ()
    """Hints of the handlers that apply to this kernel's source."""
    frameworks: FrameworkTimes | None = None
    """See PlannerBrief."""
    parent: str = ""
    """Source from which the plan starts in place of the incumbent's; empty: the incumbent's."""
    parent_methods: tuple[str, ...] = ()
    """Methods of that source, which a draft has besides those of the plan."""
    lifted_source: str = ""
    """The kernel that torch.compile generates from the reference, when the plan names the lift; else empty."""

    @property
    def known_methods(self) -> tuple[str, ...]:
        """The methods that a draft may have: the plan's, the parent's and the champion's."""
        planned = (item.method for item in self.plan.methods)
        return tuple(dict.fromkeys((*planned, *self.parent_methods, *self.ablated_methods)))

    @property
    def writes_first_kernel(self) -> bool:
        """Whether the coder must write v0: there is no source yet, and no method is planned."""
        return not self.source and not self.plan.methods


class GatekeeperBrief(Artifact):
    """Everything that the gatekeeper receives: the diff and the task."""

    kind: Literal["gatekeeper"] = "gatekeeper"
    task: Task
    diff: str


Brief = AnalystBrief | RetrieverBrief | PlannerBrief | CoderBrief | GatekeeperBrief
Answer = Analysis | Queries | Plan | Drafts | Review
