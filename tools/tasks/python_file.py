"""What a Python file defines and launches, and the arguments of a function as its signature states them.

The file is not imported here, and nothing of it is rewritten.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from tools.cli.suggestions import suggest_or_list
from tools.errors import SettingsError
from tools.languages.triton_source import dotted_name, parse_module
from tools.tasks.cuda_file import drawn
from tools.tasks.draft import FILL

_KERNEL_MAKER = re.compile(
    r"triton\.(?:\w+\.)*jit|cutlass\.cute\.(?:jit|kernel)|torch\.utils\.cpp_extension\.load(?:_inline)?|cupy\.Raw\w+"
)
"""Full names of decorators and functions whose result is a kernel or a module of kernels."""
MAX_PROJECT_FILES = 200
_NO_ENTRY = re.compile(r"_|test|bench|main$")
"""Beginnings of names of functions that are chosen last."""


@dataclass(frozen=True)
class HostFunction:
    """A function, or a class that is called through its `forward`."""

    name: str
    """As `baseline.call` names it."""
    node: ast.FunctionDef
    """The function whose parameters a call gives."""
    skipped: int
    """How many of them a call does not give: `self` or `ctx`."""
    line: int | None
    """Of the first launch."""
    required: tuple[str, ...] = ()
    """Arguments of the constructor without a default."""


class PythonFile:
    """A parsed Python file. SettingsError if it does not parse."""

    def __init__(self, source: str, file: str) -> None:
        module = parse_module(source)
        if module is None:
            raise SettingsError(f"{file}: is no Python that this interpreter parses; correct it first")
        self.module, self.file = module, file

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        """Names that hold a kernel: functions with such a decorator, what a call bound to a name, and imports."""
        found = list[str]()
        for node in ast.walk(self.module.tree):
            makers, names = list[ast.expr](), list[str]()
            if isinstance(node, ast.FunctionDef):
                makers, names = node.decorator_list, [node.name]
            elif isinstance(node, ast.Assign):
                makers, names = [node.value], [*map(dotted_name, node.targets)]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
                found += {dotted_name(node.func.value)} & {*self.module.import_names}
            found += names * any(map(self._makes_kernel, (n for one in makers for n in ast.walk(one))))
        return tuple(dict.fromkeys(filter(None, found)))

    def _makes_kernel(self, node: ast.AST) -> bool:
        return _KERNEL_MAKER.fullmatch(self.module.full_name(node)) is not None

    @cached_property
    def cuda_sources(self) -> dict[str, str]:
        """CUDA code in the file's strings, by the name that it is assigned to."""
        assigned = [n for n in ast.walk(self.module.tree) if isinstance(n, ast.Assign)]
        names = {id(part): dotted_name(n.targets[0]) for n in assigned for part in ast.walk(n.value)}
        return {
            re.sub(r"\W", "_", names.get(id(n), "")) or f"cuda_source_{n.lineno}": n.value
            for n in ast.walk(self.module.tree)
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and "__global__" in n.value
        }

    @cached_property
    def functions(self) -> dict[str, HostFunction]:
        """Functions, modules, autograd functions and static methods that a caller can name, by name."""
        return {f.name: f for node in _statements(self.module.tree.body) for f in self._callable(node)}

    @cached_property
    def launchers(self) -> tuple[str, ...]:
        """Those that launch a kernel or hand one on, in order, private names last."""
        launching = [name for name, f in self.functions.items() if f.line]
        return tuple(sorted(launching, key=lambda name: (name != "run_kernel", bool(_NO_ENTRY.match(name)))))

    def choose(self, entry: str | None) -> HostFunction:
        """The function named `entry`; without a name `run_kernel`, else the first that launches."""
        chosen = entry or next(iter(self.launchers), None)
        if chosen is None:
            there = f"name the one to measure with --entry (there are {', '.join(self.functions) or 'none'})"
            raise SettingsError(
                f"{self.file}: no function, module or autograd function calls {', '.join(self.kernels) or 'a kernel'}; "
                f"{there}, or add a function of named arguments that does"
            )
        if chosen not in self.functions:
            known = suggest_or_list(chosen, list(self.functions))
            raise SettingsError(f"--entry: there is no function {chosen!r} that a caller can name; {known}")
        return self.functions[chosen]

    def arguments(self, function: HostFunction) -> tuple[dict[str, str], list[str]]:
        """What a call gives, as annotations and defaults tell it, and the parameters that stay at their defaults."""
        listed = function.node.args
        if listed.vararg is not None:
            raise SettingsError(
                f"{self.file}: {function.name} takes *{listed.vararg.arg}, so its arguments have no names; write a "
                "function of named arguments that calls it into the file, and name that with --entry"
            )
        plain = [*listed.posonlyargs, *listed.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(listed.defaults))
        pairs = zip([*plain, *listed.kwonlyargs], [*defaults, *listed.defaults, *listed.kw_defaults], strict=True)
        given, left_out = dict[str, str](), []
        for argument, default in list(pairs)[function.skipped :]:
            annotation = ast.unparse(argument.annotation).strip("'\"") if argument.annotation else ""
            if value := _number(default):
                given[argument.arg] = value
            elif default is not None:
                left_out.append(argument.arg)
            elif annotation in ("int", "float", "bool"):
                given[argument.arg] = drawn(argument.arg, annotation, is_tensor=False)
            elif annotation and not re.search(r"Tensor|Any", annotation):
                given[argument.arg] = f"None  # {FILL} its value ({annotation})"
            else:
                given[argument.arg] = drawn(argument.arg, "int64" if "LongTensor" in annotation else "float32")
        return given, left_out

    def returned(self, function: HostFunction) -> tuple[str, ...]:
        """Names of what the function returns last, made up where it has none."""
        returns = [n for n in ast.walk(function.node) if isinstance(n, ast.Return) and n.value is not None]
        values = [n.value for n in sorted(returns, key=lambda n: n.lineno)]
        parts = values[-1].elts if values and isinstance(values[-1], ast.Tuple) else values[-1:]
        names = (dotted_name(part) if isinstance(part, ast.Name) else "" for part in parts)
        return tuple(name or f"out{i if len(parts) > 1 else ''}" for i, name in enumerate(names))

    def _callable(self, node: ast.stmt) -> Iterator[HostFunction]:
        if isinstance(node, ast.FunctionDef) and node.name not in self.kernels:
            yield HostFunction(node.name, node, 0, self._launch(node))
        if not isinstance(node, ast.ClassDef):
            return
        methods = {n.name: n for n in _statements(node.body) if isinstance(n, ast.FunctionDef)}
        bases = [dotted_name(base).rpartition(".")[2] for base in node.bases]
        if "forward" in methods and bases:
            built = methods["__init__"].args if "__init__" in methods else None
            needed = built.args[1 : len(built.args) - len(built.defaults)] if built else []
            skipped = int("Function" not in bases or "setup_context" not in methods)
            required = tuple(argument.arg for argument in needed)
            yield HostFunction(node.name, methods["forward"], skipped, self._launch(node), required)
        for name, method in methods.items():
            if any(dotted_name(d) == "staticmethod" for d in method.decorator_list) and "Function" not in bases:
                yield HostFunction(f"{node.name}.{name}", method, 0, self._launch(method))

    def _launch(self, within: ast.stmt) -> int | None:
        """Return the line where a function or class names a kernel or builds one, or None."""
        expressions = (n for n in ast.walk(within) if isinstance(n, ast.expr))
        return min(
            (n.lineno for n in expressions if dotted_name(n) in self.kernels or self._makes_kernel(n)), default=None
        )


