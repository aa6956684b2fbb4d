"""Cited figures of hardware: the one maker of a Spec, the sheets, measured roofs as pages, and lint."""
