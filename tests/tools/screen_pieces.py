"""The pieces of tests/kernels/screen.yaml, each put into a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
KERNEL = """@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


"""
RUN = """def run_kernel(x, y, n):
    kernel[(triton.cdiv(n, 128),)](x, y, n, B=128)
"""
HEAD = (
    f"{IMPORTS}{KERNEL}def run_kernel(x: torch.Tensor, y: torch.Tensor, n: int):\n"
    "    # HERE\n    kernel[(triton.cdiv(n, 128),)](x, y, n, B=128)\n"
)
SOLVE = 'extern "C" void solve(const float* x, float* out, int n) {\n  for (int i = 0; i < n; ++i) out[i] = x[i];\n}\n'


def in_solve(body: str, above: str = "") -> str:
    """A kernel in C++ with this body; `above` is a part of the file in front of it."""
    return f'{above}#include <cmath>\nextern "C" void solve(const float* x, float* out, int n) {{\n  {body}\n}}\n'


def in_run_kernel(code: str) -> str:
    """A kernel in Triton with this code first in run_kernel, where x is an input and y the output."""
    return HEAD.replace("# HERE", code).replace("import torch\n", "import math\nimport torch\n", 1)


def with_lines(first: str = "", top: str = "", kernel: str = "", middle: str = "", run: str = "", end: str = "") -> str:
    """A whole file in Triton with lines added: before and behind its imports, first in the kernel, behind it, first in
    run_kernel, last."""
    entry = KERNEL.replace("    at =", f"    {kernel}\n    at =", 1) if kernel else KERNEL
    called = RUN.replace(":\n", f":\n    {run}\n", 1) if run else RUN
    parts = (first and f"{first}\n", IMPORTS, top and f"{top}\n", entry, middle and f"{middle}\n\n\n", called)
    return "".join((*parts, end and f"{end}\n"))


def source(piece: dict[str, Any]) -> str:
    """The kernel of a piece."""
    if "source" in piece:
        return piece["source"]
    added = {name: text for name, text in piece.items() if name not in ("name", "language", "line", "says")}
    if piece["language"] == "triton":
        return in_run_kernel(added["inside"]) if "inside" in added else with_lines(**added)
    above = f"{added['above']}\n" if "above" in added else ""
    return in_solve(added["inside"], above) if "inside" in added else above + SOLVE


PIECES = yaml.safe_load((Path(__file__).parents[1] / "kernels" / "screen.yaml").read_text(encoding="utf-8"))
