"""Recipes in files, and runs over many models.

It must not import commands.  Start with `recipes/run_recipe.py` and `fleet/run_many.py`.
"""

__all__ = ["fleet", "recipes"]
