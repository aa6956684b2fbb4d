"""ATen operations that need more than a template of C++, and the table of all such."""

from __future__ import annotations

from agents.models.playbook.first import moving
from agents.models.playbook.first.lowering import TRACES, Lowering, Operator, broadcast, spreads, unwritten
from agents.models.playbook.first.operations import CHEAP, DIVISION, SAME
from agents.models.playbook.first.traced import Given, Named, Node, Numbers
from agents.models.playbook.first.values import FLOATS, STORED, Index, Reader, Value, cast, wrap
from tools.artifacts import DType
from tools.errors import SettingsError


def where(self: Lowering, node: Node) -> Value:
    dtype = self.dtype(node)
    condition, a, b = (self.value(node.given(p), dtype if p else "bool") for p in range(3))
    cast_a = self.combined("one", dtype, a.shape, "{0}", 0, [a])
    cast_b = self.combined("other", dtype, b.shape, "{0}", 0, [b])
    return _chosen(node, dtype, condition, cast_a, cast_b)


def _chosen(node: Node, dtype: DType, condition: Value, a: Value, b: Value) -> Value:
    def text(reader: Reader, index: Index) -> str:
        asked, one, other = (reader.at(v, broadcast(index, node.shape, v.shape)) for v in (condition, a, b))
        return f"{wrap(asked)} ? {wrap(one)} : {wrap(other)}"

    return Value("chosen", dtype, node.shape, tuple((v, spreads(v.shape, node.shape)) for v in (condition, a, b)), CHEAP, text)


def clamp(self: Lowering, node: Node) -> Value:
    dtype = self.dtype(node)
    found = self.value(node.given(0))
    ends = {"clamp_min": (1, None), "clamp_max": (None, 1)}.get(node.op, (1, 2))
    for position, name, function in ((ends[0], "min", "std::max({0}, {1})"), (ends[1], "max", "std::min({0}, {1})")):
        end = node.given(position, name) if position is not None else None
        if end is not None:
            found = self.combined("clamped", dtype, node.shape, function, CHEAP, [found, self.value(end, dtype)])
    return found


def power(self: Lowering, node: Node) -> Value:
    dtype = self.dtype(node)
    exponent = node.given(1)
    base = self.value(node.given(0), dtype)
    if isinstance(exponent, Numbers) and len(set(exponent.values)) == 1:
        fixed = exponent.values[0]
        square = self.combined("squared", dtype, node.shape, "{0} * {1}", CHEAP, [base, base])
        if fixed == 2:
            return square
        if fixed == 3:
            return self.combined("cubed", dtype, node.shape, "{0} * {1}", CHEAP, [square, base])
        known = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(fixed)
        if known:
            return self.combined(known, dtype, node.shape, *SAME[known], [base])
    return self.elementwise(node, *SAME["pow"], dtype)


def divided(self: Lowering, node: Node) -> Value:
    mode, dtype = node.named.get("rounding_mode"), self.dtype(node)
    given = [self.value(node.given(p), dtype) for p in (0, 1)]
    whole = dtype not in FLOATS
    if mode is None or (mode == "trunc" and whole):
        return self.combined("div", dtype, node.shape, "{0} / {1}", DIVISION, given)
    if whole:
        return self.combined("div", dtype, node.shape, "{0} / {1} - ({0} % {1} != 0 && ({0} < 0) != ({1} < 0))", DIVISION, given)
    return self.combined("div", dtype, node.shape, f"std::{mode}({{0}} / {{1}})", DIVISION, given)


def remainder(self: Lowering, node: Node) -> Value:
    dtype = self.dtype(node)
    given = [self.value(node.given(p), dtype) for p in (0, 1)]
    template = "{0} - std::floor({0} / {1}) * {1}" if dtype in FLOATS else "({0} % {1} + {1}) % {1}"
    return self.combined("remainder", dtype, node.shape, template, DIVISION, given)


def fmod(self: Lowering, node: Node) -> Value:
    dtype = self.dtype(node)
    given = [self.value(node.given(p), dtype) for p in (0, 1)]
    return self.combined("rest", dtype, node.shape, "std::fmod({0}, {1})" if dtype in FLOATS else "{0} % {1}", DIVISION, given)


def relu(self: Lowering, node: Node) -> Value:
    dtype = self.dtype(node)
    return self.combined(
        "relu", dtype, node.shape, "std::max({0}, {1})", CHEAP, [self.value(node.given(0)), self.value(Numbers((0, 0, 0)), dtype)]
    )


def sign(self: Lowering, node: Node) -> Value:
    dtype = self.dtype(node)
    return self.combined("sign", dtype, node.shape, f"{_made_of(dtype)}(({{0}} > 0) - ({{0}} < 0))", CHEAP, [self.value(node.given(0))])


