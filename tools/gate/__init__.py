"""Derives verdicts from measurements: statistics, confirmation, the judge's settings, the final benchmark (pure)."""
