"""ATen operations that put elements elsewhere: lookups, parts of an axis, joined and written parts, padding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agents.models.playbook.first import views
from agents.models.playbook.first.lowering import TRACES, Lowering, unwritten
from agents.models.playbook.first.operations import CHEAP
from agents.models.playbook.first.sizes import Size
from agents.models.playbook.first.traced import Node, Numbers
from agents.models.playbook.first.values import Index, Parts, Reader, Value, View, cast, plus, wrap


def _gathered(self: Lowering, node: Node, source: Value, at: Value, axis: int, place: Callable[[Index], Index], *, signed: bool) -> Value:
    """Elements of `source` at an index that `at` holds for `axis`; `place`: where in `at`, from an index into the result."""
    rank = len(at.shape)

    def text(reader: Reader, index: Index) -> str:
        found = reader.at(at, place(index))
        if signed:
            found = f"{wrap(found)} < 0 ? {wrap(found)} + {source.shape[axis].text} : {found}"
        rest = index if node.op == "gather" else (*index[:axis], *index[axis + rank :])
        whole = list(rest)
        whole[axis : axis + (node.op == "gather")] = [wrap(found)]
        return reader.guarded(source, tuple(whole))

    return Value(node.op, source.dtype, node.shape, ((source, False), (at, False)), 0, text)


def parts(self: Lowering, node: Node) -> Value:
    """cat, and stack taken apart into it."""
    given = node.args[0]
    named = [self.value(g) for g in given] if isinstance(given, tuple) else []
    found = [v for v in named if not any(s.text == "0" for s in v.shape)]
    axis_of = node.given(1, "dim")
    axis = int(axis_of.values[0]) % len(node.shape) if isinstance(axis_of, Numbers) else 0
    offsets: list[Size] = []
    position: tuple[int, ...] = (0,) * TRACES
    for part in found:
        offsets.append(self.logic.scalars.size(position, "a place in cat"))
        position = tuple(p + v for p, v in zip(position, part.shape[axis].values, strict=True))
    dtype = self.dtype(node)
    return Parts("joined", dtype, node.shape, tuple((v, False) for v in found), 0, parts=tuple(found), axis=axis, offsets=tuple(offsets))


def pieces(self: Lowering, node: Node) -> tuple[Value, ...]:
    """split, chunk and unbind: views one behind the other along an axis."""
    source = self.value(node.given(0))
    axis_of = node.given(1 if node.op == "unbind" else 2, "dim")
    axis = int(axis_of.values[0]) % len(source.shape) if isinstance(axis_of, Numbers) else 0
    whole = source.shape[axis]
    if node.op == "unbind":
        return tuple(
            _piece(source, (*source.shape[:axis], *source.shape[axis + 1 :]), partial(_chosen, axis, str(n)))
            for n in range(whole.values[0])
        )
    given = node.given(1)
    extents = [n.whole for n in given if isinstance(n, Numbers)] if isinstance(given, tuple) else []
    if isinstance(given, Numbers):
        count = -(-whole.values[0] // given.whole[0])
        last = tuple(w - (count - 1) * g for w, g in zip(whole.values, given.whole, strict=True))
        extents = [given.whole] * (count - 1) + [last]
    found, position = [], (0,) * len(whole.values)
    for extent in extents:
        start = self.logic.scalars.size(position, "the start of a split").text
        size = self.logic.scalars.size(extent, "a part of a split")
        shape = (*source.shape[:axis], size, *source.shape[axis + 1 :])
        found.append(_piece(source, shape, partial(_moved, axis, start)))
        position = tuple(p + e for p, e in zip(position, extent, strict=True))
    return tuple(found)


def _chosen(axis: int, at: str, index: Index) -> Index:
    return (*index[:axis], at, *index[axis:])


def _moved(axis: int, start: str, index: Index) -> Index:
    return (*index[:axis], plus(index[axis], start), *index[axis + 1 :])


def _piece(source: Value, shape: tuple[Size, ...], place: Callable[[Index], Index]) -> Value:
    return View(source.name, source.dtype, shape, ((source, False),), 0, lambda reader, index: reader.at(source, place(index)))


def scattered(self: Lowering, node: Node) -> Value:
    """A tensor with a slice, or one place of an axis, replaced."""
    base, new = self.value(node.given(0)), self.value(node.given(1))
    if node.op == "select_scatter":
        one = views.window(
            Node(node.name, node.op, (*node.args, None), node.named, node.dtype, node.shape), base.shape, self.logic.scalars, first=2
        )
        axis, start, end = one[0], one[1], f"{wrap(one[1])} + 1"
    else:
        axis, start, end = views.window(node, base.shape, self.logic.scalars, first=2)

    def text(reader: Reader, index: Index) -> str:
        at = index[axis]
        moved = at if start == "0" else f"{wrap(at)} - {wrap(start)}"
        place = (*index[:axis], *(() if node.op == "select_scatter" else (moved,)), *index[axis + 1 :])
        inside = reader.guarded(new, place)
        conditions = [] if start == "0" else [f"{wrap(at)} >= {start}"]
        conditions += [] if end == base.shape[axis].text else [f"{wrap(at)} < {end}"]
        if not conditions:
            return cast(inside, new.computed, base.computed)
        return f"{' && '.join(conditions)} ? {wrap(cast(inside, new.computed, base.computed))} : {wrap(reader.guarded(base, index))}"

    return Value("written", base.dtype, base.shape, ((base, False), (new, False)), CHEAP, text)


def picked(self: Lowering, node: Node) -> Value:
    """index_select, embedding, gather, and indexing by one tensor."""
    if node.op == "embedding":
        source, at, axis = self.value(node.given(0)), self.value(node.given(1)), 0
    elif node.op == "index":
        given = node.args[1] if isinstance(node.args[1], tuple) else ()
        used = [a for a, g in enumerate(given) if g is not None]
        if len(used) != 1 or self.value(given[used[0]]).dtype == "bool":
            raise unwritten("indexing by several tensors or by a mask")
        source, at, axis = self.value(node.given(0)), self.value(given[used[0]]), used[0]
    else:
        source, at = self.value(node.given(0)), self.value(node.given(2, "index"))
        axis = self.axes(node.given(1, "dim"), len(source.shape))[0]
    rank = len(at.shape)
    place = (lambda index: index) if node.op == "gather" else (lambda index: index[axis : axis + rank])
    return _gathered(self, node, source, at, axis, place, signed=node.op == "index")


def padded(self: Lowering, node: Node) -> Value:
    source, dtype = self.value(node.given(0)), self.dtype(node)
    given = [n.whole for n in node.args[1] if isinstance(n, Numbers)] if isinstance(node.args[1], tuple) else []
    fill = self.value(node.given(2, "value", Numbers((0.0, 0.0, 0.0))), dtype)
    rank, scalars = len(source.shape), self.logic.scalars
    before = {rank - 1 - n // 2: scalars.size(given[n], "a padding").text for n in range(0, len(given), 2)}
    widened = {rank - 1 - n // 2 for n in range(0, len(given), 2) if any(given[n]) or any(given[n + 1])}

    def text(reader: Reader, index: Index) -> str:
        place = tuple(at if before.get(a, "0") == "0" else f"{wrap(at)} - {wrap(before[a])}" for a, at in enumerate(index))
        conditions = [f"{wrap(place[a])} >= 0 && {wrap(place[a])} < {source.shape[a].text}" for a in sorted(widened)]
        inside = reader.guarded(source, place)
        return f"{' && '.join(conditions)} ? {wrap(inside)} : {wrap(reader.at(fill, ()))}" if conditions else inside

    return Value("padded", dtype, node.shape, ((source, False),), CHEAP, text)
