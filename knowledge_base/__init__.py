"""Remembers: the gpu-wiki, cited specs, search, and outcomes of past attempts."""
