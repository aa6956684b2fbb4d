"""Loads that are read once leave the caches first, those that every program reads stay longest."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from agents.models.playbook.triton.base import TritonRecipe, last_argument
from agents.models.playbook.triton.rows import definitions
from tools.languages.triton_source import Edit, Kernel, Module, called

DECIDED = frozenset({"eviction_policy", "cache_modifier", "volatile"})


class CacheHints(TritonRecipe):
    """`eviction_policy` on loads of kernels that read each element once."""

    name = "triton_cache_hints"

    def rewritten(self, module: Module, knobs: Mapping[str, str]) -> str | None:
        """All kernels at once."""
        edits = [edit for kernel in module.kernels.values() for edit in _hints(module, kernel)]
        return module.apply(edits) if edits else None


def _hints(module: Module, kernel: Kernel) -> list[Edit]:
    """None for kernels with a matrix product, which read tiles again, and for those that go over their data in several loops."""
    loops = [n for n in ast.walk(kernel.node) if isinstance(n, ast.For | ast.While)]
    if any(called(n) in ("dot", "dot_scaled") for n in ast.walk(kernel.node)) or len(loops) > 1:
        return []
    given = definitions(kernel)
    found = []
    for node in ast.walk(kernel.node):
        if not isinstance(node, ast.Call) or called(node) != "load" or not node.args or DECIDED & {k.arg for k in node.keywords}:
            continue
        if len(node.args) > 3 or not _spread(node.args[0], given):
            continue
        policy = "evict_first" if _own(node.args[0], given) else "evict_last"
        end = last_argument(module, node)
        found.append(Edit(end, end, f', eviction_policy="{policy}"'))
    return found


def _own(node: ast.expr, given: dict[str, list[ast.expr]]) -> bool:
    """Whether the address hangs on the program's number."""
    return _reaches(node, given, frozenset({"program_id"}))


def _spread(node: ast.expr, given: dict[str, list[ast.expr]]) -> bool:
    """Whether it is a block of addresses and not a single one."""
    return _reaches(node, given, frozenset({"arange"}))


def _reaches(node: ast.expr, given: dict[str, list[ast.expr]], names: frozenset[str]) -> bool:
    seen: set[str] = set()
    pending = [node]
    while pending:
        for inner in ast.walk(pending.pop()):
            if called(inner) in names:
                return True
            if isinstance(inner, ast.Name) and inner.id not in seen:
                seen.add(inner.id)
                pending += given.get(inner.id, [])
    return False
