"""Loops in machine code, and what can be said of them. Pure.

Straight-line counts mislead, since a vectorised loop drags scalar prologues and remainders along; so instructions are
counted in innermost loops, which are found as strongly connected parts of the control flow. With line numbers the
vector body and its scalar remainder, which come from the same source loop, are recognised as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from tools.analysis import instructions
from tools.analysis.assembly import Function
from tools.analysis.instructions import Instruction

_X86_ACCUMULATE = re.compile(r"^v?(?:add|sub|mul|min|max|fn?m(?:add|sub)(?:132|213|231))([ps])[sdh]$")
_ARM_ACCUMULATE = re.compile(r"^f(?:add|sub|mul|min|max|minnm|maxnm|n?madd|n?msub|mla|mls)$")
_SLOT = re.compile(r"(-?(?:0x[0-9a-f]+)?)\(%(r[sb]p)\)")
_REGISTER = re.compile(r"%(slot[^,]*)|%[xyz]mm(\d+)|\b[sdvzh](\d+)")
_MEMORY = re.compile(r"\(%(\w+)(?:,%(\w+),\d)?\)")
_ADVANCE = re.compile(r"^(?:%r\w+,%(r\w+)|(x\d+), (?=\2)x\d+, x\d+.*)$")


@dataclass(frozen=True, slots=True)
class Loop:
    """A cycle of the control flow."""

    function: str
    header: int
    parent: int | None
    """Header of the loop around it."""
    innermost: bool
    instructions: tuple[Instruction, ...]
    line: int = 0
    """Line of the source loop that it implements; 0 when not known."""
    tests: frozenset[int] = frozenset()
    """Lines of the branches that leave it, where they are known; of those in loops inside it, which may leave both,
    none counts."""


def loops(function: Function) -> tuple[Loop, ...]:
    """All loops of a function, outer before inner."""
    blocks, edges = _flow(function)
    found: list[tuple[int, int | None, frozenset[int]]] = []
    pending: list[tuple[frozenset[int], int | None]] = [(frozenset(blocks), None)]
    while pending:
        nodes, parent = pending.pop()
        for component in _cycles(edges, nodes):
            entered = {to for at in nodes - component for to in edges[at] if to in component}
            header = min(entered or component)
            found.append((header, parent, component))
            pending.append((component - {header}, header))
    parents = {parent for _, parent, _ in found}
    result = []
    for header, parent, body in sorted(found, key=lambda item: (item[0], -len(item[2]))):
        own = body.difference(*(inside for _, around, inside in found if around == header))
        tests = frozenset(blocks[block][-1].line for block in own if set(edges[block]) - body) - {0}
        code = tuple(i for block in sorted(body) for i in blocks[block])
        result.append(Loop(function.name, header, parent, header not in parents, code, tests=tests))
    return tuple(result)


def source_loops(functions: Iterable[Function], loop_lines: frozenset[int] = frozenset()) -> tuple[Loop, ...]:
    """The innermost loops that touch memory or call, one for each source loop.

    Of machine loops that come from the same source loop (vector body, remainder) the one with the widest work stands
    for all. `loop_lines` are the lines on which the compiler saw loops; a machine loop belongs to the last one that is
    not below its own last line. Without line numbers every machine loop stands for itself.
    """
    chosen: dict[object, Loop] = {}
    for function in functions:
        found = loops(function)
        for loop in found:
            if not loop.innermost or _repeats(loop, found):
                continue
            if not any(i.is_call or "(" in i.operands or "[" in i.operands for i in loop.instructions):
                continue
            # A helper that was inlined lends its lines only to a loop that has none from around it.
            own = [i.line for i in loop.instructions if i.line and not i.inlined]
            last = max(own or [i.line for i in loop.instructions])
            line = max((known for known in loop_lines if known <= last), default=last)
            key: object = line or (function.name, loop.header)
            other = chosen.get(key)
            if other is None or _work(loop) > _work(other):
                chosen[key] = replace(loop, line=line)
    return tuple(chosen.values())


def _repeats(loop: Loop, found: tuple[Loop, ...]) -> bool:
    """Whether a cycle copies a loop around others for the case that these have nothing to do: the test at that
    loop's head ends it."""
    for around in found:
        head = min((i.line for i in around.instructions if i.line and not i.inlined), default=0)
        if head in around.tests & loop.tests and not around.innermost:
            inside = {i.address for i in around.instructions}
            if any(
                inner.innermost and inner.header in inside and min(inner.tests, default=0) > head for inner in found
            ):
                return True
    return False


def _work(loop: Loop) -> tuple[int, int, int]:
    packed = [i for i in loop.instructions if instructions.is_packed(i)]
    return (max((instructions.register_bytes(i) for i in packed), default=0), len(packed), len(loop.instructions))


