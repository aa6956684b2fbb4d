"""Compiles, interprets and caches kernels for GPUs without a device."""
