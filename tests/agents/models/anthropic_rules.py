"""The rules of Anthropic's Messages API that matter here: what its prompt cache keeps and what it refuses. Pure.

Tokens are characters / 4. Prompts are cached by prefixes in the order tools, system, messages: written and looked up at
the marks, at most four; a look-up goes 20 blocks back; a prefix of less than 512 tokens is never kept; reading renews.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

Body = dict[str, Any]
SHORTEST = 512
LOOKBACK = 20
MARKS = 4
TTL = {"5m": 300, "1h": 3600}
TOKEN = 4
"""Characters."""
SUPPORTED = {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "allOf", "$ref", "$defs"} | {
    "description", "title", "format", "minItems",
}  # fmt: skip
"""Of JSON schema, in `output_config.format`."""


class Cache:
    """What is kept of earlier prompts; `now` is the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        self.kept: dict[str, tuple[float, int]] = {}

    def take(self, body: Body) -> Body:
        """The usage of the prompt in `body`, which is kept from now on."""
        root = {name: body.get(name) for name in ("model", "output_config", "thinking")}
        digest, read = hashlib.sha256(json.dumps(root).encode()), 0
        total, prefixes, marks = 0, [], []
        for where, block in blocks(body):
            bare = {key: value for key, value in block.items() if key != "cache_control"}
            digest.update(json.dumps([where, bare]).encode())
            total += tokens(bare)
            prefixes.append((digest.hexdigest(), total))
            if "cache_control" in block:
                marks.append((len(prefixes) - 1, block["cache_control"].get("ttl", "5m")))
        for index, _ in reversed(marks):
            near = prefixes[max(0, index - LOOKBACK + 1) : index + 1]
            hits = [(name, length) for name, length in near if name in self.kept and self.kept[name][0] > self.now]
            if hits:
                name, read = hits[-1]
                self.kept[name] = (self.now + self.kept[name][1], self.kept[name][1])
                break
        written = {"5m": 0, "1h": 0}
        upto = read
        for index, ttl in marks:
            name, length = prefixes[index]
            if length > upto and length >= SHORTEST:
                self.kept[name] = (self.now + TTL[ttl], TTL[ttl])
                written[ttl] += length - upto
                upto = length
        return {
            "input_tokens": total - upto,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": sum(written.values()),
            "cache_creation": {f"ephemeral_{ttl}_input_tokens": count for ttl, count in written.items()},
            "output_tokens": 1,
        }


def blocks(body: Body) -> list[tuple[str, Body]]:
    """(Where it stands, block) in the order of the cache."""
    found = [("tools", tool) for tool in body.get("tools", [])]
    found += [("system", block) for block in listed(body.get("system", []))]
    for message in body["messages"]:
        found += [(message["role"], block) for block in listed(message["content"])]
    return found


def listed(content: Any) -> list[Body]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def tokens(block: Body) -> int:
    return max(1, len(json.dumps({key: value for key, value in block.items() if key != "cache_control"})) // TOKEN)


# ---------------------------------------------------------------- what the API refuses


def fault(body: Body, most_output: int, betas: str = "") -> str:
    """Why the API answers 400; empty: it does not. Claude Code 2.1 ends its messages with one of the system, and
    names the beta for it."""
    held = blocks(body)
    roles = {"user", "assistant", *(["system"] if "mid-conversation-system" in betas else [])}
    ttls = [block["cache_control"].get("ttl", "5m") for _, block in held if "cache_control" in block]
    checks = {
        "max_tokens: too large": body["max_tokens"] > most_output,
        "sampling parameters are not supported": bool({"temperature", "top_p", "top_k"} & body.keys()),
        "tool_choice may not force a tool": body.get("tool_choice", {}).get("type") in ("any", "tool"),
        "unexpected role": not roles.issuperset(message["role"] for message in body["messages"]),
        "prefill is not supported": body["messages"][-1]["role"] == "assistant",
        "messages must begin with the user": body["messages"][0]["role"] != "user",
        "a message is empty": any(not message["content"] for message in body["messages"]),
        "a text block is empty": any(
            block["type"] == "text" and not block["text"].strip() for where, block in held if where != "tools"
        ),
        "more than 4 cache marks": len(ttls) > MARKS,
        "a mark of 1h stands after one of 5m": "1h" in ttls[ttls.index("5m") :] if "5m" in ttls else False,
        "unanswered tool_use": not _answered(body["messages"]),
        "thinking must be sent back as it was": any(
            b["type"] == "thinking" and b.get("signature") != "signed" for _, b in held if "type" in b
        ),
    }
    wrong = [name for name, found in checks.items() if found]
    form = body.get("output_config", {}).get("format")
    return (wrong or [schema_fault(form["schema"]) if form else ""])[0]


def _answered(messages: list[Body]) -> bool:
    """Whether each call has its result, first thing in the next message, and each result its call."""
    for message, following in zip(messages, [*messages[1:], {"content": []}], strict=True):
        wanted = [block["id"] for block in listed(message["content"]) if block["type"] == "tool_use"]
        given = [
            block["tool_use_id"]
            for block in listed(following["content"])[: len(wanted)]
            if block["type"] == "tool_result"
        ]
        results = sum(block["type"] == "tool_result" for block in listed(following["content"]))
        if wanted != given or results != len(wanted):
            return False
    return True


def schema_fault(schema: Body) -> str:
    """What constrained decoding cannot do."""
    unknown = schema.keys() - SUPPORTED
    if unknown:
        return f"schema: {sorted(unknown)[0]} is not supported"
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return "schema: additionalProperties must be false"
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", [])]
    return next(
        (
            found
            for each in [*inner, *([schema["items"]] if "items" in schema else [])]
            if (found := schema_fault(each))
        ),
        "",
    )
