"""Jinja over templates/: an undefined name is an error, numbers are formatted in one place."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from agents.models.ledger import dollars
from tools.artifacts import Interval

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: object) -> str:
    """The text of templates/<template>.j2 with `values`."""
    return _environment().get_template(f"{template}.j2").render(**values)


def load() -> None:
    """Compile all templates now rather than each at its first use."""
    environment = _environment()
    for name in environment.list_templates():
        environment.get_template(name)


def seconds(value: float | None) -> str:
    """A time in the unit that suits its size; N/A when it was not collected."""
    if value is None:
        return "N/A"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def ratio(value: Interval | None) -> str:
    """A factor with its interval; N/A when it was not collected, or when too few samples left the interval without an end."""
    if value is None:
        return "N/A"
    if not value.bounded:
        return f"{value.estimate:.3g}× [N/A]"
    return f"{value.estimate:.3g}× [{value.low:.3g}, {value.high:.3g}]"


def gain(baseline_s: float, best_s: float, speedup: Interval | None) -> str:
    """What a run came to: the baseline's time, the best kernel's, and the ratio; `speedup` None: no version was accepted."""
    if speedup is None:
        return f"no version was accepted, so that it stays {seconds(baseline_s)} (1×)"
    return f"{seconds(baseline_s)} -> {seconds(best_s)} (baseline / speed-up), {ratio(speedup)}"


def percent(value: float | None) -> str:
    """A share of one as per cent; N/A when it was not collected."""
    return "N/A" if value is None else f"{100 * value:.1f} %"


def si(value: float | None, unit: str = "") -> str:
    """A quantity with an SI prefix."""
    if value is None:
        return "N/A"
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def dims(value: dict[str, int | float]) -> str:
    """A workload's sizes as `M=512 N=1000`."""
    return " ".join(f"{name}={size}" for name, size in value.items())


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Markdown, not HTML: escaping would corrupt code and operators.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update({"seconds": seconds, "ratio": ratio, "percent": percent, "si": si, "dims": dims, "dollars": dollars})
    return environment
