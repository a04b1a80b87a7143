"""Placeholders of custom ops, and invalid nodes that exporters write."""
