"""Nodes without effect, constant nodes, and duplicates."""

CLEANUP = True  # these rules prepare a model for others, so a summary counts their sites as one
