"""What is refused in an answer: faults of drafts, and figures and citations that do not resolve."""
