"""Convolution and pooling, and what exporters write around them."""
