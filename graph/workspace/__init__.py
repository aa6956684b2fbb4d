"""The workspace of a run: folder, lock, clock, events, versions, their audit, and the detection of foreign changes."""
