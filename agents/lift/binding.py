"""What the wrapper's names stand for in a kernel with our contract: its inputs, and which of its buffers are
outputs."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from agents.lift.wrapper import Alias, Buffer, BufferView, Number, Wrapper
from tools.artifacts import Argument
from tools.errors import SettingsError
from tools.executors.protocol import GeneratedCode, InductorResult

COMPUTED: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Returned:
    """An output that no buffer of the wrapper can be: `size` elements of a view, copied at the end."""

    output: str
    view: BufferView
    size: str


class Binding:
    """`given`: name of an input -> what it is in our words. `outputs`: buffer -> the output that takes its place."""

    def __init__(
        self, arguments: Sequence[Argument], found: InductorResult, variant: GeneratedCode, wrapper: Wrapper
    ) -> None:
        self.shapes = found.shapes
        self.bound = dict(zip(wrapper.inputs, variant.inputs, strict=True))
        self.scalars = {a.name for a in arguments if a.role == "scalar"}
        self.changed = {a.name for a in arguments if a.role == "inout"}
        self.given = {name: self._given(what) for name, what in self.bound.items()}
        self.outputs: dict[str, str] = {}
        self.copies: list[Returned] = []
        self._return([a.name for a in arguments if a.is_written], wrapper, dict(variant.scalars))

    def _given(self, what: str) -> str:
        name, _, at = what.partition(".")
        return self.shapes[name][int(at)] if at else name

    def number(self, value: ast.expr) -> str:
        """The Python text of a number that the wrapper computes on the host.

        Inductor wraps a float argument in a tensor without dimensions and reads it with `.item()`; here the argument
        is the number itself.
        """
        match value:
            case ast.Call(ast.Attribute(ast.Name(name), "item"), []) if self.bound.get(name) in self.scalars:
                return name
            case ast.Subscript(value=ast.Name(tensor), slice=ast.Constant(int(at))):
                return self.shapes[self.bound[tensor.removesuffix("_size")]][at]
        return ast.unparse(value)

    def _return(self, names: list[str], wrapper: Wrapper, values: dict[str, float]) -> None:
        """Which buffer can be an output: as large, and no other's."""
        for name, text in self.given.items():
            if name not in values and text not in self.shapes:
                values[name] = values[text] if text in values else evaluated(_read(text), values)
        for step in wrapper.steps:
            if isinstance(step, Number):
                values[step.name] = evaluated(_read(self.number(step.value)), values)
        aliases = {s.name: s.view for s in wrapper.steps if isinstance(s, Alias)}
        buffers = {s.name: s for s in wrapper.steps if isinstance(s, Buffer)}
        for output, view in zip(names, wrapper.returned, strict=True) if wrapper.returned else ():
            chain = [view]
            while chain[-1].base in aliases:
                chain.append(aliases[chain[-1].base])
            made, size = buffers.get(chain[-1].base), " * ".join(f"({n})" for n in self.shapes[output]) or "1"
            # The kernels may still read an argument while they compute what takes its place.
            whole = (
                output not in self.changed
                and made is not None
                and prod(evaluated(n, values) for n in made.shape) == evaluated(_read(size), values)
            )
            if whole and made is not None and all(one.plain for one in chain) and made.name not in self.outputs:
                self.outputs[made.name] = output
            else:
                self.copies.append(Returned(output, view, size))


def _read(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def evaluated(node: ast.expr, values: Mapping[str, float]) -> int:
    """A Python expression over whole numbers at these values."""
    match node:
        case ast.Name(name):
            return int(values[name])
        case ast.Constant(int(value)):
            return value
        case ast.BinOp(left, sign, right) if type(sign) in COMPUTED:
            return COMPUTED[type(sign)](evaluated(left, values), evaluated(right, values))
        case ast.UnaryOp(ast.USub(), operand):
            return -evaluated(operand, values)
        case ast.Call(ast.Name("max" | "min" as function), args):
            return (max if function == "max" else min)(evaluated(a, values) for a in args)
    raise unwritten(node)


def unwritten(node: ast.expr) -> SettingsError:
    """The sentence for a size that has no words in the kernel's language."""
    return SettingsError(
        f"torch.compile computes `{ast.unparse(node)[:80]}` of the sizes, which the lift does not write out; give "
        f"a kernel"
    )
