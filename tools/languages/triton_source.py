"""Triton source as text with a syntax tree: its kernels, their launches, block sizes and autotune configs. Pure;
nothing is imported.

Everything is found by position, so that edits keep the author's comments and layout.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

CUTE = ("cutlass.cute.jit", "cutlass.cute.kernel")
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Launch arguments that Triton takes beside the kernel's own."""


class Edit(NamedTuple):
    """Replace the bytes [start, end) by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Config:
    """One `triton.Config(...)` as it is written."""

    text: str
    values: dict[str, str]
    """Constexpr parameters and options by name, as written."""


@dataclass(frozen=True)
class Kernel:
    """A function under `@triton.jit`, or of CuTe DSL under `@cute.jit` or `@cute.kernel`."""

    name: str
    node: ast.FunctionDef
    parameters: tuple[str, ...]
    constexprs: frozenset[str]
    autotune: ast.Call | None = None


@dataclass(frozen=True)
class Launch:
    """One call `kernel[grid](...)`."""

    kernel: Kernel
    node: ast.Call
    grid: ast.expr
    arguments: dict[str, ast.expr]
    """Kernel parameter -> expression given."""
    options: dict[str, ast.expr]
    function: ast.FunctionDef | None
    """In which it stands."""
    keywords: dict[str, ast.keyword] = field(default_factory=dict)
    """Those given by name."""
    opaque: bool = False
    """It has *args or **kwargs, so that not all arguments are known."""


class Module:
    """A parsed source file."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree
        self._bytes = source.encode()
        starts, position = [0], 0
        for line in self._bytes.splitlines(keepends=True):
            position += len(line)
            starts.append(position)
        self._starts = starts

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """[start, end) in bytes."""
        assert node.end_lineno is not None and node.end_col_offset is not None, "nodes come from ast.parse"
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        """As written."""
        start, end = self.span(node)
        return self._bytes[start:end].decode()

    def line_start(self, line: int) -> int:
        """Byte at which line `line` (from 1) begins."""
        return self._starts[min(line, len(self._starts)) - 1]

    def lines(self, first: int, last: int) -> str:
        """Lines `first` to `last`, with their ends."""
        return self._bytes[self.line_start(first) : self.line_start(last + 1)].decode()

    def apply(self, edits: Iterable[Edit]) -> str:
        """The source with `edits`, which must not overlap."""
        changed = self._bytes
        for edit in sorted(edits, reverse=True):
            changed = changed[: edit.start] + edit.text.encode() + changed[edit.end :]
        return changed.decode()

    @cached_property
    def imported(self) -> dict[str, str]:
        """Name in this file -> the dotted name that an import gave it; with two imports of one name, the last."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {
                    a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
                }
            elif isinstance(node, ast.ImportFrom):
                found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        return found

    def full(self, node: ast.AST | None) -> str:
        """The dotted name of names, attributes and what a call calls, as imports have it: `triton.jit` for `t.jit`;
        else empty."""
        name = dotted(node.func if isinstance(node, ast.Call) else node)
        first, _, rest = name.partition(".")
        base = self.imported.get(first, first)
        return f"{base}.{rest}" if rest else base

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        """By name, in source order."""
        return {
            k.name: k
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef) and (k := _kernel(self, node)) is not None
        }

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Plain functions of the module."""
        return {n.name: n for n in self.tree.body if isinstance(n, ast.FunctionDef) and n.name not in self.kernels}

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Every `kernel[grid](...)` in source order."""
        found = [launch for top in self.tree.body for launch in self._launches(top)]
        return tuple(sorted(found, key=lambda launch: (launch.node.lineno, launch.node.col_offset)))

    @cached_property
    def names(self) -> frozenset[str]:
        """Every identifier in use."""
        found = {n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name)}
        found |= {n.arg for n in ast.walk(self.tree) if isinstance(n, ast.arg)}
        return frozenset(found | {n.name for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)})

    def _launches(self, top: ast.stmt) -> Iterator[Launch]:
        function = top if isinstance(top, ast.FunctionDef) else None
        if function is not None and function.name in self.kernels:
            return
        for node in ast.walk(top):
            if not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Subscript)
                and isinstance(node.func.value, ast.Name)
            ):
                continue
            kernel = self.kernels.get(node.func.value.id)
            if kernel is not None:
                yield _launch(kernel, node, node.func.slice, function)


def read(source: str) -> Module | None:
    """The module, or None where the text is no Python."""
    try:
        return Module(source, ast.parse(source))
    except (SyntaxError, ValueError):
        return None


def dotted(node: ast.AST | None) -> str:
    """`a.b.c` of names and attributes; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def called(node: ast.AST | None) -> str:
    """The last part of the name that a call has, `load` of `tl.load(...)`; empty for anything else."""
    return dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def autotune_configs(source: str) -> dict[str, int | None]:
    """Autotuned kernel -> number of its configs: 0 where none is given, None where they are computed."""
    module = read(source)
    if module is None:
        return {}
    found: dict[str, int | None] = {}
    for kernel in module.kernels.values():
        if kernel.autotune is not None:
            listed = _listed(module, kernel.autotune)
            found[kernel.name] = None if listed is None else len(listed)
    return found


