"""prompts/NN-<role>.md: the question to a model and its reply, rendered from the record of the exchange, for the review
of a run."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from pydantic import JsonValue

from agents.models.redaction import redact
from graph.report.content.phrases import render
from graph.workspace.folder import Workspace
from tools.artifacts import Record
from tools.store.blobs import Blobs


def exchange_file(record: Record) -> str | None:
    """The path of an exchange's file, relative to the workspace; None for any other record, and for an exchange without
    a number."""
    number = record.payload.get("number") if record.kind in ("exchange", "failed_exchange") else None
    return f"prompts/{number:02}-{record.payload['role']}.md" if number else None


def write_exchange(workspace: Workspace, record: Record) -> None:
    """Write the file of an exchange unless the file exists."""
    name = exchange_file(record)
    if name is not None and not (workspace.root / name).exists():
        workspace.write({name: exchange_text(record, workspace.records.blobs)})


def exchange_text(record: Record, blobs: Blobs) -> str:
    """An exchange in Markdown, without API keys, home folders and addresses."""
    request = json.loads(blobs.text(record.blobs["request"]))
    reply_text = blobs.text(record.blobs["reply"])
    if record.kind == "exchange":
        reply = json.loads(reply_text)
        # `said` of a readable answer is the same answer once more, in the form of the provider.
        left_out = {"usage"} if reply["kind"] == "unfit" else {"usage", "said"}
        reply_text = "\n".join(value_lines({name: value for name, value in reply.items() if name not in left_out}))
    return redact(render("prompt.md", record=record, request=request, said=reply_text))


def value_lines(value: JsonValue, name: str = "") -> Iterator[str]:
    """Each single value with its name; code in lines of its own rather than escaped."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from value_lines(inner, f"{name}.{key}" if name else str(key))
    elif value not in (None, ""):
        yield (
            f"{name}:\n\n{textwrap.indent(value, '    ')}"
            if isinstance(value, str) and "\n" in value
            else f"{name}: {value}"
        )
