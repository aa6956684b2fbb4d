"""Which values are kept in memory, in which order they are made, and which of them share a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agents.models.playbook.first.operations import DIVISION
from agents.models.playbook.first.sizes import Size
from agents.models.playbook.first.values import Argument, Index, Parts, Reader, Reduction, Value, View, cast, loops, plus
from agents.models.playbook.first.views import reshaped
from tools.artifacts import Argument as Parameter


@dataclass(eq=False)
class Statement:
    """One value, or a part of one, that is made by a loop nest of its own."""

    target: Value
    source: Value
    """What is read; a reduction is carried out here."""
    axes: tuple[Size, ...]
    """Of its loops, outermost first."""
    index: Index
    """Of the element of `source` that the loops' variables stand for."""
    written: Index
    """The place in `target`."""
    reads: list[tuple[Value, Index]] = field(default_factory=list)
    """Of other stored values."""
    names: dict[object, str] = field(default_factory=dict)
    """Of what is local to its body; the same however often it is written out."""


@dataclass
class Loop:
    """Statements that share a loop."""

    size: Size
    depth: int
    body: list[Loop | Statement]


@dataclass
class Storage:
    """Where a stored value lies."""

    name: str
    shape: tuple[Size, ...]
    kept: tuple[int, ...]
    """The axes of the value that the storage has."""
    home: Loop | None = None
    """The loop in whose body it is declared; None: the caller's, or the function's."""
    scratch: bool = True


