"""A report's diagnosis as one file of HTML: each kernel's units against their peaks, why its warps wait, and
findings that lead to their metrics. Needs no network and no script; matplotlib is loaded when a page is drawn. Pure."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from tools.artifacts import Quantity
from tools.cli.formatting import format_si
from tools.profilers import counted, ncu
from tools.profilers.counted import FULL, NEARLY_ALL, Kernel
from tools.profilers.reports import Launch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = {
    "device memory": ncu.BUSY_MEMORY[1],
    "L2": ncu.BUSY_MEMORY[2],
    "L1 and shared": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "constants": "idc__request_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "busiest of all": ncu.BUSY_MEMORY[0],
}
UNITS = {
    **{pipe: ncu.PIPE.format(pipe) for pipe in (*ncu.ARITHMETIC, "lsu", "tex")},
    "tensor": ncu.TENSOR,
    "issue slots": ncu.ISSUED,
    "busiest of all": ncu.BUSY_COMPUTING,
}
WAITS = {reason: f"ncu.stall_share.{reason}" for reason in ncu.STALLS if reason != "selected"}
SHOWN = 0.01
"""Share of the time below which a reason to wait has no bar."""
BYTES, BYTES_A_CYCLE, MEMORY_CLOCK = (
    "dram__bytes.sum.per_second",
    "dram__bytes.sum.peak_sustained",
    "dram__cycles_elapsed.avg.per_second",
)
CLOCK = "sm__cycles_elapsed.avg.per_second"
TYPES = {"float32": "f", "float64": "d"}
PEAK = "derived__sm__sass_thread_inst_executed_op_{}fma_pred_on_x2"
"""Operations a cycle at most; what is done of them comes from the three below."""
DONE = (
    "smsp__sass_thread_inst_executed_op_{}add_pred_on.sum.per_cycle_elapsed",
    "smsp__sass_thread_inst_executed_op_{}mul_pred_on.sum.per_cycle_elapsed",
    "derived__smsp__sass_thread_inst_executed_op_{}fma_pred_on_x2",
)
STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; background: #fff }
h2 { overflow-wrap: anywhere; border-top: 1px solid #ccc; padding-top: 1rem } svg { width: 100%; height: auto } a { color: #0b57a4 }
table { border-collapse: collapse } td { padding: .1rem .8rem .1rem 0; overflow-wrap: anywhere } tr:target { background: #ffef9f }
.high { color: #a4190b } .medium { color: #8a5a00 } .figures { color: #555; font-size: .9em }
"""


def html(kernels: Sequence[tuple[Kernel, Launch]]) -> str:
    """The page: kernels in the order given."""
    names = "".join(
        f'<li><a href="#k{n}">{escape(kernel.name)}</a>: {kernel.bound}</li>' for n, (kernel, _) in enumerate(kernels)
    )
    bodies = "".join(_kernel(f"k{n}", kernel, launch.metrics) for n, (kernel, launch) in enumerate(kernels))
    title = "Why are these kernels slow?"
    head = (
        f'<!doctype html>\n<html lang="en"><head><meta '
        f'charset="utf-8"><title>{title}</title><style>{STYLE}</style></head>'
    )
    return f"{head}<body><h1>{title}</h1><ol>{names}</ol>{bodies}</body></html>\n"


def _kernel(key: str, kernel: Kernel, metrics: Mapping[str, Quantity]) -> str:
    kept = ncu.kept(metrics) | {name: metrics[name] for name in _roofline_metrics() if name in metrics}
    findings = "".join(_finding(key, found, kept) for found in kernel.findings) or "<li>no rule names a lack</li>"
    advice = "".join(f"<li>{escape(line)}</li>" for line in counted.others(kernel))
    rows = "".join(
        f'<tr id="{key}-{escape(name)}"><td>{escape(name)}</td><td>{one.value:.6g}</td><td>{escape(one.unit)}</td></tr>'
        for name, one in sorted(kept.items())
    )
    return (
        f"<h2 "
        f'id="{key}">{escape(kernel.name)}</h2><p>{escape(counted.verdict(kernel))}</p>{_drawing(key, kept)}<ol>{findings}</ol>'
        f"<ul>{advice}</ul><details><summary>metrics</summary><table>{rows}</table></details>"
    )


