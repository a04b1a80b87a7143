"""Recipes in files, runs over many models, and the gate.

It must not import commands.  Start with `recipes/run_recipe.py`, `fleet/run_many.py` and `gate/run_gate.py`.
"""

__all__ = ["fleet", "gate", "recipes"]
