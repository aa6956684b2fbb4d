"""A run's folder: its lock, clock and events, what a version must hold, what is not the run's, and its versions."""
