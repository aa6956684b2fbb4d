"""Buffers of inputs and outputs, on the host and on a GPU."""
