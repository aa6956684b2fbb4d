"""Maximum and sum of exponentials in one loop: the sum is corrected whenever the maximum grows, which saves a pass over the row."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from agents.models.playbook.triton.base import TritonRecipe, indent, starts_line
from agents.models.playbook.triton.forwarding import forwarded
from agents.models.playbook.triton.rows import row_loops, target
from tools.languages.triton_source import Edit, Module, called, dotted

LEAST = "-3.4028234663852886e+38"
"""Instead of minus infinity, whose difference with itself is NaN; no float32 lies below it."""


@dataclass(frozen=True)
class _Pair:
    """A loop that finds the largest value, one that sums exponentials, and what stands between and before them."""

    start: ast.Assign
    """Sets the maximum to minus infinity."""
    first: ast.For
    between: tuple[ast.stmt, ...]
    second: ast.For
    maximum: str
    total: str
    update: ast.Assign
    exponential: ast.Call


class OnlineSoftmax(TritonRecipe):
    """Two loops become one with a running correction."""

    name = "triton_online_softmax"

    def rewritten(self, module: Module, knobs: Mapping[str, str]) -> str | None:
        """The first pair of loops that is understood, in every kernel."""
        source, changed = module, False
        for name in module.kernels:
            rows = row_loops(source.kernels[name])
            pair = next(_pairs(source, rows.loops, source.kernels[name].node), None) if rows is not None else None
            if pair is not None:
                text = forwarded(_fused(source, pair), name)
                source, changed = Module(text, ast.parse(text)), True
        return source.source if changed else None


def _pairs(module: Module, loops: tuple[ast.For, ...], function: ast.FunctionDef) -> Iterator[_Pair]:
    for parent in ast.walk(function):
        body = getattr(parent, "body", None)
        if not isinstance(body, list):
            continue
        at = [i for i, statement in enumerate(body) if statement in loops]
        for i, j in pairwise(at):
            pair = _pair(body, i, j)
            if pair is not None and all(starts_line(module, s) for s in (pair.start, pair.first, *pair.between, pair.second)):
                yield pair


def _pair(body: list[ast.stmt], i: int, j: int) -> _Pair | None:
    first, second, between = body[i], body[j], tuple(body[i + 1 : j])
    assert isinstance(first, ast.For) and isinstance(second, ast.For), "they were looked up among the loops"
    update = first.body[-1]
    maximum = _maximum(update)
    start = next((s for s in reversed(body[:i]) if isinstance(s, ast.Assign) and [dotted(t) for t in s.targets] == [maximum]), None)
    if not maximum or not isinstance(update, ast.Assign) or start is None or not _is_least(start.value):
        return None
    if target(first) != target(second) or ast.dump(first.iter) != ast.dump(second.iter) or _uses(first.body[:-1], maximum):
        return None
    total = _total(second.body[-1])
    exponential = _exponential(second, maximum)
    if not total or exponential is None or not all(_is_zero(s, total) for s in between):
        return None
    zeroed = [s for s in (*body[:i], *between) if isinstance(s, ast.Assign) and [dotted(t) for t in s.targets] == [total]]
    if not zeroed or not _is_zero(zeroed[-1], total) or not _linear(second, total, exponential) or _uses(first.body, total):
        return None
    if any(called(n) in ("store",) or called(n).startswith("atomic") for s in (*first.body, *second.body) for n in ast.walk(s)):
        return None
    return _Pair(start, first, between, second, maximum, total, update, exponential)


def _maximum(statement: ast.stmt) -> str:
    """m of `m = maximum(m, max(...))`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or called(statement.value) not in ("maximum", "max"):
        return ""
    assert isinstance(statement.value, ast.Call)
    name, arguments = dotted(statement.targets[0]), statement.value.args
    others = [a for a in arguments if dotted(a) != name]
    reduced = len(arguments) == 2 and len(others) == 1 and called(others[0]) == "max" and not _named(others[0], name)
    return name if reduced else ""


def _total(statement: ast.stmt) -> str:
    """s of `s += sum(...)` or `s = s + sum(...)`."""
    value = _summed(statement)
    if value is None:
        return ""
    return dotted(statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0])  # type: ignore[attr-defined]


