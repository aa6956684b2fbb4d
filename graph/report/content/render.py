"""Jinja over templates/: an undefined name is an error, numbers are formatted in one place, what goes into HTML is escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from agents.models.ledger import dollars
from graph.artifacts import SIZE
from tools.artifacts import Interval, Verdict
from tools.cli.formatting import percent as percent
from tools.cli.formatting import ratio as ratio
from tools.cli.formatting import seconds as seconds
from tools.cli.formatting import si as si

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


def gain(baseline_s: float, best_s: float, speedup: Interval | None, objective_of: str = "", *, disturbed: bool = False) -> str:
    """What a run came to: the baseline's time, the best kernel's, the ratio, and what makes it doubtful.

    `speedup` None: no version was accepted. `disturbed`: others kept the machine busy meanwhile.
    """
    of = f", {objective_of}" if objective_of else ""
    doubts = ["others kept the machine busy"] if disturbed else []
    doubts += ["the interval includes 1"] if speedup and speedup.low <= 1 else []
    said = f" ({', '.join(doubts)})" if doubts else ""
    if speedup is None:
        return f"no version was accepted, so that it stays {seconds(baseline_s)} (1×{of}){said}"
    return f"{seconds(baseline_s)} -> {seconds(best_s)} (baseline / speed-up{of}), {ratio(speedup)}{said}"


def standing(found: Interval | None) -> str:
    """Another's time over the best kernel's, in words where that is a loss or may be none."""
    return f"{ratio(found)} {doubt(found)}".rstrip()


def worth(verdict: Verdict, *, both: bool = False) -> str:
    """What a verdict's candidate is said to be worth, with its clock where there are two; `both`: what the other clock says, too."""
    claim = verdict.claim
    if claim is None or claim.clock == "wall":
        return ratio(verdict.worth)
    other = "launch-included" if claim.clock == "device-only" else "device-only"
    return f"{ratio(claim.speedup)} {claim.clock}" + (f" ({ratio(claim.other)} {other})" if both and claim.other else "")


def rival(name: str) -> str:
    """Who a contestant of the final benchmark is, in words."""
    return "the kernel that the linked runs began with" if name == "original" else f"torch {name.replace('_', '-')}"


def doubt(found: Interval | None) -> str:
    """What is to be said behind a factor."""
    return "" if found is None or found.low > 1 else "(a loss)" if found.high < 1 else "(no difference shown)"


def dims(value: dict[str, int | float]) -> str:
    """A workload's sizes as `M=512 N=1000`."""
    return " ".join(f"{name}={size}" for name, size in value.items())


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Not in Markdown: escaping would corrupt code and operators.
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
    )
    environment.filters.update({"seconds": seconds, "ratio": ratio, "percent": percent, "standing": standing, "doubt": doubt})
    environment.globals.update({"worth": worth, "doubt": doubt})
    environment.filters.update({"si": si, "dims": dims, "dollars": dollars, "rival": rival})
    environment.globals["SIZE"] = SIZE
    return environment
