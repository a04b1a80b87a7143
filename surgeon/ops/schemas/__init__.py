"""Operator schemas for the rest of surgeon: look-up, binding of a helper's arguments, and checks of nodes.

This module only re-exports: `op_schema` has the schemas, `argument_binding` binds arguments, `node_check` checks nodes.
"""

from surgeon.ops.schemas.argument_binding import BoundArguments, bind
from surgeon.ops.schemas.attribute_values import dtype_number, element_type, type_string
from surgeon.ops.schemas.node_check import check_node, infer_output_dtypes
from surgeon.ops.schemas.op_schema import (
    VARIADIC,
    AttributeSpec,
    FormalParameter,
    Schema,
    attributes_become_inputs,
    domains,
    history,
    is_meaningless,
    knows_domain,
    only_ort_knows,
    operators,
    schema,
    variables,
)

__all__ = [
    "VARIADIC",
    "AttributeSpec",
    "BoundArguments",
    "FormalParameter",
    "Schema",
    "attributes_become_inputs",
    "bind",
    "check_node",
    "domains",
    "dtype_number",
    "element_type",
    "history",
    "infer_output_dtypes",
    "is_meaningless",
    "knows_domain",
    "only_ort_knows",
    "operators",
    "schema",
    "type_string",
    "variables",
]
