"""Nodes that do nothing, are computed from constants, or are there twice."""
