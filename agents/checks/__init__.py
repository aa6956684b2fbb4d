"""What is refused in an answer: faults of drafts, figures without a source, references that are none."""
