"""A contestant's process calls the reference as make_inputs arranges its arguments, with gradients and restored."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tools.harness.workers.torch_worker import TorchBackend, own_copy

REFERENCE = """
import dataclasses
import torch
inout = "y"

@dataclasses.dataclass
class Config:
    scale: float
    kind: str

def make_inputs(dims, seed):
    x = torch.ones(dims["N"], requires_grad=True)
    return {"config": Config(0.5, "tanh"), "bias": None, "y": torch.zeros(dims["N"]), "xs": [x]}

def reference(config, bias, y, xs):
    assert bias is None and config.kind == "tanh"
    x = xs[0].detach().requires_grad_()
    y += torch.autograd.grad((x * x * config.scale).sum(), x)[0]
"""


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TorchBackend]:
    # It builds its stub in the folder that it runs in.
    monkeypatch.chdir(tmp_path)
    enabled, threads = torch.is_grad_enabled(), torch.get_num_threads()
    yield TorchBackend()
    torch.set_grad_enabled(enabled)
    torch.set_num_threads(threads)


def test_each_call_finds_its_arguments_as_they_were_made(
    backend: TorchBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    handle = os.memfd_create("inputs")
    y, x = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    os.write(handle, y.numpy().tobytes() + x.numpy().tobytes())
    tensor = {"dtype": "float32", "shape": [2]}
    arguments = [
        {"name": "config_scale", "role": "scalar", "dtype": "float32", "shape": [], "value": 0.5},
        {"name": "y", "role": "inout", **tensor},
        {"name": "xs_0", "role": "input", **tensor},
    ]
    arguments[0]["made_by"] = {"dims": {"N": 2}, "seed": 1}
    task = {"reference": REFERENCE, "numeric": {"precision": "ieee"}, "rivals": None}
    backend.begin({"task": task, "mode": "eager", "device": "cpu", "function": None}, [])
    backend.attach({"arguments": [arguments], "offsets": [[0, 8]], "size": 16}, [handle])
    changed = backend.calls[0]["y"]
    assert changed.tolist() == [1.0, 2.0]
    backend.run({"train": [0], "replay": False}, [])
    assert changed.tolist() == [4.0, 6.0]
    flushed: list[int] = []
    monkeypatch.setattr(backend, "flush", lambda address, size: flushed.extend((address, size)))
    backend.restore({"train": [0]}, [])
    assert changed.tolist() == [1.0, 2.0] and flushed == [changed.data_ptr(), 8], "it must not be found in a cache"
    backend.set_scalars({"scalars": [{"config_scale": 1.0}]}, [])
    backend.run({"train": [0], "replay": False}, [])
    assert changed.tolist() == [7.0, 10.0]


TURNED = """
import torch

def make_inputs(dims, seed):
    return {"x": torch.ones(4, dims["N"]).t(), "y": torch.empty(dims["N"], 4)}

def reference(x):
    return 2 * x
"""


def test_the_users_function_gets_the_strides_that_make_inputs_gave(
    backend: TorchBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    handle = os.memfd_create("inputs")
    os.write(handle, torch.arange(8.0).numpy().tobytes())
    tensor = {"dtype": "float32", "shape": [2, 4]}
    arguments = [{"name": "x", "role": "input", **tensor}, {"name": "y", "role": "output", **tensor}]
    arguments[0]["made_by"] = {"dims": {"N": 2}, "seed": 1}
    numeric = {"precision": "ieee", "floor": {}, "cap": {}}
    function = {
        "call": "turned:f",
        "files": {"turned.py": "def f(x):\n    assert x.stride() == (1, 2)\n    return x + x\n"},
        **dict.fromkeys(("init", "build"), ()),
    }
    task = {"reference": TURNED, "numeric": numeric, "rivals": None}
    backend.begin({"task": task, "mode": "user_function", "device": "cpu", "function": function}, [])
    answer = backend.attach({"arguments": [arguments], "offsets": [[0]], "size": 32}, [handle])
    assert answer["has_copies"] and backend.calls[0]["x"].stride() == (1, 2)
    assert torch.equal(backend.calls[0]["x"], torch.arange(8.0).view(2, 4))


@pytest.mark.parametrize(("strides", "kept"), [((1, 2), True), ((16, 4), True), ((0, 1), True), ((1, 1), False)])
def test_a_copy_has_the_strides_unless_they_overlap(strides: tuple[int, int], kept: bool) -> None:
    content = torch.arange(8.0).view(2, 4) if strides[0] else torch.arange(4.0).expand(2, 4)
    own, written, part = own_copy(content, strides)
    assert (own.stride() == strides) == kept and torch.equal(own, content)
    written.copy_(part + 1)
    assert torch.equal(own, content + 1)
