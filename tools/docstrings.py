"""The docstrings that stand under the fields of a model, read from its source (Python itself keeps none of them)."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


def of_fields(kind: type[BaseModel]) -> dict[str, str]:
    """Field -> its docstring, those of base classes included. A class that is not at the top of a file with source has none."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _in_module(base.__module__).get(base.__qualname__, {})
    return found


@cache
def _in_module(name: str) -> dict[str, dict[str, str]]:
    """Class -> field -> docstring."""
    try:
        source = inspect.getsource(sys.modules[name])
    except (KeyError, OSError, TypeError):  # let go of, built in, or typed into an interpreter
        return {}
    return {node.name: dict(_documented(node)) for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def _documented(node: ast.ClassDef) -> list[tuple[str, str]]:
    return [
        (field.target.id, inspect.cleandoc(below.value.value))
        for field, below in pairwise(node.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    ]
