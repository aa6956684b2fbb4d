"""Launches and configs of Python kernels: the kernels' own parameters and a few options, all written out.

Triton takes further options at both places, which name files, flags and targets for its compiler.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.languages.triton_source import LAUNCH_OPTIONS, PythonModule, dotted_name
from tools.screen.python_scopes import Fault, Scope, fault


def options(module: PythonModule, node: ast.Call, scope: Scope, function: str) -> Iterator[Fault]:
    """Refusals of the keywords of a launch in the top-level `function`."""
    known = _settable(module)
    for keyword in node.keywords:
        given = keyword.value
        if keyword.arg is not None:
            if keyword.arg not in known:
                yield fault(
                    module,
                    keyword,
                    f"is no parameter of a kernel here and no option that it may set ({', '.join(LAUNCH_OPTIONS)})",
                )
            continue
        # A dict that was filled before the launch may have been filled anywhere in the function.
        seen = ast.walk(module.functions.get(function, given)) if isinstance(given, ast.Name) else iter([given])
        local = not isinstance(given, ast.Name) or scope.find(given.id) == "fresh"
        if not (local and all(_written(n, known) for n in seen)):
            yield fault(module, given, "spreads names that cannot be read here; write keys out as plain text")


def configured(module: PythonModule) -> Iterator[Fault]:
    """Refusals of what triton.Config sets."""
    known = _settable(module)
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Call) and module.full_name(node) == "triton.Config"):
            continue
        for given in (*node.args[:1], *(k.value for k in node.keywords if k.arg == "kwargs")):
            if not (isinstance(given, ast.Dict) or dotted_name(getattr(given, "func", None)) == "dict") or not _written(
                given, known
            ):
                yield fault(
                    module,
                    given,
                    "sets what is no parameter of a kernel here; write a dict of the kernel's tl.constexpr parameters",
                )
        for keyword in node.keywords:
            if keyword.arg not in (*LAUNCH_OPTIONS, "kwargs", "pre_hook"):
                yield fault(
                    module,
                    keyword,
                    f"is no option that a config may set; allowed are {', '.join(LAUNCH_OPTIONS)} and pre_hook",
                )


def _settable(module: PythonModule) -> frozenset[str]:
    return frozenset({p for kernel in module.kernels.values() for p in kernel.parameters} | set(LAUNCH_OPTIONS))


def _written(node: ast.AST, known: frozenset[str]) -> bool:
    """Whether the keys of a dict that `node` makes or fills are written out and may be set."""
    match node:
        case ast.Dict(keys=keys):
            return all(isinstance(k, ast.Attribute) or (isinstance(k, ast.Constant) and k.value in known) for k in keys)
        case ast.DictComp():
            return False
        case ast.Subscript(ctx=ast.Store(), slice=index):
            return isinstance(index, ast.Constant) and (index.value in known or isinstance(index.value, int))
        case ast.Call(func=ast.Name(id="dict"), args=positional, keywords=given):
            return not positional and all(k.arg in known for k in given)
    return True
