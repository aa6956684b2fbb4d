"""What the user's own code says: the statements that a function needs, and whether a reference may hold them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from tools.capture.observation import Observation
from tools.languages.triton_source import PythonModule

PURE_MODULES = frozenset({"torch", "math", "typing", "collections", "dataclasses", "functools", "__future__", "enum"})
"""Modules that a reference may import."""
_OTHER_OPERATORS = re.compile(r"\bops\.(?!aten\b|prims\b)\w+")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a module binds."""
    if isinstance(statement, _DEFINITIONS):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {*PythonModule("", ast.Module([statement], [])).import_names}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def needed_statements(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Return the statements of a module that the definition of `name` needs, in their order."""
    # What a star imports is not known, and the future concerns the whole file.
    wanted, kept = {name, "*", "annotations"}, list[ast.stmt]()
    while more := [one for one in tree.body if one not in kept and bound_names(one) & wanted]:
        kept += more
        wanted |= {node.id for one in more for node in ast.walk(one) if isinstance(node, ast.Name)}
    return [one for one in tree.body if one in kept]


def text_of_statements(source: str, statements: Iterable[ast.stmt]) -> str:
    """Return the lines of these statements as they stand in the source, decorators included."""
    lines, parts = source.splitlines(), []
    for statement in statements:
        first = min(getattr(node, "lineno", statement.lineno) for node in ast.walk(statement))
        parts.append("\n".join(lines[first - 1 : statement.end_lineno]))
    return "\n\n".join(parts) + "\n"


def is_pure_torch(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements use torch and plain Python alone."""
    text = "\n".join(map(ast.unparse, statements))
    names = PythonModule(text, ast.Module([*statements], [])).import_names.values()
    return PURE_MODULES.issuperset(n.partition(".")[0] for n in names) and not _OTHER_OPERATORS.search(text)


def is_torch(observation: Observation) -> bool:
    """Whether the target is a function of torch itself."""
    return observation.form == "operator" or observation.target.split(":")[0].partition(".")[0] == "torch"
