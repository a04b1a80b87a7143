"""Calls the functions of a rule with the captures of a match."""

import inspect
from collections.abc import Callable
from typing import Any

from surgeon.errors import RuleError
from surgeon.rules.matching.match import Match
from surgeon.rules.tracing.annotations import parameters_of
from surgeon.rules.tracing.declared_captures import captures_class_of


def run_condition(function: Callable[..., Any], match: Match) -> None:
    """Run a condition: a function of the match's captures, by name, or of the whole `match`.

    Raises ConditionFailed if `require` fails in it, RuleError if it returns a value, which would be ignored.
    """
    arguments, keywords = call_arguments(function, match, 0)
    returned = function(*arguments, **keywords)
    if returned is not None:
        raise RuleError(
            f"Condition {function.__name__} returns {returned!r}, but it must call require: "
            'surgeon.require(condition, "why it must hold")'
        )


def call_arguments(function: Callable[..., Any], match: Match, first: int) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a function by the names of its parameters: captures, or the whole `match`.

    A capture that the pattern does not bind gets the parameter's default.
    """
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    for parameter in parameters_of(function)[first:]:
        value: Any
        name, kind = parameter.name, parameter.how
        record = captures_class_of(parameter)
        if record is not None:
            own = match.pattern.captures_class
            value = (own if own is not None and issubclass(own, record) else record)(match)
        elif name in match.bound:
            value = match[name]
        elif name == "match":
            match.inspected = True
            value = match
        elif parameter.default is not inspect.Parameter.empty:
            value = parameter.default
        else:
            raise RuleError(
                f"{function.__name__} has a parameter {name!r}, but pattern {match.pattern.name} does not capture it. "
                f"It captures {', '.join(sorted(match.bound)) or 'nothing'}."
            )
        if kind is inspect.Parameter.VAR_KEYWORD:
            keywords.update(value)
        elif kind is inspect.Parameter.KEYWORD_ONLY:
            keywords[name] = value
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            arguments += value
        else:
            arguments.append(value)
    return arguments, keywords
