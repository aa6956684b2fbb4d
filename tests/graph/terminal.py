"""A terminal for tests: a pseudo-terminal whose other end a terminal emulator reads."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from typing import Any

import pyte

from tests.graph.conftest import ROOT


class Terminal:
    """Of `width` columns; `fd` is what a program writes to."""

    def __init__(self, width: int, height: int = 40) -> None:
        self.own, self.fd = pty.openpty()
        self.screen = pyte.HistoryScreen(width, height, history=5000, ratio=0.5)
        self.stream = pyte.ByteStream(self.screen)
        self.written = b""
        self.resize(width, height)

    def resize(self, width: int, height: int = 40) -> None:
        """As a person does who drags the window's edge; the emulator cuts off what is too long, as xterm does."""
        self.screen.resize(height, width)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, seconds: float = 0.0) -> bool:
        """Take in what was written, waiting for it for so long; False at the end."""
        while select.select([self.own], [], [], seconds)[0]:
            try:
                data = os.read(self.own, 1 << 16)
            except OSError:  # the last program has closed it
                return False
            self.written += data
            self.stream.feed(data)
            seconds = 0.0
        return True

    def until(self, met: Callable[[], bool], seconds: float) -> None:
        """Read until `met`; AssertionError with what is seen when it is not met in time."""
        end = time.monotonic() + seconds
        while not met():
            more = self.read(0.1)
            assert met() or (more and time.monotonic() < end), self.seen

    @property
    def seen(self) -> str:
        """What stands on the screen."""
        return "\n".join(row.rstrip() for row in self.screen.display).rstrip()

    @property
    def scrolled(self) -> str:
        """What was scrolled away, then what stands on the screen, each row at full width: wrapped lines are whole."""
        rows = [self._row(row) for row in self.screen.history.top]
        return "".join([*rows, *self.screen.display])

    @property
    def clean(self) -> bool:
        """The cursor is shown."""
        return not self.screen.cursor.hidden

    def _row(self, row: Any) -> str:
        return "".join(row[column].data for column in range(self.screen.columns))

    def close(self) -> None:
        os.close(self.own)


class AtTerminal:
    """A command at a terminal of its own, as a shell starts it."""

    def __init__(self, *command: str, width: int = 80, environment: dict[str, str] | None = None) -> None:
        self.terminal = Terminal(width)
        fd = self.terminal.fd
        self.process = subprocess.Popen(
            [sys.executable, "-m", "graph", *command],
            cwd=ROOT,
            stdin=fd,
            stdout=fd,
            stderr=fd,
            env={**os.environ, "TERM": "tmux-256color", **(environment or {})},
            preexec_fn=_take_terminal,
        )
        os.close(fd)

    def ended(self, seconds: float = 300.0) -> int:
        self.terminal.until(lambda: not self.terminal.read(0.1), seconds)
        return self.process.wait(10)

    def press(self, keys: bytes = b"\x03") -> None:
        os.write(self.terminal.own, keys)


def _take_terminal() -> None:
    """In the child: lead a session whose controlling terminal is stdin, so that ^C becomes a signal."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
