"""Records the calls of one function while the user's program runs, in that program's own Python."""
