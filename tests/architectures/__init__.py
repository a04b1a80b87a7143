"""Whole architectures with random weights, exported by both exporters, and what torch ran in them."""
