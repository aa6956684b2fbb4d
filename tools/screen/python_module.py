"""The static screen for kernels in Python: host code that allocates, looks at shapes and launches, and @triton.jit
kernels.

Whatever else host code does is either work that the kernel should do (torch's own operators), a way to touch the judge
(patching, frames, files, threads, streams), or a memory of earlier calls (globals, attributes, caches). All of it is
refused by allow-lists: here what stands at the file's top level, in `tools.screen.python_code` what stands in its
functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tools.languages.triton_setup import SETUP_FUNCTION as SETUP
from tools.languages.triton_source import PythonModule, called_name, count_autotune_configs, dotted_name, parse_module
from tools.screen.python_code import Code
from tools.screen.python_launches import configured
from tools.screen.python_scopes import BUILTINS, Fault, Names, Scope, annotation, matches, why
from tools.screen.python_tensors import Tensors

if TYPE_CHECKING:
    from tools.screen.allowed_names import PythonRules

_COMPILE, _SHORT = "cutlass.cute.compile", "cute.compile(…)"
_OPTIONS = r"(--(opt-level[ =][0-3]|enable-tvm-ffi)\s*)*"
_MAIN = ast.dump(ast.parse("__name__ == '__main__'", mode="eval").body)


def screen(source: str, rules: PythonRules, tensors: Collection[str] = ()) -> tuple[str, ...]:
    """One sentence, with line and quoted text, for each thing that is refused.

    `tensors`: those arguments of run_kernel, where a task says which.
    """
    module = parse_module(source)
    if module is None:
        return ("line 1: the source is no valid Python; mend it",)
    faults = sorted(set(_File(module, rules, tensors).faults()))
    return tuple(f"line {line}: `{' '.join(quote.split())[:80]}` {reason}" for line, quote, reason in faults)


class _File:
    """The top level of one file."""

    def __init__(self, module: PythonModule, rules: PythonRules, tensors: Collection[str]) -> None:
        self.module = module
        self.rules = rules
        self.names = Names(module)
        self.tensors = Tensors(module, tensors, rules.library)
        self.host = Code(self.names, rules.host, self.tensors)
        self.constants: set[str] = set()
        self.defined: set[str] = set()
        self.unused = _of_setup(module)

    def faults(self) -> Iterator[Fault]:
        for node in ast.walk(self.module.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._taken(node)
                if not self._by_hand(node):
                    yield from self._import(node)
        top = Scope()
        for statement in self.module.tree.body:
            match statement:
                case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.If(test=test, orelse=[]) if ast.dump(test) == _MAIN:
                    continue
                case ast.FunctionDef():
                    yield from self._function(statement, top)
                case ast.Assign() | ast.AnnAssign(value=ast.expr()):
                    yield from self._value(statement, top)
                case ast.AnnAssign(annotation=given):
                    yield from annotation(self.module, self.rules.host.types_of, given)
                case ast.ClassDef() | ast.AsyncFunctionDef() | ast.Try() | ast.TryStar():
                    yield from self.host.visit(statement, top)
                case _:
                    yield self.host.fault(statement, "does work at import; move it into run_kernel")
        yield from self._builders()
        if self.rules.library and not self.module.kernels:
            yield (
                *(1, "run_kernel"),
                (
                    "has no kernel of its own to launch: what only calls `library:` is reported as library, not as a "
                    "kernel; add what is fused"
                ),
            )
        yield from self._at_import()
        yield from configured(self.module)
        yield from self._autotune()

    # ------------------------------------------------------------ imports

    def _by_hand(self, node: ast.AST) -> bool:
        """Whether an import stands where the harness never comes: behind `__main__`, or in setup()."""
        places = [
            s for s in self.module.tree.body if isinstance(s, ast.If) and not s.orelse and ast.dump(s.test) == _MAIN
        ]
        functions = [f for name, f in self.module.functions.items() if name in self.unused]
        return any(node is inner for place in (*places, *functions) for inner in ast.walk(place))

    def _taken(self, node: ast.Import | ast.ImportFrom) -> Iterator[Fault]:
        """Each import gives a name that means nothing else: what is called is known by it."""
        owner = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            name = (alias.asname or alias.name).split(".")[0]
            meant = f"{owner}{alias.name}" if alias.asname or owner else name
            if name in BUILTINS and not matches(f"{self.rules.host.builtins} {self.rules.kernel.builtins}", name):
                yield self.host.fault(node, "gives one of Python's own names another meaning; choose another name")
            elif self.module.import_names.get(name) != meant:
                yield self.host.fault(node, "gives one name two meanings; import each under a name of its own")

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Fault]:
        host, kernel = self.rules.host, self.rules.kernel
        tables = (
            host.modules,
            host.calls,
            host.values,
            host.types_of,
            kernel.calls,
            kernel.values,
            self.rules.decorators,
        )
        known = " ".join((*tables, r"__future__\.\w+"))
        for alias in node.names:
            if isinstance(node, ast.Import):
                fine = matches(host.modules, alias.name)
            else:
                fine = not node.level and matches(host.modules, node.module or "")
            if not fine:
                yield self.host.fault(
                    node, f"imports what a kernel may not use; allowed are torch, {self.rules.framework}, math, typing"
                )
            elif isinstance(node, ast.ImportFrom) and not matches(known, f"{node.module}.{alias.name}"):
                yield self.host.fault(node, why(f"{node.module}.{alias.name}"))

    # ------------------------------------------------------------ functions

    def _function(self, node: ast.FunctionDef, top: Scope) -> Iterator[Fault]:
        kernel = node.name in self.names.kernels
        yield from self._defines(node, node.name)
        yield from self.host.defaults(node)
        yield from self.host.annotations(node)
        for decorator in node.decorator_list:
            first = dotted_name(decorator.func if isinstance(decorator, ast.Call) else decorator).partition(".")[0]
            if first not in self.module.import_names or not matches(
                self.rules.decorators, self.module.full_name(decorator)
            ):
                yield self.host.fault(
                    decorator, f"is a decorator that may cache or delay; allowed are {self.rules.jits}"
                )
            elif isinstance(decorator, ast.Call):
                for value in (*decorator.args, *(k.value for k in decorator.keywords)):
                    yield from self.host.visit(value, top)
        if node.name in self.unused:
            return
        code = (
            Code(self.names, self.rules.kernel, None)
            if kernel
            else Code(self.names, self.rules.host, self.tensors, node.name)
        )
        yield from code.body(node, top)

    def _defines(self, node: ast.AST, name: str) -> Iterator[Fault]:
        if name in self.module.import_names:
            yield self.host.fault(node, "gives an imported name another meaning; choose another name")
        elif name in self.defined:
            yield self.host.fault(
                node, "defines a name a second time, so that one name means two things; choose another name"
            )
        elif name.startswith("__") or name in BUILTINS:
            yield self.host.fault(node, "gives one of Python's own names another meaning; choose another name")
        self.defined.add(name)

    def _builders(self) -> Iterator[Fault]:
        """Who compiles does so once for each signature, and keeps nothing besides: what else a cached function
        called could be results."""
        compiling: dict[ast.AST, str] = {}
        for name in self.names.builders:
            body = [n for statement in self.module.functions[name].body for n in ast.walk(statement)]
            compiling |= {n: name for n in body if isinstance(n, ast.Call)}
            returned = [n for n in body if isinstance(n, ast.Return)]
            if (
                len(returned) != 1
                or self.module.full_name(returned[0].value) != _COMPILE
                or returned[0] is not self.module.functions[name].body[-1]
            ):
                yield self.host.fault(
                    self.module.functions[name],
                    f"keeps something else than a compiled kernel; end it with return {_SHORT}",
                )
        for node in ast.walk(self.module.tree):
            if not isinstance(node, ast.Call):
                continue
            if node in compiling and not matches(self.rules.builders, self.module.full_name(node)):
                yield self.host.fault(
                    node, "is no part of compiling a kernel, and its cache would keep it; call it in run_kernel"
                )
            elif self.module.full_name(node) == _COMPILE:
                if node not in compiling:
                    said = (
                        "compiles in every call; do it in a function under @functools.cache that takes sizes and types"
                    )
                    yield self.host.fault(node, said)
                for given in node.keywords:
                    if given.arg != "options" or not (
                        isinstance(given.value, ast.Constant) and re.fullmatch(_OPTIONS, str(given.value.value))
                    ):
                        yield self.host.fault(
                            given,
                            "is no option that a kernel may set; allowed is options= with --opt-level, "
                            "--enable-tvm-ffi",
                        )

    # ------------------------------------------------------------ values

    def _value(self, node: ast.Assign | ast.AnnAssign, top: Scope) -> Iterator[Fault]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        if isinstance(node, ast.AnnAssign):
            yield from annotation(self.module, self.rules.host.types_of, node.annotation)
        if any(not isinstance(n, ast.Name | ast.Tuple | ast.Store) for t in targets for n in ast.walk(t)):
            yield self.host.fault(node, "does work at import; move it into run_kernel")
            return
        for name in names:
            yield from self._defines(name, name.id)
        value = node.value
        assert value is not None, "the caller looked"
        yield from self.host.visit(value, top)
        if self._constant(value):
            self.constants |= {n.id for n in names}
        elif self._configs(value):
            self.names.containers |= {n.id for n in names}
        elif isinstance(value, ast.Call):
            yield self.host.fault(node, "does work at import; move it into run_kernel")
        elif not (isinstance(value, ast.Lambda) and len(names) == 1 == len(targets)):
            yield self.host.fault(
                node, "is a container that outlives a call and may hold earlier results; write a tuple of constants"
            )

    def _constant(self, node: ast.AST) -> bool:
        """Whether the value can never change: numbers, text, types, tuples of them, and what is computed from them."""
        match node:
            case ast.Constant() | ast.Attribute():
                return True
            case ast.Name(id=name):
                return (
                    name in self.constants or name in self.module.import_names or matches(self.rules.host.types, name)
                )
            case ast.Call():
                full = self.module.full_name(node)
                fixed = matches(
                    r"triton\.(cdiv|next_power_of_2) triton\.language\.constexpr math\.\w+ int float bool str min max "
                    r"abs len round",
                    full,
                )
                return fixed and all(map(self._constant, [*node.args, *(k.value for k in node.keywords)]))
            case (
                ast.Tuple()
                | ast.UnaryOp()
                | ast.BinOp()
                | ast.BoolOp()
                | ast.Compare()
                | ast.IfExp()
                | ast.Subscript()
                | ast.JoinedStr()
            ):
                return all(self._constant(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        return False

    def _configs(self, node: ast.AST) -> bool:
        """Whether the value is a list of autotune configs, written or computed."""
        match node:
            case ast.Name(id=name):
                return name in self.names.containers
            case ast.List(elts=parts):
                return bool(parts) and all(
                    called_name(p) == "Config" or (isinstance(p, ast.Starred) and self._configs(p.value)) for p in parts
                )
            case ast.ListComp(elt=made):
                return called_name(made) == "Config"
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._configs(left) and self._configs(right)
            case ast.Subscript(value=value):
                return self._configs(value)
            case ast.Call(func=ast.Name(id="list" | "filter" | "sorted"), args=parts):
                return any(map(self._configs, parts))
            case ast.Call(func=ast.Name(id=name)):
                return name in self.module.functions
        return False

    def _at_import(self) -> Iterator[Fault]:
        """What runs at import must leave nothing behind: no buffer in a config or default could be told from a
        cache."""
        pending: list[ast.AST] = []
        for statement in self.module.tree.body:
            if isinstance(statement, ast.FunctionDef):
                pending += [
                    *statement.decorator_list,
                    *statement.args.defaults,
                    *(d for d in statement.args.kw_defaults if d),
                ]
            elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                pending.append(statement.value)
        seen: set[str] = set()
        while pending:
            for node in _running(pending.pop()):
                name = self.module.full_name(node)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    started = {
                        n.id for n in (node.func, *node.args) if isinstance(n, ast.Name)
                    } & self.module.functions.keys() - seen
                    seen |= started
                    pending += [s for f in started for s in self.module.functions[f].body]
                outside = isinstance(node, ast.Call) and name.startswith(("torch.", "triton."))
                if outside and not matches(f"{self.rules.at_import} {self.rules.decorators}", name):
                    yield self.host.fault(node, "does work at import; move it into run_kernel")

    def _autotune(self) -> Iterator[Fault]:
        for name, count in count_autotune_configs(self.module.source).items():
            decorator = self.module.kernels[name].autotune
            if decorator is not None and count == 0:
                reason = "names no config to choose from; give configs=[triton.Config(...)], or remove the decorator"
                yield decorator.lineno, f"@triton.autotune on {name}", reason
            elif decorator is not None and count != 1:
                yield (
                    decorator.lineno,
                    f"@triton.autotune on {name}",
                    "measures for itself when it is called; give one config",
                )


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when `node` does: bodies of lambdas do not."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Lambda):
            yield from _running(child)


def _of_setup(module: PythonModule) -> frozenset[str]:
    """setup() of the seed style and what serves it alone: frozen into the reference when a run begins, and never
    called in a kernel."""
    if SETUP not in module.functions:
        return frozenset()
    unused = {SETUP}
    while True:
        alive = [s for s in module.tree.body if not (isinstance(s, ast.FunctionDef) and s.name in unused)]
        heads = [
            n
            for f in module.functions.values()
            if f.name in unused
            for n in (*f.decorator_list, *f.args.defaults, *f.args.kw_defaults)
            if n
        ]
        used = {n.id for s in (*alive, *heads) for n in ast.walk(s) if isinstance(n, ast.Name)}
        served = {n.id for name in unused for n in ast.walk(module.functions[name]) if isinstance(n, ast.Name)}
        found = (unused | (served & module.functions.keys())) - used
        if not found > unused:
            return frozenset(unused if found == unused else ())
        unused = found
