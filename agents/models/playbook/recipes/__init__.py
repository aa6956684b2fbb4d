"""Recipes for C++ kernels, on the concrete syntax tree: one file each, named in `playbook.recipe.RECIPES`."""
