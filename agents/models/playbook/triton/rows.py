"""Loops of a kernel that go over a row in blocks, and whether they may run once over a block that holds the whole
row."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tools.languages.triton_source import PythonKernel, called_name, dotted_name

ACCESSES = ("load", "store")


@dataclass(frozen=True)
class RowLoops:
    """All loops of one kernel over the same range in steps of one block."""

    kernel: PythonKernel
    block: str
    """Constexpr parameter with the block's width."""
    extent: str
    """Parameter with the row's length."""
    loops: tuple[ast.For, ...]


def row_loops(kernel: PythonKernel) -> RowLoops | None:
    """The kernel's block loops, where every access in them is masked by the row's length; None when anything is not
    understood."""
    found = {
        (block, extent): loops for block in kernel.constexprs for extent, loops in _by_extent(kernel, block).items()
    }
    if len(found) != 1:
        return None
    ((block, extent), loops), *_ = found.items()
    rows = RowLoops(kernel, block, extent, tuple(loops))
    stored = {n.id for n in ast.walk(kernel.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if extent not in kernel.parameters or extent in stored or block in stored:
        return None
    whole = all(_is_plain_loop(loop) for loop in loops) and _serves_only_loops(rows) and not _variable_escapes(rows)
    return rows if whole and all(_is_masked(rows, loop) for loop in loops) else None


def loop_variable(loop: ast.For) -> str:
    """The loop variable's name."""
    return dotted_name(loop.target)


def values_by_name(kernel: PythonKernel) -> dict[str, list[ast.expr]]:
    """Name -> what it is set to, in source order."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(kernel.node):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
        elif (
            isinstance(node, ast.AnnAssign | ast.AugAssign)
            and isinstance(node.target, ast.Name)
            and node.value is not None
        ):
            found.setdefault(node.target.id, []).append(node.value)
    return found


def _by_extent(kernel: PythonKernel, block: str) -> dict[str, list[ast.For]]:
    found: dict[str, list[ast.For]] = {}
    for node in ast.walk(kernel.node):
        if isinstance(node, ast.For):
            extent = _extent(kernel, node, block)
            if extent:
                found.setdefault(extent, []).append(node)
    return {extent: sorted(loops, key=lambda loop: loop.lineno) for extent, loops in found.items()}


def _extent(kernel: PythonKernel, loop: ast.For, block: str) -> str:
    """N of range(0, N, BLOCK), range(cdiv(N, BLOCK)) or range(0, (N + BLOCK - 1) // BLOCK); empty for other loops."""
    if called_name(loop.iter) not in ("range", "static_range") or not isinstance(loop.iter, ast.Call):
        return ""
    if any(
        keyword.arg not in ("num_stages", "loop_unroll_factor", "warp_specialize") for keyword in loop.iter.keywords
    ):
        return ""
    arguments = loop.iter.args
    if len(arguments) == 3 and _is_zero(arguments[0]) and dotted_name(arguments[2]) == block:
        return dotted_name(arguments[1])
    if len(arguments) in (1, 2) and (len(arguments) == 1 or _is_zero(arguments[0])):
        return _divided_extent(kernel, arguments[-1], block)
    return ""


def _divided_extent(kernel: PythonKernel, node: ast.expr, block: str) -> str:
    """N where `node` is N / BLOCK rounded up."""
    if isinstance(node, ast.Name):
        given = values_by_name(kernel).get(node.id, [])
        return (
            _divided_extent(kernel, given[0], block) if len(given) == 1 and not isinstance(given[0], ast.Name) else ""
        )
    if (
        called_name(node) == "cdiv"
        and isinstance(node, ast.Call)
        and len(node.args) == 2
        and dotted_name(node.args[1]) == block
    ):
        return dotted_name(node.args[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and dotted_name(node.right) == block:
        text = ast.unparse(node.left).replace("(", "").replace(")", "").replace(" ", "")
        name = text.removesuffix(f"+{block}-1")
        return name if name != text and name.isidentifier() else ""
    return ""


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _is_plain_loop(loop: ast.For) -> bool:
    inside = [n for statement in loop.body for n in ast.walk(statement)]
    if (
        loop.orelse
        or not isinstance(loop.target, ast.Name)
        or any(isinstance(n, ast.Break | ast.Continue | ast.Return) for n in inside)
    ):
        return False
    return not any(isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == loop.target.id for n in inside)


def _serves_only_loops(rows: RowLoops) -> bool:
    """Whether the block's width serves nothing but these loops: arange, shapes, steps and offsets of the loop
    variable."""
    allowed: set[int] = set()
    variables = {loop_variable(loop) for loop in rows.loops}
    for node in ast.walk(rows.kernel.node):
        if isinstance(node, ast.For) and node in rows.loops:
            allowed |= _name_ids(node.iter)
        elif isinstance(node, ast.Call) and called_name(node) == "arange" and len(node.args) == 2:
            allowed |= (
                _name_ids(node.args[1]) if isinstance(node.args[1], ast.Name) and _is_zero(node.args[0]) else set()
            )
        elif isinstance(node, ast.Call) and called_name(node) in ("zeros", "full", "ones", "broadcast_to"):
            allowed |= {
                i
                for a in [*node.args, *(k.value for k in node.keywords)]
                if isinstance(a, ast.List | ast.Tuple)
                for i in _name_ids(a)
            }
        elif (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Mult)
            and variables & {dotted_name(node.left), dotted_name(node.right)}
        ) or (
            isinstance(node, ast.expr)
            and _divided_extent(rows.kernel, node, rows.block) == rows.extent
            and not isinstance(node, ast.Name)
        ):
            allowed |= _name_ids(node)
        elif isinstance(node, ast.arg) and node.annotation is not None:
            allowed |= _name_ids(node.annotation)
    uses = [n for n in ast.walk(rows.kernel.node) if isinstance(n, ast.Name) and n.id == rows.block]
    return all(id(use) in allowed for use in uses)


def _name_ids(node: ast.AST) -> set[int]:
    return {id(n) for n in ast.walk(node) if isinstance(n, ast.Name)}


def _variable_escapes(rows: RowLoops) -> bool:
    """Whether a loop variable is read outside of the loops: there it would have another value."""
    inside = {id(n) for loop in rows.loops for n in ast.walk(loop)}
    variables = {loop_variable(loop) for loop in rows.loops}
    return any(
        isinstance(n, ast.Name) and n.id in variables and id(n) not in inside for n in ast.walk(rows.kernel.node)
    )


def _is_masked(rows: RowLoops, loop: ast.For) -> bool:
    """Whether each access of a whole block in the loop is masked by `offset < extent`; no access but loads and
    stores."""
    given = values_by_name(rows.kernel)
    for node in (n for statement in loop.body for n in ast.walk(statement)):
        name = called_name(node)
        if name.startswith("atomic_") or name in ("make_block_ptr", "advance", "make_tensor_descriptor"):
            return False
        if name in ACCESSES and isinstance(node, ast.Call) and node.args and _is_block(node.args[0], given):
            mask = call_argument(node, "mask", 1 if name == "load" else 2)
            if mask is None or not any(is_below_extent(n, rows.extent) for n in resolved_nodes(mask, given)):
                return False
    return True


def call_argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """An argument given by name or position."""
    named = next((k.value for k in call.keywords if k.arg == name), None)
    return named if named is not None else call.args[position] if len(call.args) > position else None


def _is_block(node: ast.expr, given: dict[str, list[ast.expr]]) -> bool:
    return any(called_name(n) == "arange" for n in resolved_nodes(node, given))


def resolved_nodes(node: ast.expr, given: dict[str, list[ast.expr]]) -> Iterator[ast.AST]:
    """All nodes of an expression and of what its names are set to."""
    seen: set[str] = set()
    pending: list[ast.expr] = [node]
    while pending:
        for inner in ast.walk(pending.pop()):
            yield inner
            if isinstance(inner, ast.Name) and inner.id not in seen:
                seen.add(inner.id)
                pending += given.get(inner.id, [])


def is_below_extent(node: ast.AST, extent: str) -> bool:
    """Whether a comparison says that something is less than an extent."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    if isinstance(node.ops[0], ast.Lt):
        return dotted_name(node.comparators[0]) == extent
    return isinstance(node.ops[0], ast.Gt) and dotted_name(node.left) == extent
