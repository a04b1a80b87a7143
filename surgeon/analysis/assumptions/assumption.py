"""Assumptions on the values of an input: a closed vocabulary, and the meaning of each word for an array.

A range such as `0..1` contains every element, ends included; NaN is in none.  `finite`: no NaN and no infinity.
`nonzero`: no zero of either sign.  `sorted`: along the last axis no element is below the one before.  `mask`: only
zeros and ones.  `right-padded` is a mask whose rows along the last axis are ones, at least one, then zeros; in
`left-padded` the zeros come first; `no padding` means only ones.  Commas join several: `0..31999, sorted`.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

import ml_dtypes
import numpy as np

from surgeon.errors import UsageError
from surgeon.text import close_matches

LEFT_PADDED, RIGHT_PADDED, NO_PADDING, MASK = "left-padded", "right-padded", "no padding", "mask"
SORTED, FINITE, NONZERO = "sorted", "finite", "nonzero"
PADDED = (NO_PADDING, LEFT_PADDED, RIGHT_PADDED)
MASKS = (*PADDED, MASK)
WORDS = (*MASKS, SORTED, FINITE, NONZERO)
"""All words; the only other assumption is a range."""
VOCABULARY = f"{', '.join(map(repr, WORDS))}, or a range such as 0..1"
Bounds = tuple[float, float]

_GOLDEN = (math.sqrt(5) - 1) / 2  # fractions of its multiples spread evenly (Weyl's equidistribution theorem)


@dataclass(frozen=True)
class Assumption:
    """An assumption on the elements of a tensor, with its implications; `of` and `parse` create one."""

    words: tuple[str, ...] = ()
    """Words that hold, in the order of `WORDS`."""
    bounds: Bounds | None = None
    """The smallest and the largest allowed number; None if any number, or NaN, is allowed."""

    @classmethod
    def of(cls, words: Iterable[str], bounds: Bounds | None = None) -> Self:
        """The assumption of words and a range.  Raises UsageError if no number satisfies it."""
        known, is_mask = set(words), not set(MASKS).isdisjoint(words)
        if LEFT_PADDED in known:
            known.add(SORTED)
        if is_mask:
            known.add(MASK)
            bounds = _common(bounds, (0, 1))
        has_no_zero = NONZERO in known or (bounds is not None and not bounds[0] <= 0 <= bounds[1])
        if bounds == (1, 1) or (is_mask and (has_no_zero or {RIGHT_PADDED, SORTED} <= known)):
            known.add(NO_PADDING)
        if NO_PADDING in known:
            known.update((*MASKS, SORTED))
            bounds, has_no_zero = _common(bounds, (1, 1)), True
        if has_no_zero:
            known.add(NONZERO)
        if bounds is not None and all(map(math.isfinite, bounds)):
            known.add(FINITE)
        if bounds is not None and (bounds[0] > bounds[1] or (has_no_zero and bounds == (0, 0))):
            raise UsageError("no number satisfies it")
        return cls(tuple([word for word in WORDS if word in known]), bounds)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read words and a range, separated by commas.  Raises UsageError, in a clause."""
        words, bounds = list[str](), dict[Bounds, None]()
        for part in (" ".join(part.split()) for part in text.split(",")):
            if ".." in part:
                bounds[_parsed_range(part)] = None
            elif part in WORDS:
                words.append(part)
            else:
                meant = f"; did you mean {near[0]!r}?" if (near := close_matches(part, WORDS, 1)) else ""
                raise UsageError(f"{part!r} is not an assumption: write {VOCABULARY}{meant}")
        if len(bounds) > 1:
            raise UsageError(f"{' and '.join(map(_range_text, bounds))} are two ranges: give only one")
        if {LEFT_PADDED, RIGHT_PADDED} <= set(words):
            raise UsageError(f"{LEFT_PADDED} and {RIGHT_PADDED} contradict each other: give only one")
        try:
            return cls.of(words, next(iter(bounds), None))
        except UsageError:
            raise UsageError(f"{' '.join(text.split())!r} contradicts itself: remove a part") from None

    def __str__(self) -> str:
        """The shortest text that `parse` reads as this assumption."""
        said, parts = Assumption(), list[str]()
        for word in (*MASKS, "", *WORDS[len(MASKS) :]):
            words, bounds = ((word,), None) if word else ((), self.bounds)
            if (word in self.words) if word else (bounds is not None and said.bounds != bounds):
                more = said.joined_with(Assumption.of(words, bounds))
                if more != said:
                    said, parts = more, [*parts, word or _range_text(bounds or (0, 0))]
        return ", ".join(parts)

    def __bool__(self) -> bool:
        """Whether anything is assumed."""
        return bool(self.words) or self.bounds is not None

    def implies(self, other: "Assumption") -> bool:
        """Whether another assumption follows from this one."""
        try:
            return self.joined_with(other) == self
        except UsageError:  # they contradict each other
            return False

    def joined_with(self, other: "Assumption") -> "Assumption":
        """Both assumptions together.  Raises UsageError if they contradict each other."""
        return Assumption.of((*self.words, *other.words), _common(self.bounds, other.bounds))

    def covering(self, other: "Assumption") -> "Assumption":
        """The words of both, for elements that each satisfy one of the two."""
        words = set(self.words).intersection(other.words)
        if self.bounds is None or other.bounds is None:
            return Assumption.of(words)
        ends = (min(self.bounds[0], other.bounds[0]), max(self.bounds[1], other.bounds[1]))
        return Assumption.of(words, ends)

    @property
    def of_elements(self) -> "Assumption":
        """The words that hold for the elements in any order."""
        if NO_PADDING in self.words:
            return self
        return Assumption.of(set(self.words) - {LEFT_PADDED, RIGHT_PADDED, SORTED}, self.bounds)

    def require_dtype(self, dtype: np.dtype) -> None:
        """Raise UsageError, in a clause, if tensors of a dtype cannot satisfy it, or always satisfy `finite`."""
        kind = "strings" if dtype.kind in "OUS" else "complex numbers" if dtype.kind == "c" else ""
        if kind:
            raise UsageError(f"it contains {kind}, but assumptions need real numbers")
        is_whole = is_integral(dtype)
        if is_whole and FINITE in self.words and self.bounds is None:
            raise UsageError(f"{dtype.name} has neither infinity nor NaN: remove 'finite'")
        least, largest = self._bounds_in(dtype)
        if least > largest or (NONZERO in self.words and least == largest == 0):
            raise UsageError(f"no {dtype.name} satisfies {self}")

    def violation(self, array: np.ndarray) -> tuple[int, ...] | None:
        """The index of the first element that violates the assumption; None if there is none."""
        numbers, (least, largest) = _numbers(array), self._bounds_in(array.dtype)
        wrong = np.zeros(array.shape, np.bool_)
        if self.bounds is not None:
            wrong |= ~((numbers >= least) & (numbers <= largest))
        if FINITE in self.words and numbers.dtype.kind == "f":
            wrong |= ~np.isfinite(numbers)
        if NONZERO in self.words:
            wrong |= numbers == 0
        if not _is_free(self.words, MASKS):
            wrong |= (numbers != 0) & (numbers != 1)
        if array.ndim and array.shape[-1]:
            before, now = numbers[..., :-1], numbers[..., 1:]
            if SORTED in self.words:
                wrong[..., 1:] |= ~(now >= before)
            if RIGHT_PADDED in self.words:
                wrong[..., 1:] |= (now != 0) & (before == 0)
                wrong[..., 0] |= numbers[..., 0] == 0
            if LEFT_PADDED in self.words:
                wrong[..., -1] |= numbers[..., -1] == 0
        places = np.argwhere(wrong)
        return tuple(map(int, places[0])) if len(places) else None

    def obey(self, array: np.ndarray) -> np.ndarray:
        """The array with other elements instead of those that violate the assumption; the same array if none does.

        Such an element becomes one of the range, the same for equal elements, spread over the range.
        """
        if self.violation(array) is None:
            return array
        numbers = _numbers(array)
        if not _is_free(self.words, MASKS):
            is_shown = numbers != 0
            numbers = is_shown if _is_free(self.words, PADDED) else _padded(is_shown, self.words)
        if self.bounds is not None:
            numbers = _into_range(numbers, *self._bounds_in(array.dtype))
        if FINITE in self.words and numbers.dtype.kind == "f":
            numbers = np.where(np.isnan(numbers), 0.0, np.where(np.isinf(numbers), np.sign(numbers), numbers))
        if NONZERO in self.words:
            numbers = np.where(numbers == 0, self._non_zero(array.dtype), numbers)
        if SORTED in self.words and array.ndim:
            numbers = np.sort(np.where(np.isnan(numbers), 0, numbers), axis=-1)
        return numbers.astype(array.dtype)

    def _non_zero(self, dtype: np.dtype) -> float:
        """A number other than 0, as near to 1 as the bounds allow."""
        least, largest = self._bounds_in(dtype)
        found = min(max(1, least), largest)
        return found if found else least

    def _bounds_in(self, dtype: np.dtype) -> Bounds:
        """The bounds among the numbers of a dtype; infinities without bounds.

        An end that a float dtype does not represent is rounded, so that float32's 0.3 is in 0..0.3.
        """
        if self.bounds is None:
            return -math.inf, math.inf
        least, largest = self.bounds
        low, high = dtype_limits(dtype)
        if is_integral(dtype):
            return math.ceil(max(least, low)), math.floor(min(largest, high))
        return _rounded(least, dtype, low, high), _rounded(largest, dtype, low, high)


