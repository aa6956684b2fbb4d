"""RUNS BESIDE THE DEVICE: stdlib, and torch in the oracle; imports nothing of ours, copied into each job."""
