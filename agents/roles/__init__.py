"""The loop of an agent and the five roles."""
