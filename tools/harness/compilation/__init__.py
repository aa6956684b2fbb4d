"""Triton kernels compiled, interpreted and cached without a device."""
