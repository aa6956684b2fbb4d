"""Drafts as models write them best: a header line, then the code in a fence, once for each variant. The form stands in
`prompts/answers/drafts.md`. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from agents.artifacts import Draft, Drafts

HEADER = re.compile(r"[ ]{0,3}#{1,6}[ \t]*\**(draft|skipped)\b[^:\n]{0,12}:\**[ \t]*(.*)", re.IGNORECASE)
FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})[ \t]*([^`]*?)[ \t]*")
FIELD = re.compile(r"(?:\A|[\s;,])(methods|knobs|note)[ \t]*=[ \t]*")
KNOB = re.compile(r"([A-Za-z_]\w*)[ \t]*=[ \t]*")
NONE = ("", "-", "none")


class _Block(NamedTuple):
    """A fenced stretch of the text."""

    line: int
    """Of its opening fence, from 1."""
    end: int
    """Of its closing fence; 0: there is none."""
    code: str


class _Header(NamedTuple):
    line: int
    kind: str
    """draft | skipped."""
    rest: str


def has_header(text: str) -> bool:
    """Whether a line outside of fences begins a draft or tells what was skipped."""
    return bool(_parts(text)[0])


def first_block(text: str) -> int:
    """Line of the first fenced block that holds no JSON; 0: there is none."""
    return next((block.line for block in _parts(text)[1] if not block.code.lstrip().startswith("{")), 0)


def without_code(text: str) -> str:
    """`text` with empty lines for all fenced blocks that hold no JSON: what stands in code is no answer."""
    lines = text.split("\n")
    for block in _parts(text)[1]:
        if not block.code.lstrip().startswith(("{", "[")):
            end = block.end or len(lines)
            lines[block.line - 1 : end] = [""] * (end - block.line + 1)
    return "\n".join(lines)


def open_at_end(text: str) -> bool:
    """Whether `text` ends inside a fence."""
    return any(not block.end for block in _parts(text)[1])


def drafts(text: str) -> tuple[Drafts, tuple[str, ...]]:
    """The drafts in `text` that can be read, and what is wrong, one sentence a fault with its line. Prose between
    the blocks is dropped."""
    headers, blocks = _parts(text)
    headers = [header for index, header in enumerate(headers) if not _title(index, headers, blocks)]
    found: list[Draft] = []
    skipped: dict[str, str] = {}
    faults: list[str] = []
    for index, header in enumerate(headers):
        following = headers[index + 1].line if index + 1 < len(headers) else len(text) + 2
        inside = [block for block in blocks if header.line < block.line < following]
        if header.kind == "skipped":
            method, sign, reason = header.rest.partition("=")
            if sign and method.strip():
                skipped[method.strip()] = reason.strip()
            elif header.rest.strip().lower() not in NONE:
                faults.append(
                    f"line {header.line}: write `### skipped: METHOD=why it cannot be applied here`, one line each"
                )
            continue
        if fault := _misplaced(header, inside):
            faults.append(fault)
            continue
        made = _draft(header, inside[0].code)
        faults.extend([made] if isinstance(made, str) else [])
        found.extend([made] if isinstance(made, Draft) else [])
    return Drafts(drafts=tuple(found), skipped=skipped), tuple(faults)


def _title(index: int, headers: list[_Header], blocks: list[_Block]) -> bool:
    """Whether a header is one of prose (`## Draft 1: wider tiles`), the one with the fields coming before any code."""
    header, following = headers[index], headers[index + 1 : index + 2]
    if header.kind != "draft" or "methods" in header.rest or not following or following[0].kind != "draft":
        return False
    return not any(header.line < block.line < following[0].line for block in blocks)


def _misplaced(header: _Header, inside: list[_Block]) -> str | None:
    if not inside:
        return f"line {header.line}: no fenced block of code follows this header; give the whole file in one"
    if not inside[0].end:
        return f"line {inside[0].line}: the block of code is not closed; give the whole file and close the fence"
    if len(inside) > 1:
        return (
            f"line {inside[1].line}: a second block of code stands behind one header; give the whole file in one block"
        )
    if not inside[0].code.strip():
        return f"line {inside[0].line}: the block of code is empty; give the whole file"
    return None


def _draft(header: _Header, code: str) -> Draft | str:
    """The draft of one block, or what is wrong with its header."""
    split = FIELD.split(header.rest)
    fields: dict[str, str] = {}
    for name, value in zip(split[1::2], split[2::2], strict=True):
        # A note is free text, in which anything may stand.
        if "note" in fields:
            fields["note"] += f" {name}={value}"
        elif name in fields:
            return f"line {header.line}: {name} is given twice; give it once"
        else:
            fields[name] = value.strip()
    if "methods" not in fields or split[0].strip(" -*`"):
        return (
            f"line {header.line}: write `### draft: methods=a,b knobs=TILE=64,UNROLL=4 note=...`; methods and "
            f"knobs may be none"
        )
    methods = tuple(
        m.strip(" `") for m in re.split(r"[,\s]+", fields["methods"].strip(" ,;")) if m.strip(" `").lower() not in NONE
    )
    knobs = _knobs(fields.get("knobs", ""))
    if knobs is None:
        return f"line {header.line}: knobs are written NAME=value, apart by commas, and not {fields['knobs'][:60]!r}"
    return Draft(source=code, methods=methods, knobs=knobs, note=fields.get("note", "").strip())


def _knobs(text: str) -> dict[str, str] | None:
    text = text.strip(" ,;`")
    if text.lower() in NONE:
        return {}
    split = KNOB.split(text)
    if split[0].strip() or len(split) < 3:
        return None
    return {name: value.strip(" ,;`") for name, value in zip(split[1::2], split[2::2], strict=True)}


def _parts(text: str) -> tuple[list[_Header], list[_Block]]:
    """Headers and fenced blocks in order; lines count from 1."""
    headers: list[_Header] = []
    blocks: list[_Block] = []
    opened, start, body = "", 0, list[str]()
    for number, line in enumerate((each.removesuffix("\r") for each in text.split("\n")), 1):
        fence = FENCE.fullmatch(line)
        if opened:
            # Only a fence of the same sign, at least as long and without a word behind it closes.
            if fence and fence[1].startswith(opened) and not fence[2]:
                blocks.append(_Block(start, number, _code(body)))
                opened = ""
            else:
                body.append(line)
        elif fence:
            opened, start, body = fence[1], number, []
        elif header := HEADER.fullmatch(line):
            headers.append(_Header(number, header[1].lower(), header[2].strip()))
    if opened:
        blocks.append(_Block(start, 0, _code(body)))
    return headers, blocks


def _code(body: list[str]) -> str:
    return "".join(f"{line}\n" for line in body)
