"""Cross-entropy of M rows of V logits with one target each, without reduction: what kernel.py must compute."""

import torch

outputs = ("loss",)
workloads = (
    {"name": "2048x50257", "dims": {"M": 2048, "V": 50257}, "weight": 1.0},
    {"name": "1024x128256", "dims": {"M": 1024, "V": 128256}, "weight": 1.0},
    {"name": "2048x32000", "dims": {"M": 2048, "V": 32000}, "weight": 1.0},
)
dims_range = {"M": (256, 2048), "V": (8192, 65536)}


def make_inputs(dims: dict, seed: int, device: str = "cpu") -> dict:
    """Arguments of run_kernel by name."""
    rows, vocabulary = dims["M"], dims["V"]
    generator = torch.Generator(device).manual_seed(seed)
    logits = torch.randn(rows, vocabulary, generator=generator, device=device)
    targets = torch.randint(0, vocabulary, (rows,), generator=generator, device=device)
    return {"logits": logits, "targets": targets, "loss": torch.empty(rows, device=device), "M": rows, "V": vocabulary}


def reference(logits: torch.Tensor, targets: torch.Tensor, loss: torch.Tensor, M: int, V: int) -> torch.Tensor:
    """logits: (M, V) float32, or float64 for the oracle; targets: (M,) int64. Returns (M,) in the dtype of logits."""
    return torch.nn.functional.cross_entropy(logits, targets, reduction="none")
