"""The accepted kernel in other formats: a Python module, a patch, operators, an extension, a solution of a suite."""
