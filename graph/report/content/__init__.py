"""The content of reports and version files, computed from records."""
