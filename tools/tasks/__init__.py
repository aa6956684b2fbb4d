"""Load tasks from folders, files, traces and benchmark suites; freeze them for a run and pin their autotuning."""