def _is_free(words: Collection[str], of: Collection[str]) -> bool:
    return set(words).isdisjoint(of)


def _common(one: Bounds | None, other: Bounds | None) -> Bounds | None:
    """The common part of two ranges; its ends are in the wrong order if there is none."""
    if one is None or other is None:
        return other if one is None else one
    return max(one[0], other[0]), min(one[1], other[1])


def _parsed_range(text: str) -> Bounds:
    """LO..HI as two numbers, which may be infinite.  Raises UsageError."""
    least, largest = (_parsed_number(part, text) for part in text.split("..", 1))
    if least > largest:
        raise UsageError(f"{text!r} has its bounds in the wrong order: write {_range_text((largest, least))}")
    return least, largest


def _parsed_number(text: str, of: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise UsageError(f"{of!r} is not a range: write two numbers, such as 0..1 or 0..inf")
    try:
        return int(text)
    except ValueError:
        return number


def _range_text(bounds: Bounds) -> str:
    """LO..HI, with integers as such."""
    return "..".join(repr(int(end) if math.isfinite(end) and end == int(end) else float(end)) for end in bounds)


def is_integral(dtype: np.dtype) -> bool:
    """Whether a dtype is boolean or integer, including those of less than a byte."""
    return dtype.kind in "iub" or (dtype.kind == "V" and "int" in dtype.name)


def dtype_limits(dtype: np.dtype) -> Bounds:
    """The lowest and the largest number of a dtype, without infinities."""
    if dtype == np.bool_:
        return 0, 1
    if is_integral(dtype):
        return int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max)
    return float(ml_dtypes.finfo(dtype).min), float(ml_dtypes.finfo(dtype).max)


