"""A counterexample as a sentence: some inputs, the result of the replacement, and that of the original."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from surgeon.runtime.numerics.array_comparison import TOLERANCES, dtype_name, mismatch_reason
from surgeon.runtime.numerics.tensor_error import TensorError
from surgeon.text import and_more, format_beside_limit

SHOWN = 3
"""Numbers of the inputs that the sentence names: it fits one line of a terminal then."""
LEAST_DIGITS, MOST_DIGITS = 3, 17
"""Significant digits of the results: as in other messages, and as many as any float64 has."""
_NAME = r"(?<![^\s(])"  # where a name begins: at the start, after a space or a bracket
_AFTER = r"(?=\[\d| = )"  # behind a name


class Element(NamedTuple):
    """One element of an input."""

    name: str
    """Name of the input."""
    at: tuple[int, ...]
    """Its index."""


class Counterexample(NamedTuple):
    """Inputs on which the replacement differs from the original, and both results."""

    inputs: Mapping[str, np.ndarray]
    """All inputs, by name."""
    decisive: Sequence[Element]
    """The elements without which both sides agree; empty if the others are enough."""
    rest: str
    """All other elements, in words."""
    strategy: str
    """The strategy that proposed the inputs; "" for usual ones."""
    failure: str
    """Why the replacement fails, in words; it counts if the results cannot be compared."""
    result: "Differing | None"
    """Both results; None if the replacement does not run."""

    def __str__(self) -> str:
        """The counterexample as a sentence without a full stop."""
        is_complete = sum(array.size for array in self.inputs.values()) <= SHOWN
        elements = [*_elements(self.inputs)] if is_complete else self.decisive
        shown = [_assignment(name, at, self.inputs[name]) for name, at in elements[:SHOWN]]
        if more := len(elements) - len(shown):
            given = f"{', '.join(shown)}{and_more(more, 'numbers')}"
        else:
            given = " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
        notes = [f"by {self.strategy}" if self.strategy else ""]
        if not is_complete:
            notes += [f"{self.rest} elsewhere" if elements else "", shapes_text(self.inputs)]
        if self.result is None or not self.result.is_comparable:
            return f"{self.failure}{_in_brackets([given or self.rest, *notes])}"
        verb = "gives" if len(elements) == 1 else "give"
        return f"{given or self.rest} {verb} {self.result}{_in_brackets([*notes, self.result.limit])}"


class Differing(NamedTuple):
    """An output of both sides that differs in some element."""

    error: TensorError
    """The judgement of the output."""
    expected: np.ndarray
    """The output of the original."""
    actual: np.ndarray
    """The output of the replacement."""
    is_named: bool
    """Whether the region has other outputs."""

    def __str__(self) -> str:
        """The element that differs most."""
        place = self.error.place or 0
        (actual, expected), _ = self._texts
        at = list(map(int, np.unravel_index(place, self.actual.shape))) if self.actual.size > 1 else ""
        name = f"{self.error.name}{at} = " if at or self.is_named else ""
        return f"{name}{actual} instead of {expected}"

    @property
    def is_comparable(self) -> bool:
        """Whether both have the same shape and dtype."""
        return mismatch_reason(self.expected, self.actual) is None

    @property
    def limit(self) -> str:
        """The difference and its limit, for a small difference."""
        gap, allowed = format_beside_limit(self.error.gap, self.error.allowed)
        return f"off by {gap}, limit {allowed}" if self._texts[1] > LEAST_DIGITS else ""

    @property
    def _texts(self) -> tuple[tuple[str, str], int]:
        place = self.error.place or 0
        return _distinct(self.actual.reshape(-1)[place], self.expected.reshape(-1)[place])


def shapes_text(inputs: Mapping[str, np.ndarray]) -> str:
    """The shapes of inputs, in their order."""
    return f"shapes {', '.join(str(list(array.shape)) for array in inputs.values())}"


def with_names(reason: str, names: Mapping[str, str]) -> str:
    """A reason about an equal region: its tensors have the names that `names` has for those of this one."""
    if not names:
        return reason
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile(f"{_NAME}(?:({'|'.join(map(re.escape, longest_first))}){_AFTER})")
    return pattern.sub(lambda found: names[found[1]], reason)


def without_names(reason: str) -> str:
    """A reason without the names of tensors, which is the same for regions that differ in names."""
    return re.sub(rf"{_NAME}[^\s(]+?{_AFTER}", "", reason)


def _in_brackets(notes: Iterable[str]) -> str:
    text = ", ".join(filter(None, notes))
    return f" ({text})" if text else ""


def _elements(inputs: Mapping[str, np.ndarray]) -> list[Element]:
    """All elements of all inputs."""
    return [Element(name, index) for name, array in inputs.items() for index in np.ndindex(array.shape)]


def _assignment(name: str, at: tuple[int, ...], array: np.ndarray) -> str:
    """One element with its value."""
    return f"{name}{list(at) if array.size > 1 else ''} = {_text(array[at])}"


def _text(value: object) -> str:
    """A value in as few digits as no other value of its dtype has."""
    return repr(value) if isinstance(value, str | bytes) else str(value)


def _distinct(one: np.generic, other: np.generic) -> tuple[tuple[str, str], int]:
    """Two values, one digit longer than needed if they differ late, and the digits needed; 0 if not real floats."""
    name = dtype_name(np.asarray(one))
    if name not in TOLERANCES or name.startswith("complex"):
        return (_text(one), _text(other)), 0
    for digits in range(LEAST_DIGITS, MOST_DIGITS + 1):
        first, second = (_rounded(float(value), digits) for value in (one, other))
        if first != second:
            break
    shown = digits + (digits > LEAST_DIGITS)
    return (_rounded(float(one), shown), _rounded(float(other), shown)), digits


def _rounded(value: float, digits: int) -> str:
    """A number of so many significant digits; it has an exponent if that is shorter than all of its digits."""
    text = f"{value:.{digits}g}"
    whole = f"{value:.0f}" if "e+" in text else text
    short = whole if len(whole) <= len(text) else text
    return f"{short}.0" if short.lstrip("-").isdigit() else short
