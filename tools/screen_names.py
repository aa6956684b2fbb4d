"""What the screen of Python kernels says and compares: a refusal, a name in a table, an annotation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tools.languages.triton_source import Module
from tools.screen_scopes import arguments

Fault = tuple[int, str, str]
"""Line, quoted text, reason."""


def fault(module: Module, node: ast.AST, reason: str) -> Fault:
    """A refusal of `node`."""
    line: int = getattr(node, "lineno", 1)
    quote = ast.get_source_segment(module.source, node) or ""
    return line, quote.splitlines()[0] if quote else type(node).__name__, reason


def matches(patterns: str, name: str) -> bool:
    """Whether the whole name stands in a table: patterns apart by spaces."""
    return re.fullmatch(patterns.replace(" ", "|"), name) is not None


def why(full: str) -> str:
    """Why a dotted name that is in no table is refused."""
    last = full.rpartition(".")[2]
    if last in ("inline_asm_elementwise", "globaltimer", "clock", "smid"):
        return "reads a clock or is inline assembly, which cannot be checked; use Triton's own operators"
    if full.startswith("triton"):
        return "is no allowed part of Triton; allowed are jit, Config, cdiv, next_power_of_2 and the operators of triton.language"
    if full.startswith("torch"):
        return "is work or machinery of torch; do it in the kernel (allowed are allocation, types and device properties)"
    return "is no name that a kernel needs; allowed are torch's allocation, triton, triton.language, math and typing"


def signature(module: Module, types: str, node: ast.FunctionDef) -> Iterator[Fault]:
    """Annotations of parameters and result: they run when the file is imported."""
    for parameter in getattr(node, "type_params", ()):
        yield fault(
            module, parameter, "is a type parameter, which a kernel does not need; write torch.Tensor, tl.constexpr, int or the like"
        )
    for given in (*(a.annotation for a in arguments(node)), node.returns):
        if given is not None:
            yield from annotation(module, types, given)


def annotation(module: Module, types: str, node: ast.expr) -> Iterator[Fault]:
    """Names of types alone."""
    match node:
        case ast.Constant(value=plain) if plain is None or plain is ...:
            return
        case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.*\[\], |]*", text):
            return
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            pass
        case ast.Subscript(value=value, slice=index):
            parts = [value, index]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            parts = [left, right]
        case ast.Name(id=name) if name in ("int", "float", "bool", "str", "tuple", "list", "dict", "object", "type"):
            return
        case ast.Name() | ast.Attribute() if matches(types, module.full(node)):
            return
        case _:
            yield fault(module, node, "is no plain name of a type; write torch.Tensor, tl.constexpr, int or the like")
            return
    for part in parts:
        yield from annotation(module, types, part)
