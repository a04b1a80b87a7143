"""Static analyses of a graph: the roles of inputs, and the numbers at which comparisons and rounding decide.

It runs nothing, so it must not import `runtime` or anything above.  Start with `input_roles.py`.
"""

__all__ = ["decisions", "input_dependence", "input_roles"]
