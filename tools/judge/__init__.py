"""The judge: builds, checks, times and confirms one candidate; each result is one record."""
