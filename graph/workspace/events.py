"""The events of a run: one stream, stored in events.jsonl and passed to observers."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from graph.workspace.clock import TICK_S
from tools.artifacts import Artifact, Interval
from tools.store.blobs import write_error


class Event(Artifact):
    """One event of a run, with flat details."""

    kind: str
    """start, caps, node, headroom, drafted, judge, candidate, ablated, verdict, job, exchange, tool, record, commit,
    remark, interrupt, stop."""
    seconds: float
    """Unix time."""
    details: dict[str, str]
    """Name -> id or figure, figures as `float` reads them; what was not collected is absent."""


Observer = Callable[[Event], None]


class Events:
    """Appends events to `path` and then passes them to the observers, so that whatever was shown is on disk."""

    def __init__(self, path: Path, observers: tuple[Observer, ...] = ()) -> None:
        self.path = path
        self.observers = observers
        self._guard = threading.Lock()

    def emit(self, kind: str, details: Mapping[str, str]) -> None:
        """Append one event and pass it on. The log is not synced to disk: it need not survive a power failure."""
        event = Event(kind=kind, seconds=time.time(), details=dict(details))
        with self._guard:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(event.model_dump()) + "\n")
            except OSError as error:
                raise write_error(self.path, error) from error
            for observer in self.observers:
                observer(event)


def read_events(path: Path) -> tuple[Event, ...]:
    """Return the events of a log; a line that a kill cut short is skipped."""
    if not path.exists():
        return ()
    events = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            events.append(Event.model_validate_json(line))
        except ValueError:
            continue
    return tuple(events)


def figure_details(**found: float | None) -> dict[str, str]:
    """Return figures as details of an event, without those that are None."""
    return {name: f"{value:.10g}" for name, value in found.items() if value is not None}


def interval_details(speedup: Interval | None) -> dict[str, str]:
    """Return an interval as details of an event; unknown ends are absent."""
    if speedup is None:
        return {}
    ends = {"low": speedup.low, "high": speedup.high} if speedup.is_bounded else {}
    return figure_details(speedup=speedup.estimate, **ends)


def device_seconds(log: Sequence[Event], wall_s: float) -> dict[str, float]:
    """Return kind of device -> seconds that jobs took.

    A job without an end counts from its start until its process died, or until `wall_s`, the run's wall time now; but
    never with more than its own limit.
    """
    spent: defaultdict[str, float] = defaultdict(float)
    begun: dict[str, Mapping[str, str]] = {}

    def count_open_jobs(until: float) -> None:
        for job in begun.values():
            spent[job["device"]] += min(float(job["held"]), max(0.0, until - float(job["at"])))
        begun.clear()

    for event in log:
        details = event.details
        if event.kind == "start" and "wall_s" in details:
            count_open_jobs(float(details["wall_s"]) + TICK_S)
        elif event.kind == "job" and details["state"] == "started":
            begun[details["number"]] = details
        elif event.kind == "job":
            begun.pop(details["number"], None)
            spent[details["device"]] += float(details["used"])
    count_open_jobs(wall_s + TICK_S)
    return dict(spent)
