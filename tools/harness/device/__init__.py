"""The device itself: who is on it, what its clocks do, how torch multiplies there, its roofs, and ncu."""
