"""Copy `setup(**kwargs)` of the user's kernel file into the task's reference as `make_inputs` (seed style).

Everything that `setup` needs of its file (imports, constants, plain functions) is copied, with "cuda" replaced by
"cpu": the harness makes inputs on the CPU and copies them to the device. The `setup` of a candidate is never called.
"""

from __future__ import annotations

import ast

from tools.errors import SettingsError
from tools.languages.triton_source import dotted_name, parse_module

SETUP_FUNCTION = "setup"
_MAKE_INPUTS_SOURCE = '''

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


def add_make_inputs(source: str, reference: str) -> str:
    """Return `reference` with a make_inputs that calls `setup` of `source`; unchanged if it has a make_inputs.

    Raises SettingsError if neither file makes inputs.
    """
    reference_module, module = parse_module(reference), parse_module(source)
    if reference_module is None or module is None or "make_inputs" in reference_module.functions:
        return reference
    if SETUP_FUNCTION not in module.functions:
        raise SettingsError(
            "reference.py: there is no make_inputs(dims, seed) and the kernel's file has no setup(**kwargs); "
            "define one of them to make the kernel's arguments"
        )
    defined_names = {name for statement in reference_module.tree.body for name in _names_defined_by(statement)}
    statements = [
        ast.unparse(_CudaToCpu().visit(statement))
        for statement in _statements_needed_by(module.tree, SETUP_FUNCTION)
        if not defined_names & set(_names_defined_by(statement))
    ]
    return (
        "\n".join([reference.rstrip(), "", "", "# setup() of the kernel's file, read once and frozen.", *statements])
        + _MAKE_INPUTS_SOURCE
    )


def _statements_needed_by(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Return the statements of the module that `name` depends on, in source order and without those of Triton."""
    by_name = {defined: statement for statement in tree.body for defined in _names_defined_by(statement)}
    needed: list[ast.stmt] = []
    pending = [name]
    while pending:
        statement = by_name.get(pending.pop())
        if statement is None or statement in needed or _depends_on_triton(statement):
            continue
        needed.append(statement)
        pending += [n.id for n in ast.walk(statement) if isinstance(n, ast.Name)]
    return [statement for statement in tree.body if statement in needed]


def _names_defined_by(statement: ast.stmt) -> tuple[str, ...]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return (statement.name,)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return tuple((alias.asname or alias.name).split(".")[0] for alias in statement.names)
    if isinstance(statement, ast.Assign):
        return tuple(n.id for target in statement.targets for n in ast.walk(target) if isinstance(n, ast.Name))
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return (statement.target.id,)
    return ()


def _depends_on_triton(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name.split(".")[0] == "triton" for alias in statement.names)
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").split(".")[0] == "triton"
    decorators = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    return any("triton" in dotted_name(d.func if isinstance(d, ast.Call) else d) for d in decorators)


class _CudaToCpu(ast.NodeTransformer):
    """Replaces "cuda" and "cuda:0" by "cpu", and removes calls of .cuda()."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and node.value.partition(":")[0] == "cuda":
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda" and dotted_name(node.func) != "torch.cuda":
            return node.func.value
        return node
