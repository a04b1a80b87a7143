"""Solve the size constraints of nodes for as few independent sizes as possible."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from math import gcd
from typing import TypeAlias

from surgeon.shapes.algebra.size_expressions import (
    Expr,
    Size,
    SizeError,
    evaluate,
    exact_quotient,
    lower_bound,
    substitute,
    symbol,
    symbols,
)
from surgeon.shapes.op_rules.size_constraints import SizeConstraint

_Sizes: TypeAlias = Mapping[str, int]


class SizeSolver:
    """Solves size constraints, equations first; a constraint that contradicts earlier ones is ignored.

    solved: dynamic sizes by name, as expressions of the independent ones.  Inequalities against fixed sizes, such as
    the rows of a table, limit how large independent sizes may be.
    """

    def __init__(self, constraints: Iterable[SizeConstraint]) -> None:
        self.solved: dict[str, Size] = {}
        self._limits: list[tuple[Size, int]] = []
        for constraint in sorted(constraints, key=lambda one: (one.at_least, one.is_soft)):
            try:
                self._settle(constraint)
            except SizeError:
                continue  # too long to compute with: the initial sizes are tried

    def sizes(self, given: _Sizes, chosen: _Sizes) -> dict[str, int]:
        """Sizes of symbols that meet the constraints.  given: initial sizes.  chosen: sizes that must not change.

        Raises SizeError if a size cannot be computed.
        """
        base: dict[str, int] = {**given, **chosen}
        follows = {name: size for name, size in self.solved.items() if symbols(size) <= base.keys()}
        while True:
            found = {**base, **{name: evaluate(size, base) for name, size in follows.items()}, **chosen}
            lower = self._lowered(base, found, chosen)
            if lower is None:
                return found
            base.update(lower)

    def _lowered(self, base: _Sizes, found: _Sizes, chosen: _Sizes) -> _Sizes | None:
        """A smaller value for one independent size, if some limit is exceeded; else None."""
        for size, most in self._limits:
            excess = evaluate(size, found) - most if symbols(size) <= found.keys() else 0
            if excess <= 0:
                continue
            whole = substitute(size, self.solved)
            free = (name for name in symbols(whole) if name not in chosen and base.get(name, 0) > 1)
            for name in sorted(free, key=lambda name: (-base[name], name)):
                slope = most + excess - evaluate(whole, {**found, **base, name: base[name] - 1})
                if slope > 0:
                    return {name: max(1, base[name] - -(-excess // slope))}
        return None

    def _settle(self, constraint: SizeConstraint) -> None:
        """Eliminate one size, so that a constraint is satisfied, if possible."""
        if constraint.at_least and isinstance(constraint.one, int):
            self._limits.append((constraint.other, constraint.one))
            return
        excess = substitute(constraint.one - constraint.other, self.solved)
        if not isinstance(excess, int):
            excess = exact_quotient(excess, gcd(*(factor for _, factor in excess.terms))) or excess
        if isinstance(excess, int) or (constraint.at_least and _is_never_negative(excess)):
            return
        found = _solution(excess, constraint.at_least)
        if constraint.is_soft and found is not None and isinstance(found[1], int):
            return  # n = 4 * n would leave only 0
        if found is None or not _is_never_negative(found[1]):
            for name, other in combinations(sorted(symbols(excess)), 2):  # b·n - c·n is zero where b and c are equal
                fewer = substitute(excess, {name: symbol(other)})
                better = None if isinstance(fewer, int) else _solution(fewer, constraint.at_least)
                if better is not None and _is_never_negative(better[1]):
                    self._let(name, symbol(other))
                    found = better
                    break
        if found is not None:
            self._let(*found)

    def _let(self, name: str, value: Size) -> None:
        """Express a size by others."""
        self.solved = {known: substitute(size, {name: value}) for known, size in self.solved.items()}
        self.solved[name] = value


def _solution(excess: Expr, at_least: bool) -> tuple[str, Size] | None:
    """The symbol that `excess` = 0 can be solved for, and its value; None if there is none.

    Prefer a value that is never negative, and for an inequality a symbol with coefficient 1.
    """
    values = {name: value for name in sorted(symbols(excess)) if (value := _solved(excess, name)) is not None}

    def oddity(name: str) -> tuple[bool, bool, bool, str]:
        takes = at_least and excess != symbol(name) - values[name]
        return not _is_never_negative(values[name]), not name.startswith("?"), takes, name

    found = min(values, key=oddity, default=None)
    return None if found is None else (found, values[found])


def _solved(excess: Expr, name: str) -> Size | None:
    """Solve `excess` = 0 for a symbol; None unless it occurs in one term only, with coefficient 1 or -1."""
    rest, alone = substitute(excess, {name: 0}), symbol(name)
    return -rest if excess == alone + rest else rest if excess == rest - alone else None


def _is_never_negative(size: Size) -> bool:
    least = lower_bound(size)
    return least is not None and least >= 0
