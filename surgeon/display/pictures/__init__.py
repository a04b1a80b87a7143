"""Graphs drawn as SVG."""

__all__ = ["diagram", "draw", "interval_plot", "pattern_diagram", "svg"]
