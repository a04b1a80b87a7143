"""Finds composite helpers that an expression spells out: `mul(x, x)` is a form of `square(x)`."""

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice, permutations, product
from math import isclose
from typing import Any

from surgeon.ops.builder.composites import find_composite, words

SPELLED = 64  # most forms of a word: words within a form multiply their number
FREE_ORDER = frozenset({"add", "mul", "max", "min"})
Number = Callable[[ast.expr], "float | int | None"]


class _Speller:
    """A graph whose helpers return the source text of every form of a tensor."""

    def __getattr__(self, helper: str) -> Callable[..., tuple[str, ...]]:
        def spell(*args: Any, **kwargs: Any) -> tuple[str, ...]:
            given = [*(_forms(item) for item in args), *(_named(*item) for item in kwargs.items())]
            return tuple(f"g.{helper}({', '.join(item)})" for item in islice(product(*given), SPELLED))

        return spell

    def helper_opset(self) -> None:
        """A pattern has no opset."""

    def any_of(self, *forms: Any) -> tuple[str, ...]:
        """All forms of the given forms."""
        return tuple(text for form in forms for text in _forms(form))[:SPELLED]

    def named(self, tensor: Any) -> Any:
        """A named tensor has the text of the tensor."""
        return tensor

    def such_that(self, *_: Any) -> tuple[str, ...]:
        """A condition on a tensor has no source text."""
        return ()

    any_tensor = any_number = such_that


def _forms(item: Any) -> tuple[str, ...]:
    return item if isinstance(item, tuple) else (repr(item),)


def _named(name: str, item: Any) -> tuple[str, ...]:
    return tuple(f"{name}={text}" for text in _forms(item))


@cache
def forms_of(word: str) -> tuple[ast.Call, ...]:
    """The forms of a composite helper that a pattern may spell out, with its parameters as names."""
    function = find_composite(word)
    if function is None:
        return ()
    parameters = list(inspect.signature(function).parameters)[1:]
    try:
        texts = _forms(function(_Speller(), *((name,) for name in parameters)))
    except (TypeError, ValueError):  # the word computes with its numbers
        return ()
    trees = (ast.parse(text, mode="eval").body for text in dict.fromkeys(texts))
    return tuple(tree for tree in trees if isinstance(tree, ast.Call))


def matching_words(call: ast.Call, number: Number) -> Iterator[tuple[str, list[ast.expr]]]:
    """The composite helpers of which a call is a form, and their arguments."""
    for word in words():
        function = find_composite(word)
        parameters = list(inspect.signature(function).parameters)[1:] if function is not None else []
        for form in forms_of(word):
            held: dict[str, ast.expr] = {}
            if _is_form(form, call, frozenset(parameters), held=held, number=number) and held.keys() == set(parameters):
                yield word, [held[name] for name in parameters]
                break


def _is_form(
    form: ast.expr, found: ast.expr, parameters: frozenset[str], held: dict[str, ast.expr], number: Number
) -> bool:
    """Whether an expression has a form; the expressions of its parameters are added to `held`."""
    if isinstance(form, ast.Name) and form.id in parameters:
        return ast.dump(held.setdefault(form.id, found)) == ast.dump(found)
    if not isinstance(form, ast.Call):
        wanted, other = _literal(form), number(found)
        if isinstance(wanted, (int, float)) and other is not None:
            return isclose(wanted, other)
        return ast.dump(form) == ast.dump(found)
    if not isinstance(found, ast.Call) or _helper_of(form) != _helper_of(found) or len(form.args) != len(found.args):
        return False
    given = {item.arg: item.value for item in found.keywords}
    wanted_ones = {item.arg: item.value for item in form.keywords}
    if given.keys() != wanted_ones.keys():
        return False
    orders = permutations(found.args) if _helper_of(form) in FREE_ORDER else (tuple(found.args),)
    for order in orders:
        trial = dict(held)
        pairs = [*zip(form.args, order, strict=True), *((wanted_ones[name], given[name]) for name in given)]
        if all(_is_form(part, other, parameters, held=trial, number=number) for part, other in pairs):
            held.update(trial)
            return True
    return False


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _helper_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
