"""Three traces read as one: the same operations, with each number as it was in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.models.playbook.first.sizes import Scalars, Size
from tools.errors import SettingsError
from tools.executors.protocol import Operand, SeenArgument, Trace, TracedNode


@dataclass(frozen=True)
class Numbers:
    """One number in each trace."""

    values: tuple[float, ...]

    @property
    def whole(self) -> tuple[int, ...]:
        """As integers."""
        return tuple(int(v) for v in self.values)


@dataclass(frozen=True)
class Named:
    """The value of that name."""

    name: str


Given = Named | Numbers | bool | str | tuple["Given", ...] | None
"""An operand over all traces."""


@dataclass(frozen=True)
class Node:
    """One operation over all traces."""

    name: str
    op: str
    """Without namespace and overload: add."""
    args: tuple[Given, ...]
    named: dict[str, Given]
    dtype: str
    shape: tuple[Size, ...]

    def given(self, position: int, name: str = "", default: Given = None) -> Given:
        """An operand by its place, or by name where it was given so."""
        return self.args[position] if position < len(self.args) else self.named.get(name, default)


@dataclass(frozen=True)
class Logic:
    """What a reference computes."""

    scalars: Scalars
    arguments: tuple[SeenArgument, ...]
    """Of the first trace."""
    shapes: dict[str, tuple[Size, ...]]
    """Of the arguments that are tensors."""
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]


def logic(traces: Sequence[Trace]) -> Logic:
    """The operations that the traces share. SettingsError where they differ, or where a size follows no scalar."""
    first = traces[0]
    if any(tuple(n.op for n in t.nodes) != tuple(n.op for n in first.nodes) or t.outputs != first.outputs for t in traces):
        raise SettingsError("reference.py does other operations at other sizes; write it without branches on sizes, or add a kernel")
    seen = list(zip(*(t.arguments for t in traces), strict=True))
    tensors = [each for each in seen if each[0].role != "scalar"]
    numbers = {each[0].name: tuple(a.value for a in each) for each in seen if each[0].role == "scalar"}
    integers = {name: tuple(int(v) for v in values if v is not None) for name, values in numbers.items() if _integer(values)}
    floats = {name: tuple(float(v) for v in values if v is not None) for name, values in numbers.items() if _float(values)}
    scalars = Scalars({n: v for n, v in integers.items() if len(set(v)) > 1}, {n: v for n, v in floats.items() if len(set(v)) > 1})
    shapes = {each[0].name: _shape(scalars, [a.shape for a in each], f"`{each[0].name}`") for each in tensors}
    live = _reached(first)
    nodes = tuple(_node(scalars, each) for each in zip(*(t.nodes for t in traces), strict=True) if each[0].name in live)
    return Logic(scalars, first.arguments, shapes, nodes, first.outputs)


def _integer(values: Sequence[object]) -> bool:
    return all(isinstance(v, int) and not isinstance(v, bool) for v in values)


def _float(values: Sequence[object]) -> bool:
    return all(isinstance(v, float) for v in values)


def _reached(trace: Trace) -> set[str]:
    found = set(trace.outputs)
    for node in reversed(trace.nodes):
        if node.name in found:
            found.update(name for operand in (*node.args, *node.kwargs.values()) for name in _names(operand))
    return found


def _names(operand: Operand) -> tuple[str, ...]:
    if operand.items is not None:
        return tuple(name for item in operand.items for name in _names(item))
    return () if operand.node is None else (operand.node,)


def _node(scalars: Scalars, each: Sequence[TracedNode]) -> Node:
    first = each[0]
    op = first.op.split(".")[1] if first.op.startswith(("aten.", "prims.")) else first.op
    what = f"a result of {op}"
    args = tuple(_given(operands) for operands in zip(*(n.args for n in each), strict=True))
    named = {name: _given([n.kwargs[name] for n in each]) for name in first.kwargs}
    return Node(first.name, op, args, named, first.dtype, _shape(scalars, [n.shape for n in each], what))


def _shape(scalars: Scalars, shapes: Sequence[tuple[int, ...]], what: str) -> tuple[Size, ...]:
    if len({len(shape) for shape in shapes}) > 1:
        raise SettingsError(f"{what} has another number of axes at other sizes; write the reference for one, or add a kernel")
    return tuple(scalars.size(extents, f"axis {axis} of {what}") for axis, extents in enumerate(zip(*shapes, strict=True)))


def _given(operands: Sequence[Operand]) -> Given:
    first = operands[0]
    if first.items is not None:
        return tuple(_given(items) for items in zip(*(o.items or () for o in operands), strict=True))
    if first.node is not None:
        return Named(first.node)
    if first.flag is not None:
        return first.flag
    if first.text in ("inf", "-inf", "nan"):
        return Numbers(tuple(float(o.text or "nan") for o in operands))
    if first.number is not None:
        return Numbers(tuple(o.number if o.number is not None else float(o.text or "nan") for o in operands))
    return first.text
