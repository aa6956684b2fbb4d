"""Executors run jobs beside devices: one file each, named in `base.EXECUTORS`."""
