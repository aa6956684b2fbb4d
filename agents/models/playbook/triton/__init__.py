"""Recipes for Triton kernels, on the Python syntax tree: one file each, named in `playbook.recipe.RECIPES`."""
