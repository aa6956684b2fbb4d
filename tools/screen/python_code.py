"""The screen for function bodies of Python kernels, by allow-list: statements, expressions, names, attributes, calls.

A call must name what it calls: a function of the file, an allowed name of torch, triton or math, an allowed builtin, an
allowed method, or a kernel with its grid. So no function can be called under another name, and no code reaches the
internals of an object.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tools.languages.triton_source import dotted_name
from tools.screen.python_launches import screen_launch_options
from tools.screen.python_scopes import (
    BUILTIN_NAMES,
    ModuleNames,
    Scope,
    comprehension_scope,
    function_scope,
    matches_pattern,
    parameters_of,
    reason_not_allowed,
    refusal_at,
    screen_annotation,
    screen_signature,
)
from tools.screen.python_tensors import TensorNames
from tools.screen.refusals import Refusal

if TYPE_CHECKING:
    from tools.screen.screen_rules import AllowedNames

_NUMERIC_BUILTINS = (
    "abs",
    "all",
    "any",
    "bool",
    "divmod",
    "float",
    "int",
    "max",
    "min",
    "pow",
    "round",
    "sorted",
    "sum",
)
_LIST_CHANGING_METHODS = ("append", "extend")
_PLAIN_NODES = (
    *(ast.Expr, ast.If, ast.For, ast.While, ast.Return, ast.Pass, ast.Assert, ast.Raise, ast.Break, ast.Continue),
    *(
        ast.BinOp,
        ast.UnaryOp,
        ast.BoolOp,
        ast.Compare,
        ast.IfExp,
        ast.Subscript,
        ast.Slice,
        ast.Constant,
        ast.Starred,
        ast.keyword,
    ),
    *(ast.Tuple, ast.List, ast.Dict, ast.Set, ast.JoinedStr, ast.FormattedValue),
)
_REASON_BY_NODE: dict[type[ast.AST], str] = {
    ast.ClassDef: "defines a class, which can keep state or delay work; use functions",
    ast.AsyncFunctionDef: "runs asynchronously; run_kernel must launch all work before it returns",
    ast.Await: "runs asynchronously; run_kernel must launch all work before it returns",
    ast.Yield: "delays work; run_kernel must launch all work before it returns",
    ast.YieldFrom: "delays work; run_kernel must launch all work before it returns",
    ast.Global: "keeps state between calls; pass values as arguments",
    ast.Nonlocal: "keeps state between calls; pass values as arguments",
    ast.Try: "can hide a failed launch behind a fallback; let the error propagate",
    ast.TryStar: "can hide a failed launch behind a fallback; let the error propagate",
    ast.NamedExpr: "assigns inside an expression; write an assignment statement",
}
_TORCH_ARITHMETIC = (
    "lets torch compute on a tensor; compute in the kernel (arithmetic on numbers, shapes and strides is allowed)"
)
_HIDDEN_CALL = "calls a function through a value, which hides what is called; call the function by its name"


class CodeScreen:
    """Screens code of one side: host code, or functions that are compiled for the device."""

    def __init__(self, names: ModuleNames, side: AllowedNames, tensors: TensorNames | None, function: str = "") -> None:
        self.names = names
        self.module = names.module
        self.side = side
        self.tensors = tensors
        """None for device code."""
        self.function = function
        """The top-level function whose tensor names apply."""

    # ------------------------------------------------------------ statements

    def screen_function(self, node: ast.FunctionDef, outer: Scope) -> Iterator[Refusal]:
        """Yield a refusal for each statement of a function body that is not allowed; `outer` is the scope around it."""
        scope = function_scope(node, outer, self.names)
        for argument in parameters_of(node):
            yield from self._screen_bound_name(argument, argument.arg)
        for statement in node.body:
            yield from self.visit(statement, scope)

    def visit(self, node: ast.AST, scope: Scope) -> Iterator[Refusal]:
        """Yield a refusal for each part of a statement or expression that is not allowed."""
        match node:
            case ast.Name():
                yield from self._screen_name(node, scope)
            case ast.Attribute():
                yield from self._screen_attribute(node, scope)
            case ast.Call():
                yield from self._screen_call(node, scope)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Delete() | ast.For():
                yield from self._screen_assignment(node, scope)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield from self._screen_comprehension(node, scope)
            case ast.Lambda() if self.tensors:
                yield from self.screen_defaults(node)
                for argument in parameters_of(node):
                    yield from self._screen_bound_name(argument, argument.arg)
                yield from self.visit(node.body, function_scope(node, scope, self.names))
            case ast.FunctionDef() if self.tensors:
                yield from self._screen_nested_function(node, scope)
            case ast.With() if self.tensors or self.side.allows_element_writes:
                yield from self._screen_with(node, scope)
            case ast.Import() | ast.ImportFrom():
                return  # `python_module` screens all imports of a file.
            case _ if isinstance(node, _PLAIN_NODES):
                yield from self._screen_children(node, scope)
            case _:
                yield self.refusal(
                    node,
                    _REASON_BY_NODE.get(type(node), "is not allowed in a kernel; write plain statements and calls"),
                )

    def screen_defaults(self, node: ast.FunctionDef | ast.Lambda) -> Iterator[Refusal]:
        """Yield a refusal for each default value that is not a constant: defaults outlive the call."""
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
            if not all(
                isinstance(n, ast.Constant | ast.UnaryOp | ast.USub | ast.Tuple | ast.Load | ast.Name | ast.Attribute)
                for n in ast.walk(default)
            ):
                yield self.refusal(
                    default,
                    "is a default that outlives the call and can hold earlier results; create it inside the function",
                )
            yield from self.visit(default, Scope())

    def _screen_children(self, node: ast.AST, scope: Scope) -> Iterator[Refusal]:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield self.refusal(node, "is a matrix product of torch; write it in the kernel with tl.dot")
        elif self._computes_on_tensor(node):
            yield self.refusal(node, _TORCH_ARITHMETIC)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr_context | ast.operator | ast.unaryop | ast.boolop | ast.cmpop):
                yield from self.visit(child, scope)

    def _computes_on_tensor(self, node: ast.AST) -> bool:
        match node:
            case ast.BinOp(left=left, right=right):
                return self._may_hold_tensor(left) or self._may_hold_tensor(right)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
                return self._may_hold_tensor(operand)
            case ast.Compare(left=left, ops=ops, comparators=others) if not all(
                isinstance(op, ast.Is | ast.IsNot) for op in ops
            ):
                return any(map(self._may_hold_tensor, (left, *others)))
            case ast.Subscript(value=value, slice=index):
                return self._may_hold_tensor(index) or (
                    self._may_hold_tensor(value) and any(isinstance(n, ast.List) for n in ast.walk(index))
                )
        return False

    def _may_hold_tensor(self, node: ast.AST) -> bool:
        return self.tensors is not None and self.tensors.may_hold_tensor(node, self.function)

    def _screen_nested_function(self, node: ast.FunctionDef, scope: Scope) -> Iterator[Refusal]:
        yield from self._screen_bound_name(node, node.name)
        yield from self.screen_defaults(node)
        yield from self.screen_annotations(node)
        for decorator in node.decorator_list:
            yield self.refusal(decorator, "decorates a nested function; write kernels at the top level of the file")
        yield from self.screen_function(node, scope)

    def _screen_with(self, node: ast.With, scope: Scope) -> Iterator[Refusal]:
        for item in node.items:
            allowed = "torch.cuda.device" if self.tensors else r"cutlass\.cute\.arch\.elect_one"
            if not matches_pattern(allowed, self.module.full_name(item.context_expr)) or item.optional_vars is not None:
                yield self.refusal(
                    node, "enters a context (a stream, a graph, a patch); only torch.cuda.device is allowed"
                )
            else:
                yield from self.visit(item.context_expr, scope)
        for statement in node.body:
            yield from self.visit(statement, scope)

    def _screen_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: Scope
    ) -> Iterator[Refusal]:
        inner = comprehension_scope(node.generators, scope)
        for at, generator in enumerate(node.generators):
            yield from self._screen_target(generator.target, inner)
            yield from self.visit(generator.iter, inner if at else scope)
            yield from self._visit_all(generator.ifs, inner)
        yield from self._visit_all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], inner)

    def _visit_all(self, nodes: Iterable[ast.AST], scope: Scope) -> Iterator[Refusal]:
        for node in nodes:
            yield from self.visit(node, scope)

    # ------------------------------------------------------------ what is bound

    def _screen_assignment(
        self, node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Delete | ast.For, scope: Scope
    ) -> Iterator[Refusal]:
        for target in node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]:
            yield from self._screen_target(target, scope)
        match node:
            case ast.AnnAssign():
                yield from screen_annotation(self.module, self.side.annotation_types, node.annotation)
            case ast.AugAssign(op=ast.MatMult()):
                yield self.refusal(node, "is a matrix product of torch; write it in the kernel with tl.dot")
            case ast.AugAssign() if self._may_hold_tensor(node.target) or self._may_hold_tensor(node.value):
                yield self.refusal(node, _TORCH_ARITHMETIC)
            case ast.AugAssign(target=ast.Name(id=name)) if (
                self.tensors
                and scope.binding_kind(name) != "new_container"
                and isinstance(node.value, ast.List | ast.ListComp)
            ):
                yield self.refusal(node, "changes a list that can outlive the call; create the list in this function")
            case ast.For():
                yield from self._visit_all([node.iter, *node.body, *node.orelse], scope)
        value = getattr(node, "value", None)
        if value is not None:
            yield from self.visit(value, scope)

    def _screen_target(self, node: ast.expr, scope: Scope) -> Iterator[Refusal]:
        match node:
            case ast.Name():
                yield from self._screen_bound_name(node, node.id)
            case ast.Tuple() | ast.List():
                for element in node.elts:
                    yield from self._screen_target(element, scope)
            case ast.Starred():
                yield from self._screen_target(node.value, scope)
            case ast.Attribute():
                yield self.refusal(
                    node, "sets an attribute, which patches a module or keeps state between calls; use local variables"
                )
            case ast.Subscript() if self.side.allows_element_writes:
                yield from self._visit_all([node.value, node.slice], scope)
            case ast.Subscript(value=ast.Name(id=name)) if (
                self.tensors and scope.binding_kind(name) == "new_container" and not self._computes_on_tensor(node)
            ):
                yield from self.visit(node.slice, scope)
            case _:
                yield self.refusal(
                    node,
                    "is written in place; only lists and dicts that this function creates may be changed",
                )

    def _screen_bound_name(self, node: ast.AST, name: str) -> Iterator[Refusal]:
        if name.startswith("__"):
            yield self.refusal(node, "is a name of the interpreter, which a kernel may not use")
        elif name in self.module.import_names or (self.tensors and name in self.names.kernels | self.names.functions):
            yield self.refusal(node, "gives an imported name or a function another meaning; choose another name")

    # ------------------------------------------------------------ what is read

    def _screen_name(self, node: ast.Name, scope: Scope) -> Iterator[Refusal]:
        name, full = node.id, self.module.import_names.get(node.id)
        if name.startswith("__"):
            yield self.refusal(node, "is a name of the interpreter, which a kernel may not use")
        elif scope.binding_kind(name) is not None:
            return
        elif full is not None:
            if not matches_pattern(self.side.values, full):
                yield self.refusal(node, self._reason_against_passing(full))
        elif name in self.names.containers and scope.outer is not None:
            yield self.refusal(
                node, "can be changed in place and outlives the call; write a tuple, or create it inside the function"
            )
        elif name in self.names.functions and not self.tensors:
            yield self.refusal(
                node, "is not compiled for the device; a kernel can call only functions under @triton.jit or @cute.jit"
            )
        elif (
            name in BUILTIN_NAMES
            and name not in self.names.functions | self.names.kernels
            and not matches_pattern(self.side.types, name)
        ):
            yield self.refusal(node, f"uses {name} as a value, which hides what is called; call it by its name")

    def _reason_against_passing(self, full: str) -> str:
        if matches_pattern(self.side.calls, full):
            return "uses a function as a value, which hides what is called; call it by its name"
        if "." in full and not matches_pattern(self.side.modules, full):
            return reason_not_allowed(full)
        return "uses a module as a value, which hides what is called; write the full name of the function"

    def _screen_attribute(self, node: ast.Attribute, scope: Scope) -> Iterator[Refusal]:
        full = self._imported_name(node, scope)
        if full is None:
            yield from self._screen_attribute_name(node, self.side.attributes)
            yield from self.visit(node.value, scope)
        elif not matches_pattern(self.side.values, full):
            owner = full.rpartition(".")[0]
            if not (matches_pattern(self.side.values, owner) and matches_pattern(self.side.attributes, node.attr)):
                yield self.refusal(node, self._reason_against_passing(full))

    def _screen_attribute_name(self, node: ast.Attribute, allowed: str) -> Iterator[Refusal]:
        if node.attr.startswith("_"):
            yield self.refusal(node, "uses a private attribute, which a kernel may not do")
        elif not matches_pattern(allowed, node.attr):
            yield self.refusal(node, f"uses .{node.attr}, which is not allowed here: {self.side.purpose}")

    def _imported_name(self, node: ast.AST, scope: Scope) -> str | None:
        """The full dotted name of an imported object; None for an attribute of a value."""
        root = dotted_name(node).partition(".")[0]
        return (
            self.module.full_name(node)
            if root in self.module.import_names and scope.binding_kind(root) is None
            else None
        )

    # ------------------------------------------------------------ calls

    def _screen_call(self, node: ast.Call, scope: Scope) -> Iterator[Refusal]:
        match node.func:
            case ast.Name():
                yield from self._screen_named_call(node, node.func, scope)
            case ast.Attribute():
                yield from self._screen_method_call(node.func, scope)
            case ast.Subscript(value=ast.Name(id=name), slice=grid) if self.tensors:
                if not (
                    scope.binding_kind(name) == "kernel"
                    or (scope.binding_kind(name) is None and name in self.names.kernels)
                ):
                    yield self.refusal(node.func, _HIDDEN_CALL)
                yield from screen_launch_options(self.module, node, scope, self.function)
                yield from self.visit(grid, scope)
            case ast.Call() if self.tensors and self.names.is_compiled_kernel(node.func):
                yield from self.visit(node.func, scope)
            case _:
                yield self.refusal(node.func, _HIDDEN_CALL)
                yield from self.visit(node.func, scope)
        yield from self._visit_all([*node.args, *(k.value for k in node.keywords)], scope)

    def _screen_callbacks(self, node: ast.Call, scope: Scope) -> Iterator[Refusal]:
        """Refuse a callback of map, filter or `key=` that is not a function of the file, a type or a lambda."""
        callbacks = [k.value for k in node.keywords if k.arg == "key"]
        if isinstance(node.func, ast.Name) and node.func.id in ("map", "filter"):
            callbacks += node.args[:1]
        for given in callbacks:
            is_visible = isinstance(given, ast.Name) and (
                scope.binding_kind(given.id) == "function"
                or (
                    scope.binding_kind(given.id) is None
                    and (given.id in self.names.functions or matches_pattern(self.side.types, given.id))
                )
            )
            if not (
                is_visible or isinstance(given, ast.Lambda) or (isinstance(given, ast.Constant) and given.value is None)
            ):
                yield self.refusal(given, _HIDDEN_CALL)

    def _screen_named_call(self, node: ast.Call, callee: ast.Name, scope: Scope) -> Iterator[Refusal]:
        name, full, kind = callee.id, self.module.import_names.get(callee.id), scope.binding_kind(callee.id)
        same_side = self.names.functions if self.tensors else self.names.kernels
        if name.startswith("__"):
            yield self.refusal(callee, "is a name of the interpreter, which a kernel may not use")
        elif kind is not None:
            if kind != "function":
                yield self.refusal(node, _HIDDEN_CALL)
        elif full is not None:
            if not matches_pattern(self.side.calls, full):
                yield self.refusal(node, reason_not_allowed(full))
        elif name in self.names.functions | self.names.kernels:
            if name not in same_side:
                yield self.refusal(
                    node, f"calls {name} from the other side; host code launches kernels or calls a compiled kernel"
                )
            elif name in self.names.builders and any(
                self._may_hold_tensor(a) for a in (*node.args, *(k.value for k in node.keywords))
            ):
                yield self.refusal(node, "is given a tensor, which its cache would keep; pass sizes and types")
        elif not matches_pattern(self.side.builtins, name):
            yield self.refusal(node, f"calls {name}, which is not allowed in a kernel; remove it")
        elif name in _NUMERIC_BUILTINS and any(self._may_hold_tensor(a) for a in node.args):
            yield self.refusal(node, _TORCH_ARITHMETIC)
        else:
            yield from self._screen_callbacks(node, scope)

    def _screen_method_call(self, callee: ast.Attribute, scope: Scope) -> Iterator[Refusal]:
        full = self._imported_name(callee, scope)
        if full is not None and matches_pattern(self.side.calls, full):
            return
        if full is not None and not (
            matches_pattern(self.side.values, full.rpartition(".")[0])
            and matches_pattern(self.side.methods, callee.attr)
        ):
            yield self.refusal(callee, reason_not_allowed(full))
        elif full is None:
            yield from self._screen_attribute_name(callee, self.side.methods)
            receiver = callee.value
            can_outlive_call = not (
                isinstance(receiver, ast.Name) and scope.binding_kind(receiver.id) == "new_container"
            )
            if self.tensors and callee.attr in _LIST_CHANGING_METHODS and can_outlive_call:
                yield self.refusal(callee, "changes a list that can outlive the call; create the list in this function")
            yield from self.visit(receiver, scope)

    def screen_annotations(self, node: ast.FunctionDef) -> Iterator[Refusal]:
        """Yield a refusal for each annotation of a parameter or result that is not the name of a type."""
        return screen_signature(self.module, self.side.annotation_types, node)

    def refusal(self, node: ast.AST, reason: str) -> Refusal:
        """A refusal of `node` with `reason`."""
        return refusal_at(self.module, node, reason)
