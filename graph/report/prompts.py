"""prompts/NN-<role>.md: what a model was asked and what it said, for whoever reviews a run (D14). Rendered from the
exchange's record."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from pydantic import JsonValue

from agents.models.redaction import redacted
from graph.report.content.phrases import render
from graph.workspace.folder import Workspace
from tools.artifacts import Record
from tools.store.records import Blobs


def name_of(record: Record) -> str | None:
    """Of the exchange's file, relative to the workspace; None for what is no exchange, or one from before they were
    numbered."""
    number = record.payload.get("number") if record.kind in ("exchange", "failed_exchange") else None
    return f"prompts/{number:02}-{record.payload['role']}.md" if number else None


def keep(workspace: Workspace, record: Record) -> None:
    """Write the file of an exchange unless it is there."""
    name = name_of(record)
    if name is not None and not (workspace.root / name).exists():
        workspace.write({name: text(record, workspace.records.blobs)})


def text(record: Record, blobs: Blobs) -> str:
    """An exchange in Markdown, without keys, home folders and addresses."""
    request = json.loads(blobs.text(record.blobs["request"]))
    said = blobs.text(record.blobs["reply"])
    if record.kind == "exchange":
        reply = json.loads(said)
        # What the provider keeps of an answer that could be read is the answer once more, in its own form.
        left_out = {"usage"} if reply["kind"] == "unfit" else {"usage", "said"}
        said = "\n".join(lines({name: value for name, value in reply.items() if name not in left_out}))
    return redacted(render("prompt.md", record=record, request=request, said=said))


def lines(value: JsonValue, name: str = "") -> Iterator[str]:
    """Each single value with its name; code in lines of its own rather than escaped."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from lines(inner, f"{name}.{key}" if name else str(key))
    elif value not in (None, ""):
        yield (
            f"{name}:\n\n{textwrap.indent(value, '    ')}"
            if isinstance(value, str) and "\n" in value
            else f"{name}: {value}"
        )
