"""The screen for kernels in Python: honest kernels pass, known cheats do not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tools import screen_cheats as cheats
from tests.tools import screen_honest as honest
from tools.screen.screen import screen

ROOT = Path(__file__).parents[3]
KERNEL = '''"""A kernel."""
import math

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

LOG2E: tl.constexpr = 1.4426950408889634
SIZES = (16, 32)


@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    total = v.sum(axis=0)
    tl.store(y + at, libdevice.tanh(v) / total, mask=at < n)


def blocks(n: int) -> int:
    return min(max(triton.next_power_of_2(n), 16), 1024)


def run_kernel(x: torch.Tensor, y: torch.Tensor, n: int, **kwargs) -> None:
    scratch = torch.empty((x.shape[0], math.ceil(n / 32)), dtype=torch.float32, device=x.device)
    partial = torch.zeros_like(scratch).view(-1)
    units = torch.cuda.get_device_properties(x.device).multi_processor_count
    grid = lambda meta: (min(units, triton.cdiv(x.numel(), meta["B"])),)
    # HERE
    if x.is_contiguous() and x.stride(0) == n:
        kernel[grid](x.view(-1), y, n, B=blocks(n), num_warps=4)
    else:
        kernel[grid](x, y, n, B=blocks(n))


if __name__ == "__main__":
    print(torch.softmax(torch.rand(3), 0))
'''
INSIDE = {
    "torch does the work": "y.copy_(torch.softmax(x, -1))",
    "functional": "torch.nn.functional.softmax(x, -1)",
    "matrix product": "out = x @ x",
    "in place": "x @= x",
    "method of a tensor": "out = x.softmax(-1)",
    "compile": "fast = torch.compile(blocks)",
    "graph": "g = torch.cuda.CUDAGraph()",
    "stream": "s = torch.cuda.Stream()",
    "stream context": "with torch.cuda.stream(None): pass",
    "events": "torch.cuda.Event.elapsed_time = blocks",
    "patched triton": "triton.cdiv = blocks",
    "patched triton machinery": "triton.runtime.jit.JITFunction.run(None)",
    "state on a function": "run_kernel.cache = y",
    "pointer as key": "key = x.data_ptr()",
    "identity as key": "key = id(x)",
    "fallback": "try:\n        pass\n    except RuntimeError:\n        pass",
    "global": "global LOG2E",
    "hidden name": "getattr(torch, 'softmax')(x, -1)",
    "module passed on": "t = torch",
    "dunder": "x.__class__",
    "globals": "globals()['torch'] = None",
    "files": "open('/etc/passwd')",
    "eval": "eval('1')",
    "flags": "torch.backends.cuda.matmul.allow_tf32 = True",
    "seeds": "torch.manual_seed(0)",
    "synchronise": "torch.cuda.synchronize()",
    "to the host": "v = x.cpu()",
    "item": "v = x[0].item()",
    "import inside": "import os",
    "ctypes": "from ctypes import CDLL",
    "from torch": "from torch import matmul",
    "private": "triton._C",
    "generator": "yield 1",
    "default": "def f(c={}): return c",
    "walrus": "(t := x)",
}
OUTSIDE = {
    "cache": "CACHE = {}",
    "list": "SEEN = []",
    "os": "import os",
    "threads": "import threading",
    "inspect": "import inspect, gc, sys",
    "functools": "from functools import lru_cache",
    "subprocess": "import subprocess as s",
    "functional as F": "import torch.nn.functional as F",
    "inductor": "from torch._inductor import config",
    "relative": "from . import kernel",
    "class": "class Lazy(torch.Tensor):\n    pass",
    "work at import": "torch.cuda.init()",
    "buffer at import": "BUFFER = torch.empty(3)",
    "loop at import": "for i in range(3):\n    pass",
    "decorator": "@torch.compile\ndef f(x):\n    return x",
    "name taken over": "tl = None",
}
IN_KERNEL = {
    "assembly": "tl.inline_asm_elementwise('', '', [v], tl.float32, True, 1)",
    "clock": "tl.extra.cuda.globaltimer()",
}


def test_an_honest_kernel_passes() -> None:
    assert screen(KERNEL, "triton") == ()


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "matmul", "cross-entropy"])
def test_the_shipped_kernels_pass(name: str) -> None:
    assert screen((ROOT / f"configs/tasks/triton-{name}/kernel.py").read_text(), "triton") == ()


@pytest.mark.parametrize("what", sorted(INSIDE))
def test_host_code_only_allocates_looks_and_launches(what: str) -> None:
    found = screen(KERNEL.replace("# HERE", INSIDE[what]), "triton")
    assert found and all(text.startswith("line ") and "\n" not in text for text in found)


@pytest.mark.parametrize("what", sorted(OUTSIDE))
def test_nothing_outlives_a_call_and_nothing_foreign_is_imported(what: str) -> None:
    found = screen(KERNEL.replace("SIZES = (16, 32)", OUTSIDE[what]), "triton")
    assert found and "\n" not in found[0]


@pytest.mark.parametrize("what", sorted(IN_KERNEL))
def test_kernels_use_no_assembly_and_no_clock(what: str) -> None:
    assert screen(KERNEL.replace("    total = v.sum(axis=0)", f"    total = {IN_KERNEL[what]}"), "triton")


def test_autotuning_in_a_candidate_must_be_pinned() -> None:
    one = KERNEL.replace("@triton.jit", '@triton.autotune(configs=[triton.Config({"B": 16})], key=["n"])\n@triton.jit')
    assert screen(one, "triton") == ()
    two = one.replace("[triton.Config", "[triton.Config({'B': 32}), triton.Config")
    assert "one config" in screen(two, "triton")[0]


def test_what_is_no_python_is_said() -> None:
    assert screen("def f(:\n", "triton") == ("line 1: the source is no valid Python; mend it",)


def inside(code: str) -> str:
    return cheats.HEAD.replace("# HERE", code).replace("import torch\n", "import math\nimport torch\n", 1)


@pytest.mark.parametrize("what", sorted(honest.INSIDE))
def test_what_people_write_in_run_kernel_passes(what: str) -> None:
    assert screen(inside(honest.INSIDE[what]), "triton", tensors=("x", "y")) == ()


@pytest.mark.parametrize("what", sorted(honest.FILES))
def test_files_that_people_write_pass(what: str) -> None:
    assert screen(honest.FILES[what], "triton", tensors=("x", "y")) == ()


@pytest.mark.parametrize("what", sorted(cheats.INSIDE))
def test_no_way_round_leads_out_of_run_kernel(what: str) -> None:
    code = inside(cheats.INSIDE[what])
    ast.parse(code)
    found = screen(code, "triton")
    assert found and not any(screen(inside("pass"), "triton")) and "\n" not in found[0]


@pytest.mark.parametrize("what", sorted(cheats.FILES))
def test_no_way_round_leads_out_of_a_file(what: str) -> None:
    ast.parse(cheats.FILES[what])
    assert screen(cheats.FILES[what], "triton")


def test_a_task_says_what_the_text_does_not() -> None:
    plain = f"{cheats.IMPORTS}{cheats.KERNEL}def run_kernel(**kw):\n    v = kw['x'] * 2\n    kernel[(1,)](v, kw['y'], kw['n'], B=64)\n"
    by_name = f"{cheats.IMPORTS}{cheats.KERNEL}def run_kernel(x, y, n):\n    v = x * 2\n    kernel[(1,)](v, y, n, B=64)\n"
    for source in (plain, by_name):
        assert "lets torch compute" in screen(source, "triton", tensors=("x", "y"))[0]
        # Without a task nothing says that x is no number.
        assert screen(source.replace("x", "n"), "triton", tensors=("x", "y")) == () == screen(source, "triton")


@pytest.mark.parametrize(("given", "said"), [("key=['n']", "names no config"), ("configs=[], key=['n']", "names no config")])
def test_autotuning_over_nothing_is_called_so(given: str, said: str) -> None:
    found = screen(f"{cheats.IMPORTS}@triton.autotune({given})\n{cheats.KERNEL}{cheats.RUN}", "triton")
    assert len(found) == 1 and said in found[0] and "one config" not in found[0]
