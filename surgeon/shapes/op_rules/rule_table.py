"""All shape rules in one table, by qualified op."""

from collections.abc import Sequence

from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.op_rules import (
    attention,
    control_flow,
    creation,
    data_movement,
    elementwise,
    indexing,
    layers,
    matmul_conv,
    reductions,
    sequences,
)
from surgeon.shapes.op_rules.axis_labels import AxisLabels, LabelRule, rank, same_axes
from surgeon.shapes.op_rules.declared_plugins import declared
from surgeon.shapes.tensor_types import NodeView, PartialType, Rule, TensorType, require, run_rule

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

LABELS: dict[str, LabelRule] = {
    **elementwise.LABELS,
    **attention.LABELS,
    **data_movement.LABELS,
    **matmul_conv.LABELS,
    **creation.LABELS,
    **reductions.LABELS,
    **indexing.LABELS,
    **control_flow.LABELS,
    **layers.LABELS,
}

BY_FACTS = elementwise.BY_FACTS | matmul_conv.BY_FACTS
"""Ops with one output whose rules use only the opset and the facts of all inputs."""


def by_rule(site: NodeView) -> Sequence[PartialType | TensorType]:
    """The types by the rule of an op, or by the declaration of a plugin; nothing without either.

    Raises CannotInfer for a node that does not fit the declared opset.
    """
    require(not site.is_misread)
    return RULES[site.node.op](site) if site.node.op in RULES else declared(site)


def axis_labels(view: NodeView) -> AxisLabels | None:
    """The labels of the axes of an op; None if they are unknown."""
    rule = LABELS.get(view.op) or _label_rule_by_traits(view.op)
    return None if rule is None else run_rule(_checked, rule, view)


def _checked(rule: LabelRule, view: NodeView) -> AxisLabels:
    """Labels, one for each axis."""
    labels = rule(view)
    require(all(len(axes) == rank(view, position) for position, axes in labels.inputs.items()))
    return labels


def _label_rule_by_traits(op: str) -> LabelRule | None:
    traits = traits_of(op)
    rules = (
        (traits.products.factors, matmul_conv.product_axes),
        (traits.products.attention_inputs, attention.samples),
        (traits.numerics.is_softmax, elementwise.along_softmax),
        (traits.numerics.reduces, reductions.reduced),
        (traits.operands.channel_vectors, elementwise.per_channel),
        (traits.operands.last_axis_vectors or traits.numerics.norm_axis is not None, elementwise.with_vectors),
        (traits.shape.broadcasts, elementwise.aligned),
        (traits.keeps_shape or traits.dtype.is_cast, same_axes),
    )
    return next((rule for trait, rule in rules if trait), None)
