"""Messages between the harness's processes: length-prefixed JSON over a Unix socket, with descriptors, optionally
authenticated.

It also has the loop of a process that stays and takes its jobs as lines of JSON on standard input.
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
    """The other end is closed."""


class LateError(Exception):
    """No message came within the time allowed."""


class ForgedError(Exception):
    """A message was written without the key, or out of turn."""


class Channel:
    """One end of a socket. With a key, each message carries an HMAC of its number and body."""

    def __init__(self, sock: socket.socket, key: bytes = b""):
        self.sock = sock
        self.key = key
        self.sent = 0
        self.received = 0

    def fileno(self):
        return self.sock.fileno()

    def send(self, message: dict, fds=()):
        """Send a message with descriptors; raise ClosedError if the other end is closed."""
        body = json.dumps(message).encode()
        data = HEADER.pack(len(body), len(fds))
        tagged_body = self._authentication_tag(self.sent, body) + body
        self.sent += 1
        try:
            self.sock.settimeout(None)
            if fds:
                socket.send_fds(self.sock, [data], list(fds))
                self.sock.sendall(tagged_body)
            else:
                self.sock.sendall(data + tagged_body)
        except OSError as error:
            raise ClosedError(str(error)) from error

    def recv(self, timeout=None) -> tuple[dict, list[int]]:
        """Return the next message and its descriptors. Raises ClosedError, LateError after `timeout` seconds, and
        ForgedError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        fds: list[int] = []
        header = self._read_exactly(HEADER.size, deadline, fds)
        length, _ = HEADER.unpack(header)
        if length > MAX_MESSAGE_BYTES:
            raise ForgedError("a message of impossible length")
        tag = self._read_exactly(32, deadline) if self.key else b""
        body = self._read_exactly(length, deadline)
        if not hmac.compare_digest(tag, self._authentication_tag(self.received, body)):
            raise ForgedError("a message without the right signature")
        self.received += 1
        return json.loads(body), fds

    def watch(self, seconds: float):
        """Poll without sleeping until a message arrives or `seconds` have passed, because waking up would be part of
        what is timed."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        deadline = time.monotonic() + seconds
        while not poll.poll(0) and time.monotonic() < deadline:
            pass

    def close(self):
        self.sock.close()

    def _authentication_tag(self, number: int, body: bytes) -> bytes:
        return hmac.digest(self.key, number.to_bytes(8, "big") + body, "sha256") if self.key else b""

    def _read_exactly(self, size: int, deadline, fds=None) -> bytes:
        """Return `size` bytes; append descriptors that come with them to `fds`."""
        parts = []
        while size:
            if deadline is not None:
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    raise LateError
                self.sock.settimeout(remaining_s)
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
    """Return two connected Unix sockets."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def receive_channel(sock: socket.socket) -> tuple[Channel, dict, list[int]]:
    """Return a kernel's process's channel with its first message, which brings the key, and that message's descriptors.
    The channel has a descriptor number that a kernel would have to guess."""
    hello, fds = Channel(sock).recv()
    high = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, random.SystemRandom().randrange(300, 900))
    sock.close()
    return Channel(socket.socket(fileno=high), bytes.fromhex(hello["key"])), hello, fds


def serve_verbs(channel: Channel, verbs: dict, answer_error=None) -> None:
    """Answer each message by its verb's function (message, fds), or by `answer_error(error)`, until the other end is
    closed."""
    while True:
        try:
            message, fds = channel.recv()
        except ClosedError:
            return
        try:
            answer = verbs[message["op"]](message, fds)
        except Exception as error:
            if answer_error is None:
                raise
            answer = answer_error(error)
        descriptors = answer.pop("fds", [])
        channel.send(answer, descriptors)
        for fd in descriptors:
            os.close(fd)


def serve_jobs(answer, before_exit=lambda: None) -> None:
    """Answer each line {"folder": path, ...} on stdin with a line {"exit": answer(line)} on stdout.

    When stdin closes, `last` is called and the process ends at once, even during a job.
    """

    def end_with_stdin() -> None:
        poll = select.poll()
        poll.register(0, 0)
        poll.poll()
        before_exit()
        os._exit(0)

    threading.Thread(target=end_with_stdin, daemon=True).start()
    for line in sys.stdin:
        sys.stdout.write(json.dumps({"exit": answer(json.loads(line))}) + "\n")
        sys.stdout.flush()
