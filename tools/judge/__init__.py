"""One candidate put to build, correctness, timing and confirmation, each answer one record."""
