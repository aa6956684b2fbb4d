"""In what precision torch multiplies float32: one for the oracle, torch as a contestant, and a candidate that calls
torch's library."""


def set_precision(precision: str) -> None:
    """float32 products at the task's precision: IEEE, or TF32 or bfloat16 where the hardware has them; nothing else
    in torch decides."""
    import torch

    torch.set_float32_matmul_precision({"ieee": "highest", "tf32": "high", "bf16": "medium"}[precision])
    torch.backends.cudnn.allow_tf32 = precision != "ieee"
