"""What a report says, read back from records and version files."""
