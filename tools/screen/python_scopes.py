"""Scopes of a Python file: which names are bound, and to what kind of value. The screen allows calls only of names
whose binding it knows.

The module also compares names with patterns, screens annotations and makes refusals.
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
from tools.screen.refusals import Refusal

BUILTIN_NAMES = frozenset(dir(builtins))
BindingKind = Literal["function", "kernel", "new_container", "other"]
"""What all bindings of a name are: a `function` (one def or lambda, or compiled kernels), a `kernel` of the file, a
`new_container` (a list, dict or set made in the function), or `other`."""
_CONTAINER_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_SCOPE_NODES = (
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
    """The names that one function, lambda or comprehension binds, and the scope around it."""

    names: dict[str, BindingKind] = field(default_factory=dict)
    outer: Scope | None = None

    def binding_kind(self, name: str) -> BindingKind | None:
        """What a local name is bound to; None for a name of the module, an import or a builtin."""
        return self.names.get(name) or (self.outer.binding_kind(name) if self.outer else None)


def function_scope(node: ast.FunctionDef | ast.Lambda, outer: Scope | None, module_names: ModuleNames) -> Scope:
    """The scope of the body of a function or lambda."""
    bound: dict[str, list[ast.AST | None]] = defaultdict(list)
    for argument in parameters_of(node):
        bound[argument.arg].append(None)
    for statement in node.body if isinstance(node, ast.FunctionDef) else ():
        _collect_bindings(statement, bound)
    names = {name: _binding_kind(values, module_names) for name, values in bound.items()}
    if node.args.kwarg and bound[node.args.kwarg.arg] == [None]:
        names[node.args.kwarg.arg] = "new_container"
    return Scope(names, outer)


def comprehension_scope(generators: list[ast.comprehension], outer: Scope) -> Scope:
    """The scope of a comprehension, which binds its loop variables."""
    return Scope({n.id: "other" for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}, outer)


def parameters_of(node: ast.FunctionDef | ast.Lambda) -> Iterator[ast.arg]:
    """All parameters of a function or lambda, including `*args` and `**kwargs`."""
    a = node.args
    yield from (x for x in (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg) if x is not None)


def _collect_bindings(node: ast.AST, bound: dict[str, list[ast.AST | None]]) -> None:
    """Add to `bound` each name that `node` binds, with the value; None: the value is not known."""
    if isinstance(node, ast.FunctionDef):
        bound[node.name].append(node)
        return
    if isinstance(node, _SCOPE_NODES):
        return
    if isinstance(node, ast.Assign):
        for target in node.targets:
            _collect_target_bindings(target, node.value, bound)
        return
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        bound[node.target.id].append(node.value)
        return
    # `+=` extends a list in place, so the name still refers to the same list.
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        bound[node.target.id].append(node.value if isinstance(node.value, _CONTAINER_DISPLAYS) else None)
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        bound[node.id].append(None)
    for child in ast.iter_child_nodes(node):
        _collect_bindings(child, bound)


def _collect_target_bindings(target: ast.expr, value: ast.expr, bound: dict[str, list[ast.AST | None]]) -> None:
    """Add to `bound` the names of an assignment target, each with its part of the value where that is written out."""
    if isinstance(target, ast.Name):
        bound[target.id].append(value)
    elif isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else []
        is_pairwise = values and not any(isinstance(e, ast.Starred) for e in (*values, *target.elts))
        for at, element in enumerate(target.elts):
            _collect_target_bindings(
                element.value if isinstance(element, ast.Starred) else element,
                values[at] if is_pairwise else ast.Constant(None),
                bound,
            )


def _binding_kind(values: list[ast.AST | None], module_names: ModuleNames) -> BindingKind:
    """The kind that all values of one name have."""
    if len(values) == 1 and isinstance(values[0], ast.FunctionDef | ast.Lambda):
        return "function"
    if all(module_names.is_compiled_kernel(v) for v in values):
        return "function"
    if all(_is_kernel(v, module_names.kernels) for v in values):
        return "kernel"
    if all(
        isinstance(v, _CONTAINER_DISPLAYS)
        or (isinstance(v, ast.Call) and isinstance(v.func, ast.Name) and called_name(v) in ("list", "dict"))
        for v in values
    ):
        return "new_container"
    return "other"


def _is_kernel(value: ast.AST | None, kernels: frozenset[str]) -> bool:
    """Whether the value is the name of a kernel, or a choice between kernels."""
    if isinstance(value, ast.IfExp):
        return _is_kernel(value.body, kernels) and _is_kernel(value.orelse, kernels)
    return isinstance(value, ast.Name) and value.id in kernels


class ModuleNames:
    """The names of a file's top level by kind: kernels, functions, containers and builders."""

    def __init__(self, module: PythonModule) -> None:
        self.module = module
        self.kernels = frozenset(module.kernels)
        self.functions = frozenset(module.functions) | {
            n
            for s in module.tree.body
            if isinstance(s, ast.Assign) and isinstance(s.value, ast.Lambda)
            for t in s.targets
            if (n := _identifier(t))
        }
        self.containers: set[str] = set()
        """Names whose value can be changed in place; only decorators may use them."""
        self.builders = frozenset(
            name
            for name, node in module.functions.items()
            if any(module.full_name(d).startswith("functools.") for d in node.decorator_list)
        )
        """Functions under `functools.cache`, which compile a kernel once for each signature."""

    def is_compiled_kernel(self, node: ast.AST | None) -> bool:
        """Whether `node` calls a builder, whose result is a compiled kernel."""
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.builders


