"""Questions to wiki, outcomes and reference projects: by words, by vectors, and cited by line."""
