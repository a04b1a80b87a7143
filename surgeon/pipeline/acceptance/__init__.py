"""Which matches are rewritten, and why others are not."""

__all__ = ["already_fused", "kernel_support", "match_acceptance", "near_misses", "op_history"]
