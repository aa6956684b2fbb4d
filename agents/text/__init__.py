"""Text of sources and answers: code apart from comments, fences, and what an answer elides."""
