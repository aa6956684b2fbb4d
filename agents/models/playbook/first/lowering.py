"""From ATen operations to values: what each element is, or what is put together to make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agents.models.playbook.first import views
from agents.models.playbook.first.operations import CHEAP, COMPARED, DIVISION, FUNCTION, LOGICAL, SAME, VIEWS
from agents.models.playbook.first.sizes import Size
from agents.models.playbook.first.traced import Given, Logic, Named, Node, Numbers
from agents.models.playbook.first.values import (
    FLOATS,
    ORDER,
    Argument,
    Combine,
    Index,
    Reader,
    Reduction,
    Value,
    View,
    cast,
    constant,
    filled,
    wrap,
)
from tools.artifacts import DType
from tools.errors import SettingsError

TRACES = 3
"""Whose numbers are compared."""
ONE = Size((1,) * TRACES, "1")
REDUCED: dict[str, Combine] = {
    "sum": "sum", "mean": "sum", "prod": "prod", "amax": "max", "amin": "min", "max": "max", "min": "min", "any": "any", "all": "all",
    "argmax": "argmax", "argmin": "argmin", "cumsum": "scan",
}  # fmt: skip
Operator = Callable[["Lowering", Node], Value | tuple[Value, ...]]


def unwritten(op: str) -> SettingsError:
    """The refusal of an operation."""
    return SettingsError(
        f"reference.py calls torch's {op}, for which the playbook has no C++; give a kernel, or a language model as the coder"
    )


class Lowering:
    """The values of one reference, by name."""

    def __init__(self, logic: Logic, operators: Mapping[str, Operator]) -> None:
        """`operators`: what is more than a template, a view or a reduction."""
        self.logic = logic
        self.operators = operators
        self.values: dict[str, Value | tuple[Value, ...]] = {}
        self.reduced: dict[tuple[Value, tuple[int, ...], Combine, DType], Reduction] = {}
        """What was put together already, which is not done twice."""
        for argument in logic.arguments:
            if argument.role != "scalar":
                self.values[argument.name] = Argument(argument.name, argument.dtype, logic.shapes[argument.name])

    def outputs(self) -> tuple[Value, ...]:
        """The value of each output. SettingsError for an operation that has no C++ here."""
        for node in self.logic.nodes:
            self.values[node.name] = self._made(node)
        return tuple(self.value(Named(name)) for name in self.logic.outputs)

    # ------------------------------------------------------------ operands

    def value(self, given: Given, dtype: DType | None = None) -> Value:
        """An operand as a value; a number becomes one of `dtype`."""
        if isinstance(given, Named):
            found = self.values[given.name]
            if isinstance(found, tuple):
                raise unwritten("operation on several results")
            return found
        if isinstance(given, bool):
            given = Numbers((int(given),) * 3)
        if not isinstance(given, Numbers):
            raise unwritten("operation on what is no tensor")
        kind = dtype or ("float32" if any(isinstance(v, float) for v in given.values) else "int64")
        number = self.logic.scalars.number(given.values, "the reference")
        text = constant(number, "float32" if kind == "float16" else kind)
        # A formula is computed once, in front of all loops.
        cost = FUNCTION if "std::" in number or "/" in number else 0
        return Value("number", kind, (), (), cost, lambda reader, index: text)

    def dtype(self, node: Node) -> DType:
        if node.dtype not in ORDER:
            raise SettingsError(
                f"reference.py computes in {node.dtype or 'no known type'}, for which the playbook has no C++; give a kernel"
            )
        return ORDER[ORDER.index(node.dtype)]

    def _common(self, node: Node) -> DType:
        """The type in which operands are compared: tensors of the higher kind decide, of one kind the wider, then numbers."""
        given = [self.value(a) for a in node.args if isinstance(a, Named | Numbers | bool)]
        full = [v for v in given if v.shape] or given
        numbers = [v.dtype for v in given if v.dtype in FLOATS]
        widest = max((v.dtype for v in full), key=ORDER.index)
        return "float32" if numbers and widest not in FLOATS else widest

    # ------------------------------------------------------------ operations

    def _made(self, node: Node) -> Value | tuple[Value, ...]:
        own = self.operators.get(node.op)
        if own is not None:
            return own(self, node)
        if node.op in SAME:
            return self.elementwise(node, *SAME[node.op], self.dtype(node))
        if node.op in COMPARED:
            return self.elementwise(node, COMPARED[node.op], CHEAP, self._common(node))
        if node.op in LOGICAL and self.dtype(node) == "bool":
            return self.elementwise(node, LOGICAL[node.op], CHEAP, "bool")
        if node.op in VIEWS or node.op == "squeeze":
            return self.view(node)
        if node.op in REDUCED:
            return self._reduced(node)
        raise unwritten(node.op)

    def elementwise(self, node: Node, template: str, cost: int, operands: DType) -> Value:
        ones = [p for p in (0, 1) if isinstance(n := node.given(p), Numbers) and set(n.values) == {1}]
        if node.op == "mul" and ones:
            return self.combined("copy", self.dtype(node), node.shape, "{0}", 0, [self.value(node.args[1 - ones[0]], operands)])
        count = 2 if "{1}" in template else 1
        given = [self.value(node.given(p), operands) for p in range(count)]
        alpha = node.named.get("alpha")
        if isinstance(alpha, Numbers) and set(alpha.values) != {1}:
            given[1] = self.combined("scaled", operands, given[1].shape, "{0} * {1}", CHEAP, [given[1], self.value(alpha, operands)])
        return self.combined(node.op, self.dtype(node), node.shape, template, cost, given, operands)

    def combined(
        self,
        name: str,
        dtype: DType,
        shape: Sequence[Size],
        template: str,
        cost: int,
        given: Sequence[Value],
        operands: DType | None = None,
    ) -> Value:
        """A value whose elements come from those of `given` (broadcast) by a template of C++."""
        shape = tuple(shape)
        within: DType = "float32" if (operands or dtype) == "float16" else (operands or dtype)
        result: DType = "float32" if dtype == "float16" else dtype
        # The operator decides the type of what it makes: comparisons and logic bool, all else that of the operands.
        makes: DType = "bool" if template in COMPARED.values() or template in LOGICAL.values() else within

        def text(reader: Reader, index: Index) -> str:
            texts = [cast(reader.at(v, broadcast(index, shape, v.shape)), v.computed, within) for v in given]
            return cast(filled(template, texts), makes, result)

        return Value(name, dtype, shape, tuple((v, spreads(v.shape, shape)) for v in given), cost, text)

    def view(self, node: Node) -> Value:
        base = self.value(node.given(0))
        mapped, spread = views.mapping(node, base.shape, self.logic.scalars)
        return View(base.name, base.dtype, node.shape, ((base, spread),), 0, lambda reader, index: reader.at(base, mapped(index)))

    def _reduced(self, node: Node) -> Value | tuple[Value, ...]:
        if node.op in ("max", "min") and len(node.args) > 1 and isinstance(node.args[1], Named):
            return self.elementwise(node, *SAME["maximum" if node.op == "max" else "minimum"], self.dtype(node))
        source = self.value(node.given(0))
        over = self.axes(node.given(1, "dim"), len(source.shape))
        if node.op == "cumsum":
            return Reduction("scan", self.dtype(node), node.shape, ((source, False),), 0, source=source, over=over, combine="scan")
        pair = node.op in ("max", "min") and len(node.args) > 1
        keeps = node.given(2, "keepdim") is True
        dtype = source.dtype if node.op in ("max", "min", "amax", "amin") else self.dtype(node)
        found = self.reduce(source, over, REDUCED[node.op], dtype, keeps=keeps)
        if pair:
            return found, self.reduce(source, over, "argmax" if node.op == "max" else "argmin", "int64", keeps=keeps)
        return self.divided(found, source, over, dtype) if node.op == "mean" else found

    def axes(self, given: Given, rank: int) -> tuple[int, ...]:
        """The axes that a reduction names; all where it names none."""
        listed = given if isinstance(given, tuple) else () if given is None else (given,)
        found = sorted({int(n.values[0]) % max(rank, 1) for n in listed if isinstance(n, Numbers)})
        return tuple(found) if found and rank else tuple(range(rank))

    def reduce(self, source: Value, over: tuple[int, ...], combine: Combine, dtype: DType, *, keeps: bool, wide: bool = True) -> Value:
        """Elements of `source` put together along axes, which stay with extent 1 where it `keeps` them."""
        left = tuple(s for axis, s in enumerate(source.shape) if axis not in over)
        same = (source, over, combine, dtype)
        if same not in self.reduced:
            self.reduced[same] = Reduction(
                combine, dtype, left, ((source, False),), 0, source=source, over=over, combine=combine, wide=wide
            )
        found = self.reduced[same]
        if not keeps:
            return found
        kept = tuple(ONE if axis in over else s for axis, s in enumerate(source.shape))
        return View(
            combine, dtype, kept, ((found, False),), 0,
            lambda reader, index: reader.at(found, tuple(at for axis, at in enumerate(index) if axis not in over)),
        )  # fmt: skip

    def divided(self, total: Value, source: Value, over: tuple[int, ...], dtype: DType, less: Numbers | None = None) -> Value:
        """A sum over the number of its elements, or over a few less."""
        counts = [1] * len(source.shape[0].values) if source.shape else [1, 1, 1]
        for axis in over:
            counts = [c * v for c, v in zip(counts, source.shape[axis].values, strict=True)]
        by = tuple(c - n for c, n in zip(counts, less.values if less else (0, 0, 0), strict=True))
        divisor = self.value(Numbers(by), dtype)
        return self.combined("mean" if less is None else "variance", dtype, total.shape, "{0} / {1}", DIVISION, [total, divisor])

    def variance(self, node: Node) -> tuple[Value, Value]:
        """(variance, mean) in two passes, with the correction that the node names."""
        source = self.value(node.given(0))
        dtype = source.dtype
        over = self.axes(node.given(1, "dim"), len(source.shape))
        keeps = node.named.get("keepdim") is True
        correction = node.named.get("correction")
        less = correction if isinstance(correction, Numbers) else Numbers((1, 1, 1))
        mean = self.divided(self.reduce(source, over, "sum", dtype, keeps=True), source, over, dtype)
        apart = self.combined("apart", dtype, source.shape, "{0} - {1}", CHEAP, [source, mean])
        squared = self.combined("squared", dtype, source.shape, "{0} * {1}", CHEAP, [apart, apart])
        total = self.reduce(squared, over, "sum", dtype, keeps=keeps)
        kept = mean if keeps else self.divided(self.reduce(source, over, "sum", dtype, keeps=False), source, over, dtype)
        return self.divided(total, source, over, dtype, less), kept

    def product(self, node: Node) -> Value:
        """mm and bmm: sums of products over the inner axis, in the tensors' own type as libraries do."""
        a, b = self.value(node.given(0)), self.value(node.given(1))
        batch = a.shape[:-2]
        rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
        shape = (*batch, rows, columns, inner)
        dtype: DType = self.dtype(node)
        within: DType = "float32" if dtype == "float16" else dtype

        def text(reader: Reader, index: Index) -> str:
            *group, i, j, k = index
            one = cast(reader.at(a, (*group, i, k)), a.computed, within)
            other = cast(reader.at(b, (*group, k, j)), b.computed, within)
            return f"{wrap(one)} * {wrap(other)}"

        terms = Value("terms", dtype, shape, ((a, True), (b, True)), CHEAP, text)
        return self.reduce(terms, (len(shape) - 1,), "sum", dtype, keeps=False, wide=False)


def broadcast(index: Index, shape: tuple[Size, ...], narrow: tuple[Size, ...]) -> Index:
    """Where an element of what has `shape` lies in what is broadcast to it."""
    return tuple("0" if size.one else at for at, size in zip(index[len(shape) - len(narrow) :], narrow, strict=True))


def spreads(narrow: tuple[Size, ...], shape: tuple[Size, ...]) -> bool:
    """Whether broadcasting reads an element several times."""
    return len([s for s in narrow if not s.one]) < len([s for s in shape if not s.one])
