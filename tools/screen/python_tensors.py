"""Names of host code that hold tensors, as far as the source or the task tells: arithmetic on them would be work of
torch."""

from __future__ import annotations

import ast
from collections.abc import Collection

from tools.languages.triton_source import PythonModule, dotted_name
from tools.screen.python_scopes import matches_pattern, parameters_of

_VIEW_METHODS = (
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
_TENSOR_ATTRIBUTES = (
    *_VIEW_METHODS,
    "shape",
    "stride",
    "dtype",
    "element_size",
    "is_contiguous",
    "is_cuda",
    "data_ptr",
)
"""Attributes and methods that only tensors have: a name on which one is used holds a tensor."""
_METHODS_RETURNING_TENSORS = (*_VIEW_METHODS, "select", "get", "items", "values")
_ALLOCATORS = ("empty", "empty_like", "empty_strided", "zeros", "zeros_like", "full", "full_like")
_ENTRY = "run_kernel"


class TensorNames:
    """Names that hold tensors, or tuples, lists and dicts of tensors, by top-level function."""

    def __init__(self, module: PythonModule, task_tensors: Collection[str], library: str = "") -> None:
        """`task_tensors`: arguments of run_kernel that the task declares as tensors. `library`: patterns of operators
        that return tensors."""
        self.module = module
        self.library = library
        self.task_tensors = frozenset(task_tensors)
        self.names: dict[str, set[str]] = {
            name: self._names_used_as_tensors(node) for name, node in module.functions.items()
        }
        self.functions_returning_tensors: set[str] = set()
        entry = module.functions.get(_ENTRY)
        if entry is not None:
            self.names[_ENTRY] |= self.task_tensors & {a.arg for a in parameters_of(entry)}
        self._keyword_dict = entry.args.kwarg.arg if entry is not None and entry.args.kwarg else ""
        size = -1
        while size != (size := sum(map(len, self.names.values())) + len(self.functions_returning_tensors)):
            for name, node in module.functions.items():
                self._propagate(name, node)

    def may_hold_tensor(self, node: ast.AST | None, function: str) -> bool:
        """Whether the value of `node` in the top-level `function` may be a tensor or hold one."""
        match node:
            case ast.Name(id=name):
                return name in self.names.get(function, ())
            case ast.Attribute(value=value, attr=attr):
                return attr in ("T", "mT") and self.may_hold_tensor(value, function)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)) if (
                name == self._keyword_dict and function == _ENTRY
            ):
                return key in self.task_tensors
            case ast.Subscript(value=value) | ast.Starred(value=value) | ast.NamedExpr(value=value):
                return self.may_hold_tensor(value, function)
            case (
                ast.Tuple(elts=parts)
                | ast.List(elts=parts)
                | ast.Set(elts=parts)
                | ast.Dict(values=parts)
                | ast.BoolOp(values=parts)
            ):
                return any(self.may_hold_tensor(e, function) for e in parts)
            case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
                return self.may_hold_tensor(one, function) or self.may_hold_tensor(other, function)
            case ast.ListComp(elt=made) | ast.SetComp(elt=made) | ast.GeneratorExp(elt=made) | ast.DictComp(value=made):
                return self.may_hold_tensor(made, function)
            case ast.Call():
                return self._call_may_return_tensor(node, function)
        return False

    def _call_may_return_tensor(self, node: ast.Call, function: str) -> bool:
        """Whether the call may return a tensor or a container of tensors."""
        full, callee = self.module.full_name(node), node.func
        if full.removeprefix("torch.") in _ALLOCATORS and full.startswith("torch."):
            return True
        if matches_pattern(self.library, full):
            return True
        if isinstance(callee, ast.Name):
            passes_elements = callee.id in ("tuple", "list", "reversed", "zip", "enumerate", "dict", "iter", "sorted")
            return callee.id in self.functions_returning_tensors or (
                passes_elements and any(self.may_hold_tensor(a, function) for a in node.args)
            )
        if not isinstance(callee, ast.Attribute) or callee.attr not in _METHODS_RETURNING_TENSORS:
            return False
        if dotted_name(callee.value) == self._keyword_dict and function == _ENTRY:
            first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            return first in self.task_tensors if callee.attr == "get" else bool(self.task_tensors)
        return callee.attr.startswith("new_") or self.may_hold_tensor(callee.value, function)

    def _names_used_as_tensors(self, node: ast.FunctionDef) -> set[str]:
        """Names that the function annotates as tensors or uses as only tensors can be used."""
        used = {
            n.value.id
            for n in ast.walk(node)
            if isinstance(n, ast.Attribute) and n.attr in _TENSOR_ATTRIBUTES and isinstance(n.value, ast.Name)
        }
        annotated = {
            a.arg for a in parameters_of(node) if a.annotation and self.module.full_name(a.annotation) == "torch.Tensor"
        }
        return (used | annotated) - self.module.import_names.keys()

    def _propagate(self, name: str, top: ast.FunctionDef) -> None:
        """Pass tensors on once along the assignments, loops, returns and calls of one function."""
        tensor_names = self.names[name]
        for node in ast.walk(top):
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._propagate_assignment(target, value, name)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._propagate_assignment(target, value, name)
                case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value) if (
                    self.may_hold_tensor(value, name)
                ):
                    tensor_names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                case ast.Return(value=value) if self.may_hold_tensor(value, name):
                    self.functions_returning_tensors.add(name)
                case ast.Call(func=ast.Name(id=callee)) if callee in self.names:
                    self._propagate_call(node, callee, name)

    def _propagate_assignment(self, target: ast.expr, value: ast.expr, name: str) -> None:
        is_pairwise = isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)
        if is_pairwise and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
            for one, given in zip(target.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                self._propagate_assignment(one, given, name)
        elif self.may_hold_tensor(value, name):
            self.names[name] |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}

    def _propagate_call(self, node: ast.Call, callee: str, name: str) -> None:
        parameters = self.module.functions[callee].args
        for parameter, value in zip((*parameters.posonlyargs, *parameters.args), node.args, strict=False):
            if self.may_hold_tensor(value, name):
                self.names[callee].add(parameter.arg)
        for keyword in node.keywords:
            if keyword.arg and self.may_hold_tensor(keyword.value, name):
                self.names[callee].add(keyword.arg)
