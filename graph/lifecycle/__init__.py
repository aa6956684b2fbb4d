"""What begins, resumes, ends or looks at a run: one module a verb, and what they share."""
