"""The model-free provider: rules over findings, methods from the wiki, recipes that edit source, search over knobs."""
