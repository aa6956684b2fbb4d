"""What a run says while it runs: one stream of events, kept in events.jsonl and shown by whoever listens."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from graph.workspace.clock import TICK_S
from tools.artifacts import Artifact, Interval
from tools.store.records import write_error


class Event(Artifact):
    """Something that happened, with flat details."""

    kind: str
    """start, caps, node, headroom, drafted, judge, candidate, ablated, verdict, job, exchange, tool, record, commit,
    interrupt, stop."""
    seconds: float
    """Unix time."""
    details: dict[str, str]
    """Each id and each figure under a name of its own, figures as `float` reads them; what was not collected is left
    out."""


Observer = Callable[[Event], None]


class Events:
    """Appends to `path` and tells the observers, in that order, so that what was shown is on disk."""

    def __init__(self, path: Path, observers: tuple[Observer, ...] = ()) -> None:
        self.path = path
        self.observers = observers
        self._guard = threading.Lock()

    def emit(self, kind: str, details: Mapping[str, str]) -> None:
        """Record one event. The log is for people, benchmarks and the account of device time; a kill loses none of
        it, so it is not synced to disk."""
        event = Event(kind=kind, seconds=time.time(), details=dict(details))
        with self._guard:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(event.model_dump()) + "\n")
            except OSError as error:
                raise write_error(self.path, error) from error
            for observer in self.observers:
                observer(event)


def read(path: Path) -> tuple[Event, ...]:
    """All whole events of a log; a line that a kill cut short is left out."""
    if not path.exists():
        return ()
    events = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            events.append(Event.model_validate_json(line))
        except ValueError:
            continue
    return tuple(events)


def figures(**found: float | None) -> dict[str, str]:
    """Figures as details of an event."""
    return {name: f"{value:.10g}" for name, value in found.items() if value is not None}


def interval(speedup: Interval | None) -> dict[str, str]:
    """An interval as details of an event; an end that too few samples left open is not collected."""
    if speedup is None:
        return {}
    ends = {"low": speedup.low, "high": speedup.high} if speedup.is_bounded else {}
    return figures(speedup=speedup.estimate, **ends)


def wall_s(log: Sequence[Event]) -> float:
    """Wall seconds of the run by the last event: what the run's clock said in the last event that carries it, and
    the time since."""
    for event in reversed(log):
        clock = event.details.get("at" if event.kind == "job" else "wall_s" if event.kind == "start" else "")
        if clock is not None:
            return float(clock) + log[-1].seconds - event.seconds
    return 0.0


def device_s(log: Sequence[Event], wall_s: float) -> dict[str, float]:
    """Return the seconds that jobs took, by kind of device.

    A job without an end counts with what it can have taken: from its start until its process died, or until now where
    none came after it, `wall_s` being the run's wall time by now; and never with more than was set aside for it.
    """
    spent: defaultdict[str, float] = defaultdict(float)
    begun: dict[str, Mapping[str, str]] = {}

    def break_off(until: float) -> None:
        for job in begun.values():
            spent[job["device"]] += min(float(job["held"]), max(0.0, until - float(job["at"])))
        begun.clear()

    for event in log:
        details = event.details
        if event.kind == "start" and "wall_s" in details:
            break_off(float(details["wall_s"]) + TICK_S)
        elif event.kind == "job" and details["state"] == "started":
            begun[details["number"]] = details
        elif event.kind == "job":
            begun.pop(details["number"], None)
            spent[details["device"]] += float(details["used"])
    break_off(wall_s + TICK_S)
    return dict(spent)
