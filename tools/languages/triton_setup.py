"""Seed style: `setup(**kwargs)` of the user's own kernel file becomes `make_inputs` of the task's reference, once and
for all.

What `setup` needs of its file (imports, constants, plain functions) is copied; places that say "cuda" say "cpu", since
inputs are made beside the oracle and carried to the device by the harness. Candidates' own `setup` is never called.
"""

from __future__ import annotations

import ast

from tools.errors import SettingsError
from tools.languages.triton_source import dotted, read

ENTRY = "setup"
_WRAPPER = '''

def make_inputs(dims, seed):
    """Every argument by name, as setup() of the kernel's file gave them when the run began."""
    import inspect as _inspect

    import torch as _torch

    _torch.manual_seed(seed)
    given = dict(dims)
    asked = _inspect.signature(setup).parameters
    if "seed" in asked and "seed" not in given:
        given["seed"] = seed
    if not any(p.kind is p.VAR_KEYWORD for p in asked.values()):
        given = {name: value for name, value in given.items() if name in asked}
    made = setup(**given)
    if isinstance(made, dict) and isinstance(made.get("inputs"), dict):
        named = made.get("outputs")
        if named:
            globals()["outputs"] = (named,) if isinstance(named, str) else tuple(named)
        made = made["inputs"]
    return made
'''


def frozen(source: str, reference: str) -> str:
    """`reference` with a make_inputs that is `setup` of `source`; unchanged where it has one, or the source has no
    setup.

    Raises SettingsError when neither file makes inputs.
    """
    logic, module = read(reference), read(source)
    if logic is None or module is None or "make_inputs" in logic.functions:
        return reference
    if ENTRY not in module.functions:
        raise SettingsError(
            "reference.py: there is no make_inputs(dims, seed) and the kernel's file has no setup(**kwargs); "
            "define one of them, so that the kernel's arguments can be made"
        )
    taken = {name for statement in logic.tree.body for name in _defined(statement)}
    copied = [
        ast.unparse(_OnCpu().visit(statement))
        for statement in _needed(module.tree, ENTRY)
        if not taken & set(_defined(statement))
    ]
    return (
        "\n".join([reference.rstrip(), "", "", "# setup() of the kernel's file, read once and frozen.", *copied])
        + _WRAPPER
    )


def _needed(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The statements of the module that `name` rests on, in source order; imports of triton are left behind."""
    by_name = {defined: statement for statement in tree.body for defined in _defined(statement)}
    wanted: list[ast.stmt] = []
    pending = [name]
    while pending:
        statement = by_name.get(pending.pop())
        if statement is None or statement in wanted or _of_triton(statement):
            continue
        wanted.append(statement)
        pending += [n.id for n in ast.walk(statement) if isinstance(n, ast.Name)]
    return [statement for statement in tree.body if statement in wanted]


def _defined(statement: ast.stmt) -> tuple[str, ...]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return (statement.name,)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return tuple((alias.asname or alias.name).split(".")[0] for alias in statement.names)
    if isinstance(statement, ast.Assign):
        return tuple(n.id for target in statement.targets for n in ast.walk(target) if isinstance(n, ast.Name))
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return (statement.target.id,)
    return ()


def _of_triton(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name.split(".")[0] == "triton" for alias in statement.names)
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").split(".")[0] == "triton"
    decorators = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    return any("triton" in dotted(d.func if isinstance(d, ast.Call) else d) for d in decorators)


class _OnCpu(ast.NodeTransformer):
    """device="cuda", "cuda:0" and .cuda() all come to mean the CPU."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and node.value.partition(":")[0] == "cuda":
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda" and dotted(node.func) != "torch.cuda":
            return node.func.value
        return node
