"""Types, shapes and values of tensors, inferred from the ops' own rules over symbolic sizes.

It runs no model, so it must not import `runtime` or anything above.  Start with `index_shapes.py`, then
`shape_inference.py` and one file of `op_rules`.
"""

__all__ = [
    "algebra",
    "constraints",
    "dtype_inference",
    "hypothetical_shapes",
    "index_shapes",
    "non_tensor_types",
    "onnx_inference",
    "op_rules",
    "opsets",
    "scope_inputs",
    "shape_inference",
    "tensor_types",
]
