"""Figures of report.html: inline SVG that we draw ourselves, with neither script nor font nor network."""