def _summed(statement: ast.stmt) -> ast.Call | None:
    """The call of sum that is added."""
    value: ast.expr | None = None
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        value = statement.value
    elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp) and isinstance(statement.value.op, ast.Add):
        name = dotted(statement.targets[0])
        value = statement.value.right if dotted(statement.value.left) == name else None
    return value if isinstance(value, ast.Call) and called(value) == "sum" and value.args else None


def _exponential(loop: ast.For, maximum: str) -> ast.Call | None:
    """The one call exp(… - maximum …) in which the maximum is used."""
    uses = sum(_named(statement, maximum) for statement in loop.body)
    calls = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call) and called(n) in ("exp", "exp2")]
    if uses != 1 or len(calls) != 1 or len(calls[0].args) != 1:
        return None
    return calls[0] if _difference(calls[0], maximum) is not None else None


def _difference(call: ast.Call, maximum: str) -> ast.BinOp | None:
    """`x - maximum` in the argument, alone or times a factor that holds nothing of the loop's own."""
    node = call.args[0]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        node = node.left if isinstance(node.left, ast.BinOp) else node.right
    return node if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and dotted(node.right) == maximum else None


def _linear(loop: ast.For, total: str, exponential: ast.Call) -> bool:
    """Whether what is summed is the exponential itself, by name or behind a where that puts 0 elsewhere, and nothing else hangs on it."""
    summed = _summed(loop.body[-1])
    assert summed is not None, "a total was found"
    node, steps = (
        summed.args[0],
        {
            s.targets[0].id: s.value
            for s in loop.body
            if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name)
        },
    )
    for _ in range(4):
        if isinstance(node, ast.Name) and node.id in steps:
            node = steps[node.id]
        elif called(node) == "where" and isinstance(node, ast.Call) and len(node.args) == 3 and _constant_zero(node.args[2]):
            node = node.args[1]
    accumulated = [s for s in loop.body if isinstance(s, ast.AugAssign)]
    carried = [name for name, value in steps.items() if _named(value, name) and name != total]
    return (
        node is exponential and len(accumulated) <= 1 and not carried and all(isinstance(s, ast.Assign | ast.AugAssign) for s in loop.body)
    )


def _is_zero(statement: ast.stmt, total: str) -> bool:
    if not isinstance(statement, ast.Assign) or [dotted(t) for t in statement.targets] != [total]:
        return False
    return _constant_zero(statement.value)


def _constant_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _is_least(node: ast.expr) -> bool:
    return ast.unparse(node).replace('"', "'") in ("float('-inf')", "-float('inf')", "float('-Inf')", "-float('Inf')")


def _named(node: ast.AST, name: str) -> int:
    return sum(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


def _uses(body: list[ast.stmt], name: str) -> bool:
    return any(_named(statement, name) for statement in body)


def _fused(module: Module, pair: _Pair) -> str:
    first, second = pair.first, pair.second
    assert first.end_lineno is not None and second.end_lineno is not None
    space = indent(module, pair.update)
    difference = _difference(pair.exponential, pair.maximum)
    assert difference is not None, "looked at by _exponential"
    correction = module.text(pair.exponential)
    correction = correction.replace(module.text(difference), f"{pair.maximum} - kw_larger", 1)
    value = module.text(pair.update.value)
    lines = "".join(module.lines(s.lineno, s.end_lineno or s.lineno) for s in pair.between)
    head = module.lines(first.lineno, pair.update.lineno - 1)
    inner = indent(module, second.body[0])
    tail = module.lines(second.body[0].lineno, second.end_lineno)
    if inner != space:
        tail = "".join(space + line.removeprefix(inner) for line in tail.splitlines(keepends=True))
    text = (
        f"{lines}{head}{space}kw_larger = {value}\n{space}{pair.total} = {pair.total} * {correction}\n"
        f"{space}{pair.maximum} = kw_larger\n{tail}"
    )
    return module.apply(
        [
            Edit(*module.span(pair.start.value), LEAST),
            Edit(module.line_start(first.lineno), module.line_start(second.end_lineno + 1), text),
        ]
    )