def _identifier(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def refusal_at(module: PythonModule, node: ast.AST, reason: str) -> Refusal:
    """A refusal of `node`, which quotes the first line of its code."""
    line: int = getattr(node, "lineno", 1)
    quote = ast.get_source_segment(module.source, node) or ""
    return Refusal(line, quote.splitlines()[0] if quote else type(node).__name__, reason)


def matches_pattern(patterns: str, name: str) -> bool:
    """Whether one of the patterns, separated by spaces, matches the whole name."""
    return re.fullmatch(patterns.replace(" ", "|"), name) is not None


def reason_not_allowed(full: str) -> str:
    """Why a dotted name that no table allows is refused."""
    last = full.rpartition(".")[2]
    if re.fullmatch("inline_(asm_elementwise|ptx)|globaltimer(_lo)?|clock(64)?|n?smid", last):
        return "reads a clock or is inline assembly, which cannot be checked; use the language's own operators"
    if full.startswith("triton"):
        return (
            "is a part of Triton that is not allowed; allowed are jit, Config, cdiv, next_power_of_2 and the operators "
            "of triton.language"
        )
    if full.startswith("torch"):
        return (
            "is an operator or internal of torch; compute in the kernel (allowed are allocation, types, device "
            "properties and the operators that task.yaml lists under `library:`)"
        )
    return "is not allowed in a kernel; allowed are torch's allocation, the kernel language, math and typing"


def screen_signature(module: PythonModule, types: str, node: ast.FunctionDef) -> Iterator[Refusal]:
    """Yield a refusal for each annotation that names something other than `types`: annotations run at import."""
    for parameter in getattr(node, "type_params", ()):
        yield refusal_at(
            module,
            parameter,
            "is a type parameter, which a kernel does not need; write a type such as torch.Tensor, tl.constexpr or int",
        )
    for written in (*(a.annotation for a in parameters_of(node)), node.returns):
        if written is not None:
            yield from screen_annotation(module, types, written)


def screen_annotation(module: PythonModule, types: str, node: ast.expr) -> Iterator[Refusal]:
    """Yield a refusal unless the annotation consists of names of types."""
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
        case ast.Name() | ast.Attribute() if matches_pattern(types, module.full_name(node)):
            return
        case _:
            yield refusal_at(
                module, node, "is not the name of a type; write a type such as torch.Tensor, tl.constexpr or int"
            )
            return
    for part in parts:
        yield from screen_annotation(module, types, part)
