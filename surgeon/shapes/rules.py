"""All rules in one table: qualified op to what it says of its outputs."""

from collections.abc import Sequence

from surgeon.shapes import attention, elementwise, layout, linear, making, reducing, selecting, sequences
from surgeon.shapes.declared import declared
from surgeon.shapes.facts import Draft, Facts, NodeView, Rule, require

RULES: dict[str, Rule] = {
    **attention.RULES,
    **elementwise.RULES,
    **layout.RULES,
    **linear.RULES,
    **making.RULES,
    **reducing.RULES,
    **selecting.RULES,
    **sequences.RULES,
}

BY_FACTS = elementwise.BY_FACTS | linear.BY_FACTS
"""Ops whose rules look at nothing but the opset and the facts of all inputs, and that have one output."""


def by_rule(site: NodeView) -> Sequence[Draft | Facts]:
    """What the rule of an op says, or the declaration of a plugin; nothing where there is neither.

    Raises Unknown for a node that does not belong to the declared opset.
    """
    require(not site.is_misread)
    return RULES[site.node.op](site) if site.node.op in RULES else declared(site)
