"""Kernels, compilers, devices, measurement and git; nothing here uses a language model."""
