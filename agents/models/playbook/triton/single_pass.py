"""Row kernels that go over a row several times: one load of the whole row, everything else in registers."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import ClassVar

from agents.models.playbook.triton.base import (
    TritonRecipe,
    first_line,
    indentation,
    launches_of,
    starts_line,
    statement_of,
    triton_name,
)
from agents.models.playbook.triton.forwarding import forwarded
from agents.models.playbook.triton.rows import RowLoops, loop_variable, row_loops
from tools.languages.triton_source import LaunchCall, PythonEdit, PythonModule, called_name, dotted_name, parse_module

SUFFIX = "_row"
MOST_WARPS = 32
"""A block's limit, as Triton has it."""
LANES = 32


class SinglePass(TritonRecipe):
    """A copy of the kernel whose block holds a whole row, launched where the row fits; longer rows keep the loops."""

    name = "triton_single_pass"
    knobs: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "ELEMENTS": ("16", "8", "32", "4"),
        "LIMIT": ("32768", "16384", "65536"),
    }

    def rewritten(self, module: PythonModule, knobs: Mapping[str, str]) -> str | None:
        """Every kernel with two loops or more over its rows, once."""
        triton = triton_name(module)
        edits: list[PythonEdit] = []
        for kernel in module.kernels.values():
            rows = row_loops(kernel)
            if triton is None or rows is None or len(rows.loops) < 2 or f"{kernel.name}{SUFFIX}" in module.identifiers:
                continue
            launches = launches_of(module, kernel)
            copy = _copy(module, rows)
            if not launches or copy is None or not all(_launchable(module, launch, rows) for launch in launches):
                continue
            constants = "" if edits or self.present(module.source) else f"{self.constants(knobs)}\n\n"
            at = module.line_start(first_line(kernel.node))
            edits.append(PythonEdit(at, at, constants + copy))
            edits += [self._launch(module, launch, rows, triton) for launch in launches]
        return module.apply(edits) if edits else None

    def _launch(self, module: PythonModule, launch: LaunchCall, rows: RowLoops, triton: str) -> PythonEdit:
        statement = statement_of(launch)
        assert statement is not None and statement.end_lineno is not None, "looked at by _launchable"
        space = indentation(module, statement)
        block = f"{triton}.next_power_of_2(kw_extent)"
        warps = f"min(max(kw_block // ({LANES} * {self.named('ELEMENTS')}), 1), {MOST_WARPS})"
        given = [
            f"{name}={module.text(value)}"
            for name, value in launch.arguments.items()
            if name not in (rows.block, rows.extent)
        ]
        kept = [
            f"{name}={module.text(value)}"
            for name, value in launch.options.items()
            if name not in ("num_warps", "num_stages")
        ]
        listed = ", ".join([*given, f"{rows.extent}=kw_extent", f"{rows.block}=kw_block", *kept, f"num_warps={warps}"])
        original = "".join(
            f"    {line}" for line in module.lines(statement.lineno, statement.end_lineno).splitlines(keepends=True)
        )
        text = (
            f"{space}kw_extent = {module.text(launch.arguments[rows.extent])}\n"
            f"{space}if kw_extent <= {self.named('LIMIT')}:\n"
            f"{space}    kw_block = {block}\n"
            f"{space}    {rows.kernel.name}{SUFFIX}[{module.text(launch.grid)}]({listed})\n"
            f"{space}else:\n{original}"
        )
        return PythonEdit(module.line_start(statement.lineno), module.line_start(statement.end_lineno + 1), text)


def _launchable(module: PythonModule, launch: LaunchCall, rows: RowLoops) -> bool:
    """Whether the row's length is given there, the grid does not hang on the block, and no buffer is given twice."""
    statement = statement_of(launch)
    if statement is None or not starts_line(module, statement) or rows.extent not in launch.arguments:
        return False
    grid = list(ast.walk(launch.grid))
    if any(isinstance(n, ast.Constant) and n.value == rows.block for n in grid) or any(
        isinstance(n, ast.Lambda) for n in grid
    ):
        return False
    if (
        isinstance(launch.grid, ast.Name)
        and launch.function is not None
        and _lambda_named(launch.function, launch.grid.id)
    ):
        return False
    names = [value.id for value in launch.arguments.values() if isinstance(value, ast.Name)]
    return len(names) == len(set(names))


def _lambda_named(function: ast.FunctionDef, name: str) -> bool:
    given = [
        n.value
        for n in ast.walk(function)
        if isinstance(n, ast.Assign) and any(dotted_name(t) == name for t in n.targets)
    ]
    return any(
        not isinstance(value, ast.Tuple | ast.List) or any(isinstance(n, ast.Lambda) for n in ast.walk(value))
        for value in given
    )


def _copy(module: PythonModule, rows: RowLoops) -> str | None:
    """The kernel under another name with each loop run once, and what it loaded kept; None where the layout is
    unusual."""
    node = rows.kernel.node
    assert node.end_lineno is not None
    begin = first_line(node)
    text = module.lines(begin, node.end_lineno)
    offset = begin - 1
    lines = text.splitlines(keepends=True)
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    # From the last loop to the first, so that line numbers stay right.
    for loop in sorted(rows.loops, key=lambda loop: -loop.lineno):
        assert loop.end_lineno is not None
        if not starts_line(module, loop) or loop.body[0].lineno == loop.lineno:
            return None
        outer, inner = indentation(module, loop), indentation(module, loop.body[0])
        first, last = loop.lineno - 1 - offset, loop.end_lineno - offset
        body = lines[loop.body[0].lineno - 1 - offset : last]
        if any(line.strip() and not line.startswith(inner) and not line.lstrip().startswith("#") for line in body):
            return None
        comments = [
            line
            for line in lines[loop.lineno - offset : loop.body[0].lineno - 1 - offset]
            if line.lstrip().startswith("#")
        ]
        kept = [outer + line.removeprefix(inner) if line.startswith(inner) else line for line in [*comments, *body]]
        lines[first:last] = [f"{outer}{loop_variable(loop)} = 0\n", *kept]
    decorators = "".join(f"@{module.text(d)}\n" for d in node.decorator_list if called_name(d) != "autotune")
    if any(called_name(d) == "heuristics" for d in node.decorator_list):
        return None
    code = "".join(lines[node.lineno - 1 - offset :])
    renamed = re.sub(rf"\bdef {rows.kernel.name}\b", f"def {rows.kernel.name}{SUFFIX}", code, count=1)
    whole = forwarded(f"{decorators}{renamed}", f"{rows.kernel.name}{SUFFIX}")
    return f"{whole}\n\n" if parse_module(whole) is not None else None
