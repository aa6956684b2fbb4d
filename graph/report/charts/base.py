"""What the charts of a report share: matplotlib's figures as SVG that belongs to the page, the mark of each outcome.

matplotlib is loaded when a chart is drawn, not before: only a report needs it.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NewType
from xml.etree import ElementTree

from tools.artifacts import Interval, Outcome

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Drawing = NewType("Drawing", str)
"""Markup that only the report makes; all else that enters a page is escaped on its way."""

WIDTH = 420.0
"""Units of a chart; one is about a pixel on phones and on wide screens, where charts stand in columns: the text
keeps its size."""
UNITS = 72.0
"""Of an SVG by matplotlib to the inch."""
INKS = {
    name: f"#0000{n:02x}" for n, name in enumerate(("text", "soft", "line", "grid", "panel", "good", "bad", "third"), 1)
}
"""Colours of the style sheet -> what stands for them until the drawing is part of the page, where they differ
between light and dark."""
TITLE = "title:"
"""Begins the identity of what shall have a title: matplotlib knows no titles of parts."""
STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 12.0,
    "axes.titlesize": 12.0,
    "figure.titlesize": 12.0,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 12.0,
    "lines.markersize": 8.0,
    "lines.markeredgewidth": 2.0,
    "text.color": INKS["text"],
    "grid.color": INKS["grid"],
    "axes.edgecolor": INKS["line"],
    "axes.titlecolor": INKS["soft"],
    "axes.labelcolor": INKS["soft"],
    "xtick.color": INKS["line"],
    "ytick.color": INKS["line"],
    "xtick.labelcolor": INKS["soft"],
    "ytick.labelcolor": INKS["soft"],
}
OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "accept": ("o", "accepted"),
    "reject_perf": ("s", "refused: not faster"),
    "inconclusive": ("D", "inconclusive"),
    "reject_correctness": ("x", "refused: wrong"),
    "reject_policy": ("^", "refused: against the rules"),
    "infra_error": ("+", "the machine failed"),
}
"""Outcome -> its mark in matplotlib's letters, and what the legend calls it. The shape tells it, colour only helps."""


class Chart(NamedTuple):
    """One chart, or why there is none."""

    title: str
    drawing: Drawing | None
    caption: str
    """What is to be seen, or after N/A why nothing is."""


@contextmanager
def canvas(height: float) -> Iterator[tuple[Figure, Axes]]:
    """A figure of `WIDTH` by `height` units with one plot, free of what a user's own matplotlibrc says."""
    # Its warnings name fonts, of which none is drawn here: the text stays text.
    import logging
    import warnings

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(STYLE, after_reset=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = Figure(figsize=(WIDTH / UNITS, height / UNITS), layout="constrained")
        yield figure, figure.add_subplot()


def svg(figure: Figure, identity: str, title: str, description: str) -> Drawing:
    """The figure as an element of the page, with its name and a description for those who do not see it; the same for
    the same figure.

    The page's policy lets no style attribute work, so that they become attributes of their own, and colours those of
    the style sheet.
    """
    from matplotlib import rc_context

    text = io.StringIO()
    # `identity` keeps what two drawings refer to by id apart.
    with rc_context({"svg.hashsalt": identity}):
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    root = ElementTree.fromstring(text.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    used = set(
        re.findall(
            r"#([\w-]+)",
            " ".join(v for e in root.iter() for k, v in e.items() if k.endswith("href") or v.startswith("url(")),
        )
    )
    for element in list(root.iter()):
        _belong(element, used)
    head = [_element("title", title, id=f"{identity}-t"), _element("desc", description, id=f"{identity}-d")]
    root[:0] = head
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "graphics-document",
        "aria-labelledby": f"{identity}-t",
        "aria-describedby": f"{identity}-d",
    }
    return Drawing(ElementTree.tostring(root, encoding="unicode"))


def _belong(element: ElementTree.Element, used: set[str]) -> None:
    """Names without namespaces, styles as attributes, titles in place of their marks, no identity that nothing
    refers to."""
    element.tag = element.tag.rpartition("}")[2]
    element.tail = None
    element.text = element.text if element.tag in ("text", "title") else None
    given = {name.rpartition("}")[2]: value for name, value in element.items()}
    styles = dict(part.strip().split(": ", 1) for part in given.pop("style", "").split(";") if part.strip())
    # The page's own font.
    styles.pop("font-family", "")
    given.pop("target", None)
    identity = given.pop("id", "")
    if identity in used:
        given["id"] = identity
    if identity.startswith(TITLE):
        element.insert(0, _element("title", identity.removeprefix(TITLE)))
    inks = {code: f"var(--{name})" for name, code in INKS.items()}
    element.attrib = {name: inks.get(value, value) for name, value in (given | styles).items()}


def _element(name: str, text: str, **attributes: str) -> ElementTree.Element:
    made = ElementTree.Element(name, attributes)
    made.text = text
    return made


def plain(text: str, most: int | None = None) -> str:
    """`text` as XML can hold it, cut to `most` characters: kernels and models may have written anything."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return shown if most is None or len(shown) <= most else shown[: most - 1] + "…"


def linked(artist: Artist, href: str | None, said: str) -> None:
    """Make a part of a drawing a link that says what it shows."""
    artist.set_url(href)
    artist.set_gid(TITLE + plain(said))


def look(shape: str, *, accepted: bool) -> dict[str, Any]:
    """How the mark of a version looks: full when accepted, hollow otherwise."""
    ink = INKS["good" if accepted else "bad"]
    return {"marker": shape, "color": ink, "markerfacecolor": ink if accepted else INKS["panel"], "linestyle": "none"}


def ends(interval: Interval) -> tuple[float, ...]:
    """The figures of an interval: both ends and the estimate, or the estimate alone where an end is unknown."""
    return (interval.low, interval.estimate, interval.high) if interval.is_bounded else (interval.estimate,)


def logarithmic(
    axes: Axes, which: Literal["x", "y"], values: Sequence[float], shown: Callable[[float], str], room: float = 1.25
) -> tuple[float, float]:
    """A logarithmic axis that holds all positive `values` with a factor of `room` on both sides, few round numbers
    on it; its ends."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    positive = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    low, high = min(positive) / room, max(positive) * room
    steps = (1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,)
    axes.set(**{f"{which}scale": "log"})
    axis: Axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(
        MaxNLocator(6, steps=[1, 2, 5, 10]) if high / low < 4 else LogLocator(subs=steps, numticks=9)
    )
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: shown(value) if low <= value <= high else ""))
    return low, high
