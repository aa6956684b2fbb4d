"""The screen for CUDA beside C++: assembly, streams and look-ups of driver functions. Device assembly without clocks,
and streams that are joined, are allowed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tools.languages.cpp_signature import expand_macros
from tools.languages.cpp_source import CppSource, node_text, tokens, walk
from tools.screen.refusals import Refusal

if TYPE_CHECKING:
    from tree_sitter import Node

_CLOCK_OR_COUNTER = re.compile(
    r"%\s*(clock|globaltimer|pm\d|smid|nsmid|warpid|envreg)|\b(rdtscp?|rdpmc|syscall)\b", re.IGNORECASE
)
_DEVICE_QUALIFIER = re.compile(r"\b__(?:global|device)__\b")
_STREAM_JOIN = re.compile(r"\bcuda(?:StreamWaitEvent|StreamSynchronize|DeviceSynchronize|EventSynchronize)\b")
_DRIVER_LOOKUP = re.compile(r"\bcudaGetDriverEntryPoint(?:ByVersion)?\s*\(\s*(\"\w*\")?")


def screen_cuda_code(source: str) -> Iterator[Refusal]:
    """Yield a refusal for each piece of assembly, unjoined stream and driver function that a kernel may not use."""
    for node in walk(CppSource(expand_macros(source), "cuda").root):
        if node.type == "gnu_asm_expression":
            yield from _screen_assembly(node)
    if re.search(r"\bcudaStreamCreate\w*", source) and not _STREAM_JOIN.search(source):
        yield Refusal(
            _first_line_with(source, "cudaStreamCreate"),
            "cudaStreamCreate",
            "creates a stream whose work is never waited for; join it with an event",
        )
    for match in _DRIVER_LOOKUP.finditer(source):
        if not (match[1] or "").startswith('"cuTensorMapEncode'):
            line = source.count("\n", 0, match.start()) + 1
            yield Refusal(
                line,
                "cudaGetDriverEntryPoint",
                "looks up a function of the driver; a kernel may look up only cuTensorMapEncode…, by a literal name",
            )


def _screen_assembly(node: Node) -> Iterator[Refusal]:
    line, template = node.start_point[0] + 1, node.child_by_field_name("assembly_code")
    # The compiler joins neighbouring strings; a numeric escape could spell any word.
    written = re.sub(r'"\s*"', "", node_text(template)) if template is not None else ""
    is_literal = all(n.type != "identifier" for n in walk(template)) and not re.search(r"\\[x0-7uU]", written)
    if clock := _CLOCK_OR_COUNTER.search(written):
        yield Refusal(line, clock[0], "reads a clock, a counter or where it runs, which a kernel may not do; remove it")
    elif not is_literal:
        yield Refusal(line, "asm", "is assembly whose text is hidden by a macro or an escape; write the text out")
    # A lambda without a qualifier belongs to the function around it.
    around, head = node.parent, ""
    while around is not None and not _DEVICE_QUALIFIER.search(head):
        body = around.child_by_field_name("body")
        if around.type in ("function_definition", "lambda_expression") and body is not None:
            head = " ".join(t for child in around.children if child.end_byte <= body.start_byte for t in tokens(child))
        around = None if around.type == "function_definition" else around.parent
    if (not _DEVICE_QUALIFIER.search(head) or "__host__" in head) and re.sub(r"[\"\s]", "", written):
        yield Refusal(
            line,
            "asm",
            "is assembly of the host, which cannot be checked; use intrinsics or move it into device code",
        )


def _first_line_with(source: str, word: str) -> int:
    return source.count("\n", 0, source.index(word)) + 1
