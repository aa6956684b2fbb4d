"""References of many styles, as users write them: body of `reference`, its arguments, and what sizes they have."""

from __future__ import annotations

HEAD = """
import math
import warnings

import torch
import torch.nn.functional as F

outputs = {outputs}
workloads = ({dims},)
{extra}

def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    {names}, = dims.values()
    return {{{arguments}}}


def reference({parameters}):
{body}
"""


def source(
    body: str,
    arguments: dict[str, str],
    dims: dict[str, int | float],
    outputs: tuple[str, ...] = ("out",),
    extra: str = "",
) -> str:
    """The text of a reference.py; `arguments`: name -> how make_inputs makes it."""
    return HEAD.format(
        outputs=outputs,
        dims=dims,
        extra=extra,
        names=", ".join(dims),
        arguments=", ".join(f'"{name}": {made}' for name, made in arguments.items()),
        parameters=", ".join(arguments),
        body="\n".join(f"    {line}" for line in body.strip().splitlines()),
    )


def randn(*shape: str) -> str:
    return f"torch.randn({', '.join(shape)}, generator=g)"


def empty(*shape: str, dtype: str = "float32") -> str:
    return f"torch.empty({', '.join(shape)}, dtype=torch.{dtype})" if shape else f"torch.empty((), dtype=torch.{dtype})"


MN = {"M": "M", "N": "N"}
SIZES: dict[str, int | float] = {"M": 48, "N": 72}

