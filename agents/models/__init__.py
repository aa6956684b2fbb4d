"""Models that answer prompts: interface, keys, prices and ledger. `providers` and `playbook` implement it."""
