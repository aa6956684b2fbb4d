"""Reads a reference: its contract, expected outputs, comparison, and the probe."""
