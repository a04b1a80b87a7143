"""Convolution and pooling, and nodes that exporters write around them."""
