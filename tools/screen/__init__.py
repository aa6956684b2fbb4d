"""What a source is refused for before anything of it runs (pure)."""
