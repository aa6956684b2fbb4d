"""Parse the remarks of gcc and clang on a kernel's loops (text of stderr) into remarks and metrics. Pure.

gcc prints the loop that it did not vectorise and then the reason, clang prints the reason first; both may place the
reason in a header. Here each missed loop is one remark on its line in the kernel, followed by its reasons.
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
"""Flags by compiler family that print remarks; they do not change the generated code (-g1 adds line numbers)."""

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
"""The compilers' wording of each kind of obstacle; `compiler.<kind>` counts the source lines that have it."""
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
    """Remarks on the kernel's lines, each once, in source order; the kernel's file name begins with `source`."""
    rows: list[tuple[int, str, str]] = []
    for line in text.splitlines():
        if place := _REMARK_LINE.match(line):
            is_in_kernel = place[1].rsplit("/", 1)[-1].startswith(source)
            rows.append((int(place[2]) if is_in_kernel else 0, place[4], place[5]))
    found = _read_gcc_rows(rows) if family == "gcc" else _read_clang_rows(rows)
    unique = dict.fromkeys(Remark(tool=family, line=line, kind=kind, text=text) for line, kind, text in found)
    return tuple(sorted(unique, key=lambda remark: remark.line))


def lines_with_loops(remarks: Iterable[Remark]) -> frozenset[int]:
    """Source lines on which the compiler reports a loop."""
    return frozenset(r.line for r in remarks if r.line and re.match(r"loop (?:not )?vectorized", r.text))


def drop_outer_loop_remarks(remarks: Iterable[Remark], innermost: frozenset[int]) -> tuple[Remark, ...]:
    """The remarks without those that a loop got only because it is an outer loop; all remarks where `innermost` is
    empty (unknown)."""

    def is_about_outer(remark: Remark) -> bool:
        has_obstacle = any(
            pattern.search(remark.text) for kind, pattern in OBSTACLE_PATTERNS.items() if kind != "control_flow"
        )
        return remark.kind == "missed" and (
            _OUTER_LOOP.search(remark.text) is not None or (remark.line not in innermost and not has_obstacle)
        )

    return tuple(remark for remark in remarks if not innermost or not is_about_outer(remark))


def remark_metrics(remarks: Iterable[Remark], innermost: frozenset[int] = frozenset()) -> dict[str, Quantity]:
    """Metrics `compiler.*`: vectorised and missed loops (source lines), widest vector (bytes, gcc only), and lines with
    each obstacle.

    Only innermost loops count as missed: those on the lines `innermost` of the machine code's inner loops; where these
    are unknown, the compiler's reason decides.
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
    """Remarks from rows of (line, kind, message) as gcc prints them."""
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
    """Remarks from rows of (line, kind, message) as clang prints them."""
    found: RemarkRows = []
    reasons: list[str] = []
    for line, _, message in rows:
        text = re.sub(r" \[-Rpass[\w=-]*\]$", "", message)
        if _CLANG_MISSED_LOOP.match(message):
            if line:
                found.append((line, "missed", _missed_loop_text(reasons)))
            reasons = []
        elif text.startswith("loop not vectorized: "):
            # The rest is advice on flags, which are frozen here.
            reasons.append(re.split(r"; allow |\. Try ", text.removeprefix("loop not vectorized: "))[0])
        elif lanes := _VECTOR_ELEMENTS.search(text):
            found.append((line, "applied", f"loop vectorized, {lanes[1]} elements at once"))
            reasons = []
        elif _APPLIED_OPTIMISATION.search(text):
            found.append((line, "applied", text))
    return [(line, kind, text) for line, kind, text in found if line]


def _missed_loop_text(reasons: list[str]) -> str:
    """The text of a remark on a loop that was not vectorised, with at most three distinct reasons."""
    distinct = list(dict.fromkeys(reasons))[:3]
    return "loop not vectorized" + (": " + "; ".join(distinct) if distinct else "")


def _without_temporaries(message: str) -> str:
    """A reason of gcc without the names of its temporaries, so that `statement clobbers memory: _56 = __builtin_expf
    (_15);` becomes `statement clobbers memory: expf`."""
    text = message.removeprefix("not vectorized: ")
    clobber = re.search(r"clobbers memory: (?:.*?= )?(?:__builtin_)?(\w+) ?\(", text)
    return f"statement clobbers memory: {clobber[1]}" if clobber else re.sub(r":? \S+ = .*$", "", text).strip()
