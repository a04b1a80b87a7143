"""Reshape, Transpose and other nodes that only move data."""

CLEANUP = True  # these rules prepare a model for others, so a summary counts their sites as one
