"""The functions of a rule, called once to record the pattern that they build."""

__all__ = ["annotations", "axis_layouts", "declared_captures", "tracer"]