def _flow(function: Function) -> tuple[dict[int, list[Instruction]], dict[int, list[int]]]:
    """Basic blocks by first address, and the edges between them."""
    body = function.instructions
    if not body:
        return {}, {}
    inside = {i.address for i in body}
    leaders = {body[0].address}
    for position, instruction in enumerate(body):
        if instruction.is_jump or not instruction.falls_through:
            if instruction.target in inside and instruction.target is not None:
                leaders.add(instruction.target)
            if position + 1 < len(body):
                leaders.add(body[position + 1].address)
    blocks: dict[int, list[Instruction]] = {}
    for instruction in body:
        if instruction.address in leaders:
            current = blocks.setdefault(instruction.address, [])
        current.append(instruction)
    order = sorted(blocks)
    edges: dict[int, list[int]] = {}
    for start, following in zip(order, [*order[1:], None], strict=True):
        last = blocks[start][-1]
        edges[start] = [last.target] if last.is_jump and last.target in blocks and last.target is not None else []
        if following is not None and last.falls_through:
            edges[start].append(following)
    return blocks, edges


def _cycles(edges: Mapping[int, list[int]], nodes: frozenset[int]) -> list[frozenset[int]]:
    """Strongly connected components of `nodes` that hold a cycle (Kosaraju's algorithm, without recursion)."""
    order: list[int] = []
    """Nodes in the order in which a walk leaves them."""
    backwards: dict[int, list[int]] = {node: [] for node in nodes}
    seen: set[int] = set()
    pending = [(node, False) for node in sorted(nodes)]
    while pending:
        node, left = pending.pop()
        if left:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            following = [n for n in edges[node] if n in nodes]
            pending += [(node, True), *((n, False) for n in following)]
            for n in following:
                backwards[n].append(node)
    found: list[frozenset[int]] = []
    for root in reversed(order):
        component, waiting = set[int](), [root]
        while waiting:
            node = waiting.pop()
            if node in seen:
                seen.discard(node)
                component.add(node)
                waiting += backwards[node]
        if len(component) > 1 or (component and root in edges[root]):
            found.append(frozenset(component))
    return found


def is_serial_reduction(loop: Loop) -> bool:
    """Each round waits for the one before, element by element.

    True when a float register that holds a value at the start of a round reaches the end of it through scalar
    additions, multiplications, minima or maxima alone, at least one of them, whatever registers it wanders through
    meanwhile.
    """
    steps = [_step(i) for i in loop.instructions]
    written = {step.to for step in steps if step and step.to}
    seen: set[str] = set()
    carried: set[str] = set()
    for step in steps:
        if step:
            carried |= (step.read & written) - seen
            seen |= {step.to} | step.read
    return any(_survives(register, [step for step in steps if step]) for register in carried)


class _Step(NamedTuple):
    """What an instruction does to float registers."""

    to: str
    """Register written; empty for a store."""
    read: frozenset[str]
    accumulates: bool
    """A scalar operation that a reduction may consist of."""
    moves: bool


def _survives(register: str, steps: list[_Step]) -> bool:
    holders, accumulated = {register}, False
    for step in steps:
        if not step.to:
            continue
        if step.read & holders and (step.accumulates or step.moves):
            holders.add(step.to)
            accumulated |= step.accumulates
        else:
            holders.discard(step.to)
    return accumulated and register in holders


def _step(instruction: Instruction) -> _Step | None:
    # A place on the stack is as good as a register: that is where a sum waits while its loop calls a function.
    operands = re.sub(r"\[[^\]]*\]|-?(?:0x[0-9a-f]+)?\([^)]*\)", "", _SLOT.sub(r"%slot\1\2", instruction.operands))
    registers = [slot or x86 or arm for slot, x86, arm in _REGISTER.findall(operands)]
    if all(name.startswith("slot") for name in registers):
        return None
    scalar = instructions.is_scalar(instruction)
    if "%" in operands:
        stores = operands.endswith(",")
        implicit = instructions.is_fma(instruction) or (
            not instruction.mnemonic.startswith("v") and "mov" not in instruction.mnemonic
        )
        sources = registers if stores or implicit else registers[:-1]
        accumulates = scalar and _X86_ACCUMULATE.match(instruction.mnemonic) is not None
        moves = re.match(r"^v?mov[au]?p?s?[sd]?$", instruction.mnemonic) is not None
        return _Step("" if stores else registers[-1], frozenset(sources), accumulates, moves)
    stores = instruction.mnemonic.startswith("st")
    accumulates = scalar and _ARM_ACCUMULATE.match(instruction.mnemonic) is not None
    sources = registers if stores or instruction.mnemonic in ("fmla", "fmls") else registers[1:]
    return _Step("" if stores else registers[0], frozenset(sources), accumulates, instruction.mnemonic == "fmov")


def is_strided(loop: Loop) -> bool:
    """Walks memory with a step that is only known at run time: a register that addresses floats is advanced by
    another register."""
    addresses: set[str] = set()
    for instruction in loop.instructions:
        if re.search(r"%[xyz]mm", instruction.operands):
            for base, index in _MEMORY.findall(instruction.operands):
                addresses |= {base, index}
        elif re.match(r"^[sdqv]\d+", instruction.operands) and (
            arm := re.search(r"\[(x\d+)(?:, (x\d+))?", instruction.operands)
        ):
            addresses |= {arm[1], arm[2] or ""}
            if re.search(r"\], x\d+$", instruction.operands):
                return True
    return any(
        instruction.mnemonic in ("add", "sub", "addq", "subq")
        and (step := _ADVANCE.match(instruction.operands))
        and (step[1] or step[2]) in addresses
        for instruction in loop.instructions
    )
