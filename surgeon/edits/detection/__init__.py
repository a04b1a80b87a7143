"""Appends post-processing to detectors: finds and decodes the head, and suppresses boxes."""

__all__ = ["nms", "nms_free", "postprocessing_edits"]
