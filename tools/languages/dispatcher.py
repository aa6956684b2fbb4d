"""Compose several Python kernels into one that calls each kernel at the sizes where it is the fastest (pure)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Mapping
from itertools import count

from tools.artifacts import Dims, Task

ENTRY = "run_kernel"


def compose_dispatcher(task: Task, usual: str, special: Mapping[str, str]) -> str | None:
    """Return the source of a kernel that runs `usual`, except at the workloads in `special` (workload -> source).

    The result is None if the arguments do not distinguish the workloads, or if a special kernel defines a name that is
    also an argument.
    """
    sizes = {workload.name: _size_condition(task, workload.dims) for workload in task.workloads}
    if not all(sizes.values()) or len({*sizes.values()}) < len(sizes):
        return None
    if {argument.name for argument in task.arguments} & set[str]().union(*map(_top_level_names, special.values())):
        return None
    usual_imports = {
        ast.unparse(node) for node in ast.parse(usual).body if isinstance(node, ast.Import | ast.ImportFrom)
    }
    used_names, parts, entries = (
        set(re.findall(r"\w+", " ".join([usual, *special.values()]))),
        list[str](),
        dict[str, str](),
    )
    for source in (usual, *dict.fromkeys(special.values())):
        names = {ENTRY} if source is usual else _top_level_names(source)
        # A kernel that was composed before already has names with a suffix.
        suffix = next(f"_{n}" for n in count() if not {f"{name}_{n}" for name in names} & used_names)
        used_names |= {f"{name}{suffix}" for name in names}
        parts.append(
            _append_suffix(source if source is usual else _blank_imports(source, usual_imports), names, suffix)
        )
        entries[source] = f"{ENTRY}{suffix}"
    call_arguments = ", ".join(f"{argument.name}={argument.name}" for argument in task.arguments)
    entry = f"def {ENTRY}({', '.join(argument.name for argument in task.arguments)}):\n"
    for workload, source in special.items():
        entry += f"    if {sizes[workload]}:\n        return {entries[source]}({call_arguments})\n"
    entry += f"    return {entries[usual]}({call_arguments})\n"
    return "\n\n\n".join(part.strip("\n") for part in [*parts, entry]) + "\n"


def _size_condition(task: Task, dims: Dims) -> str:
    """Return a Python condition that holds at `dims`, or "" if no argument shows a dim that may vary."""
    conditions = []
    for name, value in dims.items():
        axes = ((a.name, axis) for a in task.arguments for axis, extent in enumerate(a.shape) if extent == name)
        scalar = any(a.name == name and a.role == "scalar" for a in task.arguments)
        expression = name if scalar else next((f"{tensor}.shape[{axis}]" for tensor, axis in axes), "")
        if not expression and name in task.dims_range:
            return ""
        conditions += [f"{expression} == {value!r}"] if expression else []
    return " and ".join(conditions)


def _top_level_names(source: str) -> set[str]:
    """Return the names that the top level of a module defines."""
    names: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return names


def _blank_imports(source: str, imports: Collection[str]) -> str:
    """Return the module with its docstring, `__future__` imports and the given imports replaced by blank lines."""
    lines = source.splitlines()
    for index, node in enumerate(ast.parse(source).body):
        is_docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_future_import = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if (
            is_docstring
            or is_future_import
            or (isinstance(node, ast.Import | ast.ImportFrom) and ast.unparse(node) in imports)
        ):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(lines) + "\n"


def _append_suffix(source: str, names: Collection[str], suffix: str) -> str:
    """Return the source with `suffix` appended to each of `names`.

    Attributes keep their names, and so do keywords that no function of the module takes.
    """
    parameter_names = {
        a.arg
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.arguments)
        for a in (*node.args, *node.kwonlyargs)
    }
    lines, depth, added_columns = source.splitlines(keepends=True), 0, dict[int, int]()
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for previous, token, following in zip([tokens[0], *tokens], tokens, [*tokens[1:], tokens[-1]], strict=False):
        depth += (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        is_keyword = depth > 0 and following.string == "=" and token.string not in parameter_names
        if token.type == tokenize.NAME and token.string in names and previous.string != "." and not is_keyword:
            row, end = token.end[0] - 1, token.end[1] + added_columns.get(token.end[0], 0)
            lines[row] = lines[row][:end] + suffix + lines[row][end:]
            added_columns[token.end[0]] = added_columns.get(token.end[0], 0) + len(suffix)
    return "".join(lines)
