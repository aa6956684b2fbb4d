"""Kernel languages: one file each, named in `base.LANGUAGES`."""
