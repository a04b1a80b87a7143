"""Quantisation of stored weights by rounding to nearest, block by block: the layers, their data, and the losses."""

__all__ = ["quantize", "quantize_report", "weight_rounding"]
