"""Kernel languages: one file each, listed in `base.LANGUAGES`."""
