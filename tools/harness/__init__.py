"""RUNS BESIDE THE DEVICE: the standard library, and torch in some processes; it imports no other package of
Kernelwright and is copied into each job."""
