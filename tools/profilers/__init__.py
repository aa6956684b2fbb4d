"""Profilers: one file each, named in `base.PROFILERS`."""
