"""Convert a problem of GPU MODE (`task.yml` with `reference.py` beside it) to a task folder.

The problem's files are embedded in the task's reference.py; only devices are replaced, and uninitialised buffers become
zeros.

`data` is flattened by `torch.utils._pytree`: the kernel's arguments are `data_0`, `data_1`, …, then the outputs (those
arguments that the reference writes and returns, else `out_0`, …), then the numbers of the test. Strings and booleans of
a test choose among its inputs and are not arguments, and so do its lists.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tools.contracts.dims import with_sizes
from tools.errors import SettingsError
from tools.tasks.loader import default_suite_language, read_source, read_yaml_model, task_yaml_text
from tools.tasks.suites import SuiteFormat

DEFAULT_TOLERANCES = (1e-5, 1e-8)
"""rtol and atol of the suite's comparison if its call states none."""
CONTRACT_TEMPLATE = '''"""The problem {name} of GPU MODE: its files, followed by the code that makes them a task."""

import functools
import inspect
import math
import sys
import types

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree

_FILES = {files}


def _load_module(name, device):
    module = types.ModuleType(f"suite_{{name}}")
    module._device = device
    sys.modules[module.__name__] = module
    if name != "reference":  # the name of this file
        sys.modules[name] = module
    exec(compile(_FILES[name], name + ".py", "exec"), module.__dict__)
    return module


@functools.cache
def _load_suite(device):
    return [_load_module(name, device) for name in _FILES][-1]


# ---- the code below makes the problem a task
large = True  # shapes are determined without values
_CHOICES = {choices}
_AS_BYTES = [getattr(torch, name, None) for name in ("float4_e2m1fn_x2", "float8_e4m3fnuz", "float8_e5m2fnuz",
                                                     "float8_e8m0fnu")]
workloads = {workloads}
_sizes = {{name: [one["dims"].get(name) for one in workloads] for name in workloads[0]["dims"] if name not in _CHOICES}}
dims_range = {{name: (min(sizes), max(sizes)) for name, sizes in _sizes.items()
              if all(isinstance(size, int) and size > 0 for size in sizes)}}
{tolerance}

def _make_leaves(dims, seed):
    sizes = {{name: _CHOICES[name][value] if name in _CHOICES else value for name, value in dims.items()}}
    seed_argument = {{"seed": seed}} if "seed" in inspect.signature(_suite.generate_input).parameters else {{}}
    torch.manual_seed(seed)
    return _pytree.tree_flatten(_suite.generate_input(**sizes, **seed_argument))


def _run_reference(leaves, spec):
    with torch.no_grad():
        answer = _pytree.tree_leaves(_suite.ref_kernel(_pytree.tree_unflatten(leaves, spec)))
    if not all(isinstance(one, torch.Tensor) for one in answer):
        raise ValueError("ref_kernel returns values other than tensors, and only tensors can be compared")
    return answer


def _results_without_values(leaves, spec):
    """The results' shapes and types; with values where the reference needs them."""
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            return _run_reference([mode.from_tensor(one) if isinstance(one, torch.Tensor) else one
                                   for one in leaves], spec)
    except Exception:  # an operator that needs values, or leaves without values already
        return _run_reference([one.clone() if isinstance(one, torch.Tensor) else one for one in leaves], spec)


def _as_bytes(one):
    return one.contiguous().view(torch.uint8) if one.dtype in _AS_BYTES else one.contiguous()


def _leaf_kind(one):  # what a leaf is besides its values: the type of a tensor, else itself
    return one.dtype if isinstance(one, torch.Tensor) else one


def _output_positions(leaves, answer):
    """Output -> position of the leaf that it is, or None."""
    def place(one):
        return one.untyped_storage()._cdata, one.storage_offset()

    position_by_place = {{place(one): at for at, one in enumerate(leaves) if isinstance(one, torch.Tensor)}}
    positions = [position_by_place.get(place(one)) for one in answer]
    return {{f"out_{{at}}" if position is None else f"data_{{position}}": position
            for at, position in enumerate(positions)}}


def make_inputs(dims, seed, device="cpu"):
    global _leaf_kinds, _spec, _suite
    _suite = _load_suite(device)
    leaves, _spec = _make_leaves(dims, seed)
    _leaf_kinds = [_leaf_kind(one) for one in leaves]
    results = _results_without_values(leaves, _spec)
    inputs = {{f"data_{{at}}": _as_bytes(one) if isinstance(one, torch.Tensor) else one
            for at, one in enumerate(leaves)}}
    arguments = {{n: one for n, one in inputs.items() if one is not None and not isinstance(one, str)}}
    arguments |= {{name: torch.zeros(one.shape, dtype=one.dtype, device=device)
                  for name, one in zip(outputs, results) if name not in inputs}}
    return arguments | {{name: value for name, value in dims.items() if name not in _CHOICES}}


def reference(**arguments):
    leaves = [arguments.get(f"data_{{at}}", one) for at, one in enumerate(_leaf_kinds)]
    leaves = [one.view(kind) if isinstance(one, torch.Tensor) and kind in _AS_BYTES else one
              for one, kind in zip(leaves, _leaf_kinds)]
    answer = _suite.ref_kernel(_pytree.tree_unflatten(leaves, _spec))
    return answer if isinstance(answer, torch.Tensor) else tuple(_pytree.tree_leaves(answer))


def _first_call():
    timed = [one["dims"] for one in workloads if "weight" not in one]
    smallest = min(timed, key=lambda dims: math.prod(n for n in dims.values() if isinstance(n, int) and n > 0))
    leaves, spec = _make_leaves(smallest, 0)
    return [*map(_leaf_kind, leaves)], spec, list(_output_positions(leaves, _run_reference(leaves, spec)))


_suite = _load_suite("cpu")
try:
    with FakeTensorMode(allow_non_fake_inputs=True):
        _leaf_kinds, _spec, outputs = _first_call()
except Exception:  # an operator that needs values
    _leaf_kinds, _spec, outputs = _first_call()
'''