class Plan:
    """The statements of a kernel."""

    def __init__(self, outputs: Sequence[tuple[Value, Parameter]], names: set[str]) -> None:
        """`names`: those that are taken."""
        self._names = set(names)
        self.final = [(self._own(value, parameter), parameter) for value, parameter in outputs]
        self.final = [(v if all(v is not w for w, _ in self.final[:n]) else copy(v), p) for n, (v, p) in enumerate(self.final)]
        self.order = list(_ordered([value for value, _ in self.final]))
        self.stored = self._stored()
        self.statements = [s for value in self.order if value in self.stored for s in self._statements(value)]
        self.storage = {
            value: Storage(self.name(value.name), value.shape, tuple(range(len(value.shape))))
            for value in self.order
            if value in self.stored
        }
        for value, parameter in self.final:
            self.storage[value].name, self.storage[value].scratch = parameter.name, False

    def name(self, wanted: str) -> str:
        """A name that nothing else has."""
        number = 1
        while (found := f"{wanted}_{number}") in self._names:
            number += 1
        self._names.add(found)
        return found

    def _own(self, value: Value, parameter: Parameter) -> Value:
        """What is stored in the output: the value, or what it is a mere reshaping of."""
        found = value
        while isinstance(found, View) and _reshapes(found):
            found = found.base
        if found.dtype != parameter.dtype:
            return converted(value, parameter)
        return copy(value) if isinstance(found, Argument) else found

    def _stored(self) -> set[Value]:
        outputs = {value for value, _ in self.final}
        found: set[Value] = set()
        readers: dict[Value, set[Value]] = {value: set() for value in self.order}
        spread: dict[Value, bool] = dict.fromkeys(self.order, False)
        for value in reversed(self.order):
            several, dear = len(readers[value]) > 1, _cost(value) >= DIVISION
            worth = dear and (several or spread[value]) and not isinstance(value, View | Argument)
            if worth or value in outputs or (isinstance(value, Reduction | Parts) and not self._inlined(value)):
                found.add(value)
            mine = {value} if value in found else readers[value]
            for used, wide in value.uses:
                readers[used] |= mine
                spread[used] |= wide or (value not in found and spread[value])
        return found

    def _inlined(self, value: Value) -> bool:
        """Whether a reduction is only the one output, seen from elsewhere: it is carried out where that is written."""
        return (
            isinstance(value, Reduction)
            and value.combine == "sum"
            and any(_seen(output) is value for output, _ in self.final)
            and (sum(used is value for other in self.order for used, _ in other.uses) == 1)
        )

    def _statements(self, value: Value) -> Iterator[Statement]:
        if isinstance(value, Parts):
            for part, offset in zip(value.parts, value.offsets, strict=True):
                index = loops(part.shape)
                written = (*index[: value.axis], plus(index[value.axis], offset.text), *index[value.axis + 1 :])
                yield Statement(value, part, _axes(part.shape), index, written)
            return
        seen = _seen(value)
        if isinstance(value, Reduction) and value.combine == "scan":
            outer = tuple(s if axis not in value.over else Size(s.values, "1") for axis, s in enumerate(value.shape))
            index = loops(outer)
            yield Statement(value, value, _axes(outer), index, tuple("r0" if a in value.over else at for a, at in enumerate(index)))
        elif isinstance(seen, Reduction) and seen is not value and seen not in self.stored:
            index = loops(value.shape)
            yield Statement(value, seen, _axes(value.shape), _place(value, seen, index), index)
        else:
            index = loops(value.shape)
            yield Statement(value, value, _axes(value.shape), index, index)

    # ------------------------------------------------------------ loops

    def nest(self) -> list[Loop | Statement]:
        """The statements in their loops, once their reads are known; then where each stored value lies."""
        # Numbers that need nothing come first, so that they stand between no two loops that can be one.
        self.statements.sort(key=lambda s: bool(s.axes or s.reads or isinstance(s.source, Reduction)))
        top = self._grouped(self.statements, 0)
        paths = dict(_paths(top, ()))
        for value, storage in self.storage.items():
            if storage.scratch:
                self._shrink(value, storage, paths)
        for value, parameter in self.final:
            self._lend(value, parameter)
        return top

    def _grouped(self, statements: Sequence[Statement], depth: int) -> list[Loop | Statement]:
        found: list[Loop | Statement] = []
        position = 0
        while position < len(statements):
            group = [statements[position]]
            position += 1
            if len(group[0].axes) <= depth:
                found.append(group[0])
                continue
            while position < len(statements) and _joins(statements[position], group, depth):
                group.append(statements[position])
                position += 1
            found.append(Loop(group[0].axes[depth], depth, self._grouped(group, depth + 1)))
        return found

    def _shrink(self, value: Value, storage: Storage, paths: dict[Statement, tuple[Loop, ...]]) -> None:
        """Scratch of what only one turn of some loops needs is made in their body, without their axes."""
        users = [s for s in self.statements if s.target is value or any(read is value for read, _ in s.reads)]
        common = _common([paths[s] for s in users])
        places = [s.written for s in users if s.target is value] + [i for s in users for read, i in s.reads if read is value]
        inner = {f"i{loop.depth}" for loop in common}
        dropped = {a for a in range(len(value.shape)) if len({p[a] for p in places}) == 1 and places[0][a] in inner}
        storage.kept = tuple(a for a in range(len(value.shape)) if a not in dropped and not value.shape[a].one)
        storage.shape = tuple(value.shape[a] for a in storage.kept)
        storage.home = common[-1] if common else None

    def _lend(self, output: Value, parameter: Parameter) -> None:
        """An array that is last read where the output's elements are written one by one may lie in the output meanwhile."""
        last = max((n for n, s in enumerate(self.statements) if s.target is output), default=0)
        writer = self.statements[last]
        if isinstance(output, Parts) or any(isinstance(v, Argument) and v.name == parameter.name for v in self.order):
            return
        for value, storage in self.storage.items():
            if not storage.scratch or not storage.kept or value.dtype != output.dtype or isinstance(value, Parts):
                continue
            alike = [s.text for s in value.shape if not s.one] == [s.text for s in output.shape if not s.one]
            readers = [n for n, s in enumerate(self.statements) if any(read is value for read, _ in s.reads)]
            own = [index for read, index in writer.reads if read is value]
            plain = isinstance(writer.source, Value) and not isinstance(writer.source, Reduction)
            if alike and plain and readers[-1:] == [last] and own and all(_plain(i) == _plain(writer.written) for i in own):
                storage.name, storage.scratch, storage.home = parameter.name, False, None
                storage.shape, storage.kept = value.shape, tuple(range(len(value.shape)))
                return


