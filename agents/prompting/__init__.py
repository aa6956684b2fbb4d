"""From a brief to a prompt: templates, sections, what fits in a budget, and past attempts."""
