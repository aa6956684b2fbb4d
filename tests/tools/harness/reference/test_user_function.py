"""The user's own function as it is: how it is found, given its arguments, and what is said where it is wrong."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tools.harness.test_gpu_judging import module

NUMERIC = {"floor": {"float32": 4e-5}, "cap": {"float32": 1e-3}}
ROWS = """
import torch

def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(4, 8, generator=g), "out": torch.empty(4), "M": 4, "N": 8}

def reference(x):
    return x.amax(-1)
"""
GATED = """
import torch

def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    names = ("x", "scale", "gate_weight", "state_gate_bias")
    return {n: torch.randn(*(3, 8)[n != "x":], generator=g) for n in names} | {"out": torch.empty(3, 8)}

def reference(x, scale, gate_weight, state_gate_bias):
    return x * scale * torch.sigmoid(x * gate_weight + state_gate_bias)
"""
BLOCK = """
import torch
from torch import nn

class Affine(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x * self.weight + self.bias

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.SCALE = nn.Parameter(torch.ones(width))
        self.gate = Affine(width)

    def forward(self, x):
        return x * self.SCALE * torch.sigmoid(self.gate(x))
"""

BACKWARD = """
import torch

def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    x, gate_weight, gate_bias, dy = (torch.randn(8, generator=g) for _ in range(4))
    weights = [gate_weight.requires_grad_(), gate_bias.requires_grad_()]
    return {"x": x.requires_grad_(), WEIGHTS, "dy": dy, "out": torch.empty(8)}

def reference(x, dy, GIVEN):
    w, b = weights
    y = x * w + b
    y.pow(2).backward(dy)
    return x.grad + w.grad + b.grad
"""
AS_A_LIST = BACKWARD.replace("WEIGHTS", '"weights": weights').replace("GIVEN", "weights")
BY_NAME = BACKWARD.replace("WEIGHTS", '"gate_weight": weights[0], "gate_bias": weights[1]').replace(
    "GIVEN):", "gate_weight, gate_bias):\n    weights = gate_weight, gate_bias"
)


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with torch.no_grad():
        yield


def checked(source: str | dict[str, str], call: str = "mine:f", reference: str = ROWS, **more: Any) -> Any:
    """The user's function after a check with one input; ContractError where it is wrong."""
    for name in ("mine", "built"):
        sys.modules.pop(name, None)
    contract = module("reference.contract").Contract(reference)
    args = contract.build({}, 1, [], 0)
    for a in args:
        a.role = "output" if a.name == "out" else "input" if a.is_tensor else "scalar"
    files = {"mine.py": source} if isinstance(source, str) else source
    given = {"call": call, "files": files, "init": (), "build": (), **more}
    function = module("reference.user_function").UserFunction(given, contract, "cpu")
    function.check(args, NUMERIC, 1)
    function.bind({a.name: a.value for a in args})()
    return function


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(x): return x.amax(1)", ["x"]),
        ("def f(x, N, scale=1.0): return x.view(-1, N).amax(1)", ["x", "N"]),
        ("import torch\ndef f(x, out): torch.amax(x, 1, out=out)", ["x", "out"]),
        ("def f(**given): return given['x'].amax(1)", ["x", "M", "N"]),
        ("def f(values, dim=1): return values.amax(dim)", ["x"]),
        ("def f(values, rows, columns): return values.amax(1)", ["x", "M", "N"]),
        ("def f(*given): return given[0].amax(1)", ["x", "M", "N"]),
        (
            "import torch\nclass f(torch.autograd.Function):\n  @staticmethod\n  def forward(ctx, x): return x.amax(1)",
            ["x"],
        ),
        (
            """
import torch
class f(torch.autograd.Function):
    @staticmethod
    def forward(x, dim=1): return x.amax(dim)
    @staticmethod
    def setup_context(ctx, inputs, output): pass
""",
            ["x"],
        ),
    ],
    ids=["name", "size", "output", "keywords", "position", "positions", "any", "autograd", "autograd's own context"],
)
def test_it_gets_the_arguments_that_it_takes(source: str, names: list[str]) -> None:
    assert checked(source).names == names


def test_a_function_without_a_signature_gets_the_inputs_that_are_tensors() -> None:
    reference = ROWS.replace("x.amax(-1)", "x.relu()").replace("torch.empty(4)", "torch.empty(4, 8)")
    assert checked({}, "torch:relu", reference).names == ["x"]


def test_a_module_gets_its_weights_from_the_arguments_for_each_call() -> None:
    reference = GATED.replace("scale", "SCALE")
    function = checked(BLOCK, "mine:Block", reference, init=(8,))
    assert function.names == ["x"] and len(function.weights) == 3
    assert torch.equal(function.module.SCALE, torch.ones(8)), "the module itself keeps its own"
    assert checked({"mine.py": BLOCK + "\ndef get_init_inputs():\n    return [8]\n"}, "mine:Block", reference)
    with pytest.raises(Exception, match=r"is called like its parameter SCALE, which keeps the constructor's values"):
        checked(BLOCK, "mine:Block", GATED, init={"width": 8})


