"""Edits of a rule for a factor of 1 or a summand of 0 that the exporter folded, so that its node is absent."""

import ast
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from surgeon.diagnostics.pattern_source import PatternSource, TextEdit, helper_name_of
from surgeon.rules.rule import Rule

FOLDED = ("op", "operand", "value")  # kinds of mismatches that an absent node causes
NEUTRAL = {"mul": "1.0", "add": "0.0"}  # the neutral number of a product and of a sum
NUMBERS = ("float", "int", "Constant")


class FoldedNumber(NamedTuple):
    """An edit of a rule that makes a captured number optional."""

    what: str
    """A description of the edit, as a clause."""
    changes: list[TextEdit]
    """Edits of the pattern."""
    defaults: list[TextEdit]
    """Edits of replacements in the same file."""
    rule: Rule
    """The rule with the default that its replacements then need."""


def left_out(source: PatternSource, rule: Rule) -> Iterator[FoldedNumber]:
    """For each product or sum with a captured number, an edit that makes it optional, with a default for the number."""
    graph, *parameters = source.pattern.args.args
    numbers = {item.arg for item in parameters if getattr(item.annotation, "id", "") in NUMBERS}
    for call in source.helpers:
        operation = helper_name_of(call)
        if operation not in NEUTRAL or len(call.args) != 2 or call.keywords or not source.is_in_pattern(call):
            continue
        named = [item for item in call.args if isinstance(item, ast.Name) and item.id in numbers]
        if len(named) != 1:
            continue
        (number,) = named
        (tensor,) = (item for item in call.args if item is not number)
        node = f"{graph.arg}.{operation}({source.text_of(tensor)}, {number.id})"
        value = NEUTRAL[operation]
        yield FoldedNumber(
            f"make {number.id} optional, because exporters fold {value}; its default in the replacement is {value}",
            [source.replaced(call, f"{graph.arg}.optional({node})")],
            list(_defaults(source, rule, number.id, value)),
            _with_default(rule, number.id, float(value)),
        )


def _defaults(source: PatternSource, rule: Rule, name: str, value: str) -> Iterator[TextEdit]:
    """Edits that add a default of a parameter to each replacement of the rule in the same file."""
    lines = {form.function.__code__.co_firstlineno for form in rule.forms if form.function is not source.function}
    for item in ast.parse(source.data).body:
        if isinstance(item, ast.FunctionDef) and lines & {item.lineno, *(one.lineno for one in item.decorator_list)}:
            last = item.args.args[-1] if item.args.args and not item.args.defaults else None
            if last is not None and last.arg == name:
                place = source.span(last)[1]
                yield TextEdit(place, place, f" = {value}" if last.annotation else f"={value}")


def _with_default(rule: Rule, name: str, value: float) -> Rule:
    """The rule with a default for a capture in its replacements."""
    return replace(rule, forms=[replace(form, function=_defaulting(form.function, name, value)) for form in rule.forms])


def _defaulting(function: Callable[..., Any], name: str, value: float) -> Callable[..., Any]:
    signature = inspect.signature(function)
    known = signature.parameters.get(name)
    if known is None or known.default is not inspect.Parameter.empty or name != list(signature.parameters)[-1]:
        return function

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    parameters = [item.replace(default=value) if item.name == name else item for item in signature.parameters.values()]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # of any callable
    return call
