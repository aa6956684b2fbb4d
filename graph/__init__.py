"""Decides what happens next: the LangGraph state machine, its workspace and its reports."""
