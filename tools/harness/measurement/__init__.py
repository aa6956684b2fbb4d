"""Correctness and times, as the supervisor sees them."""
