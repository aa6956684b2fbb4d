"""Confines a candidate's code, checks what it may not change, and carries messages to and from it."""
