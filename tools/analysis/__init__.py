"""What machine code and counters mean: instruction mixes of loops, findings of rules, and where the time goes."""
