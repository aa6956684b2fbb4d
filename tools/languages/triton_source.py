"""Triton source with its syntax tree: kernels, launches and autotune configs (pure; the source is never imported).

Edits replace bytes at the positions of nodes, so the author's comments and layout stay.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

CUTE_DECORATORS = ("cutlass.cute.jit", "cutlass.cute.kernel")
LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Arguments of a launch that go to Triton and not to the kernel."""


class PythonEdit(NamedTuple):
    """Replaces the bytes [start, end) of a source by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class AutotuneConfig:
    """One `triton.Config(...)` that is written out in the source."""

    text: str
    values: dict[str, str]
    """Constexpr parameters and launch options by name, as source text."""


@dataclass(frozen=True)
class PythonKernel:
    """A kernel function: decorated with `@triton.jit`, or in CuTe DSL with `@cute.jit` or `@cute.kernel`."""

    name: str
    node: ast.FunctionDef
    parameters: tuple[str, ...]
    constexprs: frozenset[str]
    autotune: ast.Call | None = None


@dataclass(frozen=True)
class LaunchCall:
    """One call `kernel[grid](...)`."""

    kernel: PythonKernel
    node: ast.Call
    grid: ast.expr
    arguments: dict[str, ast.expr]
    """Kernel parameter -> expression of its argument."""
    options: dict[str, ast.expr]
    """Launch option -> expression of its value."""
    function: ast.FunctionDef | None
    """Function that contains the launch; None: the module's top level."""
    keywords: dict[str, ast.keyword] = field(default_factory=dict)
    """Arguments that are passed by name."""
    opaque: bool = False
    """The launch has *args or **kwargs, so not all arguments are known."""


class PythonModule:
    """A parsed Python file with kernels."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree
        self._bytes = source.encode()
        starts, position = [0], 0
        for line in self._bytes.splitlines(keepends=True):
            position += len(line)
            starts.append(position)
        self._starts = starts

    def byte_span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """Return the byte range [start, end) of a node."""
        assert node.end_lineno is not None and node.end_col_offset is not None, "nodes come from ast.parse"
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        """Return the source text of a node."""
        start, end = self.byte_span(node)
        return self._bytes[start:end].decode()

    def line_start(self, line: int) -> int:
        """Return the byte offset of the start of a line (counted from 1)."""
        return self._starts[min(line, len(self._starts)) - 1]

    def lines(self, first: int, last: int) -> str:
        """Return the text of the lines `first` to `last`, with their line ends."""
        return self._bytes[self.line_start(first) : self.line_start(last + 1)].decode()

    def apply(self, edits: Iterable[PythonEdit]) -> str:
        """Return the source with `edits` applied, which must not overlap."""
        content = self._bytes
        for edit in sorted(edits, reverse=True):
            content = content[: edit.start] + edit.text.encode() + content[edit.end :]
        return content.decode()

    @cached_property
    def import_names(self) -> dict[str, str]:
        """Imported name in this file -> its full dotted name; the last import of a name counts."""
        full_name_by_name: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                full_name_by_name |= {
                    a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
                }
            elif isinstance(node, ast.ImportFrom):
                full_name_by_name |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        return full_name_by_name

    def full_name(self, node: ast.AST | None) -> str:
        """Return the full dotted name of a name, an attribute or a called function, with imports resolved.

        Example: `triton.jit` for `t.jit` after `import triton as t`. Other nodes have an empty name.
        """
        name = dotted_name(node.func if isinstance(node, ast.Call) else node)
        first, _, rest = name.partition(".")
        base = self.import_names.get(first, first)
        return f"{base}.{rest}" if rest else base

    @cached_property
    def kernels(self) -> dict[str, PythonKernel]:
        """Kernel functions by name, in source order."""
        return {
            k.name: k
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef) and (k := _read_kernel(self, node)) is not None
        }

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Functions of the module that are not kernels, by name."""
        return {n.name: n for n in self.tree.body if isinstance(n, ast.FunctionDef) and n.name not in self.kernels}

    @cached_property
    def launches(self) -> tuple[LaunchCall, ...]:
        """All launches `kernel[grid](...)` in source order."""
        launches = [launch for top in self.tree.body for launch in self._launches(top)]
        return tuple(sorted(launches, key=lambda launch: (launch.node.lineno, launch.node.col_offset)))

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """All names that occur in the source."""
        names = {n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name)}
        names |= {n.arg for n in ast.walk(self.tree) if isinstance(n, ast.arg)}
        return frozenset(names | {n.name for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)})

    def _launches(self, top: ast.stmt) -> Iterator[LaunchCall]:
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
                yield _read_launch(kernel, node, node.func.slice, function)


def parse_module(source: str) -> PythonModule | None:
    """Return the parsed module, or None if the text is not Python."""
    try:
        return PythonModule(source, ast.parse(source))
    except (SyntaxError, ValueError):
        return None


