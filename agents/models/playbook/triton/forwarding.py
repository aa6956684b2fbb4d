"""Straight-line kernel code: what was loaded or stored a moment ago stays in registers instead of being loaded
again."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from agents.models.playbook.triton.base import indentation, starts_line
from agents.models.playbook.triton.rows import call_argument
from tools.languages.triton_source import PythonEdit, PythonModule, called_name, dotted_name, parse_module

REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum", "num_programs", "program_id"})
MAKERS = frozenset({"arange", "zeros", "full", "zeros_like"})
Key = tuple[str, str]


@dataclass
class Known:
    """The value at an address: a call of load, or of store."""

    statement: ast.stmt
    call: ast.Call
    stored: bool
    variable: str = ""
    read: bool = False
    """The address was loaded again in a way that could not be served from here."""


@dataclass
class _Walk:
    module: PythonModule
    ids: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    """Name -> number of its value."""
    bases: dict[str, str] = field(default_factory=dict)
    """Name -> the parameter that its address begins at."""
    wide: set[str] = field(default_factory=set)
    known: dict[Key, Known] = field(default_factory=dict)
    """(address, mask) -> what is known to be there."""
    edits: list[PythonEdit] = field(default_factory=list)
    count: int = 0


def forwarded(source: str, name: str) -> str:
    """`source` with the second load of an address, and loads of what was just stored, served from registers in kernel
    `name`.

    Different pointer parameters are taken to be different buffers, as the kernel contract says.
    """
    module = parse_module(source)
    if module is None or name not in module.kernels:
        return source
    kernel = module.kernels[name]
    walk = _Walk(module)
    walk.bases = {p: p for p in kernel.parameters}
    _suite(walk, kernel.node.body)
    return module.apply(walk.edits)


def _suite(walk: _Walk, body: list[ast.stmt]) -> None:
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                _loads(walk, statement, value)
                _set(walk, name, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                _loads(walk, statement, value)
                _set(walk, name, value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                _loads(walk, statement, value)
                both = ast.BinOp(ast.Name(name, ast.Load()), statement.op, value)
                _set(walk, name, both)
            case ast.Expr(value=ast.Call() as call) if called_name(call) == "store":
                _loads(walk, statement, call)
                _store(walk, statement, call)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                continue
            case ast.For() | ast.If() | ast.While() | ast.With():
                _compound(walk, statement)
            case _:
                _forget(walk, statement)


def _compound(walk: _Walk, statement: ast.For | ast.If | ast.While | ast.With) -> None:
    """Inside, everything that it sets is new; behind it, nothing in memory is known."""
    _forget(walk, statement)
    for body in (statement.body, getattr(statement, "orelse", [])):
        _suite(walk, body)
        _forget(walk, statement)


def _forget(walk: _Walk, statement: ast.stmt) -> None:
    walk.known.clear()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            walk.count += 1
            walk.values[node.id] = f"?{walk.count}"
            walk.bases.pop(node.id, None)
            # Whatever it is, it must not be taken for a scalar.
            walk.wide.discard(node.id)


def _set(walk: _Walk, name: str, value: ast.expr) -> None:
    number, base, wide = _number(walk, value), _base(walk, value), _is_wide(walk, value)
    walk.values[name] = number
    walk.bases.pop(name, None)
    if base:
        walk.bases[name] = base
    (walk.wide.add if wide else walk.wide.discard)(name)


def _number(walk: _Walk, node: ast.AST | None) -> str:
    """Equal numbers are equal values. A load's value may change, so that each load has its own."""
    if node is None:
        return "-"
    if isinstance(node, ast.Name):
        return walk.values.get(node.id, node.id)
    if called_name(node) in ("load", "rand", "randn", "randint") or called_name(node).startswith("atomic_"):
        walk.count += 1
        return f"?{walk.count}"
    if isinstance(node, ast.Constant):
        return repr(node.value)
    parts: list[str] = []
    for _, value in ast.iter_fields(node):
        items = value if isinstance(value, list) else [value]
        parts += [_number(walk, item) if isinstance(item, ast.AST) else repr(item) for item in items]
    text = f"{type(node).__name__}({','.join(parts)})"
    return walk.ids.setdefault(text, f"v{len(walk.ids)}")


