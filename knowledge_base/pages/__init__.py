"""The wiki's pages, the names of metrics and products in them, and figures of hardware."""
