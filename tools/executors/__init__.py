"""Places where jobs run: one file each, named in `base.EXECUTORS`."""