def project_files(file: Path, source: str, root: Path | None = None) -> tuple[Path, dict[str, str]]:
    """The folder that `file`'s project is imported from, and path in it -> text of the file and of what it imports
    from there, directly or through others.

    A package's own `__init__.py` is taken where something is imported from it, else an empty one. `root` is a folder
    that modules are known to be imported from.
    """
    root = root or file.parent
    while (root / "__init__.py").exists():
        root = root.parent
    levels = max((n.level for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ImportFrom)), default=0)
    while len(file.parent.relative_to(root).parts) < levels:
        root = root.parent
    texts, pending = dict[str, str](), [file.relative_to(root).as_posix()]
    while pending and len(texts) < MAX_PROJECT_FILES:
        name = pending.pop()
        if name in texts:
            continue
        texts[name] = (root / name).read_text(encoding="utf-8", errors="replace")
        module = parse_module(texts[name])
        for node in ast.walk(module.tree) if module else ():
            for modules in _imported_modules(node, name.split("/")):
                files = (f"{one}{end}" for one in modules if one for end in (".py", "/__init__.py"))
                pending += itertools.islice((path for path in files if (root / path).is_file()), 1)
    folders = {parent.as_posix() for name in texts for parent in PurePosixPath(name).parents[:-1]}
    return root, {**{f"{folder}/__init__.py": "" for folder in folders}, **texts}


def _imported_modules(node: ast.AST, importer: list[str]) -> list[tuple[str, ...]]:
    """For each imported name the modules that it may be or come from, as paths; `importer` has the file's own path."""
    if isinstance(node, ast.Import):
        return [(alias.name.replace(".", "/"),) for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = "/".join([*importer[: -node.level or -len(importer)], *filter(None, (node.module or "").split("."))])
    return [(f"{base}/{alias.name}" if base else alias.name, base) for alias in node.names]


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, and those under its `if`, `try` and `with`."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _statements(getattr(node, name, []))


def _number(node: ast.expr | None) -> str:
    """The number or truth value that a default states, as Python text; empty: it is something else."""
    try:
        value = ast.literal_eval(node) if node is not None else None
    except ValueError:
        return ""
    return repr(value) if isinstance(value, int | float) else ""
