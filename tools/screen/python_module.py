"""The static screen for kernels in Python: host code may allocate, read shapes and launch; kernels are functions under
@triton.jit or @cute.kernel.

Anything else in host code is work that the kernel should do (operators of torch), a way to tamper with the judge
(patching, frames, files, threads, streams), or memory of earlier calls (globals, attributes, caches). Allow-lists
refuse all of it. This module screens the top level of a file, `tools.screen.python_code` the bodies of functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tools.languages.triton_setup import SETUP_FUNCTION as SETUP
from tools.languages.triton_source import PythonModule, called_name, count_autotune_configs, dotted_name, parse_module
from tools.screen.python_code import CodeScreen
from tools.screen.python_launches import screen_configs
from tools.screen.python_scopes import (
    BUILTIN_NAMES,
    ModuleNames,
    Scope,
    matches_pattern,
    reason_not_allowed,
    screen_annotation,
)
from tools.screen.python_tensors import TensorNames
from tools.screen.refusals import Refusal

if TYPE_CHECKING:
    from tools.screen.screen_rules import PythonRules

_CUTE_COMPILE, _CUTE_COMPILE_SHORT = "cutlass.cute.compile", "cute.compile(…)"
_COMPILE_OPTIONS = r"(--(opt-level[ =][0-3]|enable-tvm-ffi)\s*)*"
_MAIN_TEST = ast.dump(ast.parse("__name__ == '__main__'", mode="eval").body)


def screen_python(source: str, rules: PythonRules, tensors: Collection[str] = ()) -> tuple[str, ...]:
    """One sentence for each refusal, with its line and the quoted code.

    `tensors`: arguments of run_kernel that the task declares as tensors.
    """
    module = parse_module(source)
    if module is None:
        return ("line 1: the source is not valid Python; correct the syntax",)
    refusals = sorted(set(_ModuleScreen(module, rules, tensors).refusals()))
    return tuple(f"line {line}: `{' '.join(quote.split())[:80]}` {reason}" for line, quote, reason in refusals)


class _ModuleScreen:
    """Screens the top level of one file and, through `CodeScreen`, its functions."""

    def __init__(self, module: PythonModule, rules: PythonRules, tensors: Collection[str]) -> None:
        self.module = module
        self.rules = rules
        self.names = ModuleNames(module)
        self.tensors = TensorNames(module, tensors, rules.library_calls)
        self.host_code = CodeScreen(self.names, rules.host, self.tensors)
        self.constant_names: set[str] = set()
        self.defined_names: set[str] = set()
        self.setup_functions = _functions_of_setup(module)

    def refusals(self) -> Iterator[Refusal]:
        for node in ast.walk(self.module.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._screen_import_names(node)
                if not self._is_never_run(node):
                    yield from self._screen_import(node)
        top = Scope()
        for statement in self.module.tree.body:
            match statement:
                case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.If(test=test, orelse=[]) if ast.dump(test) == _MAIN_TEST:
                    continue
                case ast.FunctionDef():
                    yield from self._screen_function(statement, top)
                case ast.Assign() | ast.AnnAssign(value=ast.expr()):
                    yield from self._screen_value(statement, top)
                case ast.AnnAssign(annotation=given):
                    yield from screen_annotation(self.module, self.rules.host.annotation_types, given)
                case ast.ClassDef() | ast.AsyncFunctionDef() | ast.Try() | ast.TryStar():
                    yield from self.host_code.visit(statement, top)
                case _:
                    yield self.host_code.refusal(statement, "runs at import; move it into run_kernel")
        yield from self._screen_builders()
        if self.rules.library_calls and not self.module.kernels:
            yield Refusal(
                1,
                "run_kernel",
                "launches no kernel: code that only calls operators of `library:` is reported as library, not as a "
                "kernel; add a kernel",
            )
        yield from self._screen_work_at_import()
        yield from screen_configs(self.module)
        yield from self._screen_autotune()

    # ------------------------------------------------------------ imports

    def _is_never_run(self, node: ast.AST) -> bool:
        """Whether the import is in code that the harness never runs: under `__main__`, or in setup()."""
        main_blocks = [
            s
            for s in self.module.tree.body
            if isinstance(s, ast.If) and not s.orelse and ast.dump(s.test) == _MAIN_TEST
        ]
        functions = [f for name, f in self.module.functions.items() if name in self.setup_functions]
        return any(node is inner for block in (*main_blocks, *functions) for inner in ast.walk(block))

    def _screen_import_names(self, node: ast.Import | ast.ImportFrom) -> Iterator[Refusal]:
        """Refuse an import whose name also means something else: the screen identifies calls by imported names."""
        owner = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            name = (alias.asname or alias.name).split(".")[0]
            full = f"{owner}{alias.name}" if alias.asname or owner else name
            if name in BUILTIN_NAMES and not matches_pattern(
                f"{self.rules.host.builtins} {self.rules.kernel.builtins}", name
            ):
                yield self.host_code.refusal(node, "gives a builtin name another meaning; choose another name")
            elif self.module.import_names.get(name) != full:
                yield self.host_code.refusal(
                    node, "gives one name two meanings; import each object under a different name"
                )

    def _screen_import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Refusal]:
        host, kernel = self.rules.host, self.rules.kernel
        tables = (
            host.modules,
            host.calls,
            host.values,
            host.annotation_types,
            kernel.calls,
            kernel.values,
            self.rules.decorators,
        )
        known = " ".join((*tables, r"__future__\.\w+"))
        for alias in node.names:
            if isinstance(node, ast.Import):
                is_allowed = matches_pattern(host.modules, alias.name)
            else:
                is_allowed = not node.level and matches_pattern(host.modules, node.module or "")
            if not is_allowed:
                yield self.host_code.refusal(
                    node,
                    "imports a module that a kernel may not use; allowed are torch, "
                    f"{self.rules.framework_modules}, math, typing",
                )
            elif isinstance(node, ast.ImportFrom) and not matches_pattern(known, f"{node.module}.{alias.name}"):
                yield self.host_code.refusal(node, reason_not_allowed(f"{node.module}.{alias.name}"))

    # ------------------------------------------------------------ functions

    def _screen_function(self, node: ast.FunctionDef, top: Scope) -> Iterator[Refusal]:
        kernel = node.name in self.names.kernels
        yield from self._screen_definition(node, node.name)
        yield from self.host_code.screen_defaults(node)
        yield from self.host_code.screen_annotations(node)
        for decorator in node.decorator_list:
            first = dotted_name(decorator.func if isinstance(decorator, ast.Call) else decorator).partition(".")[0]
            if first not in self.module.import_names or not matches_pattern(
                self.rules.decorators, self.module.full_name(decorator)
            ):
                yield self.host_code.refusal(
                    decorator,
                    f"is a decorator that can cache results or delay work; allowed are {self.rules.decorator_names}",
                )
            elif isinstance(decorator, ast.Call):
                for value in (*decorator.args, *(k.value for k in decorator.keywords)):
                    yield from self.host_code.visit(value, top)
        if node.name in self.setup_functions:
            return
        code = (
            CodeScreen(self.names, self.rules.kernel, None)
            if kernel
            else CodeScreen(self.names, self.rules.host, self.tensors, node.name)
        )
        yield from code.screen_function(node, top)

    def _screen_definition(self, node: ast.AST, name: str) -> Iterator[Refusal]:
        if name in self.module.import_names:
            yield self.host_code.refusal(node, "gives an imported name another meaning; choose another name")
        elif name in self.defined_names:
            yield self.host_code.refusal(node, "defines a name a second time; choose another name")
        elif name.startswith("__") or name in BUILTIN_NAMES:
            yield self.host_code.refusal(node, "gives a builtin name another meaning; choose another name")
        self.defined_names.add(name)

    def _screen_builders(self) -> Iterator[Refusal]:
        """Refuse a function under `functools.cache` that keeps anything but a compiled kernel: it could keep earlier
        results."""
        compiling: dict[ast.AST, str] = {}
        for name in self.names.builders:
            body = [n for statement in self.module.functions[name].body for n in ast.walk(statement)]
            compiling |= {n: name for n in body if isinstance(n, ast.Call)}
            returned = [n for n in body if isinstance(n, ast.Return)]
            if (
                len(returned) != 1
                or self.module.full_name(returned[0].value) != _CUTE_COMPILE
                or returned[0] is not self.module.functions[name].body[-1]
            ):
                yield self.host_code.refusal(
                    self.module.functions[name],
                    f"keeps a value other than a compiled kernel; end the function with return {_CUTE_COMPILE_SHORT}",
                )
        for node in ast.walk(self.module.tree):
            if not isinstance(node, ast.Call):
                continue
            if node in compiling and not matches_pattern(self.rules.builder_calls, self.module.full_name(node)):
                yield self.host_code.refusal(
                    node, "does not compile a kernel, and its cache would keep the result; call it in run_kernel"
                )
            elif self.module.full_name(node) == _CUTE_COMPILE:
                if node not in compiling:
                    yield self.host_code.refusal(
                        node,
                        "compiles in every call; compile in a function under @functools.cache that takes sizes and "
                        "types",
                    )
                for given in node.keywords:
                    if given.arg != "options" or not (
                        isinstance(given.value, ast.Constant) and re.fullmatch(_COMPILE_OPTIONS, str(given.value.value))
                    ):
                        yield self.host_code.refusal(
                            given,
                            "is an option that a kernel may not set; allowed is options= with --opt-level, "
                            "--enable-tvm-ffi",
                        )

    # ------------------------------------------------------------ values

    def _screen_value(self, node: ast.Assign | ast.AnnAssign, top: Scope) -> Iterator[Refusal]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        if isinstance(node, ast.AnnAssign):
            yield from screen_annotation(self.module, self.rules.host.annotation_types, node.annotation)
        if any(not isinstance(n, ast.Name | ast.Tuple | ast.Store) for t in targets for n in ast.walk(t)):
            yield self.host_code.refusal(node, "runs at import; move it into run_kernel")
            return
        for name in names:
            yield from self._screen_definition(name, name.id)
        value = node.value
        assert value is not None, "the caller passes only assignments with a value"
        yield from self.host_code.visit(value, top)
        if self._is_constant(value):
            self.constant_names |= {n.id for n in names}
        elif self._is_config_list(value):
            self.names.containers |= {n.id for n in names}
        elif isinstance(value, ast.Call):
            yield self.host_code.refusal(node, "runs at import; move it into run_kernel")
        elif not (isinstance(value, ast.Lambda) and len(names) == 1 == len(targets)):
            yield self.host_code.refusal(
                node, "is a container that outlives the call and can hold earlier results; write a tuple of constants"
            )

    def _is_constant(self, node: ast.AST) -> bool:
        """Whether the value can never change: numbers, text, types, tuples of these, and values computed from these."""
        match node:
            case ast.Constant() | ast.Attribute():
                return True
            case ast.Name(id=name):
                return (
                    name in self.constant_names
                    or name in self.module.import_names
                    or matches_pattern(self.rules.host.types, name)
                )
            case ast.Call():
                full = self.module.full_name(node)
                is_pure = matches_pattern(
                    r"triton\.(cdiv|next_power_of_2) triton\.language\.constexpr math\.\w+ int float bool str min max "
                    r"abs len round",
                    full,
                )
                return is_pure and all(map(self._is_constant, [*node.args, *(k.value for k in node.keywords)]))
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
                return all(
                    self._is_constant(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
                )
        return False

    def _is_config_list(self, node: ast.AST) -> bool:
        """Whether the value is a list of autotune configs, literal or computed."""
        match node:
            case ast.Name(id=name):
                return name in self.names.containers
            case ast.List(elts=parts):
                return bool(parts) and all(
                    called_name(p) == "Config" or (isinstance(p, ast.Starred) and self._is_config_list(p.value))
                    for p in parts
                )
            case ast.ListComp(elt=made):
                return called_name(made) == "Config"
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._is_config_list(left) and self._is_config_list(right)
            case ast.Subscript(value=value):
                return self._is_config_list(value)
            case ast.Call(func=ast.Name(id="list" | "filter" | "sorted"), args=parts):
                return any(map(self._is_config_list, parts))
            case ast.Call(func=ast.Name(id=name)):
                return name in self.module.functions
        return False

    def _screen_work_at_import(self) -> Iterator[Refusal]:
        """Refuse calls of torch and triton at import that could leave a buffer in a config or default: it could be a
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
            for node in _nodes_that_run(pending.pop()):
                name = self.module.full_name(node)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    called_functions = {
                        n.id for n in (node.func, *node.args) if isinstance(n, ast.Name)
                    } & self.module.functions.keys() - seen
                    seen |= called_functions
                    pending += [s for f in called_functions for s in self.module.functions[f].body]
                is_library_call = isinstance(node, ast.Call) and name.startswith(("torch.", "triton."))
                if is_library_call and not matches_pattern(
                    f"{self.rules.calls_at_import} {self.rules.decorators}", name
                ):
                    yield self.host_code.refusal(node, "runs at import; move it into run_kernel")

    def _screen_autotune(self) -> Iterator[Refusal]:
        for name, count in count_autotune_configs(self.module.source).items():
            decorator = self.module.kernels[name].autotune
            if decorator is not None and count == 0:
                reason = "has no config to choose from; give configs=[triton.Config(...)] or remove the decorator"
                yield Refusal(decorator.lineno, f"@triton.autotune on {name}", reason)
            elif decorator is not None and count != 1:
                yield Refusal(
                    decorator.lineno,
                    f"@triton.autotune on {name}",
                    "measures configs when the kernel is called; give one config",
                )


def _nodes_that_run(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and all nodes that run when it runs; bodies of lambdas do not."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Lambda):
            yield from _nodes_that_run(child)


def _functions_of_setup(module: PythonModule) -> frozenset[str]:
    """setup() of a seed file and the functions that only it uses: a run freezes them into the reference and never calls
    them in a kernel."""
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
