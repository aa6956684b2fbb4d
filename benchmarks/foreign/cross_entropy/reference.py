"""Cross-entropy of each row: what kernel.cpp must compute."""

import torch
import torch.nn.functional as F

outputs = ("loss",)
workloads = (
    {"name": "512x8192", "dims": {"rows": 512, "classes": 8192}},
    {"name": "65x1003", "dims": {"rows": 65, "classes": 1003}},
)
dims_range = {"rows": (1, 512), "classes": (2, 8192)}


def make_inputs(dims: dict, seed: int) -> dict:
    """Arguments of the kernel by name, in its order."""
    g = torch.Generator().manual_seed(seed)
    rows, classes = dims["rows"], dims["classes"]
    logits, target = torch.randn(rows, classes, generator=g), torch.randint(0, classes, (rows,), generator=g)
    return {"logits": logits, "target": target, "loss": torch.empty(rows), "rows": rows, "classes": classes}


def reference(logits: torch.Tensor, target: torch.Tensor, loss: torch.Tensor, rows: int, classes: int) -> torch.Tensor:
    """logits: (rows, classes), target: (rows,) int64. Returns (rows,)."""
    return F.cross_entropy(logits, target, reduction="none")
