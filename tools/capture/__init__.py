"""Runs a user's program once with a recorder beside it, and writes a task folder from the calls that it saw."""
