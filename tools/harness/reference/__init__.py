"""What the reference says: contract, expected outputs, comparison, and the probe."""
