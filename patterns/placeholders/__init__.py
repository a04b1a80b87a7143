"""Placeholders of custom ops, and what exporters write of ops that they half know."""
