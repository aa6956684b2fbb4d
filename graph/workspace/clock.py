"""The clock of a run: wall seconds, summed over the processes that worked on it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

TICK_S = 1.0
"""A kill loses no more of the wall time than this."""


class Clock:
    """Counts the wall seconds of a run over its processes, without the pauses between them, and saves them meanwhile.

    A thread writes twenty bytes every TICK_S into an open file; jobs run in other processes and are not disturbed.
    """

    def __init__(self, path: Path) -> None:
        self.before = read_wall_seconds(path)
        """The wall seconds of the run's earlier processes."""
        self._began = time.monotonic()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True, name="clock")
        self._thread.start()

    def seconds(self) -> float:
        """Return the wall seconds of the run so far."""
        return self.before + time.monotonic() - self._began

    def close(self) -> None:
        """Save the time for the last time; a second call does nothing."""
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


def read_wall_seconds(path: Path) -> float:
    """Return the wall seconds that a Clock has saved in `path`; 0 if the file is missing or unreadable."""
    try:
        return float(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return 0.0
