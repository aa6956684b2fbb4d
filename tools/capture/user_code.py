"""What the user's own code says: the statements that a function needs, and the files that it imports."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.capture.observation import Observation

PURE_MODULES = frozenset({"torch", "math", "typing", "collections", "dataclasses", "functools", "__future__", "enum"})
"""Modules that a reference may import."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a module binds."""
    if isinstance(statement, _DEFINITIONS):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def needed_statements(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Return the statements of a module that the definition of `name` needs, in their order."""
    wanted, kept = {name}, set[int]()
    while True:
        more = [
            statement
            for at, statement in enumerate(tree.body)
            if at not in kept and (bound_names(statement) & wanted or _is_future(statement))
        ]
        if not more:
            return [statement for at, statement in enumerate(tree.body) if at in kept]
        kept |= {tree.body.index(statement) for statement in more}
        wanted |= {node.id for one in more for node in ast.walk(one) if isinstance(node, ast.Name)}


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def text_of_statements(source: str, statements: Iterable[ast.stmt]) -> str:
    """Return the lines of these statements as they stand in the source, decorators included."""
    lines = source.splitlines()
    parts = []
    for statement in statements:
        decorators = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(one.lineno for one in decorators)])
        gap = "\n\n" if isinstance(statement, _DEFINITIONS) else ""
        parts.append(gap + "\n".join(lines[first - 1 : statement.end_lineno]) + gap)
    return "\n".join(parts).strip() + "\n"


def has_effects(tree: ast.Module) -> bool:
    """Whether importing a module does more than define names; `if __name__ == ...` does not count."""
    harmless = (*_DEFINITIONS, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    return any(
        not isinstance(one, harmless)
        and not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        and not (isinstance(one, ast.If) and "__name__" in ast.unparse(one.test))
        for one in tree.body
    )


def is_pure_torch(statements: Iterable[ast.stmt]) -> bool:
    """Whether statements import torch and plain Python alone and know all names that they use."""
    statements = list(statements)
    known = set(dir(builtins)).union(*map(bound_names, statements))
    for statement in statements:
        if isinstance(statement, ast.Import):
            modules = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            modules = ["." if statement.level else statement.module or "."]
        else:
            local = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and not _is_read(node)}
            local |= {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
            inner = {name for node in ast.walk(statement) if isinstance(node, ast.stmt) for name in bound_names(node)}
            if any(isinstance(n, ast.Name) and n.id not in known | local | inner for n in ast.walk(statement)):
                return False
            modules = []
        if any(module.partition(".")[0] not in PURE_MODULES for module in modules):
            return False
    return True


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def imported_files(modules: Mapping[str, str], name: str) -> dict[str, Path]:
    """Return the user's files that the module `name` imports, itself included: path below a root -> file.

    `modules` are the user's own modules by name. A package's `__init__.py` comes with each of its modules.
    """
    left, seen = [name], set[str]()
    found: dict[str, Path] = {}
    while left:
        module = left.pop()
        if module in seen or module not in modules:
            continue
        seen.add(module)
        file = Path(modules[module])
        is_package = file.name == "__init__.py"
        found["/".join(module.split(".")) + ("/__init__.py" if is_package else file.suffix)] = file
        package = module if is_package else module.rpartition(".")[0]
        left += [module.rpartition(".")[0]]
        if file.suffix == ".py":
            left += _imported_names(ast.parse(file.read_text(encoding="utf-8")), package)
    return found


def _imported_names(tree: ast.Module, package: str) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module or "")))
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return names


def is_torch(observation: Observation) -> bool:
    """Whether the target is a function of torch itself."""
    return observation.form == "operator" or observation.target.split(":")[0].partition(".")[0] == "torch"
