"""Scales and batch normalisation, folded into weights."""
