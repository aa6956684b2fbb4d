"""Turns a brief into a prompt: templates, sections, token budgets, and past attempts."""