def _base(walk: _Walk, node: ast.expr) -> str:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left = _base(walk, node.left)
        if left or isinstance(node.op, ast.Sub):
            return left
        node = node.right
    return walk.bases.get(node.id, "") if isinstance(node, ast.Name) else ""


def _is_wide(walk: _Walk, node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in walk.wide
    if called_name(node) in REDUCTIONS:
        return False
    return called_name(node) in MAKERS or any(_is_wide(walk, child) for child in ast.iter_child_nodes(node))


def _loads(walk: _Walk, statement: ast.stmt, value: ast.expr) -> None:
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and called_name(node).startswith("atomic_"):
            walk.known.clear()
        if isinstance(node, ast.Call) and called_name(node) == "load" and node.args:
            _load(walk, statement, node)


def _load(walk: _Walk, statement: ast.stmt, call: ast.Call) -> None:
    pointer, mask = call.args[0], call_argument(call, "mask", 1)
    key = (_number(walk, pointer), _number(walk, mask))
    earlier = walk.known.get(key)
    plain = not any(k.arg in ("volatile", "boundary_check", "padding_option") for k in call.keywords)
    if earlier is None or not plain or not _is_wide(walk, pointer):
        base = _base(walk, pointer)
        for place, known in walk.known.items():
            if known.stored and place != key and _base(walk, known.call.args[0]) in ("", base):
                known.read = True
        if earlier is not None:
            earlier.read = True
        if plain and base and _is_wide(walk, pointer) and starts_line(walk.module, statement):
            walk.known.setdefault(key, Known(statement, call, stored=False))
        return
    if not earlier.variable:
        _keep(walk, earlier)
    text = earlier.variable
    if earlier.stored:
        text = f"{text}.to(({walk.module.text(pointer)}).dtype.element_ty)"
    other, before = call_argument(call, "other", 2), None if earlier.stored else call_argument(earlier.call, "other", 2)
    if other is not None and mask is not None and (before is None or ast.dump(other) != ast.dump(before)):
        module = dotted_name(call.func).rpartition(".")[0]
        where = f"{module}.where" if module else "where"
        text = f"{where}({walk.module.text(mask)}, {text}, {walk.module.text(other)})"
    walk.edits.append(PythonEdit(*walk.module.byte_span(call), text))


def _keep(walk: _Walk, known: Known) -> None:
    """Give the value a name of its own, in a line before the statement that loads or stores it."""
    walk.count += 1
    known.variable = f"kw_{'stored' if known.stored else 'loaded'}_{walk.count}"
    node = known.call.args[1] if known.stored else known.call
    at = walk.module.line_start(known.statement.lineno)
    walk.edits.append(
        PythonEdit(at, at, f"{indentation(walk.module, known.statement)}{known.variable} = {walk.module.text(node)}\n")
    )
    walk.edits.append(PythonEdit(*walk.module.byte_span(node), known.variable))


def _store(walk: _Walk, statement: ast.stmt, call: ast.Call) -> None:
    if len(call.args) < 2:
        walk.known.clear()
        return
    pointer, mask = call.args[0], call_argument(call, "mask", 2)
    base, key = _base(walk, pointer), (_number(walk, pointer), _number(walk, mask))
    earlier = walk.known.get(key)
    if earlier is not None and earlier.stored and not earlier.read and base:
        _drop(walk, earlier)
    walk.known = {
        k: known for k, known in walk.known.items() if base and _base(walk, known.call.args[0]) not in ("", base)
    }
    if base and _is_wide(walk, pointer) and _is_wide(walk, call.args[1]) and starts_line(walk.module, statement):
        walk.known[key] = Known(statement, call, stored=True)


def _drop(walk: _Walk, known: Known) -> None:
    """Take out a store that is overwritten before anybody reads it; its value keeps its name."""
    assert known.statement.end_lineno is not None
    start, end = walk.module.byte_span(known.statement)
    inside = [e for e in walk.edits if start <= e.start and e.end <= end]
    walk.edits = [e for e in walk.edits if e not in inside]
    walk.edits.append(
        PythonEdit(start, end, "pass" if not known.variable else "# Kept in registers until it is final.")
    )
