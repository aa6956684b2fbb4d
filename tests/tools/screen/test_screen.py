"""The static screen: what it refuses, what honest kernels may do, and that its sentences point at the line."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.tools.screen_pieces import (
    HEAD,
    IMPORTS,
    KERNEL,
    PIECES,
    RUN,
    SOLVE,
    in_run_kernel,
    in_solve,
    source,
    with_lines,
)
from tools.errors import SettingsError
from tools.screen.screen import screen

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: f"{piece['language']}: {piece['name']}")
def test_a_piece_is_refused_with_its_line_or_passes(piece: dict[str, Any]) -> None:
    kernel, language = source(piece), piece["language"]
    if language == "triton":
        ast.parse(kernel)
    found = screen(kernel, language, tensors=() if "says" in piece else ("x", "y"))
    assert bool(found) == ("says" in piece), found
    line = f"line {piece['line']}: " if "line" in piece else "line "
    assert not found or any(said.startswith(line) and piece["says"] in said for said in found), found
    assert all("\n" not in said for said in found)


def test_the_kernel_around_the_pieces_passes() -> None:
    assert screen(in_run_kernel("pass"), "triton") == () == screen(SOLVE, "cpp")


OURS = ["configs/tasks/softmax/kernel.cpp", "tests/tools/fixtures/seed/kernel.cpp"]
OURS += [f"configs/tasks/triton-{name}/kernel.py" for name in ("softmax", "rmsnorm", "matmul", "cross-entropy")]


@pytest.mark.parametrize("path", OURS)
def test_our_own_kernels_are_allowed(path: str) -> None:
    assert screen((ROOT / path).read_text(), "triton" if path.endswith(".py") else "cpp") == ()


def test_own_headers_are_allowed_by_name_only() -> None:
    kernel = '#include "tile.h"\n' + SOLVE
    assert screen(kernel, "cpp", files=("kernel.cpp", "tile.h")) == ()
    assert len(screen(kernel, "cpp")) == 1


def test_all_faults_are_listed_in_order() -> None:
    found = screen("#include <unistd.h>\nstatic int n;\n" + in_solve("fork(); rand();"), "cpp")
    assert [sentence.split(":")[0] for sentence in found] == ["line 1", "line 2", "line 5", "line 5"]


def test_a_language_without_a_screen_is_refused() -> None:
    with pytest.raises(SettingsError, match="fortran"):
        screen("", "fortran")


def test_autotuning_in_a_candidate_must_be_pinned() -> None:
    one = with_lines(top='@triton.autotune(configs=[triton.Config({"B": 16})], key=["n"])')
    assert screen(one, "triton") == ()
    two = one.replace("[triton.Config", "[triton.Config({'B': 32}), triton.Config")
    assert "one config" in screen(two, "triton")[0]


OPERATORS = {
    "torch.mm(x, x, out=y)": None,
    "torch.ops.aten.mm.out(x, x, out=y)": None,
    "z = torch.ops.aten.mm(x, x)\n    kernel[(1,)](z, y, n, B=128)": None,
    "z = torch.mm(x, x)\n    kernel[(1,)](z + 1, y, n, B=128)": "lets torch compute on a tensor",
    "torch.addmm(x, x, x, out=y)": "task.yaml lists under `library:`",
    "torch.ops.aten.mm_out(x, x)": "task.yaml lists under `library:`",
    "f = torch.mm\n    f(x, x)": "uses a function as a value",
}


@pytest.mark.parametrize("call", OPERATORS)
def test_of_torchs_operators_those_of_the_tasks_library_alone_are_called(call: str) -> None:
    code = HEAD.replace("# HERE", call)
    assert screen(code, "triton", (), ("x", "y")), "without a library none may be called"
    said = screen(code, "triton", (), ("x", "y"), ["aten.mm"])
    assert said == () if OPERATORS[call] is None else OPERATORS[call] in said[0]


def test_what_only_calls_the_library_is_no_kernel() -> None:
    said = screen(
        "import torch\n\n\ndef run_kernel(x, y):\n    torch.mm(x, x, out=y)\n", "triton", (), ("x", "y"), ["aten.mm"]
    )
    assert said and "reported as library, not as a kernel" in said[0]


def test_what_is_no_python_is_said() -> None:
    assert screen("def f(:\n", "triton") == ("line 1: the source is not valid Python; correct the syntax",)


def test_a_task_says_what_the_text_does_not() -> None:
    launch = "    v = {0} * 2\n    kernel[(1,)](v, {1}, {2}, B=64)\n"
    plain = f"{IMPORTS}{KERNEL}def run_kernel(**kw):\n{launch.format(*(f'kw[{n!r}]' for n in 'xyn'))}"
    by_name = f"{IMPORTS}{KERNEL}def run_kernel(x, y, n):\n{launch.format(*'xyn')}"
    for kernel in (plain, by_name):
        assert "lets torch compute" in screen(kernel, "triton", tensors=("x", "y"))[0]
        # Without a task nothing says that x is no number.
        assert screen(kernel.replace("x", "n"), "triton", tensors=("x", "y")) == () == screen(kernel, "triton")


@pytest.mark.parametrize(
    ("given", "said"), [("key=['n']", "has no config"), ("configs=[], key=['n']", "has no config")]
)
def test_autotuning_over_nothing_is_called_so(given: str, said: str) -> None:
    found = screen(f"{IMPORTS}@triton.autotune({given})\n{KERNEL}{RUN}", "triton")
    assert len(found) == 1 and said in found[0] and "one config" not in found[0]
