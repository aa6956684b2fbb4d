"""Sets the precision of torch's float32 products, the same for the oracle, torch as a contestant, and candidates that
call torch."""


def set_precision(precision: str) -> None:
    """Set the precision of float32 products to the task's: IEEE, or TF32 or bfloat16 where the hardware has it."""
    import torch

    torch.set_float32_matmul_precision({"ieee": "highest", "tf32": "high", "bf16": "medium"}[precision])
    torch.backends.cudnn.allow_tf32 = precision != "ieee"
