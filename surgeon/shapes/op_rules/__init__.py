"""Rules of each op for shapes, values and sizes, and for newer opsets.

rule_table         the shape rules
values             rules for integers that a model computes from sizes
size_constraints   sizes that an op requires of its inputs
axis_labels        axes that correspond
layout_laws        how an op computes the same in another layout
element_origins    sources of an output's elements
size_inputs        inputs that set sizes of the output
opset_adapters     changes for a newer opset
"""

__all__ = [
    "axis_labels",
    "control_flow",
    "data_movement",
    "element_origins",
    "indexing",
    "layout_laws",
    "opset_adapters",
    "rule_table",
    "size_constraints",
    "size_inputs",
    "values",
]
