"""SVG as text: elements, scales, axes and marks. Whatever is shown or named comes in as plain text and is escaped here, once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Literal, NamedTuple, NewType

Drawing = NewType("Drawing", str)
"""Markup that only this module makes; all else that enters a page is escaped on its way."""

Mark = Literal["circle", "square", "diamond", "triangle", "wedge", "hexagon", "cross", "plus"]
MARKS: tuple[Mark, ...] = ("circle", "square", "diamond", "triangle", "wedge", "hexagon")
"""Those that can be full or hollow."""

WIDTH = 420.0
"""Units of a figure; one is about a pixel on phones and on wide screens, where figures stand in columns: the text keeps its size."""
LETTER = 6.9
"""Width of an average letter at the size of a figure's text."""


def tag(name: str, *children: str, **attributes: str | float) -> Drawing:
    """An element. `children` are markup already; attributes are escaped, `_` in their names stands for `-`, a trailing one is dropped."""
    said = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"' for key, value in attributes.items())
    return Drawing(f"<{name}{said}>{''.join(children)}</{name}>" if children else f"<{name}{said}/>")


def _plain(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def text(x: float, y: float, content: str, css: str = "", anchor: Literal["start", "middle", "end"] = "start") -> Drawing:
    """One line of text; `y` is its baseline."""
    return tag("text", escape(content), x=x, y=y, text_anchor=anchor, **({"class_": css} if css else {}))


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> Drawing:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=css)


def path(points: Iterable[tuple[float, float]], css: str) -> Drawing:
    """A line through `points`."""
    return tag("polyline", points=" ".join(f"{_plain(x)},{_plain(y)}" for x, y in points), class_=css)


def mark(shape: Mark, x: float, y: float, css: str, size: float = 5.0) -> Drawing:
    """A mark around a point: what it stands for is told by its shape, colour only helps."""
    if shape == "circle":
        return tag("circle", cx=x, cy=y, r=size, class_=css)
    if shape == "square":
        return tag("rect", x=x - size * 0.9, y=y - size * 0.9, width=size * 1.8, height=size * 1.8, class_=css)
    s = size * 1.2
    outlines: dict[str, str] = {
        "diamond": f"M{x:.2f} {y - s:.2f}L{x + s:.2f} {y:.2f}L{x:.2f} {y + s:.2f}L{x - s:.2f} {y:.2f}Z",
        "triangle": f"M{x:.2f} {y - s:.2f}L{x + s:.2f} {y + s * 0.8:.2f}L{x - s:.2f} {y + s * 0.8:.2f}Z",
        "wedge": f"M{x:.2f} {y + s:.2f}L{x + s:.2f} {y - s * 0.8:.2f}L{x - s:.2f} {y - s * 0.8:.2f}Z",
        "hexagon": f"M{x - s:.2f} {y:.2f}l{s / 2:.2f} {-s:.2f}h{s:.2f}l{s / 2:.2f} {s:.2f}l{-s / 2:.2f} {s:.2f}h{-s:.2f}Z",
        "plus": f"M{x - s:.2f} {y:.2f}H{x + s:.2f}M{x:.2f} {y - s:.2f}V{y + s:.2f}",
        "cross": f"M{x - size:.2f} {y - size:.2f}l{2 * size:.2f} {2 * size:.2f}m0 {-2 * size:.2f}l{-2 * size:.2f} {2 * size:.2f}",
    }
    return tag("path", d=outlines[shape], class_=css)


def linked(href: str | None, said: str, *children: str) -> Drawing:
    """`children` as a link that says what it shows; without `href` a group that does."""
    told = tag("title", escape(said))
    return tag("a", told, *children, href=href) if href else tag("g", told, *children)


def figure(identity: str, title: str, description: str, height: float, *children: str) -> Drawing:
    """A whole drawing with its name and its description for those who do not see it."""
    head = (tag("title", escape(title), id=f"{identity}-t"), tag("desc", escape(description), id=f"{identity}-d"))
    named = {"aria_labelledby": f"{identity}-t", "aria_describedby": f"{identity}-d"}
    return tag("svg", *head, *children, viewBox=f"0 0 {WIDTH:g} {height:g}", role="graphics-document", **named)


# ---------------------------------------------------------------- scales


