"""The screen for launches and configs of Python kernels: they may set the kernels' parameters and a few options, with
each name written out.

Triton accepts further options in both, which name files, flags and targets for its compiler.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.languages.triton_source import LAUNCH_OPTIONS, PythonModule, dotted_name
from tools.screen.python_scopes import Scope, refusal_at
from tools.screen.refusals import Refusal


def screen_launch_options(module: PythonModule, node: ast.Call, scope: Scope, function: str) -> Iterator[Refusal]:
    """Yield a refusal for each keyword that the launch `node` in the top-level `function` may not set."""
    known = _settable_names(module)
    for keyword in node.keywords:
        given = keyword.value
        if keyword.arg is not None:
            if keyword.arg not in known:
                yield refusal_at(
                    module,
                    keyword,
                    f"is neither a parameter of a kernel here nor an allowed option ({', '.join(LAUNCH_OPTIONS)}); "
                    f"remove it",
                )
            continue
        # A dict that was filled before the launch may have been filled anywhere in the function.
        nodes = ast.walk(module.functions.get(function, given)) if isinstance(given, ast.Name) else iter([given])
        is_local = not isinstance(given, ast.Name) or scope.binding_kind(given.id) == "new_container"
        if not (is_local and all(_has_written_keys(n, known) for n in nodes)):
            yield refusal_at(
                module, given, "spreads a dict whose keys cannot be read from the source; write the keys as literals"
            )


def screen_configs(module: PythonModule) -> Iterator[Refusal]:
    """Yield a refusal for each setting that a `triton.Config` may not make."""
    known = _settable_names(module)
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Call) and module.full_name(node) == "triton.Config"):
            continue
        for given in (*node.args[:1], *(k.value for k in node.keywords if k.arg == "kwargs")):
            if not (
                isinstance(given, ast.Dict) or dotted_name(getattr(given, "func", None)) == "dict"
            ) or not _has_written_keys(given, known):
                yield refusal_at(
                    module,
                    given,
                    "sets a name that is not a parameter of a kernel in this file; write a dict of the kernel's "
                    "tl.constexpr parameters",
                )
        for keyword in node.keywords:
            if keyword.arg not in (*LAUNCH_OPTIONS, "kwargs", "pre_hook"):
                yield refusal_at(
                    module,
                    keyword,
                    f"is an option that a config may not set; allowed are {', '.join(LAUNCH_OPTIONS)} and pre_hook",
                )


def _settable_names(module: PythonModule) -> frozenset[str]:
    """Parameters of the file's kernels and launch options."""
    return frozenset({p for kernel in module.kernels.values() for p in kernel.parameters} | set(LAUNCH_OPTIONS))


def _has_written_keys(node: ast.AST, known: frozenset[str]) -> bool:
    """Whether each key that `node` puts into a dict is a literal and is in `known`."""
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
