"""Handlers for forms of kernel sources: each gives the model a hint, and restores what a draft lost."""
