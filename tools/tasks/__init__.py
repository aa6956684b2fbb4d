"""A task from a folder or a file: what is inferred, frozen, and pinned of its autotuning."""
