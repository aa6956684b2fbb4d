"""What the knowledge base makes: pages, passages, remembered attempts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tools.artifacts import Artifact, Axis, Bound, Citation, DType, Interval, Outcome

PageType = Literal["hardware", "method", "skill", "guide", "operator", "meta"]
PassageKind = PageType | Literal["outcome", "reference"]
"""Of what a query finds: a page's type, a past outcome, a piece of a reference project."""
Direction = Literal["<", "<=", ">", ">=", "=="]


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
    """Ids of the rules (tools/rules.yaml) whose finding it answers."""
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


class Signal(Artifact):
    """How the trouble that a skill page treats shows, in one line."""

    skill: str
    """Id of the page."""
    axis: Axis | None
    text: str


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


class Attempt(Artifact):
    """One remembered outcome of a method (B4). Infrastructure failures never become one."""

    operator: str
    """Family: softmax, matmul, reduction, …, or the task's name."""
    language: str
    architecture: str
    dtype: DType
    shape_class: str
    """Power-of-two bucket of the unique bytes, e.g. "2^25B"."""
    bottleneck: Bound
    methods: tuple[str, ...]
    result: Literal["success", "failure", "neutral", "crash"]
    verdict: Outcome
    effect: Interval | None = None
    """incumbent / candidate."""
    evidence: str
    """Record id of the verdict."""
    commit: str = ""
    workspace: str = ""
    iteration: int
    note: str = ""
    masked: bool = False
