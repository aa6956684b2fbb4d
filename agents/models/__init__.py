"""What answers prompts: the seam, keys, prices and the ledger; who does is in `providers` and, built in, `playbook`."""
