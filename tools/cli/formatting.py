"""How figures are written, in one place: times, ratios with intervals, shares, sizes."""

from __future__ import annotations

from collections.abc import Sequence

from tools.artifacts import Interval


def seconds(value: float | None) -> str:
    """A time in the unit that suits its size; N/A when it was not collected."""
    if value is None:
        return "N/A"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def ratio(value: Interval | None) -> str:
    """A factor with its interval; N/A when it was not collected, or when too few samples left the interval without
    an end."""
    if value is None:
        return "N/A"
    if not value.is_bounded:
        return f"{value.estimate:.3g}× [N/A]"
    return f"{value.estimate:.3g}× [{value.low:.3g}, {value.high:.3g}]"


def percent(value: float | None) -> str:
    """A share of one as per cent; N/A when it was not collected."""
    return "N/A" if value is None else f"{100 * value:.1f} %"


def limiter(bottleneck: str) -> str:
    """What holds a kernel back by all that was found; "bound" is kept for the roof that lies over it, which may be
    another."""
    if bottleneck == "unknown":
        return "limited by something unknown"
    return "limited on several axes" if bottleneck == "mixed" else f"limited by {bottleneck}"


def si(value: float | None, unit: str = "") -> str:
    """A quantity with an SI prefix."""
    if value is None:
        return "N/A"
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns under a head, the first to the left and the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if not at else cell.rjust(w) for at, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in (lines[0], "-" * len(lines[0]), *lines[1:]))
