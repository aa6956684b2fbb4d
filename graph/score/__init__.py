"""Many problems, each an ordinary run, and one table of what they came to."""
