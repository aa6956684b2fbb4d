"""Wall seconds of a run, summed over the processes that worked on it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

TICK_S = 1.0
"""A kill loses no more of the wall time than this."""


class Clock:
    """Wall seconds of a run, summed over the processes that worked on it and written down while they do: pauses between
    them are not in it.

    A thread of this process writes twenty bytes once in TICK_S, into a file that is open already; jobs run in processes
    of their own.
    """

    def __init__(self, path: Path) -> None:
        self.before = wall_s(path)
        """Seconds of the processes before this one."""
        self._began = time.monotonic()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True, name="clock")
        self._thread.start()

    def seconds(self) -> float:
        """By now."""
        return self.before + time.monotonic() - self._began

    def close(self) -> None:
        """Write the time down for the last time. Safe to call twice."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join()
            os.close(self._file)

    def _tick(self) -> None:
        over = False
        while not over:
            over = self._over.wait(TICK_S)
            with contextlib.suppress(OSError):  # a full disk is for those to say who have evidence to keep
                os.pwrite(self._file, f"{self.seconds():019.3f}\n".encode(), 0)


def wall_s(path: Path) -> float:
    """What a Clock has written to `path` so far; 0 where there is nothing."""
    try:
        return float(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return 0.0
