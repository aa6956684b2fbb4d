"""What a run does about numbers that the gpu-wiki lacks (`on_unknown`): go on, ask, or stop. A person's figure never
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
ATTEMPTS = 3
"""Answers that cannot be read before the run stops."""


def settle(
    gaps: Sequence[UnknownSpec], product: str, policy: Literal["continue", "ask", "stop"], ask: Ask | None
) -> tuple[Placeholder, ...]:
    """The placeholders that a person gave; SettingsError where the run must not go on."""
    if not gaps or policy == "continue":
        return ()
    unanswered = f"the gpu-wiki does not answer {gaps[0].metric} of {product}: {gaps[0].reason}"
    if policy == "stop":
        raise SettingsError(f"on_unknown: stop, and {unanswered}")
    if ask is None:
        raise SettingsError(
            f"on_unknown: ask, and nobody can be asked for want of a terminal, while {unanswered}; "
            "answer in the config with `on_unknown: continue` (it stays UNKNOWN) or `on_unknown: stop`, or run in a "
            "terminal"
        )
    return tuple(given for gap in gaps if (given := _asked(gap, product, ask)) is not None)


def _asked(gap: UnknownSpec, product: str, ask: Ask) -> Placeholder | None:
    question = (
        f"{registered(gap)}\n{gap.metric} of {product}: [c]ontinue without it, [s]top, or type a placeholder with "
        f"its unit "
        "(it is only shown; no target rests on it): "
    )
    for _ in range(ATTEMPTS):
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
            f"{answer!r} is none of c, s and a positive number with its unit, such as 1.5 GB; {gap.metric} of "
            f"{product}: "
        )
    raise SettingsError(
        f"on_unknown: ask, and {ATTEMPTS} answers about {gap.metric} of {product} could not be read; run again"
    )