class Scale(NamedTuple):
    """From values to places along an axis."""

    low: float
    high: float
    start: float
    """Where `low` lies."""
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The place of `value`, which is held within the axis."""
        value = min(max(value, self.low), self.high)
        low, high, value = (math.log10(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return self.start + (self.end - self.start) * (value - low) / (high - low)


def log_scale(values: Iterable[float], start: float, end: float, *, room: float = 1.25) -> Scale:
    """A logarithmic axis that holds all positive `values` with a factor of `room` on both sides."""
    found = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    return Scale(min(found) / room, max(found) * room, start, end, log=True)


def ticks(scale: Scale, most: int = 6) -> list[float]:
    """Round values within the scale, at most `most`."""
    if not scale.log:
        return _linear(scale, most)
    exponents = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
    for steps in ((1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        found = [float(f"{step}e{e}") for e in exponents for step in steps if scale.low <= float(f"{step}e{e}") <= scale.high]
        if len(found) <= most:
            # A narrow axis may hold no round value of this kind.
            return found or _linear(scale, most)
    return found[:: math.ceil(len(found) / most)]


def _linear(scale: Scale, most: int) -> list[float]:
    raw = (scale.high - scale.low) / most
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [step * n for n in range(first, last + 1)]


# ---------------------------------------------------------------- axes


def y_axis(scale: Scale, left: float, right: float, label: str, shown: Callable[[float], str], most: int = 6) -> Drawing:
    """Lines across the plot at round values, their labels, and the axis' own label above."""
    rows = []
    for value in ticks(scale, most):
        y = scale.at(value)
        rows += [line(left, y, right, y, "grid"), text(left - 6, y + 4, shown(value), "tick", "end")]
    top = min(scale.start, scale.end)
    return tag("g", *rows, text(2, top - 12, label, "axis"))


def x_axis(scale: Scale, top: float, bottom: float, label: str, shown: Callable[[float], str], most: int = 6) -> Drawing:
    """Lines down the plot at round values, their labels, and the axis' own label below."""
    rows = []
    for value in ticks(scale, most):
        x = scale.at(value)
        rows += [line(x, top, x, bottom, "grid"), text(x, bottom + 15, shown(value), "tick", "middle")]
    middle = (scale.start + scale.end) / 2
    return tag("g", *rows, text(middle, bottom + 32, label, "axis", "middle"))


def names_axis(names: Sequence[str], places: Sequence[float], bottom: float) -> Drawing:
    """Names below their places; where they are too many for the width, as many as fit."""
    widest = max((len(name) for name in names), default=1) * LETTER + 6
    span = (places[-1] - places[0]) / max(len(places) - 1, 1) if places else widest
    every = max(1, math.ceil(widest / span)) if span else 1
    return tag(
        "g",
        *(text(x, bottom + 16, name, "tick", "middle") for at, (name, x) in enumerate(zip(names, places, strict=True)) if at % every == 0),
    )


def spread(count: int, start: float, end: float) -> list[float]:
    """`count` places between `start` and `end`, half a step from either."""
    return [start + (end - start) * (at + 0.5) / count for at in range(count)]


def legend(entries: Sequence[tuple[Drawing, str]], left: float, y: float) -> tuple[Drawing, float]:
    """Samples (drawn around 0, 0) with their words, in as many lines as they need; and the height that they take."""
    x, row, drawn = left, 0, []
    for sample, said in entries:
        width = 32 + len(said) * LETTER
        if x > left and x + width > WIDTH:
            x, row = left, row + 1
        place = f"translate({x + 8:.2f} {y + row * 18:.2f})"
        drawn.append(tag("g", tag("g", sample, transform=place), text(x + 18, y + row * 18 + 4, said)))
        x += width
    return tag("g", *drawn), (row + 1) * 18.0


def shortened(said: str, room: float) -> str:
    """`said`, cut so that it takes no more than `room` units."""
    letters = max(int(room / LETTER), 2)
    return said if len(said) <= letters else said[: letters - 1] + "…"


class Labels:
    """Short labels beside marks, none over another or over a mark: each takes the first place that is free, or none."""

    def __init__(self, left: float, top: float, right: float, bottom: float) -> None:
        self._bounds = (left, top, right, bottom)
        self._taken: list[tuple[float, float, float, float]] = []

    def keep_off(self, x: float, y: float, radius: float = 6.0, *, width: float = 0.0) -> None:
        """Nothing is written over this place, nor over what reaches `width` to its left."""
        self._taken.append((x - radius - width, y - radius, x + radius, y + radius))

    def freest(self, places: Sequence[tuple[float, float]]) -> tuple[float, float]:
        """The place that is furthest from everything."""
        middles = [((left + right) / 2, (top + bottom) / 2) for left, top, right, bottom in self._taken]
        return max(places, key=lambda place: min((math.dist(place, middle) for middle in middles), default=0.0))

    def beside(self, x: float, y: float, said: str) -> Drawing | None:
        """`said` to the right of the point, else to its left, above or below; None: there is no room, and the mark tells it."""
        width = len(said) * LETTER
        for left, base in (
            (x + 9, y + 4),
            (x - 9 - width, y + 4),
            (x - width / 2, y - 10),
            (x - width / 2, y + 19),
        ):
            box = (left, base - 10, left + width, base + 2)
            inside = box[0] >= self._bounds[0] and box[1] >= self._bounds[1] and box[2] <= self._bounds[2] and box[3] <= self._bounds[3]
            if inside and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in self._taken):
                self._taken.append(box)
                return text(left, base, said)
        return None
