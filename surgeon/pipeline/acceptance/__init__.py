"""Decides which matches are rewritten, and explains why others are not."""

__all__ = ["already_fused", "kernel_support", "match_acceptance", "near_misses", "op_history"]
