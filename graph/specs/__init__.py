"""The spec sheet of a run, and what is done about specs that the wiki lacks."""
