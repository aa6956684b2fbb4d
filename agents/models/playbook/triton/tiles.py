"""Tile sizes, warps and stages of a matrix product whose launch gives them as numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from agents.models.playbook.triton.base import TritonRecipe, head, is_number, launches_of
from agents.models.playbook.triton.rows import argument, bounds, definitions, resolved
from tools.languages.triton_source import LaunchCall, PythonEdit, PythonKernel, PythonModule, called_name, dotted_name


@dataclass(frozen=True)
class _Tiles:
    """Constexpr parameters of one product."""

    rows: str
    columns: str
    depth: str


class Tiles(TritonRecipe):
    """Larger tiles: each loaded element is used for more products."""

    name = "triton_tiles"
    knobs: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "M": ("128", "64", "256"),
        "N": ("128", "256", "64"),
        "K": ("64", "32", "128"),
        "WARPS": ("8", "4"),
        "STAGES": ("3", "4", "2"),
    }

    def rewritten(self, module: PythonModule, knobs: Mapping[str, str]) -> str | None:
        """Every product whose tile sizes and grid are understood; None when the constants stand there already."""
        if self.present(module.source):
            return None
        edits: list[PythonEdit] = []
        for kernel in module.kernels.values():
            tiles = _tiles(kernel)
            launches = (
                launches_of(module, kernel)
                if tiles is not None and kernel.autotune is None and _guarded(kernel)
                else ()
            )
            found = [self._launch(module, launch, tiles) for launch in launches if tiles is not None]
            if found and all(one is not None for one in found):
                edits += [edit for one in found for edit in one or []]
        if not edits:
            return None
        return module.apply([PythonEdit(head(module), head(module), f"{self.constants(knobs)}\n\n"), *edits])

    def _launch(self, module: PythonModule, launch: LaunchCall, tiles: _Tiles) -> list[PythonEdit] | None:
        names = {tiles.rows: self.named("M"), tiles.columns: self.named("N"), tiles.depth: self.named("K")}
        edits: list[PythonEdit] = []
        for parameter, constant in names.items():
            value = launch.arguments.get(parameter)
            if value is None or not (isinstance(value, ast.Name) or is_number(value)):
                return None
            edits.append(PythonEdit(*module.byte_span(value), constant))
        grid = self._grid(module, launch, names)
        if grid is None:
            return None
        return [*edits, *grid, *self.options(module, launch)]

    def _grid(self, module: PythonModule, launch: LaunchCall, names: Mapping[str, str]) -> list[PythonEdit] | None:
        """The grid's divisors; None unless each is one of the tile sizes for sure."""
        node = _where_set(module, launch)
        if node is None:
            return None
        edits = []
        divisions = [(n, *found) for n in ast.walk(node) if (found := _division(n)) is not None]
        for _, extent, divisor in divisions:
            if isinstance(divisor, ast.Subscript):
                continue  # META["BLOCK_M"] follows the launch.
            parameter = next(
                (p for p, value in launch.arguments.items() if module.text(value) == module.text(extent)), None
            )
            tile = _divides(launch.kernel, parameter, names) if parameter is not None else None
            if tile is None:
                return None
            edits.append(PythonEdit(*module.byte_span(divisor), names[tile]))
        return edits if len(divisions) == 2 else None


def _where_set(module: PythonModule, launch: LaunchCall) -> ast.expr | None:
    """The grid's expression, where it is written out in the launch or set once for this launch alone."""
    if not isinstance(launch.grid, ast.Name):
        return launch.grid
    if launch.function is None:
        return None
    name = launch.grid.id
    given = [
        s.value
        for s in ast.walk(launch.function)
        if isinstance(s, ast.Assign) and any(dotted_name(t) == name for t in s.targets)
    ]
    uses = sum(isinstance(n, ast.Name) and n.id == name for n in ast.walk(module.tree))
    return given[0] if len(given) == 1 and uses == 2 else None


def _division(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """(N, BLOCK) of cdiv(N, BLOCK)."""
    if isinstance(node, ast.Call) and called_name(node) == "cdiv" and len(node.args) == 2:
        return node.args[0], node.args[1]
    return None


def _tiles(kernel: PythonKernel) -> _Tiles | None:
    """From the accumulator's shape and the step of the loop around the one dot."""
    dots = [n for n in ast.walk(kernel.node) if called_name(n) == "dot"]
    loops = [
        n for n in ast.walk(kernel.node) if isinstance(n, ast.For) and any(called_name(m) == "dot" for m in ast.walk(n))
    ]
    shapes = [s for s in _shapes(kernel) if len(s) == 2 and set(s) <= kernel.constexprs]
    if (
        len(dots) != 1
        or len(loops) != 1
        or len(set(shapes)) != 1
        or called_name(loops[0].iter) not in ("range", "static_range")
    ):
        return None
    iterated = {n.id for n in ast.walk(loops[0].iter) if isinstance(n, ast.Name)} & kernel.constexprs
    if not iterated:
        defined = {
            s.targets[0].id: s.value
            for s in kernel.node.body
            if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
        }
        named = {n.id for n in ast.walk(loops[0].iter) if isinstance(n, ast.Name)}
        iterated = {
            n.id for name in named & set(defined) for n in ast.walk(defined[name]) if isinstance(n, ast.Name)
        } & kernel.constexprs
    rows, columns = shapes[0]
    depth = iterated - {rows, columns}
    return _Tiles(rows, columns, depth.pop()) if len(depth) == 1 and rows != columns else None


def _shapes(kernel: PythonKernel) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(kernel.node):
        if isinstance(node, ast.Call) and called_name(node) in ("zeros", "full"):
            shape = argument(node, "shape", 0)
            if isinstance(shape, ast.Tuple | ast.List):
                yield tuple(dotted_name(e) for e in shape.elts)


def _guarded(kernel: PythonKernel) -> bool:
    """Whether every access is masked, or its addresses wrapped: larger tiles reach further over the edges."""
    for node in ast.walk(kernel.node):
        name = called_name(node)
        if name in ("make_block_ptr", "make_tensor_descriptor", "advance"):
            return False
        if (
            name in ("load", "store")
            and isinstance(node, ast.Call)
            and argument(node, "mask", 1 if name == "load" else 2) is None
        ):
            return False
    return True


def _divides(kernel: PythonKernel, parameter: str, names: Mapping[str, str]) -> str | None:
    """The tile size that belongs to an extent: of `offsets < extent`, the constexpr that the offsets are made of."""
    given, found = definitions(kernel), set[str]()
    for node in ast.walk(kernel.node):
        if isinstance(node, ast.Compare) and bounds(node, parameter):
            found |= {inner.id for inner in resolved(node, given) if isinstance(inner, ast.Name)} & set(names)
    return found.pop() if len(found) == 1 else None