@pytest.mark.parametrize(
    ("source", "reference", "init"),
    [
        (
            """
import torch
class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w, b)
        return (x * w + b) ** 2
    @staticmethod
    def backward(ctx, dy):
        x, w, b = ctx.saved_tensors
        d = 2 * dy * (x * w + b)
        return d * w, d * x, d
def f(values, pair, incoming):
    assert all(one.is_leaf and one.grad is None for one in (values, *pair)) and not incoming.requires_grad
    Gate.apply(values, *pair).backward(incoming)
    return values.grad + pair[0].grad + pair[1].grad
""",
            AS_A_LIST,
            (),
        ),
        (
            BLOCK
            + """
class f(Block):
    def forward(self, x, dy):
        self.gate(x).pow(2).backward(dy)
        return x.grad + self.gate.weight.grad + self.gate.bias.grad
""",
            BY_NAME,
            (8,),
        ),
    ],
    ids=["by position, weights in a list", "a module's parameters"],
)
def test_it_may_ask_for_gradients(source: str, reference: str, init: tuple[int, ...]) -> None:
    function = checked(source, reference=reference, init=init)
    given = {a.name: a.value for a in function.reference.build({}, 2, [], 0)}
    call = function.bind(given)
    assert torch.equal(call(), call()) and not any(one.grad is not None for one in given.values())


def test_only_an_unchanged_package_of_an_index_is_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source, about = tmp_path / "fastrms.py", tmp_path / "fast_rms-1.2.dist-info"
    source.write_text("def f(x): return x")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fast-rms\nVersion: 1.2\n")
    known = base64.urlsafe_b64encode(hashlib.sha256(source.read_bytes()).digest()).decode().rstrip("=")
    (about / "RECORD").write_text(f"fastrms.py,sha256={known},18\nfast_rms-1.2.dist-info/METADATA,,\n")
    package = module("reference.user_function").published_package
    assert package("fastrms") == package("fastrms.kernels") == "fast-rms 1.2" and not package("mine")
    (about / "direct_url.json").write_text('{"url": "file:///home/me/rms", "dir_info": {"editable": true}}')
    assert not package("fastrms")
    (about / "direct_url.json").unlink()
    source.write_text("import time\ndef f(x): time.sleep(1); return x")
    assert not package("fastrms")


def test_files_beside_it_and_a_build_are_there_before_the_import_and_made_once() -> None:
    files = {
        "mine.py": "from built import f",
        "pack/gen.py": "open('built.py', 'a').write('def f(x): return x.amax(1)\\n')",
    }
    for _ in range(2):
        assert checked(files, build=("{python}", "pack/gen.py")).names == ["x"]
    (built,) = Path.cwd().glob("baseline-*/built.py")
    assert built.read_text().count("def f") == 1


@pytest.mark.parametrize(
    ("source", "more", "says", "wrong"),
    [
        ("def f(x):\n  y = x.amax(1)\n  y[2] += 1\n  return y", {}, r"mine:f does not compute 'out'.*; out\[2\] is \S+, expected \S+$", True),
        ("def f(x):\n  y = x.amax(1)\n  x[0, 0] = 9.0\n  return y", {}, "changes its input 'x'", True),
        ("def f(x): return x.amax(1).double()", {}, "gives 'out' as float64, which is float32", True),
        ("def f(x): return x.cuda().amax(1)", {}, "mine:f asks for a GPU, but this process has none$", False),
        ("def f(a, b, c, d, e): return a", {}, r"mine:f takes \(a, b, c, d, e\), and the reference's arguments are \(x, out, M, N\)", False),
        ("import nothing_of_that_name", {}, "mine:f: importing it needs the package 'nothing_of_that_name'", False),
        ("def g(x): return x", {}, "mine has no 'f'; it has g", False),
        ("f = 3", {}, "mine:f is int, which cannot be called", False),
        ({"other.py": ""}, {}, "there is no module 'mine', neither in baseline/ nor in the Python", False),
        ("", {"build": ("false",)}, "`false` ended with 1", False),
    ],
    ids=["element", "input", "dtype", "gpu", "names", "import", "absent", "number", "module", "build"],
)  # fmt: skip
def test_what_is_wrong_with_it_is_one_sentence(
    source: str | dict[str, str], more: dict[str, Any], says: str, wrong: bool
) -> None:
    with pytest.raises(Exception, match=says) as error:
        checked(source, **more)
    assert bool(vars(error.value).get("wrong")) is wrong and "\n" not in str(error.value)
