"""Patterns by example: exported models are compared, and what they have in common becomes a pattern's source text."""