def pin_autotune(source: str, index: int = 0) -> str:
    """`source` with every autotuned kernel reduced to its config number `index` (the last one where fewer are written).

    A list of one config makes Triton skip its own measurements; the decorator stays, so that launches need no change.
    Configs that are computed become `[list(<expression>)[index]]`: whatever they are, it is one, and an index behind
    their end is an error at import.
    """
    module = read(source)
    if module is None:
        return source
    edits = []
    for kernel in module.kernels.values():
        expression = _configs(kernel.autotune) if kernel.autotune is not None else None
        if expression is None or kernel.autotune is None:
            continue
        listed = _listed(module, kernel.autotune)
        if listed is None:
            text = f"[list({module.text(expression)})[{index}]]"
        elif len(listed) > 1:
            # As many lines as before, so that a compiler's complaint names the line that the user knows.
            blank_lines = chr(10) * module.text(expression).count(chr(10))
            text = f"[{ast.unparse(listed[min(index, len(listed) - 1)])}{blank_lines}]"
        else:
            continue
        edits.append(Edit(*module.span(expression), text))
    return module.apply(edits)


def configs(module: Module, kernel: Kernel) -> tuple[Config, ...]:
    """The configs of an autotuned kernel that are written out; empty where there are none or they are computed."""
    listed = _listed(module, kernel.autotune) if kernel.autotune is not None else None
    return tuple(_config(module, node) for node in listed or () if isinstance(node, ast.Call))


def _kernel(module: Module, node: ast.FunctionDef) -> Kernel | None:
    # A part of a file has no imports: there the bare name is Triton's unless the part gives it another meaning.
    names = (
        ("triton.jit", "jit")
        if "jit" not in {n.name for n in module.tree.body if isinstance(n, ast.FunctionDef)}
        else ("triton.jit",)
    )
    if not any(module.full(d) in (*names, *CUTE) for d in node.decorator_list):
        return None
    tuned = next(
        (
            d
            for d in node.decorator_list
            if isinstance(d, ast.Call) and module.full(d) in ("triton.autotune", "autotune")
        ),
        None,
    )
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    constexprs = {a.arg for a in arguments if "constexpr" in (dotted(a.annotation) or _quoted(a.annotation))}
    return Kernel(node.name, node, tuple(a.arg for a in arguments), frozenset(constexprs), tuned)


def _quoted(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _launch(kernel: Kernel, node: ast.Call, grid: ast.expr, function: ast.FunctionDef | None) -> Launch:
    opaque = any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords)
    arguments = dict(zip(kernel.parameters, node.args, strict=False)) if not opaque else {}
    keywords = {k.arg: k for k in node.keywords if k.arg is not None}
    arguments |= {name: k.value for name, k in keywords.items() if name in kernel.parameters}
    options = {name: k.value for name, k in keywords.items() if name not in kernel.parameters}
    return Launch(kernel, node, grid, arguments, options, function, keywords, opaque)


def _configs(decorator: ast.Call) -> ast.expr | None:
    return next(
        (k.value for k in decorator.keywords if k.arg == "configs"), decorator.args[0] if decorator.args else None
    )


def _listed(module: Module, decorator: ast.Call) -> list[ast.expr] | None:
    """The configs as expressions, where they are written out in the decorator or in a list of the module that is set
    once."""
    node = _configs(decorator)
    if node is None:
        return []
    if isinstance(node, ast.Name):
        given = [
            s.value
            for s in module.tree.body
            if isinstance(s, ast.Assign) and any(dotted(t) == node.id for t in s.targets)
        ]
        node = given[0] if len(given) == 1 else None
    if isinstance(node, ast.List | ast.Tuple) and not any(isinstance(e, ast.Starred) for e in node.elts):
        return list(node.elts)
    return None


def _config(module: Module, node: ast.Call) -> Config:
    values: dict[str, str] = {}
    given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "kwargs"), None)
    if isinstance(given, ast.Dict):
        pairs = zip(given.keys, given.values, strict=True)
        values |= {str(k.value): module.text(v) for k, v in pairs if isinstance(k, ast.Constant)}
    values |= {k.arg: module.text(k.value) for k in node.keywords if k.arg in OPTIONS}
    return Config(module.text(node), values)
