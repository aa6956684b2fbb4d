"""What CUDA code may hold beside C++: assembly on the device without clocks, constants, streams that are joined
again. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tools.languages.cpp_signature import expand_macros
from tools.languages.cpp_source import CppSource, node_text, tokens, walk

if TYPE_CHECKING:
    from tree_sitter import Node

_CLOCK = re.compile(r"%\s*(clock|globaltimer|pm\d|smid|nsmid|warpid|envreg)|\b(rdtscp?|rdpmc|syscall)\b", re.IGNORECASE)
_ON_DEVICE = re.compile(r"\b__(?:global|device)__\b")
_JOINS = re.compile(r"\bcuda(?:StreamWaitEvent|StreamSynchronize|DeviceSynchronize|EventSynchronize)\b")
_LOOKUP = re.compile(r"\bcudaGetDriverEntryPoint(?:ByVersion)?\s*\(\s*(\"\w*\")?")


def faults(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, quoted text, reason) of each piece of assembly, stream and driver function that no honest kernel needs."""
    for node in walk(CppSource(expand_macros(source), "cuda").root):
        if node.type == "gnu_asm_expression":
            yield from _assembly(node)
    if re.search(r"\bcudaStreamCreate\w*", source) and not _JOINS.search(source):
        yield (
            _line(source, "cudaStreamCreate"),
            "cudaStreamCreate",
            "makes a stream whose work is never waited for; join it with an event",
        )
    for found in _LOOKUP.finditer(source):
        if not (found[1] or "").startswith('"cuTensorMapEncode'):
            line = source.count("\n", 0, found.start()) + 1
            yield (
                line,
                "cudaGetDriverEntryPoint",
                "looks up a function of the driver; a kernel may look up cuTensorMapEncode… by its name alone",
            )


def _assembly(node: Node) -> Iterator[tuple[int, str, str]]:
    line, template = node.start_point[0] + 1, node.child_by_field_name("assembly_code")
    # Neighbouring strings are one; an escape by number could spell any word.
    written = re.sub(r'"\s*"', "", node_text(template)) if template is not None else ""
    literal = all(n.type != "identifier" for n in walk(template)) and not re.search(r"\\[x0-7uU]", written)
    if found := _CLOCK.search(written):
        yield line, found[0], "reads a clock, a counter or where it runs, which a kernel may not; remove it"
    elif not literal:
        yield line, "asm", "is assembly whose text is hidden by a macro; write it out"
    # A lambda without a mark of its own is of the function that it stands in.
    around, head = node.parent, ""
    while around is not None and not _ON_DEVICE.search(head):
        body = around.child_by_field_name("body")
        if around.type in ("function_definition", "lambda_expression") and body is not None:
            head = " ".join(t for child in around.children if child.end_byte <= body.start_byte for t in tokens(child))
        around = None if around.type == "function_definition" else around.parent
    if (not _ON_DEVICE.search(head) or "__host__" in head) and re.sub(r"[\"\s]", "", written):
        yield (
            line,
            "asm",
            "is assembly of the host, which cannot be checked; use intrinsics, or put it into device code",
        )


def _line(source: str, word: str) -> int:
    return source.count("\n", 0, source.index(word)) + 1
