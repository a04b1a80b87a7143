"""Variants of an attention's parts, written in the one form that the attention rules match."""
