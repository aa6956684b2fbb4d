"""Lines about work that takes long, for a command without a live view."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INTERVAL_S = 5.0
_sinks: list[Callable[[str], None]] = []


@contextmanager
def waits_told_to(sink: Callable[[str], None]) -> Iterator[None]:
    """Context in which `sink` is called with a line about each wait, every INTERVAL_S seconds."""
    _sinks.append(sink)
    try:
        yield
    finally:
        _sinks.remove(sink)


@contextmanager
def reported_wait(work: str) -> Iterator[None]:
    """Context of a wait for `work`, a clause such as "reference.py is called"; silent unless somebody listens."""
    ended, begun = threading.Event(), time.monotonic()

    def tell() -> None:
        while not ended.wait(INTERVAL_S):
            for sink in _sinks:
                sink(f"{work}: {time.monotonic() - begun:.0f} s so far")

    teller = threading.Thread(target=tell, daemon=True)
    if _sinks:
        teller.start()
    try:
        yield
    finally:
        ended.set()
        if _sinks:
            teller.join()
