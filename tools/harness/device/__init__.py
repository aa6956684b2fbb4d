"""The device itself: the processes on it, its clocks, its roofs, and NVIDIA's profiling tools."""