REFERENCES: dict[str, str] = {
    "chain": source(
        "return torch.tanh(x * 2 + y).relu() * torch.sigmoid(x) - y.abs().sqrt()",
        {"x": randn("M", "N"), "y": randn("M", "N"), "out": empty("M", "N"), **MN},
        SIZES,
    ),
    "prints_and_own_fraction": source(
        'print("scaled")\nwarnings.warn("of x")\nreturn x * FACTOR',
        {"x": randn("M", "N"), "out": empty("M", "N"), **MN},
        SIZES,
        extra="FACTOR = 1.25",
    ),
    "swiglu": source(
        "return F.silu(x) * y", {"x": randn("M", "N"), "y": randn("M", "N"), "out": empty("M", "N"), **MN}, SIZES
    ),
    "gather": source(
        "return x.gather(1, i)",
        {"x": randn("M", "N"), "i": "torch.randint(0, N, (M, K), generator=g)", "out": empty("M", "K"), **MN, "K": "K"},
        {**SIZES, "K": 20},
    ),
    "stencil": source(
        "y = x.clone()\ny[1:-1, 1:-1] += 0.2 * (x[1:-1, :-2] + x[2:, 1:-1])\nreturn y",
        {"x": randn("M", "N"), "out": empty("M", "N"), **MN},
        SIZES,
        extra='dims_range = {"M": (3, 60), "N": (3, 80)}',
    ),
    "transpose_add": source(
        "return x.t() + y", {"x": randn("N", "M"), "y": randn("M", "N"), "out": empty("M", "N"), **MN}, SIZES
    ),
    "masked_mean": source(
        "return (x * m).sum(1) / m.sum(1).clamp(min=1)",
        {"x": randn("M", "N"), "m": "(torch.rand(M, N, generator=g) > 0.5)", "out": empty("M"), **MN},
        SIZES,
    ),
    "two_outputs": source(
        "s = x.sum(1, keepdim=True)\nreturn x / s, s",
        {"x": "torch.rand(M, N, generator=g)", "out": empty("M", "N"), "s": empty("M", "1"), **MN},
        SIZES,
        ("out", "s"),
    ),
    "mean_cross_entropy": source(
        "return F.cross_entropy(x, t)",
        {"x": randn("M", "N"), "t": "torch.randint(0, N, (M,), generator=g)", "out": empty(), **MN},
        SIZES,
    ),
    "bias_gelu": source(
        "return F.gelu(x + b)", {"x": randn("M", "N"), "b": randn("N"), "out": empty("M", "N"), **MN}, SIZES
    ),
    "softmax": source("return F.softmax(x, -1)", {"x": randn("M", "N"), "out": empty("M", "N"), **MN}, SIZES),
    "softmax_by_hand": source(
        "x = x / N**0.5\nx = x - x.max(dim=1, keepdim=True).values\ne = x.exp()\nout[:] = e / e.sum(dim=1, "
        "keepdim=True)",
        {"x": randn("M", "N"), "out": empty("M", "N"), **MN},
        SIZES,
    ),
    "layer_norm": source(
        "return F.layer_norm(x, (x.shape[-1],), w, b, eps)",
        {"x": randn("M", "N"), "w": randn("N"), "b": randn("N"), "eps": "eps", "out": empty("M", "N"), **MN},
        {**SIZES, "eps": 1e-5},
    ),
    "rms_norm": source(
        "return F.rms_norm(x, (N,), w, 1e-6)",
        {"x": randn("M", "N"), "w": randn("N"), "out": empty("M", "N"), **MN},
        SIZES,
    ),
    "column_statistics": source(
        "return x.mean(0), x.var(0)",
        {"x": randn("M", "N"), "mean": empty("N"), "var": empty("N"), **MN},
        SIZES,
        ("mean", "var"),
    ),
    "argmax_of_few_columns": source(
        "return torch.argmax(x, dim=1)",
        {"x": randn("M", "N", "15"), "out": empty("M", "15", dtype="int64"), **MN},
        {"M": 16, "N": 16},
    ),
    "argmax_and_max": source(
        "v, i = torch.max(x, dim=-1)\nreturn v, i",
        {"x": randn("M", "N"), "best": empty("M"), "where": empty("M", dtype="int64"), **MN},
        SIZES,
        ("best", "where"),
    ),
    "integers": source(
        "y = x // 3 + x % 5\nreturn torch.where(y > t, y, -y), (y > t).sum(1)",
        {
            "x": "torch.randint(-50, 50, (M, N), generator=g, dtype=torch.int32)",
            "t": "4",
            "out": empty("M", "N", dtype="int32"),
            "count": empty("M", dtype="int64"),
            **MN,
        },
        SIZES,
        ("out", "count"),
    ),
    "transposed_clamped": source(
        "return torch.clamp(x.t().reshape(N, M), -1.0, 1.0).tanh()",
        {"x": randn("M", "N"), "out": empty("N", "M"), **MN},
        SIZES,
    ),
    "rotary": source(
        "x1, x2 = x.chunk(2, dim=-1)\nreturn torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), dim=-1)",
        {"x": randn("M", "2 * N"), "c": randn("M", "N"), "s": randn("M", "N"), "out": empty("M", "2 * N"), **MN},
        SIZES,
    ),
    "rows_looked_up": source(
        "return F.embedding(i, w) * a",
        {
            "i": "torch.randint(0, V, (M,), generator=g)",
            "w": randn("V", "N"),
            "a": "1.5",
            "out": empty("M", "N"),
            **MN,
            "V": "V",
        },
        {**SIZES, "V": 30},
    ),
    "cross_entropy": source(
        "return F.cross_entropy(x, t, reduction='none')",
        {"x": randn("M", "N"), "t": "torch.randint(0, N, (M,), generator=g)", "out": empty("M"), **MN},
        SIZES,
    ),
    "differences": source(
        "out[:, 0] = 0\nout[:, 1:] = x[:, 1:] - x[:, :-1]", {"x": randn("M", "N"), "out": empty("M", "N"), **MN}, SIZES
    ),
    "blur": source(
        "p = F.pad(x, (1, 1, 1, 1))\nreturn (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + p[1:-1, "
        "1:-1]) / 5",
        {"x": randn("M", "N"), "out": empty("M", "N"), **MN},
        SIZES,
    ),
    "in_place": source(
        "x.mul_(0.5).add_(g)\nout.copy_(x.amax(1))",
        {"x": randn("M", "N"), "g": randn("M", "N"), "out": empty("M"), **MN},
        SIZES,
        extra='inout = ("x",)',
    ),
    "in_place_returned": source(
        "return torch.softmax(x + x.flip(0), 1), x.amax(1)",
        {"x": randn("M", "N"), "out": empty("M"), **MN},
        SIZES,
        extra='inout = ("x",)',
    ),
}
