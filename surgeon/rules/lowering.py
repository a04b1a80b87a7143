"""Rules that decompose the results of other rules, for targets that do not run them."""

from dataclasses import replace

from surgeon.errors import RuleError
from surgeon.rules.rule import Rule
from surgeon.target_registry import ANY_KIND


def lowering(of: Rule, module: str) -> Rule:
    """A rule that decomposes the result of another rule if the target does not run it, and fuses nothing.

    It fires once no other rule finds anything, so that ops that the target does run are written first.

    Args:
        of: the rule; its first pattern, or its form "decomposed", gives the parts of the op.
        module: the name of the module that defines the new rule: `__name__`.

    Returns:
        The new rule, named `lower_` and the name of the other.

    Raises:
        RuleError: the other rule writes no op that surgeon can recognise.

    Examples:
        >>> from surgeon import lowering
        >>> from surgeon.patterns.activations.bias_gelu import bias_gelu
        >>> lowering(bias_gelu, __name__).name
        'lower_bias_gelu'
    """
    patterns = of.lowered()
    if not patterns:
        raise RuleError(f"Rule {of.name} ({of.where}) writes no op that surgeon can recognise and decompose.")
    doc = f"Decompose the result of rule {of.name} if the target does not run it.\n\nNumerics: as in rule {of.name}."
    made = replace(
        of,
        name=f"lower_{of.name}",
        patterns=patterns,
        forms=[],
        conditions=of.conditions_of(of.in_parts),
        doc=doc,
        module=module,
        ep=None,
        unsuited={},
        lacking=True,
        last=True,
        _compiled={},
        _traceable={},
    )
    made.on(ANY_KIND)(of.in_parts.function)
    return made
