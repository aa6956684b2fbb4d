"""Roofs of the device, cited or measured, and the times that no kernel can beat."""
