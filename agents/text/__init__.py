"""Text of sources and answers: comments and strings apart from code, and fences for prompts."""
