"""Warps and block widths of launches whose settings are plain numbers."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from agents.models.playbook.triton.base import TritonRecipe, first_kernel_start, is_number, launches_of, triton_name
from agents.models.playbook.triton.rows import row_loops
from tools.languages.triton_source import LaunchCall, PythonEdit, PythonModule, called_name, dotted_name


class LaunchKnobs(TritonRecipe):
    """Settings of launches become constants that can be searched; launches of matrix products stay as they are."""

    name = "triton_launch"
    knobs: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "WARPS": ("8", "4", "16", "2"),
        "BLOCK": ("4096", "2048", "8192", "1024", "16384"),
    }

    def rewritten(self, module: PythonModule, knobs: Mapping[str, str]) -> str | None:
        """All launches at once; None when the constants stand there already."""
        if self.present(module.source):
            return None
        edits: list[PythonEdit] = []
        for kernel in module.kernels.values():
            if kernel.autotune is None and not any(
                called_name(n) in ("dot", "dot_scaled") for n in ast.walk(kernel.node)
            ):
                for launch in launches_of(module, kernel):
                    edits += self._setting_edits(module, launch)
        if not edits:
            return None
        return module.apply(
            [PythonEdit(first_kernel_start(module), first_kernel_start(module), f"{self.constants(knobs)}\n\n"), *edits]
        )

    def _setting_edits(self, module: PythonModule, launch: LaunchCall) -> list[PythonEdit]:
        warps = launch.options.get("num_warps")
        plain = warps is None or is_number(warps)
        return [*(self.options(module, launch) if plain else []), *self._width_edits(module, launch)]

    def _width_edits(self, module: PythonModule, launch: LaunchCall) -> list[PythonEdit]:
        """The block of a row kernel's loops, no wider than its rows need."""
        rows, triton = row_loops(launch.kernel), triton_name(module)
        if rows is None or triton is None:
            return []
        value, extent = launch.arguments.get(rows.block), launch.arguments.get(rows.extent)
        if (
            value is None
            or extent is None
            or not (is_number(value) or isinstance(value, ast.Name))
            or _determines_grid(launch, rows.block, value)
        ):
            return []
        return [
            PythonEdit(
                *module.byte_span(value), f"min({self.named('BLOCK')}, {triton}.next_power_of_2({module.text(extent)}))"
            )
        ]


def _determines_grid(launch: LaunchCall, block: str, value: ast.expr) -> bool:
    """Whether the number of programs may hang on the block: then its width is not ours to change."""
    nodes = list(ast.walk(launch.grid))
    if any(isinstance(n, ast.Lambda) for n in nodes) or isinstance(launch.grid, ast.Name):
        return True
    return any(isinstance(n, ast.Constant) and n.value == block for n in nodes) or any(
        isinstance(n, ast.Name) and n.id == dotted_name(value) for n in nodes
    )