def dotted_name(node: ast.AST | None) -> str:
    """Return the dotted name `a.b.c` of a name or attribute; "" for any other node."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted_name(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def called_name(node: ast.AST | None) -> str:
    """Return the last part of a called name, e.g. `load` for `tl.load(...)`; "" for any other node."""
    return dotted_name(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def count_autotune_configs(source: str) -> dict[str, int | None]:
    """Return autotuned kernel -> number of its configs: 0 if none is given, None if they are computed."""
    module = parse_module(source)
    if module is None:
        return {}
    counts: dict[str, int | None] = {}
    for kernel in module.kernels.values():
        if kernel.autotune is not None:
            config_nodes = _written_config_nodes(module, kernel.autotune)
            counts[kernel.name] = None if config_nodes is None else len(config_nodes)
    return counts


def pin_autotune(source: str, index: int = 0) -> str:
    """Return `source` with every autotuned kernel reduced to config number `index` (the last if there are fewer).

    Triton does not measure a list of one config; the decorator stays, so launches need no change. Computed configs
    become `[list(<expression>)[index]]`, which fails at import if the index is past the end.
    """
    module = parse_module(source)
    if module is None:
        return source
    edits = []
    for kernel in module.kernels.values():
        expression = _configs_expression(kernel.autotune) if kernel.autotune is not None else None
        if expression is None or kernel.autotune is None:
            continue
        config_nodes = _written_config_nodes(module, kernel.autotune)
        if config_nodes is None:
            text = f"[list({module.text(expression)})[{index}]]"
        elif len(config_nodes) > 1:
            # The line count stays the same, so a compiler's message names the line of the user's file.
            blank_lines = chr(10) * module.text(expression).count(chr(10))
            text = f"[{ast.unparse(config_nodes[min(index, len(config_nodes) - 1)])}{blank_lines}]"
        else:
            continue
        edits.append(PythonEdit(*module.byte_span(expression), text))
    return module.apply(edits)


def written_configs(module: PythonModule, kernel: PythonKernel) -> tuple[AutotuneConfig, ...]:
    """Return the configs that are written out for an autotuned kernel; empty if there are none or they are computed."""
    config_nodes = _written_config_nodes(module, kernel.autotune) if kernel.autotune is not None else None
    return tuple(_read_config(module, node) for node in config_nodes or () if isinstance(node, ast.Call))


def _read_kernel(module: PythonModule, node: ast.FunctionDef) -> PythonKernel | None:
    # A fragment of a file has no imports: a bare `jit` is that of Triton, unless the fragment defines it.
    names = (
        ("triton.jit", "jit")
        if "jit" not in {n.name for n in module.tree.body if isinstance(n, ast.FunctionDef)}
        else ("triton.jit",)
    )
    if not any(module.full_name(d) in (*names, *CUTE_DECORATORS) for d in node.decorator_list):
        return None
    autotune = next(
        (
            d
            for d in node.decorator_list
            if isinstance(d, ast.Call) and module.full_name(d) in ("triton.autotune", "autotune")
        ),
        None,
    )
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    constexprs = {a.arg for a in arguments if "constexpr" in (dotted_name(a.annotation) or _string_value(a.annotation))}
    return PythonKernel(node.name, node, tuple(a.arg for a in arguments), frozenset(constexprs), autotune)


def _string_value(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _read_launch(kernel: PythonKernel, node: ast.Call, grid: ast.expr, function: ast.FunctionDef | None) -> LaunchCall:
    opaque = any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords)
    arguments = dict(zip(kernel.parameters, node.args, strict=False)) if not opaque else {}
    keywords = {k.arg: k for k in node.keywords if k.arg is not None}
    arguments |= {name: k.value for name, k in keywords.items() if name in kernel.parameters}
    options = {name: k.value for name, k in keywords.items() if name not in kernel.parameters}
    return LaunchCall(kernel, node, grid, arguments, options, function, keywords, opaque)


def _configs_expression(decorator: ast.Call) -> ast.expr | None:
    return next(
        (k.value for k in decorator.keywords if k.arg == "configs"), decorator.args[0] if decorator.args else None
    )


def _written_config_nodes(module: PythonModule, decorator: ast.Call) -> list[ast.expr] | None:
    """Return the configs as expressions if they are written out, in the decorator or in a list of the module that is
    assigned once; None if they are computed."""
    node = _configs_expression(decorator)
    if node is None:
        return []
    if isinstance(node, ast.Name):
        assigned_values = [
            s.value
            for s in module.tree.body
            if isinstance(s, ast.Assign) and any(dotted_name(t) == node.id for t in s.targets)
        ]
        node = assigned_values[0] if len(assigned_values) == 1 else None
    if isinstance(node, ast.List | ast.Tuple) and not any(isinstance(e, ast.Starred) for e in node.elts):
        return list(node.elts)
    return None


def _read_config(module: PythonModule, node: ast.Call) -> AutotuneConfig:
    values: dict[str, str] = {}
    constexpr_dict = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "kwargs"), None)
    if isinstance(constexpr_dict, ast.Dict):
        pairs = zip(constexpr_dict.keys, constexpr_dict.values, strict=True)
        values |= {str(k.value): module.text(v) for k, v in pairs if isinstance(k, ast.Constant)}
    values |= {k.arg: module.text(k.value) for k in node.keywords if k.arg in LAUNCH_OPTIONS}
    return AutotuneConfig(module.text(node), values)
