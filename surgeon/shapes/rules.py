"""All rules in one table: qualified op to what it says of its outputs."""

from surgeon.shapes import attention, elementwise, layout, linear, making, reducing, selecting
from surgeon.shapes.facts import Rule

RULES: dict[str, Rule] = {
    **attention.RULES,
    **elementwise.RULES,
    **layout.RULES,
    **linear.RULES,
    **making.RULES,
    **reducing.RULES,
    **selecting.RULES,
}

BY_FACTS = elementwise.BY_FACTS | linear.BY_FACTS
"""Ops whose rules look at nothing but the opset and the facts of all inputs, and that have one output."""
