"""Variants of the parts of an attention, rewritten to the one form that the attention rules match."""

CLEANUP = True  # these rules prepare a model for others, so a summary counts their sites as one
