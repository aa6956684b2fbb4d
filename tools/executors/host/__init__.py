"""Runs jobs where the device is: the standard library (Python 3.10) and tools.harness, to be sent to any host."""
