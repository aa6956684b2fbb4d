"""The budget of a run: time limits of jobs, the reserve for the final benchmark, and estimates of cost."""
