"""Where torch stands beside the incumbent, from the contest with v0 and what versions are said to be worth."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from graph.report.content.render import objective_of
from graph.report.content.summary import versions
from tools.artifacts import Clock, Interval, Verdict
from tools.gate.ranking import FrameworkTimes, framework_times

if TYPE_CHECKING:
    from graph.services import Services
    from graph.state import State


def claimed(verdicts: Iterable[Verdict], clock: Clock) -> Interval:
    """Product of what accepted versions are said to be worth by `clock`, end by end; what the intervals may miss adds up."""
    found = [v.claim.by(clock) if v.claim else v.speedup for v in verdicts if v.claim or v.speedup]
    taken = [one for one in found if one is not None]
    ends = {end: math.prod(getattr(one, end) for one in taken) for end in ("estimate", "low", "high")}
    return Interval(**ends, confidence=max(0.0, 1 - sum(1 - one.confidence for one in taken)))


def beside(state: State, services: Services, latest: Verdict | None = None) -> FrameworkTimes | None:
    """Torch beside the incumbent, or the version that `latest` accepts; None: v0 was not timed beside torch."""
    if not state.get("frameworks"):
        return None
    objective, records = services.settings.judge.objective, services.records
    times = framework_times(records.get(state["frameworks"]), objective, objective_of(objective, services.task))
    # A kill may have left the memory of the version that is being closed.
    before = state["iteration"] if latest else math.inf
    closed = [m for m in versions(services.workspace.root) if m.verdict == "accept" and not m.masked and m.iteration < before]
    kept = [record for m in closed for record in map(records.get, m.records) if record.kind == "verdict"]
    verdicts = [*(Verdict.model_validate(record.payload) for record in kept), *([latest] if latest else [])]
    return times.after(claimed(verdicts, times.clock))
