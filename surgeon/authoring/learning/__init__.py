"""A rule written from example models: their common structure, and the values that vary."""

__all__ = ["codegen", "generalise", "known_rules", "learn", "relaxation", "terms"]
