"""Readers of external wikis: JSON records and plain Markdown pages -> hardware figures."""
