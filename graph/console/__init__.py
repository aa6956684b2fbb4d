"""A run as it is seen at a terminal: lines, and the live view."""
