"""Parses drafts in the format of `prompts/answers/drafts.md`: for each variant a header line and the code in a fence.
Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from agents.artifacts import Draft, Drafts

HEADER_PATTERN = re.compile(r"[ ]{0,3}#{1,6}[ \t]*\**(draft|skipped)\b[^:\n]{0,12}:\**[ \t]*(.*)", re.IGNORECASE)
FENCE_PATTERN = re.compile(r"[ ]{0,3}(`{3,}|~{3,})[ \t]*([^`]*?)[ \t]*")
FIELD_PATTERN = re.compile(r"(?:\A|[\s;,])(methods|knobs|note)[ \t]*=[ \t]*")
KNOB_PATTERN = re.compile(r"([A-Za-z_]\w*)[ \t]*=[ \t]*")
EMPTY_VALUES = ("", "-", "none")


class _Block(NamedTuple):
    """A fenced block of the text."""

    line: int
    """Line of the opening fence, from 1."""
    end: int
    """Line of the closing fence; 0 if there is none."""
    code: str


class _Header(NamedTuple):
    line: int
    kind: str
    """`draft` or `skipped`."""
    rest: str


def has_draft_header(text: str) -> bool:
    """Return whether a line outside of fences is a header of a draft or of a skipped method."""
    return bool(_find_headers_and_blocks(text)[0])


def first_code_block_line(text: str) -> int:
    """Return the line of the first fenced block that is not JSON; 0 if there is none."""
    return next(
        (block.line for block in _find_headers_and_blocks(text)[1] if not block.code.lstrip().startswith("{")), 0
    )


def blank_code_blocks(text: str) -> str:
    """Return `text` with empty lines in place of fenced blocks that are not JSON: code contains no answer."""
    lines = text.split("\n")
    for block in _find_headers_and_blocks(text)[1]:
        if not block.code.lstrip().startswith(("{", "[")):
            end = block.end or len(lines)
            lines[block.line - 1 : end] = [""] * (end - block.line + 1)
    return "\n".join(lines)


def ends_inside_fence(text: str) -> bool:
    """Return whether `text` ends inside a fence."""
    return any(not block.end for block in _find_headers_and_blocks(text)[1])


def parse_drafts(text: str) -> tuple[Drafts, tuple[str, ...]]:
    """Return the readable drafts in `text`, and one sentence with a line for each fault. Prose between the blocks is
    dropped."""
    headers, blocks = _find_headers_and_blocks(text)
    headers = [header for index, header in enumerate(headers) if not _is_prose_title(index, headers, blocks)]
    read_drafts: list[Draft] = []
    skipped: dict[str, str] = {}
    faults: list[str] = []
    for index, header in enumerate(headers):
        following = headers[index + 1].line if index + 1 < len(headers) else len(text) + 2
        inside = [block for block in blocks if header.line < block.line < following]
        if header.kind == "skipped":
            method, sign, reason = header.rest.partition("=")
            if sign and method.strip():
                skipped[method.strip()] = reason.strip()
            elif header.rest.strip().lower() not in EMPTY_VALUES:
                faults.append(
                    f"line {header.line}: write one line `### skipped: METHOD=why it cannot be applied here` for "
                    f"each method"
                )
            continue
        if fault := _block_fault(header, inside):
            faults.append(fault)
            continue
        parsed = _parse_draft(header, inside[0].code)
        faults.extend([parsed] if isinstance(parsed, str) else [])
        read_drafts.extend([parsed] if isinstance(parsed, Draft) else [])
    return Drafts(drafts=tuple(read_drafts), skipped=skipped), tuple(faults)


def _is_prose_title(index: int, headers: list[_Header], blocks: list[_Block]) -> bool:
    """Return whether a header is a prose title (`## Draft 1: wider tiles`) and the real header follows before any
    code."""
    header, following = headers[index], headers[index + 1 : index + 2]
    if header.kind != "draft" or "methods" in header.rest or not following or following[0].kind != "draft":
        return False
    return not any(header.line < block.line < following[0].line for block in blocks)


def _block_fault(header: _Header, inside: list[_Block]) -> str | None:
    if not inside:
        return f"line {header.line}: no fenced block of code follows this header; give the whole file in one"
    if not inside[0].end:
        return f"line {inside[0].line}: the block of code is not closed; give the whole file and close the fence"
    if len(inside) > 1:
        return f"line {inside[1].line}: a second block of code follows one header; give the whole file in one block"
    if not inside[0].code.strip():
        return f"line {inside[0].line}: the block of code is empty; give the whole file"
    return None


def _parse_draft(header: _Header, code: str) -> Draft | str:
    """Return the draft of one block, or a sentence about a fault in its header."""
    split = FIELD_PATTERN.split(header.rest)
    fields: dict[str, str] = {}
    for name, value in zip(split[1::2], split[2::2], strict=True):
        # A note is free text and may contain anything.
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
        m.strip(" `")
        for m in re.split(r"[,\s]+", fields["methods"].strip(" ,;"))
        if m.strip(" `").lower() not in EMPTY_VALUES
    )
    knobs = _parse_knobs(fields.get("knobs", ""))
    if knobs is None:
        return (
            f"line {header.line}: write knobs as NAME=value, separated by commas, instead of {fields['knobs'][:60]!r}"
        )
    return Draft(source=code, methods=methods, knobs=knobs, note=fields.get("note", "").strip())


def _parse_knobs(text: str) -> dict[str, str] | None:
    text = text.strip(" ,;`")
    if text.lower() in EMPTY_VALUES:
        return {}
    split = KNOB_PATTERN.split(text)
    if split[0].strip() or len(split) < 3:
        return None
    return {name: value.strip(" ,;`") for name, value in zip(split[1::2], split[2::2], strict=True)}


def _find_headers_and_blocks(text: str) -> tuple[list[_Header], list[_Block]]:
    """Return the headers and fenced blocks of a text in order."""
    headers: list[_Header] = []
    blocks: list[_Block] = []
    opened, start, body = "", 0, list[str]()
    for number, line in enumerate((each.removesuffix("\r") for each in text.split("\n")), 1):
        fence = FENCE_PATTERN.fullmatch(line)
        if opened:
            # A closing fence has the same character, is at least as long, and has no word after it.
            if fence and fence[1].startswith(opened) and not fence[2]:
                blocks.append(_Block(start, number, _join_lines(body)))
                opened = ""
            else:
                body.append(line)
        elif fence:
            opened, start, body = fence[1], number, []
        elif header := HEADER_PATTERN.fullmatch(line):
            headers.append(_Header(number, header[1].lower(), header[2].strip()))
    if opened:
        blocks.append(_Block(start, 0, _join_lines(body)))
    return headers, blocks


def _join_lines(body: list[str]) -> str:
    return "".join(f"{line}\n" for line in body)