class GpuModeProblem(BaseModel):
    """The fields of task.yml that are used; others are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    files: tuple[dict[str, str], ...] = ()
    tests: tuple[dict[str, bool | int | float | str | list[int]], ...] = ()
    benchmarks: tuple[dict[str, bool | int | float | str | list[int]], ...] = Field(min_length=1)
    multi_gpu: bool = False


class DeviceRewriter(ast.NodeTransformer):
    """Rewrites the suite's code: data is on `_device` (the device of the task's inputs), and buffers start as zeros.

    Context managers lose their bodies, because they set flags of GPU libraries, which torch.compile does not support.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if node.name in ("__enter__", "__exit__"):
            node.body = ast.parse("return self" if node.name == "__enter__" else "return False").body
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        # A part of an f-string cannot be a name, so f"cuda:{rank}" is replaced as a whole.
        first = self.visit(node.values[0]) if node.values else node
        return first if isinstance(first, ast.Name) else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Name("_device") if isinstance(node.value, str) and node.value.partition(":")[0] == "cuda" else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=inner, attr="cuda"):
                return ast.Call(ast.Attribute(inner, "to"), [ast.Name("_device")], [])
            case ast.Attribute(attr="empty" | "empty_like" as name):
                node.func.attr = name.replace("empty", "zeros")
        return node


