"""Messages between the harness's own processes: length-prefixed JSON over a Unix socket, with descriptors, optionally
authenticated.

And how a process that stays takes its jobs: a line of JSON each on standard input.
"""

import fcntl
import hmac
import json
import os
import random
import select
import socket
import struct
import sys
import threading
import time

HEADER = struct.Struct(">IB")
MAX_MESSAGE_BYTES = 256 << 20


class ClosedError(Exception):
    """The other end is gone."""


class LateError(Exception):
    """Nothing came within the time allowed."""


class ForgedError(Exception):
    """Somebody without the key, or out of turn, wrote on this channel."""


class Channel:
    """One end. With a key, each message carries an HMAC over its running number and body."""

    def __init__(self, sock: socket.socket, key: bytes = b""):
        self.sock = sock
        self.key = key
        self.sent = 0
        self.received = 0

    def fileno(self):
        return self.sock.fileno()

    def send(self, message: dict, fds=()):
        body = json.dumps(message).encode()
        data = HEADER.pack(len(body), len(fds))
        rest = self._tag(self.sent, body) + body
        self.sent += 1
        try:
            self.sock.settimeout(None)
            if fds:
                socket.send_fds(self.sock, [data], list(fds))
                self.sock.sendall(rest)
            else:
                self.sock.sendall(data + rest)
        except OSError as error:
            raise ClosedError(str(error)) from error

    def recv(self, timeout=None) -> tuple[dict, list[int]]:
        """The next message and its descriptors."""
        deadline = None if timeout is None else time.monotonic() + timeout
        fds: list[int] = []
        header = self._read(HEADER.size, deadline, fds)
        length, _ = HEADER.unpack(header)
        if length > MAX_MESSAGE_BYTES:
            raise ForgedError("a message of impossible length")
        tag = self._read(32, deadline) if self.key else b""
        body = self._read(length, deadline)
        if not hmac.compare_digest(tag, self._tag(self.received, body)):
            raise ForgedError("a message without the right signature")
        self.received += 1
        return json.loads(body), fds

    def watch(self, seconds: float):
        """Return when something has come, or after so many seconds. Never sleeps: waking up would be part of what is
        clocked."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        deadline = time.monotonic() + seconds
        while not poll.poll(0) and time.monotonic() < deadline:
            pass

    def close(self):
        self.sock.close()

    def _tag(self, number: int, body: bytes) -> bytes:
        return hmac.digest(self.key, number.to_bytes(8, "big") + body, "sha256") if self.key else b""

    def _read(self, size: int, deadline, fds=None) -> bytes:
        parts = []
        while size:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise LateError
                self.sock.settimeout(left)
            else:
                self.sock.settimeout(None)
            try:
                if fds is None:
                    part = self.sock.recv(min(size, 1 << 20))
                else:
                    part, got, _, _ = socket.recv_fds(self.sock, size, 8)
                    fds.extend(got)
            except TimeoutError as error:
                raise LateError from error
            except OSError as error:
                raise ClosedError(str(error)) from error
            if not part:
                raise ClosedError("end of file")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def receive_channel(sock: socket.socket) -> tuple[Channel, dict, list[int]]:
    """In a kernel's process: its channel, under a number that foreign code would have to guess, with the first
    message and its descriptors, which brings the key."""
    hello, fds = Channel(sock).recv()
    high = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, random.SystemRandom().randrange(300, 900))
    sock.close()
    return Channel(socket.socket(fileno=high), bytes.fromhex(hello["key"])), hello, fds


def serve_verbs(channel: Channel, verbs: dict, failed=None) -> None:
    """Answer each message with what its verb makes of it and of its descriptors, or with `failed(error)`, until the
    other end is gone."""
    while True:
        try:
            message, fds = channel.recv()
        except ClosedError:
            return
        try:
            answer = verbs[message["op"]](message, fds)
        except Exception as error:
            if failed is None:
                raise
            answer = failed(error)
        carried = answer.pop("fds", [])
        channel.send(answer, carried)
        for fd in carried:
            os.close(fd)


def serve_jobs(answer, last=lambda: None) -> None:
    """To each line {"folder": path, ...} on stdin a line {"exit": answer(line)} on stdout.

    When whoever feeds us is gone, `last` is called and this process ends at once, even in the middle of a job.
    """

    def end_with_stdin() -> None:
        poll = select.poll()
        poll.register(0, 0)
        poll.poll()
        last()
        os._exit(0)

    threading.Thread(target=end_with_stdin, daemon=True).start()
    for line in sys.stdin:
        sys.stdout.write(json.dumps({"exit": answer(json.loads(line))}) + "\n")
        sys.stdout.flush()
