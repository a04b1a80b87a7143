"""What each op does with shapes, values and sizes, and at each opset.

`rule_table` has the shape rules, `values` the rules for integers that a model computes from sizes, `size_constraints`
what an op requires of the sizes of its inputs, `element_origins` and `mixed_sizes` which elements of the inputs an
output holds or combines, and `opset_adapters` what has to change at a newer opset.
"""

__all__ = [
    "control_flow",
    "data_movement",
    "element_origins",
    "indexing",
    "mixed_sizes",
    "opset_adapters",
    "rule_table",
    "size_constraints",
    "values",
]
