"""The agent's conversation loop and the five roles."""
