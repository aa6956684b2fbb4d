"""The contract of a task: dims, inferred arguments, and the cases that a candidate is checked on (pure functions)."""
