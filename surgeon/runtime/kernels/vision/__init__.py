"""Formulas of ops on pictures and boxes."""

__all__ = ["deformable", "grid_sample", "non_max_suppression", "resize", "roi_align"]
