"""Chat completions as the servers of the field stream them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.agents.models import scripted_server
from tests.agents.models.scripted_server import Asked, Body, Step


class Server(scripted_server.Server):
    """Refuses what holds one of the keys of `refuses`, which takes no step of the script."""

    prefix = "/v1"
    refuses: dict[str, Step] = {}
    no_index = False
    """Every piece of a call bears the index 0, as some servers have it."""

    def step(self, asked: Asked) -> Step:
        for key, refusal in self.refuses.items():
            if key in asked.body:
                self.asked.append(asked)
                return refusal
        return super().step(asked)

    def error(self, step: Step) -> Body:
        return {"error": {"message": step.message, "type": "error", "param": None, "code": step.code}}

    def events(self, step: Step, asked: Asked) -> Iterator[bytes]:
        wants_usage = asked.body.get("stream_options", {}).get("include_usage")
        usage = [{"choices": [], "usage": step.usage}] if wants_usage and step.usage is not None else []
        about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": asked.body["model"]}
        for one in (*self._choices(step), *usage):
            yield f"data: {json.dumps({**about, **one})}\n\n".encode()
        yield b"data: [DONE]\n\n"

    def _choices(self, step: Step) -> Iterator[Body]:
        yield _delta(role="assistant", content="")
        if step.thinking:
            yield _delta(reasoning_content=step.thinking)
        for start in range(0, len(step.text), 37):
            yield _delta(content=step.text[start : start + 37])
        if step.refusal:
            yield _delta(refusal=step.refusal)
        for number, (name, arguments) in enumerate(step.calls):
            index = 0 if self.no_index else number
            function = {"name": name, "arguments": ""}
            yield _delta(
                tool_calls=[{"index": index, "id": f"call_{number}", "type": "function", "function": function}]
            )
            for start in range(0, len(arguments), 5):
                yield _delta(tool_calls=[{"index": index, "function": {"arguments": arguments[start : start + 5]}}])
        yield _delta(step.stop or ("tool_calls" if step.calls else "stop"))


def _delta(finish: str | None = None, /, **delta: Any) -> Body:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
