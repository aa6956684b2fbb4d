"""Finds and classifies loops in machine code. Pure.

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
from tools.analysis.assembly import DisassembledFunction
from tools.analysis.instructions import Instruction

_X86_ACCUMULATE = re.compile(r"^v?(?:add|sub|mul|min|max|fn?m(?:add|sub)(?:132|213|231))([ps])[sdh]$")
_ARM_ACCUMULATE = re.compile(r"^f(?:add|sub|mul|min|max|minnm|maxnm|n?madd|n?msub|mla|mls)$")
_SLOT = re.compile(r"(-?(?:0x[0-9a-f]+)?)\(%(r[sb]p)\)")
_REGISTER = re.compile(r"%(slot[^,]*)|%[xyz]mm(\d+)|\b[sdvzh](\d+)")
_MEMORY = re.compile(r"\(%(\w+)(?:,%(\w+),\d)?\)")
_ADVANCE = re.compile(r"^(?:%r\w+,%(r\w+)|(x\d+), (?=\2)x\d+, x\d+.*)$")


_LOOP_HEAD = re.compile(r"\bfor\s*\(([^;{}]*);([^;{}]*);([^;{}]*?)\)\s*[{\w]")
_CAST, _SUFFIX = re.compile(r"static_cast<[^>]*>"), re.compile(r"[()\s]|(?<=\d)[uUlL]+\b")
MIN_ELEMENTS_SHARE = 0.01
"""Least share of the elements that a loop must take to count."""


@dataclass(frozen=True, slots=True)
class MachineLoop:
    """A cycle of the control flow."""

    function: str
    header: int
    parent: int | None
    """Header of the enclosing loop."""
    innermost: bool
    instructions: tuple[Instruction, ...]
    line: int = 0
    """Line of the source loop that it implements; 0 if unknown."""
    tests: frozenset[int] = frozenset()
    """Known lines of the branches that leave the loop, without the branches inside inner loops."""


def find_machine_loops(function: DisassembledFunction) -> tuple[MachineLoop, ...]:
    """Return all loops of a function, outer loops before inner ones."""
    blocks, edges = _control_flow_graph(function)
    found: list[tuple[int, int | None, frozenset[int]]] = []
    pending: list[tuple[frozenset[int], int | None]] = [(frozenset(blocks), None)]
    while pending:
        nodes, parent = pending.pop()
        for component in _strongly_connected_cycles(edges, nodes):
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
        result.append(MachineLoop(function.name, header, parent, header not in parents, code, tests=tests))
    return tuple(result)


def find_source_loops(
    functions: Iterable[DisassembledFunction], loop_lines: frozenset[int] = frozenset()
) -> tuple[MachineLoop, ...]:
    """Return the innermost loops that access memory or call a function, one for each source loop.

    Of machine loops that come from the same source loop (vector body, remainder) the one with the widest work stands
    for all. `loop_lines` are the lines on which the compiler saw loops; a machine loop belongs to the last one that is
    not below its own last line. Without line numbers every machine loop stands for itself.
    """
    chosen: dict[object, MachineLoop] = {}
    for function in functions:
        found = find_machine_loops(function)
        for loop in found:
            if not loop.innermost or _is_copy_of_outer_loop(loop, found):
                continue
            if not any(i.is_call or "(" in i.operands or "[" in i.operands for i in loop.instructions):
                continue
            # Lines of an inlined helper count only in a loop without lines of its own.
            own = [i.line for i in loop.instructions if i.line and not i.inlined]
            last = max(own or [i.line for i in loop.instructions])
            line = max((known for known in loop_lines if known <= last), default=last)
            key: object = line or (function.name, loop.header)
            other = chosen.get(key)
            if other is None or _vector_work(loop) > _vector_work(other):
                chosen[key] = replace(loop, line=line)
    return tuple(chosen.values())


def _is_copy_of_outer_loop(loop: MachineLoop, found: tuple[MachineLoop, ...]) -> bool:
    """Whether the cycle is a copy of an outer loop for the case that its inner loops have no iterations: the test
    at the outer loop's head ends the cycle."""
    for around in found:
        head = min((i.line for i in around.instructions if i.line and not i.inlined), default=0)
        if head in around.tests & loop.tests and not around.innermost:
            inside = {i.address for i in around.instructions}
            if any(
                inner.innermost and inner.header in inside and min(inner.tests, default=0) > head for inner in found
            ):
                return True
    return False


