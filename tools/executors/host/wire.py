"""Messages between an executor and its worker on another host: one JSON object each, with the bytes of any number of
files behind it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Any

from tools.harness.isolation.ipc import Channel, ClosedError

Answer = tuple[dict[str, Any], list[bytes]]
"""A message and its files."""
GREETING = b"\nkernelwright-worker\n"
"""Bytes before the worker's first message; what login scripts print comes before them."""


class FileChannel(Channel):
    """A channel whose messages bring files; several threads may send, and one receives."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._turn = threading.Lock()

    def send_files(self, message: dict[str, Any], files: Sequence[bytes] = ()) -> None:
        """Send a message with files; raise ClosedError if the other end is closed."""
        with self._turn:
            self.send({**message, "sizes": [len(content) for content in files]})
            try:
                self.sock.sendall(b"".join(files))
            except OSError as error:
                raise ClosedError(str(error)) from error

    def recv_files(self) -> Answer:
        """Return the next message and its files. Raises ClosedError."""
        message, _ = self.recv()
        return message, [self._read_exactly(size, None) for size in message.pop("sizes")]
