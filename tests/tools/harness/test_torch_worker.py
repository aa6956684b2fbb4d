"""A contestant's process calls the reference as make_inputs arranges its arguments, with gradients and restored."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from tools.harness.workers.torch_worker import TorchBackend

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
def backend() -> Iterator[TorchBackend]:
    enabled, threads = torch.is_grad_enabled(), torch.get_num_threads()
    yield TorchBackend()
    torch.set_grad_enabled(enabled)
    torch.set_num_threads(threads)


def test_each_call_finds_its_arguments_as_they_were_made(backend: TorchBackend) -> None:
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
    backend.restore({"train": [0]}, [])
    assert changed.tolist() == [1.0, 2.0]
    backend.set_scalars({"scalars": [{"config_scale": 1.0}]}, [])
    backend.run({"train": [0], "replay": False}, [])
    assert changed.tolist() == [7.0, 10.0]
