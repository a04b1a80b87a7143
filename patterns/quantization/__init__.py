"""Quantised products and convolutions, and weights in blocks."""
