"""A problem of GPU MODE (`task.yml` with `reference.py` beside it) as a task folder.

Its files stand in the task's reference.py as they are, but for the device, and for buffers that would hold whatever was
in memory.

What is in `data` is taken apart as `torch.utils._pytree` does: `data_0`, `data_1`, … are the kernel's arguments, and
those of them that the reference writes and returns are its outputs, else `out_0`, …; behind them stand the numbers of
the test. Words and truths of a test choose among its inputs, and are no arguments.
"""

from __future__ import annotations

import ast
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from yaml import YAMLError

from tools.cli.suggestions import offered
from tools.cli.validation import no_yaml, read_yaml, sentences
from tools.contracts.dims import parse_workloads
from tools.errors import SettingsError
from tools.tasks.loader import default_suite_language, read_source, task_yaml_text
from tools.tasks.suites import SuiteFormat

DEFAULT_TOLERANCES = (1e-5, 1e-8)
"""rtol and atol of the suite's own comparison where its call states none."""
CONTRACT_TEMPLATE = '''"""The problem {name} of GPU MODE: its own files, and then what makes a task of them."""

import functools
import inspect
import sys
import types

import torch
from torch.utils import _pytree

_FILES = {files}


def _imported(name, device):
    module = types.ModuleType(f"suite_{{name}}")
    module._device = device
    sys.modules[module.__name__] = module
    if name != "reference":  # which this file is called already
        sys.modules[name] = module
    exec(compile(_FILES[name], name + ".py", "exec"), module.__dict__)
    return module


@functools.cache
def _at(device):
    return [_imported(name, device) for name in _FILES][-1]


# ---- what follows makes a task of the problem above
_CHOICES = {choices}
workloads = {workloads}
dims_range = {ranges}
{tolerance}

def _data(dims, seed):
    given = {{name: _CHOICES[name][value] if name in _CHOICES else value for name, value in dims.items()}}
    seeded = {{"seed": seed}} if "seed" in inspect.signature(_suite.generate_input).parameters else {{}}
    torch.manual_seed(seed)
    return _pytree.tree_flatten(_suite.generate_input(**given, **seeded))


def _answered(leaves, spec):
    with torch.no_grad():
        answer = _pytree.tree_leaves(_suite.ref_kernel(_pytree.tree_unflatten(leaves, spec)))
    if not all(isinstance(one, torch.Tensor) for one in answer):
        raise ValueError("ref_kernel returns something else than tensors, which is all that is compared here")
    return answer


def _named(leaves, answer):
    """Output -> the leaf that it is, or None."""
    held = {{one.data_ptr(): at for at, one in enumerate(leaves) if isinstance(one, torch.Tensor)}}
    return {{f"data_{{held[one.data_ptr()]}}" if one.data_ptr() in held else f"out_{{at}}": held.get(one.data_ptr())
            for at, one in enumerate(answer)}}


def make_inputs(dims, seed, device="cpu"):
    global _spec, _suite
    _suite = _at(device)
    leaves, _spec = _data(dims, seed)
    shaped = _answered([one.clone() if isinstance(one, torch.Tensor) else one for one in leaves], _spec)
    made = {{f"data_{{at}}": one.contiguous() if isinstance(one, torch.Tensor) else one
            for at, one in enumerate(leaves)}}
    kept = {{n: one for n, one in made.items() if one is not None and not isinstance(one, str)}}
    kept |= {{name: torch.zeros_like(one) for name, one in zip(outputs, shaped) if name not in made}}
    return kept | {{name: value for name, value in dims.items() if name not in _CHOICES}}


def reference(**arguments):
    leaves = [arguments.get(f"data_{{at}}", one) for at, one in enumerate(_first)]
    answer = _suite.ref_kernel(_pytree.tree_unflatten(leaves, _spec))
    return answer if isinstance(answer, torch.Tensor) else tuple(_pytree.tree_leaves(answer))


_suite = _at("cpu")
_first, _spec = _data({smallest}, 0)
outputs = list(_named(_first, _answered(_first, _spec)))
'''


