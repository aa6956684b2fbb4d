"""The commands that start, resume, check, verify, export or change a run."""
