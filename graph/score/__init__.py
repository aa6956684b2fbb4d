"""The score of a suite: one run for each problem, and one table of the results."""