def _made_of(dtype: DType) -> str:
    return STORED["float32" if dtype == "float16" else dtype]


def converted(self: Lowering, node: Node) -> Value:
    source = self.value(node.given(0))
    dtype = self.dtype(node)
    narrow = dtype == "float16" and source.dtype != "float16"
    made = self.combined("converted", dtype, node.shape, "{0}", 0, [source])
    if not narrow:
        return made
    return Value("rounded", dtype, node.shape, ((made, False),), CHEAP, lambda reader, index: f"float(_Float16({reader.at(made, index)}))")


def full(self: Lowering, node: Node) -> Value:
    dtype = self.dtype(node)
    given: Given = {"empty": Numbers((0, 0, 0)), "zeros": Numbers((0, 0, 0)), "ones": Numbers((1, 1, 1))}.get(node.op.split("_")[0])
    given = given or node.given({"full": 1, "full_like": 1, "fill": 1}.get(node.op, 0))
    return self.combined("constant", dtype, node.shape, "{0}", 0, [self.value(given, dtype)])


def strided(self: Lowering, node: Node) -> Value:
    """as_strided where it says no more than a reshape does."""
    strides = [n.whole for n in node.args[2] if isinstance(n, Numbers)] if isinstance(node.args[2], tuple) else []
    wanted = [1] * TRACES
    for size, stride in reversed(list(zip(node.shape, strides, strict=True))):
        if tuple(wanted) != stride and not size.one:
            raise unwritten(node.op)
        wanted = [w * v for w, v in zip(wanted, size.values, strict=True)]
    return self.view(Node(node.name, "view", node.args[:1], {}, node.dtype, node.shape))


def constant_of(self: Lowering, node: Node) -> Value:
    if not node.args:
        raise SettingsError("reference.py makes a table of numbers of its own; pass it in make_inputs as a tensor, or give a kernel")
    return self.combined("constant", self.dtype(node), node.shape, "{0}", 0, [self.value(node.args[0], self.dtype(node))])


def counted(self: Lowering, node: Node) -> Value:
    dtype = self.dtype(node)
    start, step = node.given(0), node.given(2, "step", Numbers((1, 1, 1)))
    if node.op == "iota":
        start, step = node.named.get("start"), node.named.get("step", Numbers((1, 1, 1)))
    first, by = self.value(start, dtype), self.value(step, dtype)
    plain = isinstance(start, Numbers) and isinstance(step, Numbers) and set(start.values) == {0} and set(step.values) == {1}

    def text(reader: Reader, index: Index) -> str:
        at = cast(index[0], "int64", dtype)
        return at if plain else f"{wrap(reader.at(first, ()))} + {wrap(at)} * {wrap(reader.at(by, ()))}"

    return Value("number", dtype, node.shape, (), 0, text)


def item(self: Lowering, node: Node) -> Value:
    source, which = node.args
    found = self.values[source.name] if isinstance(source, Named) else ()
    if not isinstance(found, tuple) or not isinstance(which, Numbers):
        raise unwritten("operation with several results")
    return found[which.whole[0]]


def copied(self: Lowering, node: Node) -> Value:
    base, new = self.value(node.given(0)), self.value(node.given(1))
    return self.combined("copy", base.dtype, node.shape, "{0}", 0, [new])


OPERATORS: dict[str, Operator] = {
    "where": where,
    "clamp": clamp, "clamp_min": clamp, "clamp_max": clamp,
    "pow": power,
    "div": divided,
    "floor_divide": lambda self, node: divided(self, Node(node.name, "div", node.args, {"rounding_mode": "floor"}, node.dtype, node.shape)),
    "remainder": remainder, "fmod": fmod,
    "relu": relu,
    "sign": sign,
    "_to_copy": converted, "convert_element_type": converted, "to": converted,
    "full": full, "full_like": full, "zeros": full, "zeros_like": full, "ones": full, "ones_like": full,
    "scalar_tensor": full, "fill": full,
    "empty": full,
    "constant": constant_of,
    "arange": counted, "iota": counted,
    "mm": Lowering.product, "bmm": Lowering.product,
    "var": lambda self, node: self.variance(node)[0],
    "var_mean": Lowering.variance,
    "cat": moving.parts,
    "split": moving.pieces, "split_with_sizes": moving.pieces, "unbind": moving.pieces,
    "slice_scatter": moving.scattered, "select_scatter": moving.scattered,
    "constant_pad_nd": moving.padded,
    "index_select": moving.picked, "embedding": moving.picked, "gather": moving.picked, "index": moving.picked,
    "as_strided": strided,
    "getitem": item,
    "copy": copied,
}  # fmt: skip
"""What `Lowering` cannot make by a template, a view or a reduction."""
