"""Read a file with functions of other packages as rivals; the file is parsed and not imported."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.artifacts import Rivals
from tools.errors import SettingsError
from tools.gate.ranking import FRAMEWORKS, USER_FUNCTION
from tools.tasks.loader import read_source

RESERVED_NAMES = ("baseline", "best", "original", "incumbent", "candidate", USER_FUNCTION, *FRAMEWORKS)
"""Names of the other contestants of a benchmark, which a rival cannot have."""


def read_rivals(path: Path) -> Rivals:
    """Return the rivals of a file: each top-level function whose name does not begin with `_`.

    Raises SettingsError if the file defines no rival, or one with a reserved name or with arguments.
    """
    source = read_source(path)
    try:
        functions = [
            node
            for node in ast.parse(source).body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        ]
    except SyntaxError as error:
        raise SettingsError(f"{path}: not valid Python ({error.msg}, line {error.lineno})") from None
    if not functions:
        raise SettingsError(
            f"{path}: defines no rival; add a function such as liger() that returns a function of the reference's "
            f"arguments"
        )
    for node in functions:
        if node.name in RESERVED_NAMES:
            raise SettingsError(
                f"{path}: a rival has the name {node.name} of another contestant; give it the name of its package"
            )
        if any((node.args.posonlyargs, node.args.args[len(node.args.defaults) :])):
            raise SettingsError(
                f"{path}: {node.name}({ast.unparse(node.args)}) takes arguments; let {node.name}() import its package "
                f"and return the function that takes the reference's arguments; start a helper's name with _"
            )
    return Rivals(source=source, names=tuple(dict.fromkeys(node.name for node in functions)))
