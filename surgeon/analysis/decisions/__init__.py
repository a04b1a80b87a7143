"""Input values at which a comparison, a rounding or a sort changes its result."""

__all__ = ["decision_sides", "joint_inputs", "sort_ties", "threshold_solver", "thresholds"]
