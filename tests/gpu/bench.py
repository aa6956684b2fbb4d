"""Puts requests as plain dicts to one warm harness on a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.tools import builders
from tools.executors.protocol import Case

HARNESS = Path(__file__).resolve().parents[2] / "tools" / "harness"

REFERENCE = """
import torch
outputs = ("out",)

def make_inputs(dims, seed, device="cpu"):
    g = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(dims["M"], dims["N"], generator=g, device=device)
    return {"x": x, "out": torch.empty_like(x), "M": dims["M"], "N": dims["N"]}

def reference(x, out, M, N):
    return torch.softmax(x, dim=-1)
"""
TASK = builders.softmax(language="triton", reference=REFERENCE).model_dump(mode="json")
HEAD = """
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, rounds, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    total = tl.sum(e, axis=0)
    extra = total
    for _ in range(rounds):
        extra = extra * 1.000001 + 1e-30
    total = tl.where(extra < 0, extra, total)
    tl.store(out_ptr + row * n_cols + cols, e / total, mask=cols < n_cols)


@triton.jit
def poke(ptr, at, value):
    tl.store(ptr + at, value)


def softmax(x, out, M, N, rounds=0):
    softmax_kernel[(M,)](x, out, N, rounds, BLOCK=triton.next_power_of_2(N), num_warps=8)
"""
HONEST = "    softmax(x, out, M, N)\n"


def kernel(body: str = HONEST, before: str = "", tag: str = "") -> str:
    """Source of a kernel whose run_kernel has this body."""
    return f"{HEAD}{before}\n\ndef run_kernel(x, out, M, N):\n{body}\n\n# {tag}\n"


class GpuBench:
    """One harness kept warm over all questions."""

    def __init__(self, folder: Path, memory_bytes: int = 32 << 30) -> None:
        self.folder = folder
        self.memory_bytes = memory_bytes
        self.task: dict[str, Any] = TASK
        self.count = 0
        (folder / "scratch").mkdir(parents=True)
        self.log = (folder / "supervisor.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(HARNESS / "supervisor.py"), "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=folder / "scratch",
            text=True,
        )

    def ask(self, request: dict[str, Any], files: Mapping[str, str | bytes]) -> dict[str, Any]:
        """The harness's answer as it stands in result.json."""
        job = self.folder / f"job{self.count}"
        self.count += 1
        job.mkdir()
        for name, text in files.items():
            (job / name).write_bytes(text.encode() if isinstance(text, str) else text)
        (job / "request.json").write_text(json.dumps({"device": "cuda", "device_index": 0, **request}))
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"folder": str(job), "memory_bytes": self.memory_bytes}) + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        return json.loads((job / "result.json").read_text())

    def check(
        self, candidate: str, *cases: dict[str, Any], baseline: str | None = None, limit_s: float = 60.0
    ) -> dict[str, Any]:
        files = {"candidate.py": candidate} | ({"baseline.py": baseline} if baseline else {})
        libraries = {name.removesuffix(".py"): name for name in files}
        request = {
            "kind": "correctness",
            "task": self.task,
            "libraries": libraries,
            "cases": list(cases) or [case()],
            "call_limit_s": limit_s,
        }
        return self.ask(request, files)

    def time(
        self, incumbent: str, candidate: str, dims: dict[str, int], pairs: int = 8, warm: int = 0, seed: int = 11
    ) -> dict[str, Any]:
        files = {"incumbent.py": incumbent, "candidate.py": candidate}
        workload = {"name": "w", "dims": dims, "weight": 1.0, "seed": seed, "pairs": pairs, "warm_pairs": warm}
        request = {
            "kind": "timing",
            "task": self.task,
            "libraries": {name.removesuffix(".py"): name for name in files},
            "workloads": [workload],
            "order_seed": seed,
            "new_inputs": False,
            "call_limit_s": 60.0,
        }
        return self.ask(request, files)

    def contest(
        self,
        contestants: list[dict[str, Any]],
        files: Mapping[str, str | bytes],
        dims: dict[str, int],
        rounds: int = 6,
        library: tuple[str, ...] = (),
        graph_rounds: int = 0,
    ) -> dict[str, Any]:
        workload = {"name": "w", "dims": dims, "weight": 1.0, "seed": 2, "pairs": rounds, "warm_pairs": 0}
        request = {
            "kind": "contest",
            "task": self.task | ({"library": library} if library else {}),
            "contestants": contestants,
            "workloads": [workload],
            "order_seed": 9,
            "graph_rounds": graph_rounds,
            "call_limit_s": 300.0,
        }
        return self.ask(request, files)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(30)
        self.log.close()


def case(dims: dict[str, int] | None = None, seed: int = 3, **more: Any) -> dict[str, Any]:
    return Case(workload="w", dims=dims or {"M": 37, "N": 61}, seed=seed, **more).model_dump(mode="json")
