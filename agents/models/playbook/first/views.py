"""Where an element of a view lies in what it is a view of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agents.models.playbook.first.sizes import Scalars, Size
from agents.models.playbook.first.traced import Node, Numbers
from agents.models.playbook.first.values import Index, plus, times, wrap
from tools.errors import SettingsError

Mapped = Callable[[Index], Index]


def mapping(node: Node, shape: tuple[Size, ...], scalars: Scalars) -> tuple[Mapped, bool]:
    """From an index into the view to one into what has `shape`; and whether several elements of the view are one of that."""
    rank = len(shape)
    if node.op in ("permute", "transpose", "t"):
        order = _order(node, rank)
        return lambda index: tuple(index[order.index(axis)] for axis in range(rank)), False
    if node.op in ("expand", "expand_copy"):
        return _expanded(shape, node.shape), len(node.shape) > rank or any(
            a.one and not b.one for a, b in zip(shape, node.shape[-rank:] if rank else (), strict=True)
        )
    if node.op == "select":
        axis, at = _axis(node, rank), scalars.size(_from_start(node, 2, shape), "an index of select").text
        return lambda index: (*index[:axis], at, *index[axis:]), False
    if node.op == "slice":
        return _sliced(node, shape, scalars), False
    if node.op == "unfold":
        axis, by = _axis(node, rank), scalars.size(_numbers(node, 3)[0].whole, "the step of unfold").text
        return lambda index: (*index[:axis], plus(times(index[axis], by), index[-1]), *index[axis + 1 : -1]), True
    if node.op == "repeat":
        return _repeated(shape, node.shape), True
    if node.op == "flip":
        axes = {int(n.values[0]) % rank for n in _numbers(node, 1)}
        return lambda index: tuple(f"{shape[a].text} - 1 - {wrap(i)}" if a in axes else i for a, i in enumerate(index)), False
    if node.op in ("alias", "clone", "detach", "contiguous", "lift_fresh_copy", "lift_fresh"):
        return lambda index: index, False
    return reshaped(shape, node.shape), False


def _numbers(node: Node, position: int) -> tuple[Numbers, ...]:
    given = node.given(position)
    found = given if isinstance(given, tuple) else (given,)
    return tuple(n for n in found if isinstance(n, Numbers))


def _axis(node: Node, rank: int) -> int:
    given = node.given(1, "dim")
    return int(given.values[0]) % rank if isinstance(given, Numbers) else 0


def _order(node: Node, rank: int) -> list[int]:
    if node.op == "permute":
        return [int(n.values[0]) % rank for n in _numbers(node, 1)]
    order = list(range(rank))
    a, b = (int(_numbers(node, p)[0].values[0]) % rank for p in (1, 2)) if node.op == "transpose" else (0, rank - 1)
    order[a], order[b] = order[b], order[a]
    return order


def _from_start(node: Node, position: int, shape: tuple[Size, ...], default: int = 0) -> tuple[int, ...]:
    """An index that may count from the end, within the axis."""
    given, size = node.given(position), shape[_axis(node, len(shape))].values
    values = given.whole if isinstance(given, Numbers) else (default,) * len(size)
    return tuple(min(max(v + n if v < 0 else v, 0), n) for v, n in zip(values, size, strict=True))


def _sliced(node: Node, shape: tuple[Size, ...], scalars: Scalars) -> Mapped:
    axis = _axis(node, len(shape))
    start = scalars.size(_from_start(node, 2, shape), "the start of a slice").text
    step = node.given(4)
    by = scalars.size(step.whole, "the step of a slice").text if isinstance(step, Numbers) else "1"
    return lambda index: (*index[:axis], plus(times(index[axis], by), start), *index[axis + 1 :])


def window(node: Node, shape: tuple[Size, ...], scalars: Scalars, *, first: int) -> tuple[int, str, str]:
    """(axis, start, end) of slice_scatter, whose operands stand one place later than those of slice."""
    shifted = Node(node.name, node.op, node.args[:1] + node.args[first:], node.named, node.dtype, node.shape)
    step = shifted.given(4)
    if isinstance(step, Numbers) and set(step.values) != {1}:
        raise SettingsError("reference.py writes to a slice with a step, for which the playbook has no C++; give a kernel or a model")
    start, end = _from_start(shifted, 2, shape), _from_start(shifted, 3, shape, 1 << 62)
    return _axis(shifted, len(shape)), scalars.size(start, "the start of a slice").text, scalars.size(end, "the end of a slice").text


def _repeated(shape: tuple[Size, ...], wider: tuple[Size, ...]) -> Mapped:
    def mapped(index: Index) -> Index:
        kept = zip(index[len(wider) - len(shape) :], shape, wider[len(wider) - len(shape) :], strict=True)
        return tuple(at if size.text == whole.text else "0" if size.one else f"{wrap(at)} % {wrap(size.text)}" for at, size, whole in kept)

    return mapped


def _expanded(shape: tuple[Size, ...], wider: tuple[Size, ...]) -> Mapped:
    new = len(wider) - len(shape)
    return lambda index: tuple("0" if size.one else at for at, size in zip(index[new:], shape, strict=True))


def reshaped(inner: tuple[Size, ...], outer: tuple[Size, ...]) -> Mapped:
    """Both shapes number the same elements in the same order; axes are matched group by group, so that few divisions are needed."""
    groups = list(_groups([s for s in inner if not s.one], [s for s in outer if not s.one]))

    def mapped(index: Index) -> Index:
        given = iter([at for at, size in zip(index, outer, strict=True) if not size.one])
        found: list[str] = []
        for into, out in groups:
            found += _split(into, out, [next(given) for _ in out])
        left = iter(found)
        return tuple("0" if size.one else next(left) for size in inner)

    return mapped


def _groups(inner: list[Size], outer: list[Size]) -> Sequence[tuple[list[Size], list[Size]]]:
    found = []
    while inner or outer:
        into, out = [inner.pop(0)] if inner else [], [outer.pop(0)] if outer else []
        while (a := _product(into)) != (b := _product(out)):
            if a < b and inner:
                into.append(inner.pop(0))
            elif a > b and outer:
                out.append(outer.pop(0))
            elif inner or outer:
                into, out = into + inner, out + outer
                inner, outer = [], []
                break
            else:
                raise SettingsError("reference.py reshapes in a way that cannot be told from its sizes; give a kernel or a model")
        found.append((into, out))
    return found


def _product(sizes: Sequence[Size]) -> tuple[int, ...]:
    total = [1, 1, 1]
    for size in sizes:
        total = [t * v for t, v in zip(total, size.values, strict=True)]
    return tuple(total)


def _split(into: list[Size], out: list[Size], index: list[str]) -> list[str]:
    position = "0"
    for at, size in zip(index, out, strict=True):
        position = plus(times(position, size.text), at)
    if len(into) == 1:
        return [position]
    found = []
    for number, size in enumerate(reversed(into)):
        last = number == len(into) - 1
        found.append(position if last else f"{wrap(position)} % {wrap(size.text)}" if position != "0" else "0")
        position = f"{wrap(position)} / {wrap(size.text)}" if position != "0" else "0"
    return found[::-1]
