"""Foreign code shut in, what it may not change, and the channel to it."""
