"""A file of functions of other libraries -> Rivals; none of them is imported here."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.artifacts import Rivals
from tools.errors import SettingsError
from tools.gate.ranking import FRAMEWORKS
from tools.tasks.loader import read_source

RESERVED_NAMES = ("baseline", "best", "original", "incumbent", "candidate", *FRAMEWORKS)
"""What other contestants of a benchmark are called."""


def read_rivals(path: Path) -> Rivals:
    """Each top-level function is a rival, but for those whose name begins with `_`. SettingsError for a file that
    defines none."""
    source = read_source(path)
    try:
        defined = [
            node
            for node in ast.parse(source).body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        ]
    except SyntaxError as error:
        raise SettingsError(f"{path}: it is no Python ({error.msg}, line {error.lineno})") from None
    if not defined:
        raise SettingsError(
            f"{path}: defines no rival; add a function such as liger() that returns one of the reference's arguments"
        )
    for node in defined:
        if node.name in RESERVED_NAMES:
            raise SettingsError(
                f"{path}: a rival is called {node.name}, which is another contestant's name; call it as its library is"
            )
        if any((node.args.posonlyargs, node.args.args[len(node.args.defaults) :])):
            raise SettingsError(
                f"{path}: {node.name}({ast.unparse(node.args)}) takes arguments; let {node.name}() import its library "
                f"and return the "
                "function that takes the reference's; a helper's name begins with _"
            )
    return Rivals(source=source, names=tuple(dict.fromkeys(node.name for node in defined)))
