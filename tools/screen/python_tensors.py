"""Which names of host code hold tensors, as far as the text or the task says: what torch would compute with if they
were added."""

from __future__ import annotations

import ast
from collections.abc import Collection

from tools.languages.triton_source import PythonModule, dotted_name
from tools.screen.python_scopes import arguments, matches

_VIEWS = (
    *(
        "view",
        "view_as",
        "reshape",
        "unsqueeze",
        "squeeze",
        "expand",
        "flatten",
        "permute",
        "transpose",
        "t",
        "as_strided",
        "narrow",
    ),
    *("zero_", "fill_", "new_empty", "new_zeros", "new_full"),
)
_SHOWS = (*_VIEWS, "shape", "stride", "dtype", "element_size", "is_contiguous", "is_cuda", "data_ptr")
"""Nobody but a tensor is asked for these."""
_CARRIES = (*_VIEWS, "select", "get", "items", "values")
_MAKES = ("empty", "empty_like", "empty_strided", "zeros", "zeros_like", "full", "full_like")
_ENTRY = "run_kernel"


class Tensors:
    """Names that hold tensors, or tuples, lists and dicts of them, by function of the file's top level."""

    def __init__(self, module: PythonModule, known: Collection[str], library: str = "") -> None:
        """`known`: the arguments of run_kernel that are tensors, where a task says so. `library`: patterns of what
        returns tensors."""
        self.module = module
        self.library = library
        self.known = frozenset(known)
        self.names: dict[str, set[str]] = {name: self._shown(node) for name, node in module.functions.items()}
        self.returning: set[str] = set()
        entry = module.functions.get(_ENTRY)
        if entry is not None:
            self.names[_ENTRY] |= self.known & {a.arg for a in arguments(entry)}
        self._rest = entry.args.kwarg.arg if entry is not None and entry.args.kwarg else ""
        size = -1
        while size != (size := sum(map(len, self.names.values())) + len(self.returning)):
            for name, node in module.functions.items():
                self._flow(name, node)

    def bears(self, node: ast.AST | None, function: str) -> bool:
        """Whether the value may be a tensor or hold one."""
        match node:
            case ast.Name(id=name):
                return name in self.names.get(function, ())
            case ast.Attribute(value=value, attr=attr):
                return attr in ("T", "mT") and self.bears(value, function)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)) if (
                name == self._rest and function == _ENTRY
            ):
                return key in self.known
            case ast.Subscript(value=value) | ast.Starred(value=value) | ast.NamedExpr(value=value):
                return self.bears(value, function)
            case (
                ast.Tuple(elts=parts)
                | ast.List(elts=parts)
                | ast.Set(elts=parts)
                | ast.Dict(values=parts)
                | ast.BoolOp(values=parts)
            ):
                return any(self.bears(e, function) for e in parts)
            case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
                return self.bears(one, function) or self.bears(other, function)
            case ast.ListComp(elt=made) | ast.SetComp(elt=made) | ast.GeneratorExp(elt=made) | ast.DictComp(value=made):
                return self.bears(made, function)
            case ast.Call():
                return self._made(node, function)
        return False

    def _made(self, node: ast.Call, function: str) -> bool:
        full, callee = self.module.full_name(node), node.func
        if full.removeprefix("torch.") in _MAKES and full.startswith("torch."):
            return True
        if matches(self.library, full):
            return True
        if isinstance(callee, ast.Name):
            carried = callee.id in ("tuple", "list", "reversed", "zip", "enumerate", "dict", "iter", "sorted")
            return callee.id in self.returning or (carried and any(self.bears(a, function) for a in node.args))
        if not isinstance(callee, ast.Attribute) or callee.attr not in _CARRIES:
            return False
        if dotted_name(callee.value) == self._rest and function == _ENTRY:
            first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            return first in self.known if callee.attr == "get" else bool(self.known)
        return callee.attr.startswith("new_") or self.bears(callee.value, function)

    def _shown(self, node: ast.FunctionDef) -> set[str]:
        found = {
            n.value.id
            for n in ast.walk(node)
            if isinstance(n, ast.Attribute) and n.attr in _SHOWS and isinstance(n.value, ast.Name)
        }
        typed = {
            a.arg for a in arguments(node) if a.annotation and self.module.full_name(a.annotation) == "torch.Tensor"
        }
        return (found | typed) - self.module.import_names.keys()

    def _flow(self, name: str, top: ast.FunctionDef) -> None:
        """One round of what assignments, loops, returns and calls carry on."""
        held = self.names[name]
        for node in ast.walk(top):
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._bind(target, value, name)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._bind(target, value, name)
                case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value) if self.bears(
                    value, name
                ):
                    held |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                case ast.Return(value=value) if self.bears(value, name):
                    self.returning.add(name)
                case ast.Call(func=ast.Name(id=callee)) if callee in self.names:
                    self._pass(node, callee, name)

    def _bind(self, target: ast.expr, value: ast.expr, name: str) -> None:
        paired = isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)
        if paired and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
            for one, given in zip(target.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                self._bind(one, given, name)
        elif self.bears(value, name):
            self.names[name] |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}

    def _pass(self, node: ast.Call, callee: str, name: str) -> None:
        taken = self.module.functions[callee].args
        for parameter, value in zip((*taken.posonlyargs, *taken.args), node.args, strict=False):
            if self.bears(value, name):
                self.names[callee].add(parameter.arg)
        for keyword in node.keywords:
            if keyword.arg and self.bears(keyword.value, name):
                self.names[callee].add(keyword.arg)
