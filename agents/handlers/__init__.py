"""Plug-ins for shapes of kernels: what a model is told of a shape, and what is put back in a draft that lost a part
of it."""
