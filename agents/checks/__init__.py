"""Checks of answers: faults in drafts, and figures and citations that do not resolve."""