def _finding(key: str, found: counted.Found, kept: Mapping[str, Quantity]) -> str:
    links = ", ".join(
        f'<a href="#{key}-{escape(name)}">{escape(name)}</a> {value:.4g} {escape(kept[name].unit)}'
        for name, value in found.metrics.items()
    )
    lines = [
        f'<b class="{found.severity}">{escape(found.rule)}</b> ({found.severity}): {escape(found.why)}',
        f"do: {escape(found.action)}",
    ]
    lines += [f"NVIDIA agrees: {escape(found.agrees)}"] if found.agrees else []
    return f'<li>{"<br>".join(lines)}<br><span class="figures">{links}</span></li>'


def _drawing(key: str, kept: Mapping[str, Quantity]) -> str:
    """Roofline, memory, units and waits of one kernel as SVG; a bar leads to its metric's row."""
    import logging

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": key, "font.size": 9.0}):
        figure = Figure(figsize=(11, 6.5))
        # Places of our own: to have them worked out takes most of the time of a page.
        (roof, levels), (units, waits) = figure.subplots(
            2, 2, gridspec_kw={"left": 0.1, "right": 0.99, "top": 0.95, "bottom": 0.05, "wspace": 0.4, "hspace": 0.35}
        )
        _roofline(roof, kept)
        _bars(
            levels,
            "memory, % of its peak",
            {label: (name, kept[name].value) for label, name in LEVELS.items() if name in kept},
            key,
        )
        _bars(
            units,
            "units, % of their peaks",
            {label: (name, kept[name].value) for label, name in UNITS.items() if name in kept},
            key,
        )
        shares = {
            reason: (name, 100 * kept[name].value)
            for reason, name in WAITS.items()
            if name in kept and kept[name].value >= SHOWN
        }
        _bars(waits, "warps wait for, % of their time", dict(sorted(shares.items(), key=lambda item: -item[1][1])), key)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return text.getvalue()[text.getvalue().index("<svg") :]


def _bars(axes: Axes, title: str, bars: Mapping[str, tuple[str, float]], key: str) -> None:
    axes.set_title(title, loc="left")
    if not bars:
        axes.text(0.5, 0.5, "N/A: not collected", ha="center")
        axes.set_axis_off()
        return
    drawn = axes.barh(list(bars), [value for _, value in bars.values()], color="#4878a8")
    axes.bar_label(drawn, fmt="%.1f", padding=3)
    for bar, (name, _) in zip(drawn, bars.values(), strict=True):
        bar.set_url(f"#{key}-{name}")
    axes.invert_yaxis()
    axes.set_xlim(0, 115)
    for full in (FULL, NEARLY_ALL) if "peak" in title else ():
        axes.axvline(full, color="#999", linestyle=":", linewidth=1)


def _roofline_metrics() -> tuple[str, ...]:
    return (
        BYTES,
        BYTES_A_CYCLE,
        MEMORY_CLOCK,
        CLOCK,
        *(name.format(letter) for letter in TYPES.values() for name in (PEAK, *DONE)),
    )


def _roofline(axes: Axes, kept: Mapping[str, Quantity]) -> None:
    """Operations a second over operations a byte of device memory, of each type that the kernel computes with, under
    ncu's own peaks."""
    axes.set_title("roofline of device memory", loc="left")
    value = {name: kept[name].value for name in _roofline_metrics() if name in kept}
    points: dict[str, tuple[float, float, float]] = {}
    for kind, letter in TYPES.items():
        peak, done = PEAK.format(letter), [name.format(letter) for name in DONE]
        if {BYTES, BYTES_A_CYCLE, MEMORY_CLOCK, CLOCK, peak, *done} <= value.keys():
            rate = sum(value[name] for name in done) * value[CLOCK]
            if rate and value[BYTES]:
                points[kind] = (rate / value[BYTES], rate, value[peak] * value[CLOCK])
    if not points:
        axes.text(
            0.5,
            0.5,
            "N/A: nothing of it was computed,\nor --section SpeedOfLight_RooflineChart was not collected",
            ha="center",
        )
        axes.set_axis_off()
        return
    bandwidth = value[BYTES_A_CYCLE] * value[MEMORY_CLOCK]
    for kind, (intensity, rate, most) in points.items():
        ridge = most / bandwidth
        ends = min(intensity, ridge) / 4, max(intensity, ridge) * 4
        label = f"{kind}: {format_si(rate, 'op/s')} of {format_si(most, 'op/s')}"
        (line,) = axes.plot([ends[0], ridge, ends[1]], [ends[0] * bandwidth, most, most])
        axes.plot([intensity], [rate], "o", color=line.get_color(), label=label)
    axes.set(
        xscale="log",
        yscale="log",
        ylabel="operations a second",
        xlabel=f"operations a byte; memory gives {format_si(bandwidth, 'B/s')} at most",
    )
    axes.legend(frameon=False)
