"""Rows of a region that do not mix: one run holds other inputs in each of them."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from surgeon.runtime.inputs.input_spec import InputSpec
from surgeon.runtime.numerics.array_comparison import TOLERANCES, dtype_name, same_values, tolerance

Arrays = Mapping[str, np.ndarray]


def row_counts(shape: tuple[int, ...]) -> dict[int, int]:
    """The numbers of rows that leading axes of a shape make, with the number of these axes."""
    found = {math.prod(shape[:depth]): depth for depth in range(len(shape), 0, -1)}
    return {number: depth for number, depth in found.items() if number > 1}


def as_rows(array: np.ndarray, number: int) -> np.ndarray:
    """An array as that many rows, flat each."""
    return array.reshape(number, -1)


def independent_rows(
    feeds: Arrays,
    outputs: Arrays,
    specs: Mapping[str, InputSpec],
    run: Callable[[dict[str, np.ndarray]], Arrays | None],
) -> tuple[int, frozenset[str]]:
    """The largest number of rows that do not mix, and the inputs that have them; (1, empty) if all mix.

    outputs: of a run on `feeds`.  specs: of the inputs that may be changed.  run: gives outputs, None if the
    original rejects the inputs.  One row gets other numbers and another one NaN, if there is room; no other row of
    any output may change by a bit.  A wrong answer costs power and never a false alarm, because a row that fails runs
    again by itself.
    """
    numbers = set[int]().union(*(row_counts(feeds[name].shape) for name in specs))
    for array in outputs.values():
        numbers &= row_counts(array.shape).keys()
    found: tuple[int, frozenset[str]] = 1, frozenset()
    for number in sorted(numbers):
        names = frozenset(name for name in specs if number in row_counts(feeds[name].shape))
        if not names or not all(
            _stay(feeds, outputs, run, changed) for changed in _changes(feeds, specs, names, number)
        ):
            break
        found = number, names
    return found


def _changes(
    feeds: Arrays, specs: Mapping[str, InputSpec], names: frozenset[str], number: int
) -> list[tuple[dict[str, np.ndarray], set[int], int]]:
    """Inputs with changed rows, which rows those are, and of how many: numbers in one, NaN in another."""
    last, middle = number - 1, number // 2
    plans = [{last: False, middle: True}] if last > middle else [{last: False}, {last: True}]
    found = []
    for plan in plans:
        changed = dict(feeds)
        for name in names:
            made = feeds[name].copy()
            rows = as_rows(made, number)
            for row, is_nan in plan.items():
                rows[row] = _other(rows[row], specs[name], is_nan)
            changed[name] = made
        found.append((changed, set(plan), number))
    return found


def _other(row: np.ndarray, spec: InputSpec, is_nan: bool) -> np.ndarray:
    """Other values for a row: NaN if it holds floats, else other numbers of its range."""
    if spec.takes_edge_values and is_nan:
        return np.full_like(row, np.nan)
    if row.dtype == np.bool_ or spec.kind == "mask":
        return np.asarray(1 - row.astype(np.int64)).astype(row.dtype)
    if row.dtype.kind in "iu":
        return np.where(row == 2, 3, 2).astype(row.dtype)  # no zero: it may be a divisor
    return np.asarray(np.float32(1.5) - row.astype(np.float32) / 2).astype(row.dtype)


def _stay(
    feeds: Arrays,
    outputs: Arrays,
    run: Callable[[dict[str, np.ndarray]], Arrays | None],
    change: tuple[dict[str, np.ndarray], set[int], int],
) -> bool:
    """Whether all rows but the changed ones stay as they are."""
    changed, touched, number = change
    answers = run(changed)
    if answers is None or answers.keys() != outputs.keys():
        return False
    kept = [row for row in range(number) if row not in touched]
    return all(
        answers[name].shape == array.shape
        and same_values(as_rows(array, number)[kept], as_rows(answers[name], number)[kept])
        for name, array in outputs.items()
    )


def differing_rows(
    original: np.ndarray, rewritten: np.ndarray, number: int, *, rtol: float | None, has_signs: bool
) -> np.ndarray:
    """Which rows of two results differ by more than rtol of each number: a bool for each row."""
    if original.shape != rewritten.shape or original.dtype != rewritten.dtype or not original.size:
        return np.full(number, original.shape != rewritten.shape or original.dtype != rewritten.dtype)
    equal = np.asarray(original == rewritten)
    name = dtype_name(original)
    if name in TOLERANCES:
        wide = np.complex128 if original.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            one, other = original.astype(wide), rewritten.astype(wide)
            near = np.abs(one - other) <= tolerance(name, rtol, None)[0] * np.abs(one)
            equal |= (np.isfinite(one) & near) | (np.isnan(one) & np.isnan(other))
            if has_signs:
                equal &= (one != 0) | (np.signbit(one.real) == np.signbit(other.real))
    return np.asarray(~as_rows(equal, number).all(axis=1))
