"""Tools that a model may call while it answers, and the workbench behind the coder's tools."""
