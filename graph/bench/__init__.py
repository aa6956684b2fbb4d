"""The bench: a coding agent of the user's works on the kernel of a run through tools, and cannot get past the judge."""
