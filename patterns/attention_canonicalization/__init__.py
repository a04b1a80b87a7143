"""Variants of an attention's parts, written in the one form that the attention rules match."""

CLEANUP = True  # these rules prepare a model for others, so a summary counts their sites as one
