"""The artifacts of the knowledge base: pages, passages, and attempts in the experience log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tools.artifacts import Artifact, Axis, Bound, DType, Interval, Outcome, digest
from tools.roofline.hardware import Citation

PageType = Literal["hardware", "method", "skill", "guide", "operator", "meta"]
PassageKind = PageType | Literal["outcome", "reference"]
"""Kind of a passage: its page's type, a past outcome, or a piece of a reference project."""
ComparisonSign = Literal["<", "<=", ">", ">=", "=="]

FREE_METHOD_PATTERN = r"own:[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
"""The id of a method that a plan named itself; it becomes the name of a file."""
MAX_METHOD_NAME_CHARS = 48


class Trigger(Artifact):
    """A condition on a metric under which a page is worth reading."""

    tool: str
    metric: str
    op: ComparisonSign
    value: float


class FrontMatter(Artifact):
    """The head of a wiki page."""

    id: str
    type: PageType
    title: str
    applies_to: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    last_checked: str = ""
    axis: Axis | None = None
    """The resource that a method or skill acts on."""
    priority: int = 50
    """Of a method; a higher one is tried first."""
    languages: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """Ids of the rules (tools/analysis/rules.yaml) whose findings the page answers."""
    triggers: tuple[Trigger, ...] = ()
    signature: dict[str, str] = Field(default_factory=dict)
    """Architecture -> regular expression that matches the machine code when the method took effect."""
    knobs: dict[str, tuple[str | int, ...]] = Field(default_factory=dict)
    """Knob -> values worth trying, best guess first."""
    recipe: str | None = None
    """Name of the playbook's recipe; None: the method needs a model or a person."""


class Page(Artifact):
    """One wiki page."""

    path: str
    """Relative to the wiki's root, with forward slashes."""
    head: FrontMatter
    body: str
    body_line: int
    """Line number of the body's first line in the file."""


class Passage(Artifact):
    """A piece of a page, of the experience log or of a reference project; it can be cited."""

    path: str
    """Relative to the wiki's root; outside the wiki it begins with `<experience>/` or `<reference>/`."""
    heading: tuple[str, ...]
    """Headings from the page's title down."""
    first_line: int
    last_line: int
    text: str
    kind: PassageKind
    score: float = 0.0
    why: str = ""
    """What matched the query."""
    citation: Citation
    """Citation of the first line."""
    remedy: Passage | None = None
    """The section of the same page that says what to do, where a search shows one beside this passage."""

    def and_remedy(self) -> tuple[Passage, ...]:
        """This passage alone, then the remedy if there is one: to be listed one after the other."""
        return (self.model_copy(update={"remedy": None}), *((self.remedy,) if self.remedy else ()))


class FreeMethod(Artifact):
    """A method that a plan named itself, of an accepted version. The texts are a model's, without hardware figures."""

    method: str = Field(pattern=f"^{FREE_METHOD_PATTERN}$", max_length=MAX_METHOD_NAME_CHARS)
    axis: Axis
    change: str
    rationale: str
    signature: dict[str, str] = Field(default_factory=dict)
    effect: Interval | None = None
    """Effect of this method alone; None: not separable from the methods beside it."""
    device: str = ""
    """Name of the device; empty where the name holds a figure."""


class Forecast(Artifact):
    """A plan's prediction of what a method does to the time, and whether it held (F6)."""

    model: str
    """The planner's model; where the config names none, its provider."""
    method: str
    confidence: float
    """The stated confidence, from 0 to 1."""
    held: bool


AttemptResult = Literal["success", "failure", "neutral", "unknown", "crash"]
"""How the experience log calls an outcome; neutral: it surely changed the time by less than counts; unknown: it is not
known what it was worth."""


class Attempt(Artifact):
    """One remembered outcome of a method (B4). Infrastructure failures never become one."""

    operator: str
    """Operator family (softmax, matmul, reduction, …), or the task's name."""
    language: str
    architecture: str
    """Name that the driver or the OS reports, such as x86_64 or sm_90; empty: not known."""
    dtype: DType
    shape_class: str
    """Power-of-two bucket of the unique bytes, e.g. "2^25B"; empty: not known."""
    bottleneck: Bound
    methods: tuple[str, ...]
    result: AttemptResult
    verdict: Outcome
    effect: Interval | None = None
    """Incumbent's time / candidate's time: the confirmed gain, where there is one, else as it was timed in the search;
    None: it was not timed."""
    explained: bool = True
    """False: the version was accepted, but a claimed mechanism is not visible in its machine code."""
    noise_floor: float | None = None
    """Relative noise of the machine during the measurement; None: not known."""
    evidence: str
    """Record id of the verdict."""
    commit: str = ""
    """Commit that brought the outcome into its workspace; empty: none did."""
    workspace: str = ""
    iteration: int = 0
    note: str = ""
    masked: bool = False
    knobs: dict[str, str] = Field(default_factory=dict)
    findings: tuple[str, ...] = ()
    """Ids of the rules that had fired on the incumbent."""
    before: str = ""
    """`source_digest` of the incumbent; empty: not known."""
    after: str = ""
    """`source_digest` of the candidate."""
    free: tuple[FreeMethod, ...] = ()
    """Methods of an accepted version that its plan named itself."""
    forecasts: tuple[Forecast, ...] = ()
    """The plan's predictions about this kernel, of which it is known whether they held."""
    origin: Literal["run", "stated"] = "run"
    """Measured by a run, or stated by a person."""
    stamp: int = 0
    """Nanoseconds since 1970, or one more than the greatest in the log where the clock was behind; 0: not in a log yet.
    Of the lines about one outcome the one with the greatest stamp counts, in any order of merging."""

    @property
    def identity(self) -> tuple[str, ...]:
        """Equal for two lines about the same outcome: one measurement has equal figures to the last digit, however many
        verdicts rest on it."""
        measured = (
            (self.before, self.after, self.effect.model_dump_json())
            if self.before and self.effect
            else (self.evidence,)
        )
        return (*measured, *self.methods)


def source_digest(source: str) -> str:
    """The name of a kernel's source in the experience log: equal for equal text."""
    return digest(source)[:16]
