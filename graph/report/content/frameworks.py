"""Times of torch beside the incumbent, from the contest with v0 and the claims of the accepted versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from graph.report.content.phrases import objective_words
from graph.workspace.versions import lineage, read_versions
from tools.artifacts import Clock, Interval, Verdict
from tools.gate.ranking import FrameworkTimes, framework_times
from tools.gate.statistics import interval_product

if TYPE_CHECKING:
    from graph.services import Services
    from graph.state import State


def claimed_speedup(verdicts: Iterable[Verdict], clock: Clock) -> Interval:
    """The product of the claimed speed-ups of accepted versions, by `clock`."""
    worth = (v.claim.speedup_by(clock) if v.claim else v.speedup for v in verdicts)
    return interval_product(one for one in worth if one)


def torch_times(
    state: State, services: Services, latest: Verdict | None = None, *, is_open: bool = False
) -> FrameworkTimes | None:
    """Times of torch beside the incumbent, or beside the version that `latest` accepts; None: torch was not timed.

    `is_open`: the iteration is not closed, although its memory exists where a checkpoint is made again.
    """
    if not state.get("frameworks"):
        return None
    objective, records = services.settings.judge.objective, services.records
    times = framework_times(records.get(state["frameworks"]), objective, objective_words(objective, services.task))
    # A kill may have left the memory of the version that is being closed.
    upto = state["iteration"] + (latest is None and not is_open)
    closed = lineage([m for m in read_versions(services.workspace.root) if m.iteration < upto])
    kept = [
        Verdict.model_validate(r.payload) for m in closed for r in map(records.get, m.records) if r.kind == "verdict"
    ]
    return times.after(claimed_speedup([*kept, latest] if latest else kept, times.clock))
