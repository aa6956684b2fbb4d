"""What was tried before: the log of outcomes, what it says of a kernel, and how it is shared."""
