"""Machine code as text (objdump or llvm-objdump, x86-64 and aarch64) -> functions of instructions. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tools.analysis.instructions import Instruction

ENTRY = "solve"
GPU_ENTRY = "run_kernel"
"""Entry of a listing of GPU kernels: the table of launches."""

_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_INSTRUCTION = re.compile(
    r"^\s*([0-9a-f]+):\s+(?:(?:bnd|notrack|lock|rep[nze]*|data16|cs) )*([A-Za-z][\w.]*)[ \t]*(.*)$"
)
_INLINED = re.compile(r"^;?\s*(\S.*)\(\):$")
_LINE = re.compile(r"^;?\s*(\S.*?):(\d+)(?: \(discriminator \d+\))?$")


@dataclass(frozen=True, slots=True)
class DisassembledFunction:
    """A symbol and its instructions in address order."""

    name: str
    instructions: tuple[Instruction, ...]


def parse_disassembly(text: str, source: str = "kernel.") -> dict[str, DisassembledFunction]:
    """Return the functions of a disassembly by name.

    Only lines of files whose name begins with `source` are kept; lines of an inlined helper are marked.
    """
    functions: dict[str, list[Instruction]] = {}
    current: list[Instruction] | None = None
    own, line = "", 0
    inlined = False
    for row in text.splitlines():
        if head := _FUNCTION.match(row):
            current, line, inlined = functions.setdefault(head[2], []), 0, False
            own = re.split(r"[(.]", head[2].lstrip("."))[0]
        elif current is None:
            continue
        elif marker := _INLINED.match(row):
            inlined = not marker[1].lstrip(".").startswith((own, ENTRY))
        elif found := _INSTRUCTION.match(row):
            operands = found[3].split("//")[0].rstrip()
            current.append(Instruction(int(found[1], 16), found[2], operands, line, inlined and line > 0))
        elif place := _LINE.match(row):
            line = int(place[2]) if place[1].rsplit("/", 1)[-1].startswith(source) else 0
    return {name: DisassembledFunction(name, tuple(body)) for name, body in functions.items()}


def copy_source_lines(
    timed: Mapping[str, DisassembledFunction], debug: Mapping[str, DisassembledFunction]
) -> dict[str, DisassembledFunction]:
    """Return `timed` with the source lines of `debug` for each function whose instructions are equal in both."""

    def shape(function: DisassembledFunction) -> list[tuple[int, str]]:
        start = function.instructions[0].address if function.instructions else 0
        return [(i.address - start, i.mnemonic) for i in function.instructions]

    merged = dict(timed)
    for name, function in timed.items():
        twin = debug.get(name)
        if twin is not None and shape(twin) == shape(function):
            pairs = zip(function.instructions, twin.instructions, strict=True)
            merged[name] = replace(
                function, instructions=tuple(replace(i, line=j.line, inlined=j.inlined) for i, j in pairs)
            )
    return merged


def functions_reachable_from(
    functions: Mapping[str, DisassembledFunction], entry: str = ENTRY
) -> tuple[DisassembledFunction, ...]:
    """Return `entry` and every function of the same shared object that it calls, jumps to or passes on (outlined
    parallel regions, lambdas)."""
    found: list[DisassembledFunction] = []
    if entry == ENTRY and entry not in functions:
        entry = GPU_ENTRY
    # A lambda such as a thread's body may be reachable through a virtual table only; its name tells its owner.
    pending = [entry, *(name for name in functions if f"{entry}::" in name)] if entry in functions else []
    while pending:
        name = pending.pop(0)
        function = functions.get(name)
        if function is None or function in found or name.endswith("@plt"):
            continue
        found.append(function)
        pending.extend(i.symbol for i in function.instructions if i.symbol)
    return tuple(found)
