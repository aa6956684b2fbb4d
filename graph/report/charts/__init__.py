"""The report's charts."""
