"""From what a model wrote to a typed answer."""
