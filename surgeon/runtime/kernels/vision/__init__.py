"""Formulas of ops on images and boxes."""

__all__ = ["deformable", "grid_sample", "non_max_suppression", "resize", "roi_align"]
