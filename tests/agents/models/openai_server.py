"""A local server that speaks chat completions as the servers of the field do: what it says is scripted, what it was asked is kept."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.agents.models.loopback import LoopbackServer


@dataclass(frozen=True)
class Says:
    """An answer that is streamed in small pieces."""

    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    """(id, name, arguments as written)."""
    finish: str = "stop"
    refusal: str = ""
    thoughts: str = ""
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120})
    no_index: bool = False
    """Every piece of a call bears the index 0, as some servers have it."""
    waits: float = 0.0
    """Seconds of silence before the first byte."""
    pings: bool = False
    """Comments without end in the place of the answer."""


@dataclass(frozen=True)
class Fails:
    """A status and an error body."""

    status: int
    message: str = "the server is not well"
    code: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Breaks:
    """A stream that ends in the middle."""

    how: str
    """cut (the connection is closed inside a chunk) | quiet (no end is told) | garbage (no JSON)."""


@dataclass(frozen=True)
class Replays:
    """What a real server once answered: status, headers, body; of its own framing only the length is made anew."""

    path: Path

    def read(self) -> tuple[int, list[tuple[str, str]], bytes]:
        head, _, body = self.path.read_text(encoding="utf-8").partition("\n\n")
        status, *lines = head.split("\n")
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        framing = ("transfer-encoding", "content-length", "connection", "keep-alive")
        return int(status.split()[1]), [each for each in headers if each[0].lower() not in framing], body.encode()


Step = Says | Fails | Breaks | Replays


@dataclass
class Asked:
    """One request that came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Server:
    """Plays `script` from its first step to its last, which is repeated; without a script it asks `answer`."""

    def __init__(
        self, script: Sequence[Step], refuses: dict[str, Fails] | None = None, answer: Callable[[dict[str, Any]], Step] | None = None
    ) -> None:
        self.script = list(script)
        self.answer = answer
        self.refuses = refuses or {}
        """Key of the body -> what is answered to a request that holds it."""
        self.asked: list[Asked] = []
        self.url = ""
        self._next = 0
        self._lock = threading.Lock()

    def step(self, asked: Asked) -> Step:
        """What comes next; a refused parameter takes no step of the script."""
        with self._lock:
            self.asked.append(asked)
            for key, refusal in self.refuses.items():
                if key in asked.body:
                    return refusal
            if not self.script and self.answer:
                return self.answer(asked.body)
            found = self.script[min(self._next, len(self.script) - 1)]
            self._next += 1
            return found


@contextmanager
def serving(
    *script: Step, refuses: dict[str, Fails] | None = None, answer: Callable[[dict[str, Any]], Step] | None = None
) -> Iterator[Server]:
    """A server on a free port of the loopback device, gone at the end."""
    server = Server(script, refuses, answer)

    class Handler(_Handler):
        scripted = server

    http = LoopbackServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    scripted: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        step = self.scripted.step(Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        if isinstance(step, Fails):
            self._fail(step)
            return
        if isinstance(step, Replays):
            self._reply(*step.read())
            return
        if isinstance(step, Says) and step.waits:
            time.sleep(step.waits)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        if isinstance(step, Breaks):
            # Told, or the client's next request may meet the connection half closed.
            self.send_header("connection", "close")
        self.end_headers()
        try:
            if isinstance(step, Breaks):
                self._break(step)
                return
            while isinstance(step, Says) and step.pings:
                self._chunked(b": still there\n\n")
                time.sleep(0.02)
            wants_usage = body.get("stream_options", {}).get("include_usage")
            for chunk in _chunks(step, body["model"], bool(wants_usage)):
                self._event(json.dumps(chunk))
            self._event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _fail(self, step: Fails) -> None:
        data = json.dumps({"error": {"message": step.message, "type": "error", "param": None, "code": step.code}}).encode()
        self._reply(step.status, [("content-type", "application/json"), *step.headers], data)

    def _reply(self, status: int, headers: Sequence[tuple[str, str]], data: bytes) -> None:
        self.send_response(status)
        for name, value in (*headers, ("content-length", str(len(data)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _event(self, data: str) -> None:
        self._chunked(f"data: {data}\n\n".encode())

    def _chunked(self, line: bytes) -> None:
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def _break(self, step: Breaks) -> None:
        self._event(json.dumps(_chunk("any", {"role": "assistant", "content": '{"veto": '})))
        if step.how == "garbage":
            self._event('{"choices": [')
        if step.how != "cut":
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True


def _chunk(model: str, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}


def _chunks(step: Says, model: str, wants_usage: bool) -> Iterator[dict[str, Any]]:
    yield _chunk(model, {"role": "assistant", "content": ""})
    if step.thoughts:
        yield _chunk(model, {"reasoning_content": step.thoughts})
    for start in range(0, len(step.text), 37):
        yield _chunk(model, {"content": step.text[start : start + 37]})
    if step.refusal:
        yield _chunk(model, {"refusal": step.refusal})
    for number, (identity, name, arguments) in enumerate(step.calls):
        index = 0 if step.no_index else number
        head = {"index": index, "id": identity, "type": "function", "function": {"name": name, "arguments": ""}}
        yield _chunk(model, {"tool_calls": [head]})
        for start in range(0, len(arguments), 5):
            yield _chunk(model, {"tool_calls": [{"index": index, "function": {"arguments": arguments[start : start + 5]}}]})
    yield _chunk(model, {}, step.finish)
    if wants_usage and step.usage is not None:
        yield {**_chunk(model, {}), "choices": [], "usage": step.usage}
