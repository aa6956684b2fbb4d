"""A server on this machine that speaks Anthropic's Messages API by `anthropic_rules`: streams, token counts, cache, refusals.

The paths of Bedrock, with its binary stream, and of Vertex, with its tokens, are spoken too.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any

from tests.agents.models.anthropic_rules import TOKEN, Body, Cache, blocks, fault, tokens
from tests.agents.models.loopback import LoopbackServer

TOKEN_OF_GOOGLE = "token-of-google"


@dataclass(frozen=True)
class Step:
    """What one POST to /v1/messages is answered with."""

    text: str = ""
    calls: tuple[tuple[str, Body], ...] = ()
    thinking: str = ""
    stop: str | None = None
    """Default: as the API would have it, `max_tokens` included."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "no"
    cut: int | None = None
    """Events that are sent before the connection is closed."""
    mid: str = ""
    """Type of the error that the stream ends with."""
    garbage: bool = False
    """An event of the stream is no JSON."""
    pings: bool = False
    """Signs of life without end in the place of the answer."""
    pause_s: float = 0
    """Before each event."""


class Server:
    """`with Server(steps…) as server`: answers by `script` in turn, then by `answer`. What it was sent stands in `bodies`, `headers`."""

    def __init__(self, *script: Step, answer: Callable[[Body], Step] | None = None) -> None:
        self.script = list(script)
        self.answer = answer
        self.key: str | None = None
        """What must be sent; None: anything."""
        self.most_output = 128_000
        self.counts = True
        self.cache = Cache()
        self.bodies: list[Body] = []
        self.raw: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.counted = 0
        self.counting_s = 0.0
        """How long it counts."""
        server = self

        class Handler(_Handler):
            owner = server

        self.http = LoopbackServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self) -> Server:
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.http.shutdown()
        self.http.server_close()

    def next(self, body: Body) -> Step:
        if self.script:
            return self.script.pop(0)
        assert self.answer, "the script has ended"
        return self.answer(body)


class _Handler(BaseHTTPRequestHandler):
    owner: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are silent."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/token":
            return self.reply(200, {"access_token": TOKEN_OF_GOOGLE, "expires_in": 3600, "token_type": "Bearer"})
        body = json.loads(raw)
        if elsewhere := re.search(r"/models?/([^/:]+)(?:/invoke|:)", self.path):
            body["model"] = elsewhere[1]
        if self.path.endswith("/count_tokens"):
            self.owner.counted += 1
            time.sleep(self.owner.counting_s)
            if not self.owner.counts:
                return self.refuse(404, "no such path")
            return self.reply(200, {"input_tokens": sum(tokens(block) for _, block in blocks(body))})
        self.owner.bodies.append(body)
        self.owner.raw.append(raw)
        self.owner.headers.append({name.lower(): value for name, value in self.headers.items()})
        sent = self.headers.get("x-api-key") or (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if self.owner.key is not None and sent != self.owner.key:
            return self.refuse(401, f"invalid key: {sent}")
        if wrong := fault(body, self.owner.most_output, self.headers.get("anthropic-beta", "")):
            return self.refuse(400, wrong)
        step = self.owner.next(body)
        if step.status != 200:
            return self.refuse(step.status, step.message, step.headers)
        return self.stream(step, body)

    def reply(self, status: int, body: Body, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        kinds = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
        kind = {429: "rate_limit_error", 529: "overloaded_error", **kinds}.get(status, "api_error")
        self.reply(status, {"type": "error", "error": {"type": kind, "message": message}}, headers)

    def stream(self, step: Step, body: Body) -> None:
        self.send_response(200)
        amazon = self.path.startswith("/model/")
        self.send_header("content-type", "application/vnd.amazon.eventstream" if amazon else "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            while step.pings:
                self.wfile.write(b'event: ping\ndata: {"type": "ping"}\n\n')
                self.wfile.flush()
                time.sleep(0.02)
            for number, event in enumerate(events(step, body, self.owner.cache.take(body))):
                if step.cut is not None and number >= step.cut:
                    break
                if step.pause_s:
                    time.sleep(step.pause_s)
                data = "{oh no" if step.garbage and number == 2 else json.dumps(event)
                self.wfile.write(amazon_frame(data) if amazon else f"event: {event['type']}\ndata: {data}\n\n".encode())
                self.wfile.flush()
        except OSError:
            """The client has gone."""
        self.close_connection = True


def amazon_frame(event: str) -> bytes:
    """As Bedrock streams: lengths, their checksum, headers, the event in base64, the checksum of all."""
    payload = json.dumps({"bytes": base64.b64encode(event.encode()).decode()}).encode()
    held = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(bytes([len(k)]) + k.encode() + b"\x07" + struct.pack(">H", len(v)) + v.encode() for k, v in held.items())
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    frame = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return frame + struct.pack(">I", zlib.crc32(frame))


def events(step: Step, body: Body, usage: Body) -> list[Body]:
    """The whole stream of one answer, cut at `max_tokens`."""
    room = body["max_tokens"] * TOKEN
    content: list[Body] = [{"type": "thinking", "thinking": step.thinking, "signature": "signed"}] if step.thinking else []
    room -= len(step.thinking)
    text, stop = step.text[: max(0, room)], "tool_use" if step.calls else "end_turn"
    if len(text) < len(step.text):
        stop = "max_tokens"
    content += [{"type": "text", "text": text}] if text else []
    room -= len(text)
    for number, (name, arguments) in enumerate(step.calls):
        written = json.dumps(arguments)
        if len(written) > room:
            written, stop = written[: max(0, room)], "max_tokens"
        content.append({"type": "tool_use", "id": f"toolu_{len(body['messages'])}_{number}", "name": name, "input": written})
        room -= len(written)
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    found = [{"type": "message_start", "message": {**start, "stop_reason": None, "stop_sequence": None, "usage": usage}}]
    for index, block in enumerate(content):
        found += [*_block(index, block), {"type": "ping"}]
    if step.mid:
        return [*found, {"type": "error", "error": {"type": step.mid, "message": "in the middle"}}]
    delta = {"stop_reason": step.stop or stop, "stop_sequence": None}
    if step.stop == "refusal":
        delta["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": None}
    output = max(1, sum(tokens(block) for block in content))
    return [*found, {"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}}, {"type": "message_stop"}]


def _block(index: int, block: Body) -> list[Body]:
    key, kind = {"text": ("text", "text_delta"), "thinking": ("thinking", "thinking_delta"), "tool_use": ("input", "input_json_delta")}[
        block["type"]
    ]
    empty = {**block, key: {} if key == "input" else "", **({"signature": ""} if "signature" in block else {})}
    whole, name = block[key], "partial_json" if key == "input" else key
    deltas = [{"type": kind, name: whole[at : at + 40]} for at in range(0, len(whole), 40)]
    if "signature" in block:
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    started = {"type": "content_block_start", "index": index, "content_block": empty}
    sent = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [started, *sent, {"type": "content_block_stop", "index": index}]
