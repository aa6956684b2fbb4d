"""Parsing of a model's text into a typed answer."""
