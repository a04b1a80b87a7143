"""A recipe: read from a file, and run step by step."""

__all__ = ["recipe", "recipe_file", "recipe_report", "run_recipe"]
