"""The channel to the bench: a Unix socket in the workspace with a token, one call for each connection.

The bench answers processes of the same user that know the token. A relay has no other right than to call.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tools.errors import WorkspaceError

SOCKET_NAME, TOKEN_NAME = "bench.sock", "bench.token"
ANSWER_LIMIT_S = 40.0
"""Seconds after which a relay no longer waits for an answer."""
MAX_CALL_BYTES = 4 << 20
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer, as the kernel reports them (struct ucred, socket(7))."""


class CallResult(NamedTuple):
    """The answer to one call."""

    text: str
    failed: bool = False


Call = Callable[[str, Mapping[str, Any]], CallResult]


@contextmanager
def listening(folder: Path, call: Call) -> Iterator[None]:
    """Answer calls through a socket in `folder`, each in a thread of its own, while the block runs."""
    token = secrets.token_hex(32)
    for name in (SOCKET_NAME, TOKEN_NAME):
        (folder / name).unlink(missing_ok=True)
    with os.fdopen(os.open(folder / TOKEN_NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token)

    class Handler(socketserver.StreamRequestHandler):
        timeout = ANSWER_LIMIT_S

        def handle(self) -> None:
            answer = _answer_line(self.connection, self.rfile.readline(MAX_CALL_BYTES), token, call)
            with contextlib.suppress(OSError):  # the relay has gone
                self.wfile.write(json.dumps(answer._asdict()).encode() + b"\n")

    with _short_path(folder / SOCKET_NAME) as path, _Server(path, Handler) as server:
        (folder / SOCKET_NAME).chmod(0o600)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            (folder / SOCKET_NAME).unlink(missing_ok=True)
            (folder / TOKEN_NAME).unlink(missing_ok=True)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    # A call that still waits must not delay the end of the run.
    block_on_close = False


def _answer_line(peer: socket.socket, line: bytes, token: str, call: Call) -> CallResult:
    _, user, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    try:
        asked = json.loads(line)
        given, tool, arguments = str(asked["token"]), str(asked["tool"]), dict(asked["arguments"])
        json.dumps(arguments, ensure_ascii=False).encode()  # lone surrogates cannot be stored
    except (ValueError, KeyError, TypeError):
        return CallResult("The call cannot be read.", failed=True)
    if user != os.getuid() or not hmac.compare_digest(given.encode(), token.encode()):
        return CallResult("The bench answers its own user with the token of this run alone.", failed=True)
    return call(tool, arguments)


def is_listening(folder: Path) -> bool:
    """Return whether a bench listens in `folder`."""
    try:
        with _short_path(folder / SOCKET_NAME) as path, socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
    except OSError:
        return False
    return True


def call_through(folder: Path, tool: str, arguments: Mapping[str, Any]) -> CallResult:
    """Call a tool of the bench that listens in `folder`; WorkspaceError when none answers."""
    try:
        token = (folder / TOKEN_NAME).read_text()
        with _short_path(folder / SOCKET_NAME) as path, socket.socket(socket.AF_UNIX) as client:
            client.settimeout(ANSWER_LIMIT_S)
            client.connect(path)
            asked = {"token": token, "tool": tool, "arguments": dict(arguments)}
            client.sendall(json.dumps(asked).encode() + b"\n")
            with client.makefile("rb") as file:
                return CallResult(**json.loads(file.readline()))
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"{folder.parent}: its bench does not answer ({error})") from error


@contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Yield a path to the same file that fits into the address of a socket, which holds about a hundred bytes."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
