"""All rules in one table: qualified op to what it says of its outputs."""

from collections.abc import Sequence

from surgeon.shapes.op_rules import (
    attention,
    creation,
    data_movement,
    elementwise,
    indexing,
    matmul_conv,
    reductions,
    sequences,
)
from surgeon.shapes.op_rules.declared_plugins import declared
from surgeon.shapes.tensor_types import NodeView, PartialType, Rule, TensorType, require

RULES: dict[str, Rule] = {
    **attention.RULES,
    **elementwise.RULES,
    **data_movement.RULES,
    **matmul_conv.RULES,
    **creation.RULES,
    **reductions.RULES,
    **indexing.RULES,
    **sequences.RULES,
}

BY_FACTS = elementwise.BY_FACTS | matmul_conv.BY_FACTS
"""Ops whose rules look at nothing but the opset and the facts of all inputs, and that have one output."""


def by_rule(site: NodeView) -> Sequence[PartialType | TensorType]:
    """What the rule of an op says, or the declaration of a plugin; nothing where there is neither.

    Raises CannotInfer for a node that does not belong to the declared opset.
    """
    require(not site.is_misread)
    return RULES[site.node.op](site) if site.node.op in RULES else declared(site)