def copy(value: Value) -> Value:
    """A value that only stores another one again."""
    return Value("copy", value.dtype, value.shape, ((value, False),), 0, lambda reader, index: reader.at(value, index))


def converted(value: Value, parameter: Parameter) -> Value:
    """A value in the type of the output that it is stored in."""

    made = Value("copy", parameter.dtype, value.shape, ((value, False),), 0)
    made.text = lambda reader, index: cast(reader.at(value, index), value.computed, made.computed)
    return made


class _Places(Reader):
    """Follows views down to one value and keeps the index that arrives there."""

    def __init__(self, wanted: Value) -> None:
        self.wanted = wanted
        self.found: Index = ()

    def at(self, value: Value, index: Index) -> str:
        if value is self.wanted:
            self.found = index
            return ""
        return value.text(self, index)

    def guarded(self, value: Value, index: Index) -> str:
        return self.at(value, index)


def _place(view: Value, base: Value, index: Index) -> Index:
    places = _Places(base)
    places.at(view, index)
    return places.found


def _seen(value: Value) -> Value:
    while isinstance(value, View):
        value = value.base
    return value


def _reshapes(view: View) -> bool:
    """Whether its elements lie in the same order as those of its base."""
    own, base = [s.text for s in view.shape if not s.one], [s for s in view.base.shape if not s.one]
    index = loops(view.shape)
    place = _plain(_place(view, view.base, index))
    if own == [s.text for s in base]:
        return place == _plain(index)

    return _product(view.shape) == _product(view.base.shape) and place == _plain(reshaped(view.base.shape, view.shape)(index))


def _product(shape: Sequence[Size]) -> list[int]:
    total = [1, 1, 1]
    for size in shape:
        total = [t * v for t, v in zip(total, size.values, strict=True)]
    return total


def _plain(index: Index) -> tuple[str, ...]:
    return tuple(at for at in index if at != "0")


def _axes(shape: Sequence[Size]) -> tuple[Size, ...]:
    return tuple(size for size in shape if not size.one)


def _cost(value: Value) -> int:
    if isinstance(value, Argument | Reduction | Parts):
        return 0
    return min(value.cost + sum(_cost(used) for used, _ in value.uses), 99) if value.cost < 99 else 99


def _ordered(outputs: Sequence[Value]) -> Iterator[Value]:
    """Every value that is needed, after what it is made from."""
    known: set[Value] = set()

    def visit(value: Value) -> Iterator[Value]:
        if value in known:
            return
        known.add(value)
        for used, _ in value.uses:
            yield from visit(used)
        yield value

    for value in outputs:
        yield from visit(value)


def _joins(statement: Statement, group: Sequence[Statement], depth: int) -> bool:
    """Whether a statement can share the loop at `depth` with those before it: what it reads of theirs is of the same turn."""
    if len(statement.axes) <= depth or statement.axes[depth].text != group[0].axes[depth].text:
        return False
    variable = f"i{depth}"
    made = [(s.written, index) for s in group for value, index in statement.reads if s.target is value]
    return all(any(w == variable == i for w, i in zip(written, index, strict=True)) for written, index in made)


def _paths(body: Sequence[Loop | Statement], above: tuple[Loop, ...]) -> Iterator[tuple[Statement, tuple[Loop, ...]]]:
    for item in body:
        if isinstance(item, Statement):
            yield item, above
        else:
            yield from _paths(item.body, (*above, item))


def _common(paths: Sequence[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    found = []
    for loops_at in zip(*paths, strict=False):
        if any(loop is not loops_at[0] for loop in loops_at):
            break
        found.append(loops_at[0])
    return tuple(found)
