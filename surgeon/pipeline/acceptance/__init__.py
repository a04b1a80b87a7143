"""Whether a match is rewritten: conditions, kernels, repeats, and what nearly matched."""

__all__ = ["already_fused", "kernel_support", "match_acceptance", "near_misses", "op_history"]
