"""Several kernels as one: which of them is called at which sizes, under names that are nobody else's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tools.artifacts import Argument, Task, Workload
from tools.languages.dispatcher import compose_dispatcher
from tools.screen.screen import screen

KERNEL = '''"""Words of {name}."""

import torch
import triton
import triton.language as tl

BLOCK = {block}
NAME = "run_kernel scale"


@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    # scale: BLOCK elements
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, at < n, other=0.0), at < n)


def run_kernel(x, out, M):
    grid = (triton.cdiv(M, BLOCK),)
    scale[grid](x, out, M, BLOCK=BLOCK, num_warps=4)
'''
NARROW, WIDE = KERNEL.format(name="narrow", block=64), KERNEL.format(name="wide", block=512)


def task(*dims: dict[str, int], scalar: bool = True) -> Task:
    tensors = tuple(
        Argument(name=n, role=r, dtype="float32", shape=("M",)) for n, r in (("x", "input"), ("out", "output"))
    )
    sizes = (Argument(name="M", role="scalar", dtype="int64"),) if scalar else ()
    workloads = tuple(Workload(name=f"w{at}", dims=one) for at, one in enumerate(dims))
    return Task(
        name="t",
        language="triton",
        arguments=(*tensors, *sizes),
        reference="",
        workloads=workloads,
        dims_range={"M": (1, 4096)},
    )


def launching(seen: list[tuple[str, int]]) -> Any:
    """In place of `triton`: a kernel that is launched says its name and its block."""

    class Launcher:
        def __init__(self, function: Any) -> None:
            self.name = function.__name__

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return lambda *args, **constants: seen.append(
                (self.name, next(v for k, v in constants.items() if k.startswith("BLOCK")))
            )

    return SimpleNamespace(jit=Launcher, cdiv=lambda n, block: -(-n // block))


def test_each_kernel_is_called_at_its_own_sizes_and_the_usual_one_at_all_others() -> None:
    once = compose_dispatcher(task({"M": 128}, {"M": 4096}), NARROW, {"w1": NARROW.replace("64", "8")})
    text = compose_dispatcher(task({"M": 128}, {"M": 4096}), once or "", {"w1": WIDE})
    assert text is not None and screen(text, "triton", (), ("x", "out")) == ()
    assert text.count("import torch") == 1 and "Words of narrow" in text and "Words of wide" not in text
    seen: list[tuple[str, int]] = []
    module: dict[str, Any] = {"triton": launching(seen), "tl": SimpleNamespace(constexpr=int)}
    exec("\n".join(line for line in text.splitlines() if not line.startswith("import")), module)
    for size in (128, 4096, 100):
        module["run_kernel"](x=None, out=None, M=size)
    assert [block for _, block in seen] == [64, 512, 64]


@pytest.mark.parametrize(
    ("given", "scalar", "words"),
    [
        (({"M": 128}, {"M": 4096}), False, "if x.shape[0] == 4096:"),
        # Nothing tells sizes apart that are alike, or that stand in no argument.
        (({"M": 128}, {"M": 128}), True, None),
        (({"K": 128}, {"K": 4096}), True, None),
    ],
)
def test_sizes_are_told_by_scalars_or_shapes_or_not_at_all(
    given: tuple[dict[str, int], ...], scalar: bool, words: str | None
) -> None:
    judged = task(*given, scalar=scalar).model_copy(update={"dims_range": dict.fromkeys(given[0], (1, 4096))})
    text = compose_dispatcher(judged, NARROW, {"w1": WIDE})
    assert text is None if words is None else text is not None and words in text
