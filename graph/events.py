"""What a run says while it runs: one stream of events, kept in events.jsonl and shown by whoever listens."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tools.artifacts import Artifact
from tools.records import unwritable


class Event(Artifact):
    """Something that happened, with flat details."""

    kind: str
    """start, node, candidate, job, exchange, judge, commit, verdict, stop."""
    seconds: float
    """Unix time."""
    details: dict[str, str]


LONGEST_GAP_S = 60.0
"""A longer silence between two events, other than during a job or while a model answers, was a pause between processes and not work."""
WORKING = {("job", "started"), ("exchange", "started")}


Observer = Callable[[Event], None]


class Events:
    """Appends to `path` and tells the observers, in that order, so that what was shown is on disk."""

    def __init__(self, path: Path, observers: tuple[Observer, ...] = ()) -> None:
        self.path = path
        self.observers = observers

    def emit(self, kind: str, details: Mapping[str, str]) -> None:
        """Record one event. The log is for people and benchmarks; nothing is decided from it, so it is not synced to disk."""
        event = Event(kind=kind, seconds=time.time(), details=dict(details))
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(event.model_dump()) + "\n")
        except OSError as error:
            raise unwritable(self.path, error) from error
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


def wall_s(log: Sequence[Event]) -> float:
    """Wall seconds between first and last event of each process, summed; gaps while nothing ran do not count."""

    def worked(earlier: Event, later: Event) -> bool:
        # A new process begins with "start": whatever was under way before it was killed meanwhile.
        return (earlier.kind, earlier.details.get("state")) in WORKING and later.kind != "start"

    spans = [(later.seconds - earlier.seconds, worked(earlier, later)) for earlier, later in pairwise(log)]
    return sum(span for span, working in spans if working or span < LONGEST_GAP_S)


def device_s(log: Sequence[Event]) -> dict[str, float]:
    """Kind of device -> seconds that finished jobs took there."""
    spent: defaultdict[str, float] = defaultdict(float)
    for event in log:
        if event.kind == "job" and event.details.get("state") == "finished":
            spent[event.details.get("device", "cpu")] += float(event.details["s"])
    return dict(spent)
