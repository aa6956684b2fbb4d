"""Several kernels in Python as one, which calls each at the sizes where it was the fastest (pure)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Mapping
from itertools import count

from tools.artifacts import Dims, Task

ENTRY = "run_kernel"


def dispatched(task: Task, usual: str, special: Mapping[str, str]) -> str | None:
    """`usual` at all sizes but those of the workloads in `special` (name -> source); None where the arguments do not
    tell these apart."""
    sizes = {workload.name: _condition(task, workload.dims) for workload in task.workloads}
    if not all(sizes.values()) or len({*sizes.values()}) < len(sizes):
        return None
    if {argument.name for argument in task.arguments} & set[str]().union(*map(_own, special.values())):
        return None
    known = {ast.unparse(node) for node in ast.parse(usual).body if isinstance(node, ast.Import | ast.ImportFrom)}
    taken, parts, entries = set(re.findall(r"\w+", " ".join([usual, *special.values()]))), list[str](), dict[str, str]()
    for source in (usual, *dict.fromkeys(special.values())):
        names = {ENTRY} if source is usual else _own(source)
        # What was composed before has such names already.
        suffix = next(f"_{n}" for n in count() if not {f"{name}_{n}" for name in names} & taken)
        taken |= {f"{name}{suffix}" for name in names}
        parts.append(_renamed(source if source is usual else _without(source, known), names, suffix))
        entries[source] = f"{ENTRY}{suffix}"
    given = ", ".join(f"{argument.name}={argument.name}" for argument in task.arguments)
    entry = f"def {ENTRY}({', '.join(argument.name for argument in task.arguments)}):\n"
    for workload, source in special.items():
        entry += f"    if {sizes[workload]}:\n        return {entries[source]}({given})\n"
    entry += f"    return {entries[usual]}({given})\n"
    return "\n\n\n".join(part.strip("\n") for part in [*parts, entry]) + "\n"


def _condition(task: Task, dims: Dims) -> str:
    """What the arguments are at these sizes; "" where one of them that may vary is told by none."""
    words = []
    for name, value in dims.items():
        axes = ((a.name, axis) for a in task.arguments for axis, extent in enumerate(a.shape) if extent == name)
        scalar = any(a.name == name and a.role == "scalar" for a in task.arguments)
        word = name if scalar else next((f"{tensor}.shape[{axis}]" for tensor, axis in axes), "")
        if not word and name in task.dims_range:
            return ""
        words += [f"{word} == {value!r}"] if word else []
    return " and ".join(words)


def _own(source: str) -> set[str]:
    """Names that the module's top level defines."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def _without(source: str, imports: Collection[str]) -> str:
    """The module without its docstring, what only a file's first lines may be, and imports that stand before it
    already."""
    lines = source.splitlines()
    for at, node in enumerate(ast.parse(source).body):
        words = at == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if words or future or (isinstance(node, ast.Import | ast.ImportFrom) and ast.unparse(node) in imports):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(lines) + "\n"


def _renamed(source: str, names: Collection[str], suffix: str) -> str:
    """The text with `suffix` behind each of `names`; attributes, and keywords that no function of the module takes,
    keep theirs."""
    taken = {
        a.arg
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.arguments)
        for a in (*node.args, *node.kwonlyargs)
    }
    lines, depth, moved = source.splitlines(keepends=True), 0, dict[int, int]()
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for before, token, behind in zip([tokens[0], *tokens], tokens, [*tokens[1:], tokens[-1]], strict=False):
        depth += (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        keyword = depth > 0 and behind.string == "=" and token.string not in taken
        if token.type == tokenize.NAME and token.string in names and before.string != "." and not keyword:
            row, end = token.end[0] - 1, token.end[1] + moved.get(token.end[0], 0)
            lines[row] = lines[row][:end] + suffix + lines[row][end:]
            moved[token.end[0]] = moved.get(token.end[0], 0) + len(suffix)
    return "".join(lines)
