"""Graphs drawn as SVG."""

__all__ = ["diagram", "draw", "pattern_diagram", "svg"]
