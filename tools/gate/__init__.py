"""From measurements to a verdict: statistics, confirmation, policy, the final benchmark (pure)."""
