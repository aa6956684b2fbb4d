"""The reaction to numbers that the gpu-wiki lacks (`on_unknown`): continue, ask, or stop. A person's figure never
becomes a Spec."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

from graph.artifacts import Placeholder
from graph.services import Ask
from knowledge_base.specs.lookup import answer_line as registered
from tools.errors import SettingsError
from tools.roofline.hardware import UnknownSpec

PLACEHOLDER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z%].*)")
MAX_ANSWERS = 3
"""Number of unreadable answers after which the run stops."""


def resolve_unknown(
    gaps: Sequence[UnknownSpec], product: str, policy: Literal["continue", "ask", "stop"], ask: Ask | None
) -> tuple[Placeholder, ...]:
    """The placeholders that a person gave; raises SettingsError where the run must stop."""
    if not gaps or policy == "continue":
        return ()
    unanswered = f"the gpu-wiki has no {gaps[0].metric} of {product}: {gaps[0].reason}"
    if policy == "stop":
        raise SettingsError(f"on_unknown: stop, and {unanswered}")
    if ask is None:
        raise SettingsError(
            f"on_unknown: ask, but there is no terminal to ask at, and {unanswered}; "
            "set in the config `on_unknown: continue` (it stays UNKNOWN) or `on_unknown: stop`, or run in a "
            "terminal"
        )
    return tuple(given for gap in gaps if (given := _ask_placeholder(gap, product, ask)) is not None)


def _ask_placeholder(gap: UnknownSpec, product: str, ask: Ask) -> Placeholder | None:
    question = (
        f"{registered(gap)}\n{gap.metric} of {product}: [c]ontinue without it, [s]top, or type a placeholder with "
        f"its unit "
        "(it is only shown; no target rests on it): "
    )
    for _ in range(MAX_ANSWERS):
        typed = ask(question)
        answer = typed.strip() if typed is not None else "stop"
        if answer.lower() in ("s", "stop"):
            raise SettingsError(
                f"on_unknown: ask, and the answer about {gap.metric} of {product} was to stop; add it to the gpu-wiki"
            )
        if answer.lower() in ("c", "continue"):
            return None
        found = PLACEHOLDER.fullmatch(answer)
        if found and 0 < float(found[1]) < math.inf:
            return Placeholder(metric=gap.metric, value=float(found[1]), unit=found[2])
        question = (
            f"{answer!r} is not c, s or a positive number with its unit, such as 1.5 GB; {gap.metric} of {product}: "
        )
    raise SettingsError(
        f"on_unknown: ask, and {MAX_ANSWERS} answers about {gap.metric} of {product} could not be read; run again"
    )
