"""Operators: schemas of ONNX and ONNX Runtime at each opset, traits beyond them, and the graph that rules build on.

This package knows operators but not models, so it must not import `ir` or anything above.  Start with `schemas` and
`traits/op_traits.py`; `builder` contains `surgeon.Graph`, on which rules write nodes.  Importing this package loads
nothing.
"""

__all__ = ["builder", "plugins", "schemas", "torch_fallbacks", "torch_schema", "traits", "traversal"]
