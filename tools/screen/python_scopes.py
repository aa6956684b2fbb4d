"""Where a name of a Python file is bound, and to what sort of thing: what the screen must know before it lets a name be
called.

And what it compares and says of one: a name in a table, an annotation, a refusal.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from tools.languages.triton_source import PythonModule, called_name

BUILTINS = frozenset(dir(builtins))
Fault = tuple[int, str, str]
"""Line, quoted text, reason."""
Sort = Literal["function", "kernel", "fresh", "other"]
"""function: bound by def or lambda alone, or to compiled kernels. kernel: to kernels of the file. fresh: to lists
and dicts of the call."""
_FRESH = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.ClassDef,
)


@dataclass(frozen=True)
class Scope:
    """The names of one function, lambda or comprehension, and those around it."""

    names: dict[str, Sort] = field(default_factory=dict)
    around: Scope | None = None

    def find(self, name: str) -> Sort | None:
        """What a local name is; None where it belongs to the module, to an import or to Python."""
        return self.names.get(name) or (self.around.find(name) if self.around else None)


def inside(node: ast.FunctionDef | ast.Lambda, around: Scope | None, known: Names) -> Scope:
    """The scope of a function's body."""
    bound: dict[str, list[ast.AST | None]] = defaultdict(list)
    for argument in arguments(node):
        bound[argument.arg].append(None)
    for statement in node.body if isinstance(node, ast.FunctionDef) else ():
        _bindings(statement, bound)
    names = {name: _sort(values, known) for name, values in bound.items()}
    if node.args.kwarg and bound[node.args.kwarg.arg] == [None]:
        names[node.args.kwarg.arg] = "fresh"
    return Scope(names, around)


def comprehension(generators: list[ast.comprehension], around: Scope) -> Scope:
    """The scope of a comprehension: its loop variables."""
    return Scope({n.id: "other" for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}, around)


def arguments(node: ast.FunctionDef | ast.Lambda) -> Iterator[ast.arg]:
    """All parameters, the starred ones included."""
    a = node.args
    yield from (x for x in (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg) if x is not None)


def _bindings(node: ast.AST, bound: dict[str, list[ast.AST | None]]) -> None:
    if isinstance(node, ast.FunctionDef):
        bound[node.name].append(node)
        return
    if isinstance(node, _SCOPES):
        return
    if isinstance(node, ast.Assign):
        for target in node.targets:
            _paired(target, node.value, bound)
        return
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        bound[node.target.id].append(node.value)
        return
    # A list that `+=` makes longer is the same list.
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        bound[node.target.id].append(node.value if isinstance(node.value, _FRESH) else None)
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        bound[node.id].append(None)
    for child in ast.iter_child_nodes(node):
        _bindings(child, bound)


def _paired(target: ast.expr, value: ast.expr, bound: dict[str, list[ast.AST | None]]) -> None:
    if isinstance(target, ast.Name):
        bound[target.id].append(value)
    elif isinstance(target, ast.Tuple | ast.List):
        given = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else []
        plain = given and not any(isinstance(e, ast.Starred) for e in (*given, *target.elts))
        for at, element in enumerate(target.elts):
            _paired(
                element.value if isinstance(element, ast.Starred) else element,
                given[at] if plain else ast.Constant(None),
                bound,
            )


def _sort(values: list[ast.AST | None], known: Names) -> Sort:
    if len(values) == 1 and isinstance(values[0], ast.FunctionDef | ast.Lambda):
        return "function"
    if all(known.built(v) for v in values):
        return "function"
    if all(_kernel(v, known.kernels) for v in values):
        return "kernel"
    if all(
        isinstance(v, _FRESH)
        or (isinstance(v, ast.Call) and isinstance(v.func, ast.Name) and called_name(v) in ("list", "dict"))
        for v in values
    ):
        return "fresh"
    return "other"


def _kernel(value: ast.AST | None, kernels: frozenset[str]) -> bool:
    if isinstance(value, ast.IfExp):
        return _kernel(value.body, kernels) and _kernel(value.orelse, kernels)
    return isinstance(value, ast.Name) and value.id in kernels


class Names:
    """What the names of a file's top level stand for."""

    def __init__(self, module: PythonModule) -> None:
        self.module = module
        self.kernels = frozenset(module.kernels)
        self.functions = frozenset(module.functions) | {
            n
            for s in module.tree.body
            if isinstance(s, ast.Assign) and isinstance(s.value, ast.Lambda)
            for t in s.targets
            if (n := _name(t))
        }
        self.containers: set[str] = set()
        """Module names whose value can be changed in place: for decorators only."""
        self.builders = frozenset(
            name
            for name, node in module.functions.items()
            if any(module.full_name(d).startswith("functools.") for d in node.decorator_list)
        )
        """Functions that compile a kernel once for each signature."""

    def built(self, node: ast.AST | None) -> bool:
        """Whether the value is a compiled kernel."""
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.builders


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def fault(module: PythonModule, node: ast.AST, reason: str) -> Fault:
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
    if re.fullmatch("inline_(asm_elementwise|ptx)|globaltimer(_lo)?|clock(64)?|n?smid", last):
        return "reads a clock or is inline assembly, which cannot be checked; use the language's own operators"
    if full.startswith("triton"):
        return (
            "is no allowed part of Triton; allowed are jit, Config, cdiv, next_power_of_2 and the operators of "
            "triton.language"
        )
    if full.startswith("torch"):
        return (
            "is work or machinery of torch; do it in the kernel (allowed are allocation, types, device properties, "
            "and the operators "
            "that task.yaml lists under `library:`)"
        )
    return "is no name that a kernel needs; allowed are torch's allocation, the kernel language, math and typing"


def signature(module: PythonModule, types: str, node: ast.FunctionDef) -> Iterator[Fault]:
    """Annotations of parameters and result: they run when the file is imported."""
    for parameter in getattr(node, "type_params", ()):
        yield fault(
            module,
            parameter,
            "is a type parameter, which a kernel does not need; write torch.Tensor, tl.constexpr, int or the like",
        )
    for given in (*(a.annotation for a in arguments(node)), node.returns):
        if given is not None:
            yield from annotation(module, types, given)


def annotation(module: PythonModule, types: str, node: ast.expr) -> Iterator[Fault]:
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
        case ast.Name() | ast.Attribute() if matches(types, module.full_name(node)):
            return
        case _:
            yield fault(module, node, "is no plain name of a type; write torch.Tensor, tl.constexpr, int or the like")
            return
    for part in parts:
        yield from annotation(module, types, part)
