"""What each op does with shapes, values and sizes, and at each opset.

`rule_table` has the shape rules, `values` the rules for integers that a model computes from sizes, `size_constraints`
what an op requires of the sizes of its inputs, `axis_labels` what follows from axes that are one, `element_origins`
which elements of the inputs an output holds, `size_inputs` which numbers among the inputs set sizes of the output, and
`opset_adapters` what has to change at a newer opset.
"""

__all__ = [
    "axis_labels",
    "control_flow",
    "data_movement",
    "element_origins",
    "indexing",
    "opset_adapters",
    "rule_table",
    "size_constraints",
    "size_inputs",
    "values",
]
