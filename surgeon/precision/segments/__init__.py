"""Segments of a converted model, each compared with float64."""

__all__ = ["segment_proofs", "selected_rows"]
