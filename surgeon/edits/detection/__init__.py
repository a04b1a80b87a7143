"""Post-processing of detectors: what a head's columns are, and the nodes that finish them."""

__all__ = ["nms", "nms_free", "postprocessing_edits"]