class GpuModeProblem(BaseModel):
    """What is read of task.yml; the rest of it does not matter here."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    files: tuple[dict[str, str], ...] = ()
    tests: tuple[dict[str, bool | int | float | str], ...] = ()
    benchmarks: tuple[dict[str, bool | int | float | str], ...] = Field(min_length=1)
    multi_gpu: bool = False


class DeviceRewriter(ast.NodeTransformer):
    """The suite's code with its data on `_device`, the CPU or the GPU of the task's inputs, and every buffer of known
    content.

    Context managers set no flags of a GPU's libraries, at which torch.compile gives up.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if node.name in ("__enter__", "__exit__"):
            node.body = ast.parse("return self" if node.name == "__enter__" else "return False").body
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        # A part of an f-string can be no name: f"cuda:{rank}" is one as a whole.
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
    """Problems of GPU MODE."""

    problems = "a folder of GPU MODE with task.yml"

    def recognises(self, path: Path) -> bool:
        return (path / "task.yml").is_file() or path.name == "task.yml"

    def task_files(self, problem: Path, sizes: str) -> tuple[dict[str, str], str]:
        home = problem if problem.is_dir() else problem.parent
        said = _read_problem(home / "task.yml")
        if said.multi_gpu:
            raise SettingsError(f"{home}: needs several GPUs, and a task has one; choose another problem")
        listed = {one.get("name", ""): home / one.get("source", "") for one in said.files}
        paths = {
            name: path
            for name, path in listed.items()
            if name.endswith(".py") and name not in ("submission.py", "eval.py", "reference.py")
        }
        paths |= {p.name: p for p in (home / "task.py",) if p.is_file()} | {"reference.py": home / "reference.py"}
        texts = {
            name.removesuffix(".py"): read_source(path)
            for name, path in sorted(paths.items(), key=lambda one: (one[0] == "reference.py", one[0] != "task.py"))
        }
        texts = {name: _rewrite_devices(text, paths[f"{name}.py"]) for name, text in texts.items()}
        there = {getattr(node, "name", "") for node in ast.parse(texts["reference"]).body}
        if lacking := sorted({"generate_input", "ref_kernel"} - there):
            raise SettingsError(
                f"{home / 'reference.py'}: defines no {' and no '.join(lacking)}, by which a problem of GPU MODE is "
                f"read; add it"
            )
        cases = [
            {name: value for name, value in one.items() if name != "seed"} for one in (*said.benchmarks, *said.tests)
        ]
        words = {name for one in cases for name, value in one.items() if isinstance(value, bool | str)}
        choices = {name: list(dict.fromkeys(one[name] for one in cases if name in one)) for name in sorted(words)}
        points = [
            {name: choices[name].index(value) if name in words else value for name, value in one.items()}
            for one in cases
        ]
        if sizes:
            points = [{**points[0], **asked} for asked in parse_workloads(sizes)]
            for name in (name for point in points for name in point if name not in cases[0]):
                raise SettingsError(f"dims: {home.name} has no size {name!r}; {offered(name, list(cases[0]))}")
        timed = len(points) if sizes else len(said.benchmarks)
        workloads: list[dict[str, object]] = [
            {"name": f"w{at}", "dims": point} for at, point in enumerate(points, 1) if point not in points[: at - 1]
        ]
        # What is only tested must be right, and may be slower.
        workloads = [w if w["dims"] in points[:timed] else {**w, "weight": 1e-3, "margin": 1.0} for w in workloads]
        free = [n for n in points[0] if n not in words and all(isinstance(p.get(n), int) for p in points)]
        text = CONTRACT_TEMPLATE.format(
            name=home.name,
            files="{" + "".join(f"\n    {name!r}: {_string_literal(text)}," for name, text in texts.items()) + "\n}",
            choices=choices,
            workloads=workloads,
            ranges={name: (min(p[name] for p in points), max(p[name] for p in points)) for name in free},
            tolerance=_stated_tolerance(texts["reference"]),
            smallest=points[0] if sizes else points[-1],
        )
        declared = task_yaml_text(home.name, default_suite_language())
        return {"reference.py": text, "task.yaml": declared}, f"{home.name}: {len(workloads)} workloads"


def _read_problem(file: Path) -> GpuModeProblem:
    try:
        return GpuModeProblem.model_validate(read_yaml(read_source(file)))
    except YAMLError as error:
        raise SettingsError(no_yaml(file, error)) from None
    except ValidationError as error:
        raise SettingsError(sentences(error, GpuModeProblem, f"{file}: ")) from None


def _rewrite_devices(text: str, file: Path) -> str:
    try:
        return ast.unparse(DeviceRewriter().visit(ast.parse(text)))
    except SyntaxError as error:
        raise SettingsError(f"{file}: is no Python ({error.msg}, line {error.lineno}); mend it") from None


def _string_literal(text: str) -> str:
    plain = "'''" not in text and not text.endswith(("'", "\\"))
    return f"r'''{text}'''" if plain else repr(text)


def _stated_tolerance(text: str) -> str:
    """Return an assignment of the smallest rtol and atol that comparisons in the reference state, or "" if one of them
    is computed."""
    keywords = [
        keyword
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg in ("rtol", "atol")
    ]
    if not all(isinstance(keyword.value, ast.Constant) for keyword in keywords):
        return ""
    smallest = []
    for name, default in zip(("rtol", "atol"), DEFAULT_TOLERANCES, strict=True):
        values = [k.value.value for k in keywords if k.arg == name and isinstance(k.value, ast.Constant)]
        smallest.append(min(values, default=default))  # type: ignore[type-var]
    return f"rtol, atol = {smallest[0]!r}, {smallest[1]!r}\n"
