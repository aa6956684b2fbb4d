"""What gcc and clang say about a kernel's loops (text of stderr) -> remarks and metrics. Pure.

gcc prints the loop that it gave up and then the reason, clang the other way round; both may place the reason in a
header. Here a missed loop is one remark on its own line in the kernel, with its reasons behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from tools.artifacts import Quantity, Remark

REMARK_FLAGS = {
    "gcc": ("-g1", "-fopt-info-vec-optimized-missed", "-fopt-info-loop-optimized"),
    "clang": (
        "-g1",
        "-Rpass=loop-vectorize|loop-interchange|loop-distribute",
        "-Rpass-missed=loop-vectorize",
        "-Rpass-analysis=loop-vectorize",
    ),
}
"""Compiler family -> flags that make it talk; they do not change the code (-g1 adds line numbers beside it)."""

OBSTACLE_PATTERNS = {
    "call": re.compile(
        r"clobbers memory: (?!memset|memcpy)|call instruction cannot|library call cannot|contains function calls"
    ),
    "reduction": re.compile(
        r"reorder floating-point|identified as reduction|unsupported (?:use in )?reduction|in-order"
    ),
    "alias": re.compile(
        r"versioned for vectorization because of possible alias|cannot identify array bounds|possible "
        r"alias|unsafe dependent memory"
    ),
    "strided": re.compile(r"strided|gather|no grouped (?:stores|loads)"),
    "control_flow": re.compile(
        r"control flow|could not determine number of loop iterations|number of iterations cannot be computed"
    ),
    "unprofitable": re.compile(r"not profitable|not beneficial|never be profitable"),
}
"""Kind of obstacle -> how the compilers word it; `compiler.<kind>` counts the source lines on which it is met."""
_OUTER_LOOP = re.compile(r"multiple nested loops|two or more consecutive inner loops|loop is not the innermost loop")
_REMARK_LINE = re.compile(r"^(\S.*?):(\d+):(\d+): (missed|optimized|note|remark): +(.*)$")
_GCC_MISSED_LOOP = "couldn't vectorize loop"
_CLANG_MISSED_LOOP = re.compile(r"^loop not vectorized(?: \[|$|, )")
_APPLIED_OPTIMISATION = re.compile(
    r"loop vectorized using (\d+) byte vectors|^vectorized loop|possible "
    r"aliasing|interchanged|distributed|^Loop \d+ distributed"
)
_VECTOR_BYTES = re.compile(r"loop vectorized using (\d+) byte vectors")
_VECTOR_ELEMENTS = re.compile(r"vectorization width: (\d+)")


def parse_remarks(text: str, family: str, source: str = "kernel.") -> tuple[Remark, ...]:
    """Remarks on the kernel's lines, each once, in source order; `source` is what the kernel's file name begins
    with."""
    own: list[tuple[int, str, str]] = []
    for row in text.splitlines():
        if place := _REMARK_LINE.match(row):
            inside = place[1].rsplit("/", 1)[-1].startswith(source)
            own.append((int(place[2]) if inside else 0, place[4], place[5]))
    found = _read_gcc_rows(own) if family == "gcc" else _read_clang_rows(own)
    unique = dict.fromkeys(Remark(tool=family, line=line, kind=kind, text=text) for line, kind, text in found)
    return tuple(sorted(unique, key=lambda remark: remark.line))


def lines_with_loops(remarks: Iterable[Remark]) -> frozenset[int]:
    """Source lines on which the compiler saw a loop."""
    return frozenset(r.line for r in remarks if r.line and re.match(r"loop (?:not )?vectorized", r.text))


def drop_outer_loop_remarks(remarks: Iterable[Remark], innermost: frozenset[int]) -> tuple[Remark, ...]:
    """Drop what was said of outer loops merely because they are outer; the rest, and everything where `innermost` is
    not known, stays."""

    def is_about_outer(remark: Remark) -> bool:
        named = any(
            pattern.search(remark.text) for kind, pattern in OBSTACLE_PATTERNS.items() if kind != "control_flow"
        )
        return remark.kind == "missed" and (
            _OUTER_LOOP.search(remark.text) is not None or (remark.line not in innermost and not named)
        )

    return tuple(remark for remark in remarks if not innermost or not is_about_outer(remark))


def remark_metrics(remarks: Iterable[Remark], innermost: frozenset[int] = frozenset()) -> dict[str, Quantity]:
    """`compiler.*`: loops vectorised and missed (source lines), widest vector (bytes, gcc only), and lines with each
    obstacle.

    A loop counts as missed only when it is innermost: by `innermost`, the lines of the machine code's inner loops,
    where they are known, else by the reason given.
    """
    remarks = tuple(remarks)
    vectorised = {r.line for r in remarks if r.kind == "applied" and r.text.startswith("loop vectorized")}
    missed = {
        r.line
        for r in remarks
        if r.kind == "missed" and r.text.startswith("loop not vectorized") and not _OUTER_LOOP.search(r.text)
    }
    if innermost:
        missed &= innermost
    missed -= vectorised
    measured = {"compiler.loops_vectorized": float(len(vectorised)), "compiler.loops_missed": float(len(missed))}
    widths = [int(width[1]) for r in remarks if (width := _VECTOR_BYTES.search(r.text))]
    values = {name: Quantity(value=value, unit="loops") for name, value in measured.items()}
    if widths:
        values["compiler.vector_bytes"] = Quantity(value=float(max(widths)), unit="bytes")
    for kind, pattern in OBSTACLE_PATTERNS.items():
        lines = {
            r.line for r in remarks if pattern.search(r.text) and (r.line not in vectorised or r.kind == "applied")
        }
        values[f"compiler.{kind}"] = Quantity(value=float(len(lines)), unit="lines")
    return values


RemarkKind = Literal["applied", "missed"]
RemarkRows = list[tuple[int, RemarkKind, str]]


def _read_gcc_rows(rows: list[tuple[int, str, str]]) -> RemarkRows:
    found: RemarkRows = []
    widths: dict[int, int] = {}
    loop = 0
    reasons: list[str] = []
    for line, kind, message in rows:
        if kind == "optimized":
            if width := _VECTOR_BYTES.search(message):
                widths[line] = max(widths.get(line, 0), int(width[1]))
            elif _APPLIED_OPTIMISATION.search(message):
                found.append((line, "applied", message))
        elif kind == "missed" and message.startswith(_GCC_MISSED_LOOP):
            if loop:
                found.append((loop, "missed", _missed_loop_text(reasons)))
            loop, reasons = line, []
        elif kind == "missed" and loop:
            reasons.append(_without_temporaries(message))
        if kind == "optimized" and loop:
            found.append((loop, "missed", _missed_loop_text(reasons)))
            loop, reasons = 0, []
    if loop:
        found.append((loop, "missed", _missed_loop_text(reasons)))
    found.extend((line, "applied", f"loop vectorized using {width} byte vectors") for line, width in widths.items())
    return [(line, kind, text) for line, kind, text in found if line]


def _read_clang_rows(rows: list[tuple[int, str, str]]) -> RemarkRows:
    found: RemarkRows = []
    reasons: list[str] = []
    for line, _, message in rows:
        text = re.sub(r" \[-Rpass[\w=-]*\]$", "", message)
        if _CLANG_MISSED_LOOP.match(message):
            if line:
                found.append((line, "missed", _missed_loop_text(reasons)))
            reasons = []
        elif text.startswith("loop not vectorized: "):
            # What follows is advice on flags, which are frozen here.
            reasons.append(re.split(r"; allow |\. Try ", text.removeprefix("loop not vectorized: "))[0])
        elif lanes := _VECTOR_ELEMENTS.search(text):
            found.append((line, "applied", f"loop vectorized, {lanes[1]} elements at once"))
            reasons = []
        elif _APPLIED_OPTIMISATION.search(text):
            found.append((line, "applied", text))
    return [(line, kind, text) for line, kind, text in found if line]


def _missed_loop_text(reasons: list[str]) -> str:
    """One remark for a loop that was given up, with at most three distinct reasons."""
    distinct = list(dict.fromkeys(reasons))[:3]
    return "loop not vectorized" + (": " + "; ".join(distinct) if distinct else "")


def _without_temporaries(message: str) -> str:
    """gcc's reason without the names of its temporaries: `statement clobbers memory: _56 = __builtin_expf (_15);` ->
    `… memory: expf`."""
    text = message.removeprefix("not vectorized: ")
    called = re.search(r"clobbers memory: (?:.*?= )?(?:__builtin_)?(\w+) ?\(", text)
    return f"statement clobbers memory: {called[1]}" if called else re.sub(r":? \S+ = .*$", "", text).strip()
