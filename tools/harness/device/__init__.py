"""The device itself: the processes on it, its clocks, the precision of torch's products, its roofs, and NVIDIA's
profiling tools."""
