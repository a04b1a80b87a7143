"""Finds existing rules that match a learned form, by running them on its examples."""

from collections.abc import Sequence

from surgeon.authoring.learning.learn import LearnedForm, LearnedOperation
from surgeon.authoring.learning.terms import Example
from surgeon.errors import SurgeonError
from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.pipeline.rewriting.rewrite import find
from surgeon.rules.catalogue import all_rules
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import MatchState
from surgeon.rules.rule import Rule

TARGETS = ("contrib", "decomposed")  # together they cover every form of a rule


def remark(lesson: LearnedOperation) -> None:
    """Record for each form the rules that match it or a part of it."""
    found = [rule for _, _, rule in all_rules()]
    rules = [rule for rule in found if rule.search is None and not all(form.kind == "any" for form in rule.forms)]
    for form in lesson.forms:
        form.known_rules_notes = _remarks(form, rules)


def _remarks(form: LearnedForm, rules: Sequence[Rule]) -> list[str]:
    example = form.examples[0]
    whole: list[Rule] = []
    parts: dict[str, int] = {}
    for rule in rules:
        for match in _matches(rule, example):
            if _is_whole(match, example):
                whole.append(rule)
            elif len(match.nodes) > 1:
                parts[rule.name] = max(parts.get(rule.name, 0), len(match.nodes))
    exact = [rule for rule in whole if rule.is_exact] or whole
    known = list(dict.fromkeys(rule.name for rule in exact))
    if known:
        return [f"rule{'s' * (len(known) > 1)} {' and '.join(known)} recognise{'s' * (len(known) == 1)} this form"]
    return [f"rule {name} recognises a part of this form ({count} nodes)" for name, count in parts.items()]


def _matches(rule: Rule, example: Example) -> list[Match]:
    found: list[Match] = []
    for target in TARGETS:
        try:
            found += find(example.model, rule, target=target, ep="any")
        except SurgeonError:  # the rule does not apply to this model
            continue
    return found


def _is_whole(match: Match, example: Example) -> bool:
    """Whether a match produces all outputs and leaves only identity nodes and constants."""
    index = example.index
    state = MatchState(index, index.main)
    outputs = {state.canonical(name) for name in example.outputs}
    made = {state.canonical(name) for name in match.outputs}
    taken = {name for node in match.nodes for name in node.outputs}
    left = [
        node
        for node in index.main.nodes
        if node.op not in TRANSPARENT
        and not taken.intersection(node.outputs)
        and not all(index.constants.is_constant(index.main, name) for name in node.outputs if name)
    ]
    return made == outputs and not left
