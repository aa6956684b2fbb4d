"""Anthropic's Messages API by `anthropic_rules`: streams, token counts, cache, refusals; Bedrock's binary stream and
Vertex's tokens."""

from __future__ import annotations

import base64
import json
import re
import struct
import time
import zlib
from collections.abc import Iterator
from typing import Any

from tests.agents.models import scripted_server
from tests.agents.models.anthropic_rules import TOKEN, Body, Cache, blocks, fault, tokens
from tests.agents.models.scripted_server import Asked, Step

TOKEN_OF_GOOGLE = "token-of-google"
KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    429: "rate_limit_error", 529: "overloaded_error",
}  # fmt: skip


class Server(scripted_server.Server):
    """What a request that keeps to the rules is answered with is the script's; a step's calls have a dictionary of
    arguments."""

    key: str | None = None
    """What must be sent; None: anything."""
    most_output = 128_000
    counts = True
    counting_s = 0.0
    """How long it counts."""
    counted = 0

    def __init__(self, *script: Step, **answer: Any) -> None:
        super().__init__(*script, **answer)
        self.cache = Cache()

    def step(self, asked: Asked) -> Step:
        body = asked.body
        if asked.path == "/token":
            return Step(body={"access_token": TOKEN_OF_GOOGLE, "expires_in": 3600, "token_type": "Bearer"})
        if elsewhere := re.search(r"/models?/([^/:]+)(?:/invoke|:)", asked.path):
            body["model"] = elsewhere[1]
        if asked.path.endswith("/count_tokens"):
            self.counted += 1
            time.sleep(self.counting_s)
            return (
                Step(body={"input_tokens": sum(tokens(block) for _, block in blocks(body))})
                if self.counts
                else Step(status=404)
            )
        refused = self.refused_key(asked)
        if not refused and (wrong := fault(body, self.most_output, asked.headers.get("anthropic-beta", ""))):
            refused = Step(status=400, message=wrong)
        if refused:
            self.asked.append(asked)
        return refused or super().step(asked)

    def list_models(self, asked: Asked) -> Step:
        return self.refused_key(asked) or super().list_models(asked)

    def refused_key(self, asked: Asked) -> Step | None:
        """The refusal of a wrong key; None for the right one."""
        sent = asked.headers.get("x-api-key") or asked.headers.get("authorization", "").removeprefix("Bearer ")
        return Step(status=401, message=f"invalid key: {sent}") if self.key not in (None, sent) else None

    def error(self, step: Step) -> Body:
        return {"type": "error", "error": {"type": KINDS.get(step.status, "api_error"), "message": step.message}}

    def events(self, step: Step, asked: Asked) -> Iterator[bytes]:
        for event in _events(step, asked.body, self.cache.take(asked.body)):
            data = json.dumps(event)
            yield (
                _amazon_frame(data)
                if asked.path.startswith("/model/")
                else f"event: {event['type']}\ndata: {data}\n\n".encode()
            )


def _amazon_frame(event: str) -> bytes:
    """As Bedrock streams: lengths, their checksum, headers, the event in base64, the checksum of all."""
    payload = json.dumps({"bytes": base64.b64encode(event.encode()).decode()}).encode()
    held = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        bytes([len(k)]) + k.encode() + b"\x07" + struct.pack(">H", len(v)) + v.encode() for k, v in held.items()
    )
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    frame = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return frame + struct.pack(">I", zlib.crc32(frame))


def _events(step: Step, body: Body, usage: Body) -> list[Body]:
    """The whole stream of one answer, cut at `max_tokens`."""
    room = body["max_tokens"] * TOKEN - len(step.thinking)
    text = step.text[: max(0, room)]
    content: list[Body] = (
        [{"type": "thinking", "thinking": step.thinking, "signature": "signed"}] if step.thinking else []
    )
    content += [{"type": "text", "text": text}] if text else []
    room -= len(step.text)
    for number, (name, arguments) in enumerate(step.calls):
        written = json.dumps(arguments)
        identity = f"toolu_{len(body['messages'])}_{number}"
        content.append({"type": "tool_use", "id": identity, "name": name, "input": written[: max(0, room)]})
        room -= len(written)
    stop = step.stop or ("max_tokens" if room < 0 else "tool_use" if step.calls else "end_turn")
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    found = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    ]
    for index, block in enumerate(content):
        found += [*_block(index, block), {"type": "ping"}]
    if step.mid:
        return [*found, {"type": "error", "error": {"type": step.mid, "message": "in the middle"}}]
    details = (
        {"stop_details": {"type": "refusal", "category": "cyber", "explanation": None}} if stop == "refusal" else {}
    )
    output = max(1, sum(tokens(block) for block in content))
    delta = {"stop_reason": stop, "stop_sequence": None, **details}
    return [
        *found,
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}},
        {"type": "message_stop"},
    ]


def _block(index: int, block: Body) -> list[Body]:
    key, name = ("input", "partial_json") if block["type"] == "tool_use" else (block["type"], block["type"])
    kind = "input_json_delta" if key == "input" else f"{key}_delta"
    empty = {**block, key: {} if key == "input" else "", **({"signature": ""} if "signature" in block else {})}
    deltas = [{"type": kind, name: block[key][at : at + 40]} for at in range(0, len(block[key]), 40)]
    if "signature" in block:
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    started = {"type": "content_block_start", "index": index, "content_block": empty}
    sent = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [started, *sent, {"type": "content_block_stop", "index": index}]
