"""The inside of functions in Python kernels: statements, expressions, names, attributes and calls that are allowed; all
others are not.

A call must say what it calls: a function of the file, a name of torch, triton or math in the table, a builtin in the
table, a method in the table, or a kernel with its grid. So nothing can be called under another name, and no object can
be asked for its insides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tools.languages.triton_source import dotted_name
from tools.screen.python_launches import options
from tools.screen.python_scopes import (
    BUILTINS,
    Fault,
    Names,
    Scope,
    annotation,
    arguments,
    comprehension,
    fault,
    inside,
    matches,
    signature,
    why,
)
from tools.screen.python_tensors import Tensors

if TYPE_CHECKING:
    from tools.screen.allowed_names import PythonSide

_NUMERIC = ("abs", "all", "any", "bool", "divmod", "float", "int", "max", "min", "pow", "round", "sorted", "sum")
_CHANGES = ("append", "extend")
_PLAIN = (
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
_REASONS: dict[type[ast.AST], str] = {
    ast.ClassDef: "defines a class, which may keep state or delay work; use functions",
    ast.AsyncFunctionDef: "runs asynchronously; a kernel's work must be launched when run_kernel returns",
    ast.Await: "runs asynchronously; a kernel's work must be launched when run_kernel returns",
    ast.Yield: "delays work; a kernel's work must be launched when run_kernel returns",
    ast.YieldFrom: "delays work; a kernel's work must be launched when run_kernel returns",
    ast.Global: "keeps state between calls; pass what is needed as arguments",
    ast.Nonlocal: "keeps state between calls; pass what is needed as arguments",
    ast.Try: "may hide a failed launch behind a fallback; let the error out",
    ast.TryStar: "may hide a failed launch behind a fallback; let the error out",
    ast.NamedExpr: "assigns inside an expression; write a statement",
}
_ARITHMETIC = "lets torch compute on a tensor; do it in the kernel (numbers, shapes and strides may be computed with)"
_HIDDEN = "calls what has no name of its own, which hides what is called; call functions by their names"


class Code:
    """One walk over code of one side: host code, or the body of a function that is compiled for the device."""

    def __init__(self, names: Names, side: PythonSide, tensors: Tensors | None, function: str = "") -> None:
        self.names = names
        self.module = names.module
        self.side = side
        self.tensors = tensors
        """Host code only."""
        self.function = function
        """Of the top level, in whose terms tensors are known."""

    # ------------------------------------------------------------ statements

    def body(self, node: ast.FunctionDef, around: Scope) -> Iterator[Fault]:
        """All statements of a function, whose scope stands inside `around`."""
        scope = inside(node, around, self.names)
        for argument in arguments(node):
            yield from self._binds(argument, argument.arg)
        for statement in node.body:
            yield from self.visit(statement, scope)

    def visit(self, node: ast.AST, scope: Scope) -> Iterator[Fault]:
        """A statement or expression with all that it holds."""
        match node:
            case ast.Name():
                yield from self._name(node, scope)
            case ast.Attribute():
                yield from self._attribute(node, scope)
            case ast.Call():
                yield from self._call(node, scope)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Delete() | ast.For():
                yield from self._assign(node, scope)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield from self._comprehension(node, scope)
            case ast.Lambda() if self.tensors:
                yield from self.defaults(node)
                for argument in arguments(node):
                    yield from self._binds(argument, argument.arg)
                yield from self.visit(node.body, inside(node, scope, self.names))
            case ast.FunctionDef() if self.tensors:
                yield from self._nested(node, scope)
            case ast.With() if self.tensors or self.side.in_place:
                yield from self._with(node, scope)
            case ast.Import() | ast.ImportFrom():
                return  # All imports of a file are looked at in one place.
            case _ if isinstance(node, _PLAIN):
                yield from self._plain(node, scope)
            case _:
                yield self.fault(
                    node, _REASONS.get(type(node), "is not needed by a kernel; write plain statements and calls")
                )

    def defaults(self, node: ast.FunctionDef | ast.Lambda) -> Iterator[Fault]:
        """Values that outlive a call must be constants."""
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
            if not all(
                isinstance(n, ast.Constant | ast.UnaryOp | ast.USub | ast.Tuple | ast.Load | ast.Name | ast.Attribute)
                for n in ast.walk(default)
            ):
                yield self.fault(
                    default, "is a default that outlives the call and may hold earlier results; make it inside"
                )
            yield from self.visit(default, Scope())

    def _plain(self, node: ast.AST, scope: Scope) -> Iterator[Fault]:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield self.fault(node, "is torch's own matrix product; write it in the kernel with tl.dot")
        elif self._computes(node):
            yield self.fault(node, _ARITHMETIC)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr_context | ast.operator | ast.unaryop | ast.boolop | ast.cmpop):
                yield from self.visit(child, scope)

    def _computes(self, node: ast.AST) -> bool:
        match node:
            case ast.BinOp(left=left, right=right):
                return self._bears(left) or self._bears(right)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
                return self._bears(operand)
            case ast.Compare(left=left, ops=ops, comparators=others) if not all(
                isinstance(op, ast.Is | ast.IsNot) for op in ops
            ):
                return any(map(self._bears, (left, *others)))
            case ast.Subscript(value=value, slice=index):
                return self._bears(index) or (
                    self._bears(value) and any(isinstance(n, ast.List) for n in ast.walk(index))
                )
        return False

    def _bears(self, node: ast.AST) -> bool:
        return self.tensors is not None and self.tensors.bears(node, self.function)

    def _nested(self, node: ast.FunctionDef, scope: Scope) -> Iterator[Fault]:
        yield from self._binds(node, node.name)
        yield from self.defaults(node)
        yield from self.annotations(node)
        for decorator in node.decorator_list:
            yield self.fault(decorator, "decorates a function inside of another; write kernels at the file's top level")
        yield from self.body(node, scope)

    def _with(self, node: ast.With, scope: Scope) -> Iterator[Fault]:
        for item in node.items:
            allowed = "torch.cuda.device" if self.tensors else r"cutlass\.cute\.arch\.elect_one"
            if not matches(allowed, self.module.full_name(item.context_expr)) or item.optional_vars is not None:
                yield self.fault(
                    node, "enters a context (a stream, a graph, a patch); only torch.cuda.device is allowed"
                )
            else:
                yield from self.visit(item.context_expr, scope)
        for statement in node.body:
            yield from self.visit(statement, scope)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: Scope
    ) -> Iterator[Fault]:
        within = comprehension(node.generators, scope)
        for at, generator in enumerate(node.generators):
            yield from self._target(generator.target, within)
            yield from self.visit(generator.iter, within if at else scope)
            yield from self._all(generator.ifs, within)
        yield from self._all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], within)

    def _all(self, nodes: Iterable[ast.AST], scope: Scope) -> Iterator[Fault]:
        for node in nodes:
            yield from self.visit(node, scope)

    # ------------------------------------------------------------ what is bound

    def _assign(
        self, node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Delete | ast.For, scope: Scope
    ) -> Iterator[Fault]:
        for target in node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]:
            yield from self._target(target, scope)
        match node:
            case ast.AnnAssign():
                yield from annotation(self.module, self.side.types_of, node.annotation)
            case ast.AugAssign(op=ast.MatMult()):
                yield self.fault(node, "is torch's own matrix product; write it in the kernel with tl.dot")
            case ast.AugAssign() if self._bears(node.target) or self._bears(node.value):
                yield self.fault(node, _ARITHMETIC)
            case ast.AugAssign(target=ast.Name(id=name)) if (
                self.tensors and scope.find(name) != "fresh" and isinstance(node.value, ast.List | ast.ListComp)
            ):
                yield self.fault(node, "changes a list that may outlive the call; make a list in this function")
            case ast.For():
                yield from self._all([node.iter, *node.body, *node.orelse], scope)
        value = getattr(node, "value", None)
        if value is not None:
            yield from self.visit(value, scope)

    def _target(self, node: ast.expr, scope: Scope) -> Iterator[Fault]:
        match node:
            case ast.Name():
                yield from self._binds(node, node.id)
            case ast.Tuple() | ast.List():
                for element in node.elts:
                    yield from self._target(element, scope)
            case ast.Starred():
                yield from self._target(node.value, scope)
            case ast.Attribute():
                yield self.fault(
                    node, "sets an attribute, which patches a module or keeps state between calls; use local names"
                )
            case ast.Subscript() if self.side.in_place:
                yield from self._all([node.value, node.slice], scope)
            case ast.Subscript(value=ast.Name(id=name)) if (
                self.tensors and scope.find(name) == "fresh" and not self._computes(node)
            ):
                yield from self.visit(node.slice, scope)
            case _:
                yield self.fault(
                    node,
                    "is written in place; only lists and dicts made in this function can be",
                )

    def _binds(self, node: ast.AST, name: str) -> Iterator[Fault]:
        if name.startswith("__"):
            yield self.fault(node, "is a name of the interpreter, which a kernel may not use")
        elif name in self.module.import_names or (self.tensors and name in self.names.kernels | self.names.functions):
            yield self.fault(node, "gives an imported name or a function another meaning; choose another name")

    # ------------------------------------------------------------ what is read

    def _name(self, node: ast.Name, scope: Scope) -> Iterator[Fault]:
        name, full = node.id, self.module.import_names.get(node.id)
        if name.startswith("__"):
            yield self.fault(node, "is a name of the interpreter, which a kernel may not use")
        elif scope.find(name) is not None:
            return
        elif full is not None:
            if not matches(self.side.values, full):
                yield self.fault(node, self._passed_on(full))
        elif name in self.names.containers and scope.around is not None:
            yield self.fault(node, "can be changed in place and outlives a call; write a tuple, or make it inside")
        elif name in self.names.functions and not self.tensors:
            yield self.fault(
                node, "is not compiled for the device; a kernel can use only functions under @triton.jit, or @cute.jit"
            )
        elif (
            name in BUILTINS
            and name not in self.names.functions | self.names.kernels
            and not matches(self.side.types, name)
        ):
            yield self.fault(
                node, f"passes {name} on, which hides what is called; call it by its name, if a kernel needs it"
            )

    def _passed_on(self, full: str) -> str:
        if matches(self.side.calls, full):
            return "passes a function on, which hides what is called; call it by its name"
        if "." in full and not matches(self.side.modules, full):
            return why(full)
        return "passes a module on, which hides what is called; write its functions out"

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Iterator[Fault]:
        full = self._rooted(node, scope)
        if full is None:
            yield from self._own(node, self.side.attributes)
            yield from self.visit(node.value, scope)
        elif not matches(self.side.values, full):
            owner = full.rpartition(".")[0]
            if not (matches(self.side.values, owner) and matches(self.side.attributes, node.attr)):
                yield self.fault(node, self._passed_on(full))

    def _own(self, node: ast.Attribute, allowed: str) -> Iterator[Fault]:
        if node.attr.startswith("_"):
            yield self.fault(node, "reaches for a private attribute, which a kernel may not")
        elif not matches(allowed, node.attr):
            yield self.fault(node, f"reaches for .{node.attr}, which is none of what {self.side.about}")

    def _rooted(self, node: ast.AST, scope: Scope) -> str | None:
        """The dotted name behind an import; None for attributes of values."""
        root = dotted_name(node).partition(".")[0]
        return self.module.full_name(node) if root in self.module.import_names and scope.find(root) is None else None

    # ------------------------------------------------------------ calls

    def _call(self, node: ast.Call, scope: Scope) -> Iterator[Fault]:
        match node.func:
            case ast.Name():
                yield from self._call_name(node, node.func, scope)
            case ast.Attribute():
                yield from self._call_attribute(node.func, scope)
            case ast.Subscript(value=ast.Name(id=name), slice=grid) if self.tensors:
                if not (scope.find(name) == "kernel" or (scope.find(name) is None and name in self.names.kernels)):
                    yield self.fault(node.func, _HIDDEN)
                yield from options(self.module, node, scope, self.function)
                yield from self.visit(grid, scope)
            case ast.Call() if self.tensors and self.names.built(node.func):
                yield from self.visit(node.func, scope)
            case _:
                yield self.fault(node.func, _HIDDEN)
                yield from self.visit(node.func, scope)
        yield from self._all([*node.args, *(k.value for k in node.keywords)], scope)

    def _called_back(self, node: ast.Call, scope: Scope) -> Iterator[Fault]:
        """What map, filter and `key=` call must be a function that can be seen."""
        takes = [k.value for k in node.keywords if k.arg == "key"]
        if isinstance(node.func, ast.Name) and node.func.id in ("map", "filter"):
            takes += node.args[:1]
        for given in takes:
            own = isinstance(given, ast.Name) and (
                scope.find(given.id) == "function"
                or (
                    scope.find(given.id) is None
                    and (given.id in self.names.functions or matches(self.side.types, given.id))
                )
            )
            if not (own or isinstance(given, ast.Lambda) or (isinstance(given, ast.Constant) and given.value is None)):
                yield self.fault(given, _HIDDEN)

    def _call_name(self, node: ast.Call, callee: ast.Name, scope: Scope) -> Iterator[Fault]:
        name, full, found = callee.id, self.module.import_names.get(callee.id), scope.find(callee.id)
        own = self.names.functions if self.tensors else self.names.kernels
        if name.startswith("__"):
            yield self.fault(callee, "is a name of the interpreter, which a kernel may not use")
        elif found is not None:
            if found != "function":
                yield self.fault(node, _HIDDEN)
        elif full is not None:
            if not matches(self.side.calls, full):
                yield self.fault(node, why(full))
        elif name in self.names.functions | self.names.kernels:
            if name not in own:
                yield self.fault(
                    node, f"calls {name} from the other side; host code launches kernels, or calls one that is compiled"
                )
            elif name in self.names.builders and any(
                self._bears(a) for a in (*node.args, *(k.value for k in node.keywords))
            ):
                yield self.fault(node, "is given a tensor, which its cache would keep; give it sizes and types")
        elif not matches(self.side.builtins, name):
            yield self.fault(node, f"calls {name}, which no kernel needs; remove it")
        elif name in _NUMERIC and any(self._bears(a) for a in node.args):
            yield self.fault(node, _ARITHMETIC)
        else:
            yield from self._called_back(node, scope)

    def _call_attribute(self, callee: ast.Attribute, scope: Scope) -> Iterator[Fault]:
        full = self._rooted(callee, scope)
        if full is not None and matches(self.side.calls, full):
            return
        if full is not None and not (
            matches(self.side.values, full.rpartition(".")[0]) and matches(self.side.methods, callee.attr)
        ):
            yield self.fault(callee, why(full))
        elif full is None:
            yield from self._own(callee, self.side.methods)
            receiver = callee.value
            kept = not (isinstance(receiver, ast.Name) and scope.find(receiver.id) == "fresh")
            if self.tensors and callee.attr in _CHANGES and kept:
                yield self.fault(callee, "changes a list that may outlive the call; make a list in this function")
            yield from self.visit(receiver, scope)

    def annotations(self, node: ast.FunctionDef) -> Iterator[Fault]:
        """Of parameters and result: they run when the file is imported."""
        return signature(self.module, self.side.types_of, node)

    def fault(self, node: ast.AST, reason: str) -> Fault:
        """A refusal of `node`."""
        return fault(self.module, node, reason)
