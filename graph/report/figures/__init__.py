"""Charts of report.html: matplotlib draws them as inline SVG, with neither script nor font nor network."""
