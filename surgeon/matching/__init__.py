"""Patterns, and where they fit.  Nothing here edits."""
