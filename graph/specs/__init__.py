"""The Hardware Spec of a run, and the handling of figures that the wiki lacks."""
