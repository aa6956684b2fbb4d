"""What each method of an accepted version was worth, by taking it out again."""

from __future__ import annotations

from graph.report.charts.base import INKS, Chart, canvas, ends, linked, logarithmic, look, plain, svg
from graph.report.charts.links import Links
from graph.report.content.view import View
from tools.cli.formatting import ratio

TITLE = "What each method was worth"
ROW, ROUND = 38.0, 90.0
"""Height of a method's row, and of what stands around the rows."""
NAME = 24
"""Letters of a name beside its row; its title has all of it."""
STATUSES = {
    "effective": ("o", "effective"),
    "not_checked": ("^", "faster, mechanism not checked"),
    "ineffective": ("s", "not above noise"),
    "implementation_failed": ("x", "mechanism not shown"),
    "unattributed": ("D", "not told apart"),
}
"""Status -> mark, and what the legend calls it."""


def attribution(view: View, links: Links) -> Chart:
    """A row a method: the version's speed-up over its own kernel without that method."""
    rows = [(n, record, outcome) for n, (record, found) in view.attributions.items() for outcome in found.methods]
    if not rows:
        return Chart(TITLE, None, "no version became champion")
    with canvas(ROUND + ROW * len(rows)) as (figure, axes):
        figure.suptitle("speed-up over the same kernel without it (log scale)", x=0.0, ha="left", color=INKS["soft"])
        values = [1.0, *(value for *_, outcome in rows if outcome.ratio for value in ends(outcome.ratio))]
        axes.set_xlim(*logarithmic(axes, "x", values, lambda value: f"{value:g}×"))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), [f"{plain(f'v{n} {o.method}', NAME)}\n{ratio(o.ratio)}" for n, _, o in rows])
        axes.axvline(1.0, color=INKS["soft"])
        seen = {}
        for at, (n, record, outcome) in enumerate(rows):
            shape, word = STATUSES[outcome.status]
            marked = look(shape, accepted=outcome.status in ("effective", "not_checked"))
            # Without a ratio there is nothing to place, but the legend still names what became of the method.
            (mark,) = axes.plot(
                [outcome.ratio.estimate] if outcome.ratio else [], [at] if outcome.ratio else [], **marked
            )
            seen[word] = mark
            said = f"v{n} {outcome.method}, {word}: {ratio(outcome.ratio)}{', ' + outcome.note if outcome.note else ''}"
            linked(mark, links.href(record), said)
            if outcome.ratio and outcome.ratio.is_bounded:
                axes.plot([outcome.ratio.low, outcome.ratio.high], [at, at], color=marked["color"], marker="|")
        figure.legend(list(seen.values()), list(seen), loc="outside lower left", ncols=2)
        told = "; ".join(
            f"v{n} {outcome.method}: {STATUSES[outcome.status][1]}, {ratio(outcome.ratio)}" for n, _, outcome in rows
        )
        caption = (
            "Each method of a champion was taken out alone and the two kernels raced. Left of 1× the version is "
            "faster without it."
        )
        return Chart(TITLE, svg(figure, "attribution", TITLE, told), caption)
