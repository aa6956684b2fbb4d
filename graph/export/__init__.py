"""The accepted kernel as others take it: a module, a patch, an extension, a solution of a suite."""
