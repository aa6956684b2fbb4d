"""The device itself: who is on it, what its clocks do, its roofs, and ncu."""
