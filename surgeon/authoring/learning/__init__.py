"""A rule written from example models: what they share, and what varies."""

__all__ = ["codegen", "generalise", "known_rules", "learn", "relaxation", "terms"]
