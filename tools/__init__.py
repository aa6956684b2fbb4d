"""Kernels, compilers, devices, measurement and git; this layer knows no language model."""
