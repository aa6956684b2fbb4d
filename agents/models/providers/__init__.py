"""Model providers: the Messages API, chat completions, a program, a person, a recording."""
