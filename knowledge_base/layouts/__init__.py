"""Wikis of other people: JSON records, architecture-first, role-first or plain Markdown -> Figures."""
