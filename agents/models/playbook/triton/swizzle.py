"""Neighbouring programs of a matrix product work on neighbouring tiles, so that what one loads the next finds in cache."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import ClassVar

from agents.models.playbook.triton.base import TritonRecipe, indent, starts_line
from tools.languages.triton_source import Edit, Kernel, Module, called, dotted


class GroupSwizzle(TritonRecipe):
    """Tiles are visited in groups of GROUP rows. Any order of tiles is right, since each program has a tile of its own."""

    name = "triton_group_swizzle"
    knobs: ClassVar[Mapping[str, tuple[str, ...]]] = {"GROUP": ("8", "4", "16")}
    _line = re.compile(r"^(\s+kw_group: tl\.constexpr = )(\d+)$", re.MULTILINE)

    def rewritten(self, module: Module, knobs: Mapping[str, str]) -> str | None:
        """Every kernel with a matrix product and two tile numbers of its own."""
        edits = [edit for kernel in module.kernels.values() for edit in self._swizzle(module, kernel, knobs)]
        return module.apply(edits) if edits else None

    def present(self, source: str) -> dict[str, str]:
        """GROUP, which stands in the kernel itself."""
        found = self._line.search(source)
        return {"GROUP": found[2]} if found else {}

    def retune(self, source: str, knobs: Mapping[str, str]) -> str:
        """`source` with another GROUP."""
        value = str(knobs.get("GROUP", ""))
        return self._line.sub(rf"\g<1>{value}", source) if value.isdigit() else source

    def _swizzle(self, module: Module, kernel: Kernel, knobs: Mapping[str, str]) -> list[Edit]:
        nodes = list(ast.walk(kernel.node))
        names = {n.id for n in nodes if isinstance(n, ast.Name)}
        grouped = any(called(n) in ("swizzle2d", "num_programs") or "group" in n_id.lower() for n in nodes for n_id in [_identifier(n)])
        if "tl" not in names or grouped or not any(called(n) == "dot" for n in nodes):
            return []
        found = _two_axes(kernel) or _one_axis(module, kernel)
        if found is None or not starts_line(module, found[0]) or not _set_once(kernel, found[1]):
            return []
        statement, (slow, fast), (slow_size, fast_size) = found
        assert statement.end_lineno is not None
        space, at = indent(module, statement), module.line_start(statement.end_lineno + 1)
        text = (
            f"{space}kw_group: tl.constexpr = {self.value(knobs, 'GROUP')}\n"
            f"{space}{slow}, {fast} = tl.swizzle2d({slow}, {fast}, {slow_size}, {fast_size}, kw_group)\n"
        )
        return [Edit(at, at, text)]


Found = tuple[ast.stmt, tuple[str, str], tuple[str, str]]
"""The statement after which both are known, their names, and how many there are of each; the first varies more slowly."""


def _identifier(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""


def _axis(node: ast.expr) -> int | None:
    """a of program_id(a)."""
    if not isinstance(node, ast.Call) or called(node) != "program_id":
        return None
    given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "axis"), None)
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, int) else None


def _assigned(kernel: Kernel) -> list[tuple[str, ast.Assign]]:
    return [
        (s.targets[0].id, s)
        for s in kernel.node.body
        if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name)
    ]


def _two_axes(kernel: Kernel) -> Found | None:
    """pid_m = program_id(0), pid_n = program_id(1)."""
    axes = {axis: (name, s) for name, s in _assigned(kernel) if (axis := _axis(s.value)) is not None}
    calls = [n for n in ast.walk(kernel.node) if called(n) == "program_id"]
    extra = [axis for axis in axes if axis not in (0, 1)]
    if not {0, 1} <= set(axes) or len(calls) != len(axes) or len(extra) > 1:
        return None
    (fast, one), (slow, two) = axes[0], axes[1]
    last = max(one, two, key=lambda s: s.lineno)
    between = [s for s in kernel.node.body if min(one.lineno, two.lineno) < s.lineno < last.lineno]
    if any(_names(s) & {fast, slow} for s in between):
        return None
    # The hardware hands out programs with axis 0 running fastest.
    return last, (slow, fast), ("tl.num_programs(1)", "tl.num_programs(0)")


def _one_axis(module: Module, kernel: Kernel) -> Found | None:
    """pid_m = pid // tiles, pid_n = pid % tiles."""
    assigned = _assigned(kernel)
    pid = [name for name, s in assigned if _axis(s.value) == 0]
    if len(pid) != 1:
        return None
    parts: dict[type[ast.operator], tuple[str, ast.Assign, str]] = {}
    for name, s in assigned:
        if isinstance(s.value, ast.BinOp) and dotted(s.value.left) == pid[0] and isinstance(s.value.op, ast.FloorDiv | ast.Mod):
            parts[type(s.value.op)] = (name, s, module.text(s.value.right))
    if len(parts) != 2 or parts[ast.FloorDiv][2] != parts[ast.Mod][2]:
        return None
    (slow, one, tiles), (fast, two, _) = parts[ast.FloorDiv], parts[ast.Mod]
    uses = sum(isinstance(n, ast.Name) and n.id == pid[0] and isinstance(n.ctx, ast.Load) for n in ast.walk(kernel.node))
    if uses != 2 or abs(one.lineno - two.lineno) != 1:
        return None
    return max(one, two, key=lambda s: s.lineno), (slow, fast), (f"tl.num_programs(0) // ({tiles})", f"({tiles})")


def _set_once(kernel: Kernel, names: tuple[str, str]) -> bool:
    stored = [n.id for n in ast.walk(kernel.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return all(stored.count(name) == 1 for name in names)


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