def _vector_work(loop: MachineLoop) -> tuple[int, int, int]:
    packed = [i for i in loop.instructions if instructions.is_packed(i)]
    return (max((instructions.register_bytes(i) for i in packed), default=0), len(packed), len(loop.instructions))


def _control_flow_graph(function: DisassembledFunction) -> tuple[dict[int, list[Instruction]], dict[int, list[int]]]:
    """Return the basic blocks by first address, and the edges between them."""
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


def _strongly_connected_cycles(edges: Mapping[int, list[int]], nodes: frozenset[int]) -> list[frozenset[int]]:
    """Return the strongly connected components of `nodes` that contain a cycle (Kosaraju's algorithm, no recursion)."""
    order: list[int] = []
    """Nodes in the post-order of a depth-first walk."""
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


def remainder_lines(source: str, dims: Mapping[str, float]) -> frozenset[int]:
    """Return the lines of C++ loops over what a loop with wider steps leaves, if that is less than MIN_ELEMENTS_SHARE
    of the elements at `dims`; loops whose sizes are neither numbers nor dims are none of them."""

    def number(term: str) -> float | None:
        word = _SUFFIX.sub("", term)
        return float(word) if word.isdecimal() else dims.get(word)

    steps: dict[float, float] = {}
    found = set()
    for head in _LOOP_HEAD.finditer(text := _CAST.sub("", source)):
        first, test, advance = head.groups()
        end, begin = number(re.split("<=?", test)[-1]), number(first.rpartition("=")[2])
        if not end:
            continue
        width = steps.get(end, 1.0)
        # It begins where the wider loop ended: after a rounded size, or where its variable stands.
        left = end - begin if begin else width - 1 if re.search(r"/.*\*|[%&]", first) or not first.strip() else end
        if width > 1 and left < MIN_ELEMENTS_SHARE * end:
            found.add(text.count("\n", 0, head.start()) + 1)
        steps[end] = max(width, number(advance.partition("+=")[2]) or 1.0)
    return frozenset(found)


def is_serial_reduction(loop: MachineLoop) -> bool:
    """Whether each loop iteration waits for the one before, element by element.

    True if a float register's value at the start of an iteration reaches its end only through scalar additions,
    multiplications, minima or maxima, at least one of them, through any registers.
    """
    steps = [_register_effect(i) for i in loop.instructions]
    written = {step.to for step in steps if step and step.to}
    seen: set[str] = set()
    carried: set[str] = set()
    for step in steps:
        if step:
            carried |= (step.read & written) - seen
            seen |= {step.to} | step.read
    return any(_accumulates_in_register(register, [step for step in steps if step]) for register in carried)


class _RegisterEffect(NamedTuple):
    """The effect of an instruction on float registers."""

    to: str
    """The written register; empty for a store."""
    read: frozenset[str]
    accumulates: bool
    """Whether it is a scalar operation that a reduction can consist of."""
    moves: bool


def _accumulates_in_register(register: str, steps: list[_RegisterEffect]) -> bool:
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


def _register_effect(instruction: Instruction) -> _RegisterEffect | None:
    # A stack slot counts as a register: a sum is spilled there while its loop calls a function.
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
        return _RegisterEffect("" if stores else registers[-1], frozenset(sources), accumulates, moves)
    stores = instruction.mnemonic.startswith("st")
    accumulates = scalar and _ARM_ACCUMULATE.match(instruction.mnemonic) is not None
    sources = registers if stores or instruction.mnemonic in ("fmla", "fmls") else registers[1:]
    return _RegisterEffect(
        "" if stores else registers[0], frozenset(sources), accumulates, instruction.mnemonic == "fmov"
    )


def is_strided(loop: MachineLoop) -> bool:
    """Whether the loop walks memory with a stride that is known only at run time: another register advances a
    register that addresses floats."""
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
