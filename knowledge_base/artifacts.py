"""What the knowledge base makes: pages, passages, remembered attempts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from tools.artifacts import Artifact, Axis, Bound, DType, Interval, Outcome, digest
from tools.roofline.hardware import Citation

PageType = Literal["hardware", "method", "skill", "guide", "operator", "meta"]
PassageKind = PageType | Literal["outcome", "reference"]
"""Of what a query finds: a page's type, a past outcome, a piece of a reference project."""
Direction = Literal["<", "<=", ">", ">=", "=="]

OWN = r"own:[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
"""What a plan may call a method that no page describes; it becomes the name of a file."""
LONGEST_NAME = 48


class Trigger(Artifact):
    """A metric condition under which a page is worth reading."""

    tool: str
    metric: str
    op: Direction
    value: float


class FrontMatter(Artifact):
    """The head of a wiki page (design 8)."""

    id: str
    type: PageType
    title: str
    applies_to: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    last_checked: str = ""
    axis: Axis | None = None
    """Methods and skills: the resource they act on."""
    priority: int = 50
    """Methods: higher is tried first."""
    languages: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """Ids of the rules (tools/analysis/rules.yaml) whose finding it answers."""
    triggers: tuple[Trigger, ...] = ()
    signature: dict[str, str] = Field(default_factory=dict)
    """Architecture -> regular expression that the machine code shows when the method took effect."""
    knobs: dict[str, tuple[str | int, ...]] = Field(default_factory=dict)
    """Knob -> values worth trying, best guess first."""
    recipe: str | None = None
    """Name of the playbook's recipe; None: needs a model or a person."""


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
    """What of the query matched."""
    citation: Citation
    """Of its first line."""


class FreeMethod(Artifact):
    """A method that a plan named itself and a version was accepted with; the texts are the words of a model."""

    method: str = Field(pattern=f"^{OWN}$", max_length=LONGEST_NAME)
    axis: Axis
    change: str
    rationale: str
    signature: dict[str, str] = Field(default_factory=dict)
    effect: Interval | None = None
    """Of it alone; None: not separable from those that it was accepted with."""
    device: str = ""
    """Name of the device that the effect was measured on."""


class Forecast(Artifact):
    """A plan's prediction of what a method does to the time, and whether it held (F6)."""

    model: str
    """That planned; where the config names none, its provider."""
    method: str
    confidence: float
    """As stated, 0..1."""
    held: bool


Result = Annotated[
    Literal["success", "failure", "unknown", "crash"],
    BeforeValidator(lambda said: "unknown" if said == "neutral" else said),
]
"""How experience calls an outcome; unknown: what it was worth, which earlier versions called neutral."""


class Attempt(Artifact):
    """One remembered outcome of a method (B4). Infrastructure failures never become one."""

    operator: str
    """Family: softmax, matmul, reduction, …, or the task's name."""
    language: str
    architecture: str
    """As the driver or the OS reports it, e.g. x86_64 or sm_90; empty: not known."""
    dtype: DType
    shape_class: str
    """Power-of-two bucket of the unique bytes, e.g. "2^25B"; empty: not known."""
    bottleneck: Bound
    methods: tuple[str, ...]
    result: Result
    verdict: Outcome
    effect: Interval | None = None
    """incumbent / candidate: the confirmed gain, where there is one."""
    noise_floor: float | None = None
    """Of the machine when it was measured, relative; None: not known."""
    evidence: str
    """Record id of the verdict."""
    commit: str = ""
    """That brought it into its workspace; empty in lines written before it was kept."""
    workspace: str = ""
    iteration: int = 0
    note: str = ""
    masked: bool = False
    knobs: dict[str, str] = Field(default_factory=dict)
    findings: tuple[str, ...] = ()
    """Ids of the rules that had fired on the incumbent."""
    before: str = ""
    """`mark` of the incumbent's source; empty: not known."""
    after: str = ""
    """`mark` of the candidate's."""
    free: tuple[FreeMethod, ...] = ()
    """Of the methods of an accepted version."""
    forecasts: tuple[Forecast, ...] = ()
    """Of the plan, about this kernel; those of which nothing is known are not among them."""
    origin: Literal["run", "stated", "memo"] = "run"
    """Measured by a run of ours; stated by a person; in older logs, read from somebody's notes."""
    stamp: int = 0
    """Nanoseconds since 1970, or one more than the greatest in the log where the clock was behind: of the lines
    about one thing the one with the greatest stamp counts, in whatever order logs were merged. 0, in old logs: the
    number of the line stands for it."""

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes two lines speak of the same thing: the figures of one measurement are equal to the last digit,
        however many verdicts rest on it."""
        measured = (
            (self.before, self.after, self.effect.model_dump_json())
            if self.before and self.effect
            else (self.evidence,)
        )
        return (*measured, *self.methods)


def mark(source: str) -> str:
    """How experience names a kernel's source: equal text, equal mark."""
    return digest(source)[:16]
