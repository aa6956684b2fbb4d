"""The static screen for kernels in Python: host code that allocates, looks at shapes and launches, and @triton.jit kernels.

Whatever else host code does is either work that the kernel should do (torch's own operators), a way to touch the judge (patching,
frames, files, threads, streams), or a memory of earlier calls (globals, attributes, caches). All of it is refused by an allow-list.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tools.languages.triton_source import Module, autotune_configs, called, dotted, read

if TYPE_CHECKING:
    from tools.screen import PythonRules

Fault = tuple[int, str, str]
"""Line, quoted text, reason."""
_STATEMENTS: dict[type[ast.AST], str] = {
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
_CONTAINERS = (ast.Dict, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp, ast.GeneratorExp)
_MODULES = ("torch", "triton")


def screen(source: str, rules: PythonRules) -> tuple[str, ...]:
    """One sentence, with line and quoted text, for each thing that is refused."""
    module = read(source)
    if module is None:
        return ("line 1: the source is no valid Python; mend it",)
    faults = sorted({*_Screen(module, rules).faults(), *_autotune(module)})
    return tuple(f"line {line}: `{' '.join(quote.split())[:80]}` {reason}" for line, quote, reason in faults)


class _Screen:
    def __init__(self, module: Module, rules: PythonRules) -> None:
        self.module = module
        self.rules = rules
        self.aliases = _aliases(module.tree)
        """Name in this file -> dotted name that it stands for."""

    def faults(self) -> Iterator[Fault]:
        for statement in self.module.tree.body:
            if _is_main_block(statement):
                continue
            yield from self._module_level(statement)
            kernel = isinstance(statement, ast.FunctionDef) and statement.name in self.module.kernels
            yield from self._walk(statement, kernel)

    def _walk(self, top: ast.stmt, kernel: bool) -> Iterator[Fault]:
        bases = {id(n.value) for n in ast.walk(top) if isinstance(n, ast.Attribute)}
        annotations = {id(n) for a in _annotations(top) for n in ast.walk(a)}
        for node in ast.walk(top):
            if id(node) in annotations:
                continue
            reason = _STATEMENTS.get(type(node))
            if reason:
                yield self._fault(node, reason)
            yield from self._node(node, bases, kernel)

    def _node(self, node: ast.AST, bases: set[int], kernel: bool) -> Iterator[Fault]:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from self._import(node)
            case ast.Attribute():
                yield from self._attribute(node, bases, kernel)
            case ast.Name():
                yield from self._name(node, bases)
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                yield self._fault(node, "is torch's own matrix product; write it in the kernel with tl.dot")
            case ast.Call() if not kernel:
                yield from self._call(node)
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Delete():
                yield from self._target(node)
            case ast.FunctionDef():
                yield from self._function(node)
            case ast.With(items=items) if not kernel and any(self._full(i.context_expr) != "torch.cuda.device" for i in items):
                yield self._fault(node, "enters a context (a stream, a graph, a patch); only torch.cuda.device is allowed")

    def _module_level(self, node: ast.stmt) -> Iterator[Fault]:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is None:
            if isinstance(node, ast.If | ast.For | ast.While | ast.With) or (
                isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
            ):
                yield self._fault(node, "does work at import; move it into run_kernel")
            return
        configs = isinstance(value, ast.List) and value.elts and all(called(e) == "Config" for e in value.elts)
        if isinstance(value, (*_CONTAINERS, ast.List)) and not configs:
            yield self._fault(node, "is a container that outlives a call and may hold earlier results; write a tuple")
        elif isinstance(value, ast.Call) and called(value) not in ("constexpr", "Config", "cdiv", "next_power_of_2"):
            yield self._fault(node, "does work at import; move it into run_kernel")

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Fault]:
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            for alias in node.names:
                top = (node.module or "").split(".")[0]
                if top in _MODULES and not self._allowed(f"{node.module}.{alias.name}"):
                    yield self._fault(node, self._why(f"{node.module}.{alias.name}"))
        else:
            names = [alias.name for alias in node.names]
        for name in names:
            if not _matches(self.rules.imports, name) or (isinstance(node, ast.ImportFrom) and node.level):
                yield self._fault(node, "imports what a kernel may not use; allowed are torch, triton, triton.language, math, typing")

    def _attribute(self, node: ast.Attribute, bases: set[int], kernel: bool) -> Iterator[Fault]:
        if node.attr.startswith("_") and dotted(node) != "triton.__version__":
            yield self._fault(node, "reaches for a private attribute, which a kernel may not")
        if kernel and _matches(self.rules.kernel, node.attr):
            yield self._fault(node, "reads a clock or is inline assembly, which cannot be checked; use Triton's own operators")
        full = self._full(node)
        if id(node) not in bases and full.split(".")[0] in _MODULES and not self._allowed(full):
            yield self._fault(node, self._why(full))

    def _name(self, node: ast.Name, bases: set[int]) -> Iterator[Fault]:
        if node.id.startswith("__"):
            yield self._fault(node, "is a name of the interpreter, which a kernel may not use")
        elif self.aliases.get(node.id, "") in (*_MODULES, "triton.language", "math") and id(node) not in bases:
            yield self._fault(node, "passes a module on, which hides what is called; write its functions out")

    def _call(self, node: ast.Call) -> Iterator[Fault]:
        name = dotted(node.func)
        if isinstance(node.func, ast.Name) and _matches(self.rules.builtins, name):
            yield self._fault(node, f"calls {name}, which no kernel needs; remove it")
        if isinstance(node.func, ast.Attribute):
            owner = self._full(node.func).split(".")[0]
            if owner not in (*_MODULES, "math", "typing") and not _matches(self.rules.methods, node.func.attr):
                yield self._fault(
                    node.func,
                    f"calls .{node.func.attr}() outside of a kernel; host code may only allocate, look at shapes, make views and launch",
                )

    def _target(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete) -> Iterator[Fault]:
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        for target in (n for t in targets for n in ast.walk(t)):
            if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store | ast.Del):
                yield self._fault(target, "sets an attribute, which patches a module or keeps state between calls; use local names")
            elif (
                isinstance(target, ast.Name)
                and self.aliases.get(target.id, "").split(".")[0] in _MODULES
                and isinstance(target.ctx, ast.Store)
            ):
                yield self._fault(target, "gives an imported name another meaning; choose another name")

    def _function(self, node: ast.FunctionDef) -> Iterator[Fault]:
        for default in [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]:
            if isinstance(default, (*_CONTAINERS, ast.List, ast.Call)):
                yield self._fault(default, "is a default that outlives the call and may hold earlier results; make it inside")
        for decorator in node.decorator_list:
            name = self._full(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if not _matches(self.rules.decorators, name):
                yield self._fault(decorator, "is a decorator that may cache or delay; allowed are triton.jit, autotune and heuristics")

    def _full(self, node: ast.AST) -> str:
        """The dotted name with the file's aliases replaced."""
        name = dotted(node.func if isinstance(node, ast.Call) else node)
        first, _, rest = name.partition(".")
        base = self.aliases.get(first, first)
        return f"{base}.{rest}" if rest else base

    def _allowed(self, full: str) -> bool:
        top, _, rest = full.partition(".")
        return _matches(self.rules.torch if top == "torch" else self.rules.triton, rest)

    def _why(self, full: str) -> str:
        if full.startswith("triton"):
            return "reaches into Triton's machinery; allowed are jit, Config, cdiv, next_power_of_2 and triton.language"
        return "is work or machinery of torch; do it in the kernel (allowed are allocation, types and device properties)"

    def _fault(self, node: ast.AST, reason: str) -> Fault:
        line: int = getattr(node, "lineno", 1)
        quote = ast.get_source_segment(self.module.source, node) or ""
        return line, quote.splitlines()[0] if quote else type(node).__name__, reason


def _matches(patterns: str, name: str) -> bool:
    return re.fullmatch(patterns.replace(" ", "|"), name) is not None


def _aliases(tree: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found


def _annotations(top: ast.stmt) -> Iterator[ast.expr]:
    for node in ast.walk(top):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield node.returns


def _is_main_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and dotted(node.test.left) == "__name__"


def _autotune(module: Module) -> Iterator[Fault]:
    for kernel, count in autotune_configs(module.source).items():
        decorator = module.kernels[kernel].autotune
        if decorator is not None and count != 1 and "[:1]" not in module.text(decorator):
            yield decorator.lineno, f"@triton.autotune on {kernel}", "measures for itself when it is called; give one config"
