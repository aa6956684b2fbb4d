"""Profilers, one file each, listed in `base.PROFILERS`, and the diagnosis of Nsight Compute reports."""
