"""A server whose answers are scripted and that keeps what it was asked, in the format of `openai_server` or
`anthropic_server`."""

from __future__ import annotations

import json
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Body = dict[str, Any]
SIGN_OF_LIFE = b": still there\n\n"
GARBAGE = b"event: content_block_delta\ndata: {oh no\n\n"


@dataclass(frozen=True)
class Step:
    """What one request is answered with."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    """(name, arguments); a text is sent as it is written."""
    thinking: str = ""
    refusal: str = ""
    stop: str | None = None
    """Default: as the API would have it."""
    usage: Body | None = field(
        default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    )
    """Where the format does not make it."""
    status: int = 200
    message: str = "no"
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: Body | None = None
    """Sent in the place of a stream."""
    file: Path | None = None
    """What a real server once answered: status, headers, body; of its own framing only the length is made anew."""
    cut: int | None = None
    """Events that are sent before the connection is closed."""
    quiet: bool = False
    """The connection is then closed in order, and no end was told."""
    garbage: bool = False
    """An event of the stream is no JSON."""
    mid: str = ""
    """Type of the error that the stream ends with."""
    pings: bool = False
    """Signs of life without end in the place of the answer."""
    pause_s: float = 0
    """Before the answer, and before each event of it."""


@dataclass
class Asked:
    """One request that came in."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: Body


class Server(ABC):
    """`with Server(steps…) as server`: the steps in turn, then `answer`, else the last step again and again."""

    prefix = ""
    """Of the address that a config names."""

    def __init__(self, *script: Step, answer: Callable[[Body], Step] | None = None) -> None:
        self.script = list(script)
        self.answer = answer
        self.asked: list[Asked] = []
        self.looked_up: list[Asked] = []
        """Requests for the list of models."""
        self.listing = Step(body={"data": [], "has_more": False})
        """What they are answered with."""
        self._lock = threading.Lock()
        self._http = _Loopback(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}{self.prefix}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def bodies(self) -> list[Body]:
        """Of all requests for an answer."""
        return [one.body for one in self.asked]

    def step(self, asked: Asked) -> Step:
        """What comes next."""
        with self._lock:
            self.asked.append(asked)
            if self.script and (self.answer or len(self.script) > 1):
                return self.script.pop(0)
            return self.answer(asked.body) if self.answer else self.script[0]

    def list_models(self, asked: Asked) -> Step:
        """What comes next for the list of models."""
        self.looked_up.append(asked)
        return self.listing

    @abstractmethod
    def error(self, step: Step) -> Body:
        """The body of an answer whose status is none of success."""

    @abstractmethod
    def events(self, step: Step, asked: Asked) -> Iterable[bytes]:
        """The stream of an answer."""


class _Loopback(ThreadingHTTPServer):
    """No traceback for a client that is gone, which some tests are about."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    owner: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are silent."""

    def do_GET(self) -> None:
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, b"", {})
        self.answer(self.owner.list_models(asked), asked)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        body = json.loads(raw) if raw.startswith(b"{") else {}
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, raw, body)
        self.answer(self.owner.step(asked), asked)

    def answer(self, step: Step, asked: Asked) -> None:
        time.sleep(step.pause_s)
        if step.file:
            self.reply(*recorded(step.file))
        elif step.status != 200 or step.body is not None:
            shown = self.owner.error(step) if step.body is None else step.body
            self.reply(step.status, {"content-type": "application/json", **step.headers}, json.dumps(shown).encode())
        else:
            self.stream(step, asked)

    def reply(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def stream(self, step: Step, asked: Asked) -> None:
        self.send_response(200)
        amazon = asked.path.startswith("/model/")
        self.send_header("content-type", "application/vnd.amazon.eventstream" if amazon else "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            while step.pings:
                self.chunk(SIGN_OF_LIFE)
                time.sleep(0.02)
            for number, event in enumerate(self.owner.events(step, asked)):
                if number == step.cut:
                    break
                time.sleep(step.pause_s)
                self.chunk(GARBAGE if step.garbage and number == 2 else event)
            if step.cut is None or step.quiet:
                self.chunk(b"")
        except OSError:
            """The client has gone."""

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def recorded(file: Path) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a recorded answer."""
    head, _, body = file.read_text(encoding="utf-8").partition("\n\n")
    status, *lines = head.split("\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    framing = ("transfer-encoding", "content-length", "connection", "keep-alive")
    return (
        int(status.split()[1]),
        {name: value for name, value in headers.items() if name not in framing},
        body.encode(),
    )
