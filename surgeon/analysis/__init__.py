"""What follows from a graph's nodes about its tensors: the roles of inputs, and the numbers at which decisions turn.

It runs nothing, so it must not import `runtime` or anything above.  Start with `def_use.py` and `input_roles.py`.
"""

__all__ = ["decisions", "def_use", "input_dependence", "input_roles"]
