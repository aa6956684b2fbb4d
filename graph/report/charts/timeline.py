"""The speed-up of each version over its parent, and what they came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph.report.charts.base import INKS, OUTCOMES, Chart, canvas, ends, linked, logarithmic, look, svg
from graph.report.charts.links import Links
from graph.report.content.view import View
from tools.artifacts import Interval
from tools.cli.formatting import ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Speed-up of each version"
HEIGHT = 290.0
NAMED = 8
"""Marks that have their figure beside them; of more the table has it."""


def timeline(view: View, links: Links) -> Chart:
    """Marks with intervals, one a version in order; the final benchmark last."""
    if not view.steps:
        return Chart(TITLE, None, "no iteration was closed")
    overall = view.final.overall.get("baseline") if view.final else None
    names = [f"v{step.iteration}" for step in view.steps] + (["final"] if overall else [])
    shown = [step.speedup for step in view.steps if step.speedup] + ([overall] if overall else [])
    with canvas(HEIGHT) as (figure, axes):
        axes.set_title("over its parent (log scale)")
        values = [
            1.0,
            *(value for interval in shown for value in ends(interval)),
            *(step.so_far for step in view.steps),
        ]
        low, high = logarithmic(axes, "y", values, lambda value: f"{value:g}×")
        untimed = any(step.speedup is None for step in view.steps)
        # What was not timed stands below the plot's figures.
        foot = low / (high / low) ** 0.12
        axes.set_ylim(foot if untimed else low, high)
        axes.set_xlim(-0.5, len(names) - 0.5)
        axes.axhline(1.0, color=INKS["soft"])
        if untimed:
            axes.axhline(low, color=INKS["grid"])
            axes.annotate("untimed", (-0.45, (foot * low) ** 0.5), va="center", color=INKS["soft"])
        every = max(1, len(names) // 12)
        axes.set_xticks(range(0, len(names), every), names[::every])
        so_far = [1.0, *(step.so_far for step in view.steps)]
        if any(step.outcome == "accept" for step in view.steps):
            places = [-0.5, *range(len(view.steps)), len(view.steps) - 0.5]
            axes.step(
                places,
                [*so_far, so_far[-1]],
                where="post",
                color=INKS["soft"],
                linestyle=":",
                label="accepted, multiplied",
            )
        for at, step in enumerate(view.steps):
            shape, word = OUTCOMES[step.outcome]
            masked = ", masked" if step.masked else ""
            said = (
                f"v{step.iteration}, {word}{masked}: {ratio(step.speedup)} over its parent; "
                f"{', '.join(step.methods) or 'no method'}"
            )
            place = step.speedup.estimate if step.speedup else (foot * low) ** 0.5
            marked = look(shape, accepted=step.outcome == "accept")
            (mark,) = axes.plot([at], [place], label=word, **marked)
            linked(mark, links.href(step.record), said)
            if step.speedup:
                _interval(axes, step.speedup, at, marked["color"], named=len(names) <= NAMED)
        if overall:
            (mark,) = axes.plot([len(view.steps)], [overall.estimate], "D", color=INKS["third"], label="final, over v0")
            linked(mark, links.href(view.final_record), f"final benchmark: {ratio(overall)} over the baseline")
            _interval(axes, overall, len(view.steps), INKS["third"], named=len(names) <= NAMED)
        handles = {
            str(line.get_label()): line for line in axes.get_lines() if not str(line.get_label()).startswith("_")
        }
        figure.legend(list(handles.values()), list(handles), loc="outside lower left", ncols=2)
        told = "; ".join(f"v{step.iteration} {OUTCOMES[step.outcome][1]} {ratio(step.speedup)}" for step in view.steps)
        told += f"; final benchmark against the baseline {ratio(overall)}" if overall else ""
        claimed = any(verdict.claim for _, verdict in view.verdicts.values())
        taken = "where a version came that far those confirmed in separate processes, else " if claimed else ""
        caption = (
            f"Bars are the intervals of the verdicts, {taken}those taken in the kernels' own process; below 1× is "
            f"slower. The line is the "
            "product of the accepted estimates; the final benchmark, against the baseline, is clocked from outside."
        )
        return Chart(TITLE, svg(figure, "timeline", TITLE, told), caption)


def _interval(axes: Axes, interval: Interval, at: float, ink: str, *, named: bool) -> None:
    if interval.is_bounded:
        axes.plot([at, at], [interval.low, interval.high], color=ink, marker="_")
    if named:
        axes.annotate(f"{interval.estimate:.3g}×", (at, interval.estimate), xytext=(8, -4), textcoords="offset points")
