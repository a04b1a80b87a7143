"""Nodes that do nothing, are computed from constants, or are there twice."""

CLEANUP = True  # these rules prepare a model for others, so a summary counts their sites as one