class GpuMode(SuiteFormat):
    """The problem format of GPU MODE."""

    problem_description = "a folder of GPU MODE with task.yml"

    def recognises(self, path: Path) -> bool:
        return (path / "task.yml").is_file() or path.name == "task.yml"

    def task_files(self, problem: Path, sizes: str) -> tuple[dict[str, str], str]:
        home = problem if problem.is_dir() else problem.parent
        task = read_yaml_model(home / "task.yml", GpuModeProblem)
        if task.multi_gpu:
            raise SettingsError(f"{home}: the problem needs several GPUs, but a task has one; choose another problem")
        named = {entry.get("name", ""): home / entry.get("source", "") for entry in task.files}
        paths = {n: p for n, p in named.items() if n.endswith(".py") and n not in ("submission.py", "eval.py")}
        paths |= {"task.py": home / "task.py"} if (home / "task.py").is_file() else {}
        paths["reference.py"] = home / "reference.py"
        order = sorted(paths, key=lambda name: (name == "reference.py", name != "task.py"))
        texts = {name.removesuffix(".py"): _rewrite_devices(paths[name]) for name in order}
        defined_names = {getattr(node, "name", "") for node in ast.parse(texts["reference"]).body}
        if missing := sorted({"generate_input", "ref_kernel"} - defined_names):
            raise SettingsError(
                f"{home / 'reference.py'}: defines no {' and no '.join(missing)}, which every problem of GPU MODE "
                f"needs; add it"
            )
        given = [{n: v for n, v in case.items() if n != "seed"} for case in (*task.benchmarks, *task.tests)]
        cases = [case for case in given if _list_lengths(case) == _list_lengths(given[0])]
        timed = sum(case in cases for case in given[: len(task.benchmarks)])
        choices = {n: list[Any]() for case in cases for n, v in case.items() if isinstance(v, bool | str | list)}
        for name, value in ((name, case[name]) for case in cases for name in choices if name in case):
            choices[name] += [value] * (value not in choices[name])
        sized: list[dict[str, Any]] = [
            {name: choices[name].index(value) if name in choices else value for name, value in case.items()}
            for case in cases
        ]
        sized = with_sizes(sized, sizes, [*sized[0]]) if sizes else sized
        timed = len(sized) if sizes else timed
        # A size that occurs in tests only must be correct, but may be slower.
        workloads = [
            {"name": f"w{at}", "dims": dims} | ({"weight": 1e-3, "margin": 1.0} if at > timed else {})
            for at, dims in enumerate(sized, 1)
            if dims not in sized[: at - 1]
        ]
        text = CONTRACT_TEMPLATE.format(
            name=home.name,
            files="{" + "".join(f"\n    {name!r}: {_string_literal(text)}," for name, text in texts.items()) + "\n}",
            choices=choices,
            workloads=workloads,
            tolerance=_stated_tolerance(texts["reference"]),
        )
        other_lengths = len(given) - len(cases)
        omission = f"; {other_lengths} left out, as their lists have other lengths" * bool(other_lengths)
        task_yaml = task_yaml_text(home.name, default_suite_language(" ".join(texts.values())))
        return {"reference.py": text, "task.yaml": task_yaml}, f"{home.name}: {len(workloads)} workloads{omission}"


def _list_lengths(case: dict[str, Any]) -> dict[str, int]:
    return {name: len(value) for name, value in case.items() if isinstance(value, list)}


def _rewrite_devices(file: Path) -> str:
    try:
        return ast.unparse(DeviceRewriter().visit(ast.parse(read_source(file))))
    except SyntaxError as error:
        raise SettingsError(f"{file}: not valid Python ({error.msg}, line {error.lineno}); correct it") from None


def _string_literal(text: str) -> str:
    is_raw_literal = "'''" not in text and not text.endswith(("'", "\\"))
    return f"r'''{text}'''" if is_raw_literal else repr(text)


def _stated_tolerance(text: str) -> str:
    """Return an assignment of the smallest rtol and atol that comparisons in the reference state, or "" if one of them
    is computed."""
    found = dict(zip(("rtol", "atol"), ([default] for default in DEFAULT_TOLERANCES), strict=True))
    stated = re.findall(r"\b([ra]tol)=([^,)]+)", text)
    try:
        found |= {name: [float(value) for n, value in stated if n == name] for name, _ in stated}
    except ValueError:
        return ""
    return f"rtol, atol = {min(found['rtol'])!r}, {min(found['atol'])!r}\n"
