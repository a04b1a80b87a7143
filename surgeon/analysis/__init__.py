"""Static analyses of a graph: the roles of inputs, and the numbers at which comparisons and rounding decide.

This package runs nothing, so it must not import `runtime` or anything above.  Start with `dataflow.py`, which solves
the equations of an analysis, and `input_roles.py`.
"""

__all__ = ["assumptions", "dataflow", "decisions", "decoder_graph", "input_dependence", "input_roles", "integer_range"]
