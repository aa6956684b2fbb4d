"""A run's folder: its lock, clock and events, what a version must hold, and older layouts."""
