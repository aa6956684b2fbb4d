"""The precision in which torch, and Triton's interpreter, compute."""
