"""Layer normalisation over the columns, then GELU in its tanh form: what kernel.cpp must compute."""

import torch

outputs = ("out",)
workloads = (
    {"name": "256x768", "dims": {"rows": 256, "columns": 768}},
    {"name": "200x1000", "dims": {"rows": 200, "columns": 1000}},
)
dims_range = {"rows": (16, 256), "columns": (64, 1024)}


def make_inputs(dims, seed):
    """Arguments of the kernel by name, in its order."""
    rows, columns = dims["rows"], dims["columns"]
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=random)
    gamma, beta = torch.randn(2, columns, generator=random).unbind()
    return {
        "x": x,
        "gamma": 1 + 0.1 * gamma,
        "beta": 0.1 * beta,
        "out": torch.empty_like(x),
        "rows": rows,
        "columns": columns,
    }


def reference(x, gamma, beta, out, rows, columns):
    """x: (rows, columns), gamma and beta: (columns,); float32, or float64 for the oracle. Returns the shape and
    dtype of x."""
    y = torch.nn.functional.layer_norm(x, (columns,), gamma, beta, 1e-5)
    return torch.nn.functional.gelu(y, approximate="tanh")
