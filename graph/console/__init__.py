"""The output of a run at a terminal: lines and the live view."""
