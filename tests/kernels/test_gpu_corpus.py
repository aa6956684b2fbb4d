"""The screen says of each GPU kernel of the corpus what its entry says."""

from __future__ import annotations

from pathlib import Path

import torch
import yaml

from tools.screen.screen import screen

KERNELS = Path(__file__).parent


def tensors_of(task: str) -> list[str]:
    """Arguments of a task that are tensors."""
    found: dict = {}
    exec((KERNELS / "tasks" / task / "reference.py").read_text(), found)
    dims = {name: min(extent, 64) for name, extent in found["workloads"][0]["dims"].items()}
    return [name for name, value in found["make_inputs"](dims, 0).items() if isinstance(value, torch.Tensor)]


def test_the_screen_says_of_each_gpu_kernel_what_its_entry_says() -> None:
    entries = yaml.safe_load((KERNELS / "corpus_gpu.yaml").read_text())
    said = {
        one["file"]: screen((KERNELS / one["file"]).read_text(), one["language"], (), tensors_of(one["task"]))
        for one in entries
    }
    wrong = {
        one["file"]: said[one["file"]] for one in entries if bool(said[one["file"]]) != (one["screen"] == "refuses")
    }
    assert not wrong
    evil = [one for one in entries if one["verdict"] == "refused"]
    assert len(evil) >= 34 and sum(one["screen"] == "passes" for one in evil) >= 20