def _numbers(array: np.ndarray) -> np.ndarray:
    """The elements as integers or as float64."""
    if array.dtype.kind in "iu":
        return array
    return array.astype(np.int64 if is_integral(array.dtype) else np.float64)


def _rounded(end: float, dtype: np.dtype, low: float, high: float) -> float:
    """The end of a range among the numbers of a float dtype.  low, high: its lowest and largest numbers."""
    return end if math.isinf(end) else float(np.asarray(min(max(end, low), high)).astype(dtype))


def _into_range(numbers: np.ndarray, least: float, largest: float) -> np.ndarray:
    """The numbers of a range unchanged, and others spread over it; if one end is missing, mirrored at the other."""
    inside = (numbers >= least) & (numbers <= largest)
    if numbers.dtype.kind == "f":
        known = np.nan_to_num(numbers, nan=0.0, posinf=0.0, neginf=0.0)
        if math.isfinite(largest - least):
            moved = least + (np.abs(known) * _GOLDEN) % 1 * (largest - least)
        elif math.isfinite(least):
            moved = least + np.abs(known - least)
        else:
            moved = largest - np.abs(known - largest) if math.isfinite(largest) else known
        moved = np.where(np.isinf(numbers), np.where(numbers > 0, largest, least), moved)
        return np.clip(np.where(inside, numbers, moved), least, largest)
    count = int(largest) - int(least) + 1
    spread = np.abs(numbers.astype(np.float64) * _GOLDEN) % 1 * count
    return np.where(inside, numbers, np.minimum(int(least) + np.floor(spread), largest).astype(numbers.dtype))


def _padded(shown: np.ndarray, words: Collection[str]) -> np.ndarray:
    """A mask with as many ones in each row as another, at least one; without padding all ones."""
    if NO_PADDING in words or not shown.ndim or not shown.size:
        return np.ones(shown.shape, np.uint8)
    length = shown.shape[-1]
    count = np.maximum(shown.sum(axis=-1, keepdims=True), 1)
    places = np.arange(length) if RIGHT_PADDED in words else np.arange(length)[::-1]
    return np.asarray(places < count).astype(np.uint8)


def parse_all(declared: Iterable[str]) -> dict[str, Assumption]:
    """Read assumptions, each as `NAME: WORDS`.  The name ends at the last colon; an input may have several.

    Raises UsageError.
    """
    texts: dict[str, list[str]] = {}
    for text in declared:
        name, colon, words = text.rpartition(":")
        if not colon or not name.strip():
            raise UsageError(f"Invalid assumption {text!r}. Write NAME: WORDS, as in 'x: 0..1'. Words: {VOCABULARY}")
        texts.setdefault(name.strip(), []).append(words)
    found: dict[str, Assumption] = {}
    for name, parts in texts.items():
        try:
            found[name] = Assumption.parse(",".join(parts))
        except UsageError as error:
            raise UsageError(f"The assumption on {name!r} is not valid: {str(error).rstrip('.')}.") from None
    return found
