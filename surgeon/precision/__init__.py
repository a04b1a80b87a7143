"""Conversion to another precision: which nodes keep their dtype, and proof of the rest; rounding of weights.

It must not import commands.  Start with `convert.py`, `planning/dtype_plan.py` and `segments/segment_proofs.py`.
"""

__all__ = ["convert", "convert_report", "weights"]
