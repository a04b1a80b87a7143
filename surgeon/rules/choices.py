"""The choices of a set of rules: families of fusions that may stay out, and forms of one fusion."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from surgeon.rules.catalogue import families, forms
from surgeon.rules.rule import Rule

FUSED, NODES = "fused", "nodes"
Decision = Mapping[str, str]
"""A form for each choice, by its name."""


@dataclass(frozen=True)
class FormChoice:
    """Forms that exclude each other; the first one is the default."""

    name: str
    """Name, such as "residual"."""
    forms: Mapping[str, frozenset[str]]
    """Names of the rules of each form."""

    @property
    def default(self) -> str:
        """The form that the rules write without a choice."""
        return next(iter(self.forms))

    @property
    def rules(self) -> frozenset[str]:
        """The rules of all forms."""
        return frozenset().union(*self.forms.values())


@dataclass(frozen=True)
class RuleChoices:
    """The choices of selected rules for an execution provider."""

    choices: Sequence[FormChoice]
    """Choices with at least two forms."""
    enabled: frozenset[str]
    """Names of the rules that run without a choice."""

    @property
    def defaults(self) -> Decision:
        """The default form of each choice."""
        return {choice.name: choice.default for choice in self.choices}

    def running(self, decision: Decision) -> frozenset[str]:
        """Names of the rules that run for a decision."""
        chosen = frozenset(chain.from_iterable(one.forms[decision[one.name]] for one in self.choices))
        return self.enabled.difference(*(one.rules for one in self.choices)) | chosen

    def neighbours(self, decision: Decision, fired: Set[str]) -> Iterator[Decision]:
        """The decisions that differ in one form, as far as that can change the model and leaves a rule.

        fired: names of the rules that fired with this decision.
        """
        here = self.running(decision)
        for choice in self.choices:
            for form in choice.forms:
                other = {**decision, choice.name: form}
                rules = self.running(other)
                if rules and ((here - rules) & fired or rules - here):
                    yield other

    def selectors(self, decision: Decision) -> list[str]:
        """The rules to add and to leave out for a decision, as `--rules` takes them: "name" and "-name"."""
        rules = self.running(decision)
        return [*sorted(rules - self.enabled), *(f"-{name}" for name in sorted(self.enabled - rules))]


def choices_among(rules: Sequence[Rule], provider: str | None) -> RuleChoices:
    """The choices among rules.  provider: execution provider that decides which form is the default."""
    selected = {rule.name for rule in rules}
    enabled = frozenset(rule.name for rule in rules if rule.ep in (None, provider))
    found = [_in_order(name, table, selected, enabled) for name, table in forms().items()]
    in_forms = frozenset().union(*(choice.rules for choice in found))
    for name, beginnings in families().items():
        members = {rule.name for rule in rules if rule.module.startswith(beginnings)} & enabled - in_forms
        found.append(FormChoice(name, {FUSED: frozenset(members)} | ({NODES: frozenset()} if members else {})))
    return RuleChoices([choice for choice in found if len(choice.forms) > 1], enabled)


def _in_order(name: str, table: Mapping[str, Sequence[str]], selected: Set[str], enabled: Set[str]) -> FormChoice:
    """A choice with the selected rules of its forms, each set of rules once; the form of the enabled rules is first."""
    found = {frozenset(rules) & selected: form for form, rules in table.items()}
    here = frozenset(chain.from_iterable(table.values())) & enabled
    return FormChoice(name, {found.pop(here, "as selected"): here} | {form: rules for rules, form in found.items()})
