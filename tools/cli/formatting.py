"""Formats figures: times, speed-ups with intervals, shares, sizes."""

from __future__ import annotations

from collections.abc import Sequence

from tools.artifacts import Interval


def format_seconds(value: float | None) -> str:
    """Return a time in the unit that suits its size; N/A for None."""
    if value is None:
        return "N/A"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def format_speedup(value: Interval | None) -> str:
    """Return a speed-up with its interval; N/A for None, and for the interval if too few samples bound it."""
    if value is None:
        return "N/A"
    if not value.is_bounded:
        return f"{value.estimate:.3g}× [N/A]"
    return f"{value.estimate:.3g}× [{value.low:.3g}, {value.high:.3g}]"


def format_percent(value: float | None) -> str:
    """Return a share of one as per cent; N/A for None."""
    return "N/A" if value is None else f"{100 * value:.1f} %"


def describe_bottleneck(bottleneck: str) -> str:
    """Return the bottleneck in words. It can differ from the roofline bound, for which the word "bound" is reserved."""
    if bottleneck == "unknown":
        return "the bottleneck is unknown"
    return "limited on several axes" if bottleneck == "mixed" else f"limited by {bottleneck}"


def format_si(value: float | None, unit: str = "") -> str:
    """Return a quantity with an SI prefix; N/A for None."""
    if value is None:
        return "N/A"
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def format_table(rows: Sequence[tuple[str, ...]]) -> str:
    """Return rows as aligned columns under a header, the first column to the left and the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if not at else cell.rjust(w) for at, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in (lines[0], "-" * len(lines[0]), *lines[1:]))
