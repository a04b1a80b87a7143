"""Checks of the arguments of `surgeon.rule`, made when a rule's file is read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from surgeon.errors import RuleError
from surgeon.ops.schemas.attribute_values import dtype_name, dtype_number
from surgeon.rules.matching.pattern import Search

Function = Callable[..., Any]
FLOATS = ("float16", "bfloat16", "float32", "float64")


def dtype_names(dtypes: str | Sequence[str]) -> tuple[str, ...]:
    """The names of dtypes as surgeon spells them, each once.  Raises RuleError for an unknown dtype."""
    given = (dtypes,) if isinstance(dtypes, str) else dtypes
    names = (name for item in given for name in (FLOATS if item == "floats" else (dtype_name(dtype_number(item)),)))
    return tuple(dict.fromkeys(names))


def require_functions(who: str, patterns: Sequence[Function], conditions: Sequence[Function]) -> None:
    """Raise RuleError unless patterns and conditions are lists of functions."""
    for given, what in ((patterns, "patterns"), (conditions, "conditions")):
        if not isinstance(given, Sequence) or not all(map(_is_function, given)):
            raise RuleError(f"{who}: {what} must be a list of functions, such as {what}=[...]; got {given!r}.")


def _is_function(given: object) -> bool:
    """Whether it is a named function, not another callable and not a partial."""
    return callable(given) and hasattr(given, "__name__") and not isinstance(given, type)


def require_name_target_opset(who: str, title: object, target: object, opset: object) -> None:
    """Raise RuleError for a name, target or opset of the wrong type."""
    if not isinstance(title, str) or not title:
        raise RuleError(f"{who}: name must be a string, got {title!r}. The default is the name of the function.")
    opsets = target if isinstance(target, Mapping) else {target: opset} if isinstance(target, str) else {}
    if not opsets or not all(isinstance(kind, str) for kind in opsets):
        raise RuleError(
            f'{who}: target must be "ort", "onnx", "tensorrt" or "any", or several with their opsets, such as '
            f'{{"onnx": 17, "ort": 1}}; got {target!r}.'
        )
    for version in opsets.values():
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise RuleError(f"{who}: opset must be a version of ai.onnx, such as 17; got {version!r}.")


def require_pattern_or_search(
    who: str, patterns: Sequence[Function], search: Search | None, approximate: float, differs: Mapping[str, str]
) -> None:
    """Raise RuleError for contradictory arguments."""
    if not patterns and search is None:
        raise RuleError(f"{who} has no pattern. List at least one: patterns=[...].")
    if patterns and search is not None:
        raise RuleError(f"{who} has both patterns and a search. Split it into two rules.")
    if isinstance(approximate, bool) or not isinstance(approximate, Real) or not 0 <= approximate < 1:
        raise RuleError(
            f"{who}: approximate must be at least 0 and below 1, got {approximate!r}. It limits the error, as a share "
            "of the largest output value (for example 1e-3)."
        )
    if differs:
        _require_edges(who, differs)


def _require_edges(who: str, kinds: Iterable[str]) -> None:
    """Raise RuleError for unknown kinds of inputs."""
    # Few rules differ, and a rewrite without a check makes no inputs.
    from surgeon.runtime.inputs.fill import DECLARABLE

    known = sorted(DECLARABLE)
    for kind in kinds:
        if kind not in known:
            raise RuleError(f"{who}: differs has an unknown kind of input {kind!r}. Known kinds: {', '.join(known)}.")
