"""The screen for kernels in Python: honest kernels pass, known cheats do not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tools import screen_cheats as cheats
from tests.tools import screen_honest as honest
from tools.screen.screen import screen

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "matmul", "cross-entropy"])
def test_the_shipped_kernels_pass(name: str) -> None:
    assert screen((ROOT / f"configs/tasks/triton-{name}/kernel.py").read_text(), "triton") == ()


def test_autotuning_in_a_candidate_must_be_pinned() -> None:
    one = cheats.made(top='@triton.autotune(configs=[triton.Config({"B": 16})], key=["n"])')
    assert screen(one, "triton") == ()
    two = one.replace("[triton.Config", "[triton.Config({'B': 32}), triton.Config")
    assert "one config" in screen(two, "triton")[0]


CALLS = {
    "torch.mm(x, x, out=y)": None,
    "torch.ops.aten.mm.out(x, x, out=y)": None,
    "z = torch.ops.aten.mm(x, x)\n    kernel[(1,)](z, y, n, B=128)": None,
    "z = torch.mm(x, x)\n    kernel[(1,)](z + 1, y, n, B=128)": "lets torch compute on a tensor",
    "torch.addmm(x, x, x, out=y)": "task.yaml lists under `library:`",
    "torch.ops.aten.mm_out(x, x)": "task.yaml lists under `library:`",
    "f = torch.mm\n    f(x, x)": "uses a function as a value",
}


@pytest.mark.parametrize("call", CALLS)
def test_of_torchs_operators_those_of_the_tasks_library_alone_are_called(call: str) -> None:
    code = cheats.HEAD.replace("# HERE", call)
    assert screen(code, "triton", (), ("x", "y")), "without a library none may be called"
    said = screen(code, "triton", (), ("x", "y"), ["aten.mm"])
    assert said == () if CALLS[call] is None else CALLS[call] in said[0]


def test_what_only_calls_the_library_is_no_kernel() -> None:
    said = screen(
        "import torch\n\n\ndef run_kernel(x, y):\n    torch.mm(x, x, out=y)\n", "triton", (), ("x", "y"), ["aten.mm"]
    )
    assert said and "reported as library, not as a kernel" in said[0]


def test_what_is_no_python_is_said() -> None:
    assert screen("def f(:\n", "triton") == ("line 1: the source is not valid Python; correct the syntax",)


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
    plain = (
        f"{cheats.IMPORTS}{cheats.KERNEL}def run_kernel(**kw):\n    v = kw['x'] * 2\n    kernel[(1,)](v, kw['y'], "
        f"kw['n'], B=64)\n"
    )
    by_name = (
        f"{cheats.IMPORTS}{cheats.KERNEL}def run_kernel(x, y, n):\n    v = x * 2\n    kernel[(1,)](v, y, n, B=64)\n"
    )
    for source in (plain, by_name):
        assert "lets torch compute" in screen(source, "triton", tensors=("x", "y"))[0]
        # Without a task nothing says that x is no number.
        assert screen(source.replace("x", "n"), "triton", tensors=("x", "y")) == () == screen(source, "triton")


@pytest.mark.parametrize(
    ("given", "said"), [("key=['n']", "has no config"), ("configs=[], key=['n']", "has no config")]
)
def test_autotuning_over_nothing_is_called_so(given: str, said: str) -> None:
    found = screen(f"{cheats.IMPORTS}@triton.autotune({given})\n{cheats.KERNEL}{cheats.RUN}", "triton")
    assert len(found) == 1 and said in found[0] and "one config" not in found[0]
