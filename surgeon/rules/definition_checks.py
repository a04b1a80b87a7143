"""Checks of a rule without a model: captures that its functions require, forms that are patterns, inconsistencies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from surgeon.errors import RuleError
from surgeon.rules.matching.pattern import Pattern, always_bound, ops_of
from surgeon.rules.pattern_containment import pattern_occurs_in
from surgeon.rules.tracing.annotations import MISSING, Parameter, parameters_of
from surgeon.rules.tracing.declared_captures import captures_class_of
from surgeon.rules.tracing.tracer import trace
from surgeon.text import format_count

Function = Callable[..., Any]
MATCH = "match"  # the parameter that takes the match itself
_OF_SEVERAL = ("rest", "attributes")


def required_captures(conditions: Iterable[Function], forms: Iterable[Function]) -> dict[Function, frozenset[str]]:
    """The captures that each function of a rule requires.  forms: functions whose first parameter is a graph."""
    asking = {
        **{function: requested_captures(function, 0) for function in conditions},
        **{form: requested_captures(form, 1) for form in forms},
    }
    return {
        function: frozenset(item.name for item in items if item.default is MISSING)
        for function, items in asking.items()
    }


def requested_captures(function: Function, first: int) -> tuple[Parameter, ...]:
    """The captures that a function takes from parameter `first` on, fields of a `Captures` class included."""
    found: list[Parameter] = []
    for parameter in parameters_of(function)[first:]:
        record = captures_class_of(parameter)
        found += record.fields() if record is not None else [parameter]
    return tuple(item for item in found if item.name != MATCH and item.kind not in _OF_SEVERAL)


def is_reversible(function: Function, reference: Function, wanted: dict[Function, frozenset[str]]) -> bool:
    """Whether the result of a form is recognised by the form itself.

    The form can be traced, binds all captures of the other functions and of the rule's reference, and has an op that
    the reference lacks, because otherwise the reference would match it again.  wanted: captures that conditions and
    forms require.
    """
    patterns, others = try_trace(function), try_trace(reference)
    needed = frozenset[str]().union(*(names for other, names in wanted.items() if other is not function))
    needed |= frozenset[str]().union(*(always_bound(pattern.outputs) - pattern.may_be_inner for pattern in others))
    own = frozenset[str]().union(*(ops_of(pattern) for pattern in others))
    return bool(patterns) and all(
        needed <= always_bound(pattern.outputs) and ops_of(pattern) - own for pattern in patterns
    )


def try_trace(function: Function, *, strict: bool = False) -> tuple[Pattern, ...]:
    """A form traced as a pattern; empty if it needs values of a match.  strict: raise NameError for unknown names."""
    if any(item.name == MATCH for item in parameters_of(function)):
        return ()
    try:
        return trace(function)
    except Exception as error:  # a user's function may raise anything; a match reports it
        if strict and type(error) is NameError:
            raise
        return ()


def describe_tracing_error(rule: str, function: Function, error: RuleError) -> str:
    """The error of a pattern with its rule and line: the last line of its file that ran, else its first."""
    import traceback  # not at the top: only errors need it

    code, message = getattr(function, "__code__", None), str(error)
    if code is None or message.startswith("Pattern "):  # it names the place itself
        return f"{rule}: {message}"
    name = Path(code.co_filename).name
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == code.co_filename]
    where = f"{name}:{lines[-1] if lines else code.co_firstlineno}"
    return f"{rule} ({where}): {message.removeprefix(f'{where}: ')}"


def require_consistent(
    who: str, forms: Mapping[Function, tuple[Pattern, ...]], conditions: Mapping[Function, Sequence[Function]]
) -> None:
    """Raise RuleError for a rule that cannot work on any model.

    who: the rule and its line.  forms: for each form, the patterns that it replaces.  conditions: for each form, the
    conditions of a match.
    """
    for form, patterns in forms.items():
        for function, names in required_captures(conditions[form], [form]).items():
            for pattern in patterns:
                _require_bound(who, function, names, pattern)
        _require_no_wildcards(who, form)
        for written in try_trace(form, strict=True)[:1] if patterns else ():
            outputs = {len(pattern.outputs) for pattern in patterns}
            if len(written.outputs) not in outputs:
                several = ""
                if len(written.outputs) > max(outputs):
                    several = " A pattern can return all outputs of a node: a, b = g.op(..., outputs=2)"
                raise RuleError(
                    f"{who}: {_called(form)} returns {format_count(len(written.outputs), 'tensor')}, but the pattern "
                    f"returns {' or '.join(map(str, sorted(outputs)))}. Return one tensor for each output.{several}"
                )
            if not conditions[form] and any(pattern_occurs_in(pattern, written) for pattern in patterns):
                raise RuleError(
                    f"{who}: the replacement {_called(form)} matches the rule's own pattern, so the rule would never "
                    "stop. Write other nodes, or add a condition that rejects them."
                )


def _require_bound(who: str, function: Function, names: frozenset[str], pattern: Pattern) -> None:
    missing = sorted(names - always_bound(pattern.outputs))
    if missing:
        how = "does not always capture" if missing[0] in pattern.captures else "does not capture"
        raise RuleError(
            f"{who}: {_called(function)} has a parameter {missing[0]!r}, but pattern {pattern.name} ({pattern.where}) "
            f"{how} it. Capture it there, or give the parameter a default: {missing[0]}=None"
        )


def _require_no_wildcards(who: str, form: Function) -> None:
    used = [name for name in form.__code__.co_names if name in ("any_tensor", "any_number")]
    if used:
        raise RuleError(
            f"{who}: {_called(form)} uses g.{used[0]}(), which is only for patterns, because it matches any value. "
            "Capture the tensor, or write the number."
        )


def _called(function: Function) -> str:
    code = function.__code__
    return f"{function.__name__} ({Path(code.co_filename).name}:{code.co_firstlineno})"
