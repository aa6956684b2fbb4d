"""What a kernel is called with: dims, inferred arguments, and the workloads nobody is shown (pure)."""
