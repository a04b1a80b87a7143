"""Inputs at which a comparison, a rounding or a sort decides otherwise."""

__all__ = ["joint_inputs", "sort_ties", "threshold_solver", "thresholds"]
