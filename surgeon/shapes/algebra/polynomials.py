"""Polynomials with integer coefficients over symbols and calls: the normal form of a size, and its arithmetic.

A `Size` is an int, or an `Expr`: a polynomial over atoms.  An atom is a symbol (the size of a dynamic dim, known when
the model runs) or a function `floor(a/b)`, `min(...)` or `max(...)`.  Simplification assumes that no divisor is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import NamedTuple, TypeAlias

from surgeon.errors import ConditionFailed, SurgeonError

MAX_TERMS, MAX_DEGREE, MAX_NUMBER, MAX_CALLS = 128, 32, 2**64, 40


class SizeError(SurgeonError):
    """A size cannot be computed: a symbol has no value, a divisor is 0, or the expression is too large."""


class SizeFunction(NamedTuple):
    """An atom that is a function of sizes."""

    kind: str
    """"floor", "min" or "max"."""
    args: tuple[Size, ...]
    """Dividend and divisor for floor, else two or more sizes."""

    def __str__(self) -> str:
        if self.kind == "floor":
            over, under = (_in_brackets(item) for item in self.args)
            return f"floor({over}/{under})"
        return f"{self.kind}({', '.join(map(str, self.args))})"


class Expr:
    """A symbolic size, from arithmetic on `symbol`.  Immutable and hashable; equal expressions compare equal.

    terms: ((atom, power), ...) and its coefficient, for each term, highest degree first, the constant last.  calls: the
    number of function atoms in it, at any depth.  Raises SizeError if there are too many.
    """

    __slots__ = ("_hash", "_text", "calls", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._text = ""
        atoms = [atom for monomial, _ in terms for atom, _ in monomial if not isinstance(atom, str)]
        inner = [item for atom in atoms for item in atom.args if isinstance(item, Expr)]
        self.calls: int = len(atoms) + sum([item.calls for item in inner])
        if self.calls > MAX_CALLS:
            raise SizeError("A size expression is too large. The shapes of this model are not plausible.")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms

    def __lt__(self, other: object) -> bool:
        """Raises ConditionFailed: symbolic sizes have no order."""
        raise ConditionFailed(
            f"the size {self} is not fixed, so it cannot be compared with {other}"
        )

    __le__ = __gt__ = __ge__ = __lt__

    def __reduce__(self) -> tuple[type[Expr], tuple[tuple[tuple[Monomial, int], ...]]]:
        return Expr, (self.terms,)  # hashes of strings differ from process to process

    def __add__(self, other: Size) -> Size:
        return _sum(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Size) -> Size:
        return _sum(self, other, -1)

    def __rsub__(self, other: Size) -> Size:
        return _sum(other, self, -1)

    def __neg__(self) -> Size:
        return _sum(0, self, -1)

    def __mul__(self, other: Size) -> Size:
        return _product(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return floor_div(self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return floor_div(other, self)

    def __mod__(self, other: Size) -> Size:
        return self - other * floor_div(self, other)

    def __rmod__(self, other: Size) -> Size:
        return other - self * floor_div(other, self)

    def is_min_with_number(self, whole: Size) -> bool:
        """Whether it is the minimum of another size and a number above 1, as of a slice of a buffer.

        An axis of this size that broadcasts with one of the other size must equal it: it is 1 only if the other is.
        """
        call = as_function(self)
        if call is None or call.kind != "min" or whole not in call.args:
            return False
        return all(other == whole or (isinstance(other, int) and other > 1) for other in call.args)

    def is_min_with_one(self, whole: Size) -> bool:
        """Whether it is min(1, whole), which broadcasts to `whole`."""
        call = as_function(self)
        return call is not None and call.kind == "min" and set(call.args) == {1, whole}

    def is_total_of(self, parts: Size) -> bool:
        """Whether it is the name of a total, and the other size is a sum of past and new tokens, treated as equal."""
        return isinstance(parts, Expr) and len(parts.terms) > 1 and is_total(str(self)) and str(self) not in str(parts)

    def is_part_of_buffer(self, rows: Size, columns: Size, keys: Size) -> bool:
        """Whether it is the size of a slice of a square buffer that has `rows` rows if the buffer has all keys.

        The slice has min(buffer, keys) columns and max(0, min(rows, rows + buffer - keys)) rows.
        """
        call, other = as_function(self), as_function(columns)
        if call is not None and call.kind == "max" and call.args[0] == 0:
            call = as_function(call.args[-1])
        if call is None or other is None or call.kind != "min" or rows not in call.args:
            return False
        rest = [size - keys for size in other.args if isinstance(size, int)]
        return all(size == rows or size - rows in rest for size in call.args)

    def __str__(self) -> str:
        self._text = self._text or _spelled(self)
        return self._text

    __repr__ = __str__


def is_total(key: str) -> bool:
    """Whether a dim of this name counts past and new tokens together."""
    return "total" in key.lower()


Size: TypeAlias = int | Expr
Atom: TypeAlias = str | SizeFunction
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]


def symbol(name: str) -> Expr:
    """The size named `name`."""
    return Expr(((((name, 1),), 1),))


def product(sizes: Iterable[Size]) -> Size:
    """The product of all, 1 for none."""
    total: Size = 1
    for size in sizes:
        total = total * size
    return total


def exact_quotient(size: Size, divisor: Size) -> Size | None:
    """size / divisor if the division of polynomials has no remainder, else None.

    Long division of polynomials in several unknowns (Cox, Little, O'Shea, Ideals, Varieties, and Algorithms, §2.3).
    """
    if divisor == 0:
        return None
    rest, under = terms_of(size), terms_of(divisor)
    lead = min(under, key=_order)
    quotient: dict[Monomial, int] = {}
    while rest:
        top = min(rest, key=_order)
        monomial = _without(top, lead)
        factor, left = divmod(rest[top], under[lead])
        if monomial is None or left:
            return None
        quotient[monomial] = factor
        for other, coefficient in under.items():
            _add_term(rest, _times(monomial, other), -factor * coefficient)
        if len(rest) > MAX_TERMS:
            return None
    return _made(quotient)


def floor_div(size: Size, divisor: Size) -> Size:
    """The floor of size / divisor, exact if the division has no remainder.  Raises SizeError for divisor 0."""
    if divisor == 0:
        raise SizeError("A size is divided by 0. Choose other sizes for the dims.")
    if isinstance(size, int) and isinstance(divisor, int):
        return size // divisor
    exact = exact_quotient(size, divisor)
    if exact is not None:
        return exact
    size, divisor = _cancelled(size, divisor)
    if isinstance(divisor, int):
        return _floor_by_number(size, divisor)
    return of_atom(SizeFunction("floor", (size, divisor)))


def as_function(size: Size) -> SizeFunction | None:
    """The function call that a size consists of, or None."""
    if isinstance(size, Expr) and len(size.terms) == 1:
        (monomial, coefficient), *_ = size.terms
        (atom, power), *more = monomial
        if coefficient == power == 1 and not more and isinstance(atom, SizeFunction):
            return atom
    return None


def _floor_by_number(size: Size, divisor: int) -> Size:
    """floor(size / divisor): multiples of the divisor are factored out, floor((floor(a/b) + k)/c) is floor((a +
    k·b)/(b·c)).
    """
    if divisor < 0:
        size, divisor = -size, -divisor
    whole = {monomial: coefficient // divisor for monomial, coefficient in terms_of(size).items()}
    rest = _made({monomial: coefficient % divisor for monomial, coefficient in terms_of(size).items()})
    if isinstance(rest, int):
        return _made(whole)
    shift = dict(rest.terms).get((), 0)
    inner = as_function(rest - shift)
    if inner is not None and inner.kind == "floor" and isinstance(inner.args[1], int) and inner.args[1] > 0:
        return _made(whole) + floor_div(inner.args[0] + shift * inner.args[1], divisor * inner.args[1])
    common = gcd(divisor, *(coefficient for _, coefficient in rest.terms))
    rest = _made({monomial: coefficient // common for monomial, coefficient in rest.terms})
    return _made(whole) + of_atom(SizeFunction("floor", (rest, divisor // common)))


def _cancelled(size: Size, divisor: Size) -> tuple[Size, Size]:
    """Both sizes without the common factors of all terms."""
    terms = [*terms_of(size).items(), *terms_of(divisor).items()]
    number = gcd(*(coefficient for _, coefficient in terms))
    shared = dict(terms[0][0])
    for monomial, _ in terms[1:]:
        powers = dict(monomial)
        shared = {atom: min(power, powers[atom]) for atom, power in shared.items() if atom in powers}
    factor = _made({_sorted(shared): number})
    over, under = exact_quotient(size, factor), exact_quotient(divisor, factor)
    return (size, divisor) if over is None or under is None else (over, under)


def terms_of(size: Size) -> dict[Monomial, int]:
    return dict(size.terms) if isinstance(size, Expr) else ({(): size} if size else {})


def _made(terms: Mapping[Monomial, int]) -> Size:
    """The size of a sum of terms, as an int if it is constant.  Raises SizeError if it is too long."""
    kept = [(monomial, coefficient) for monomial, coefficient in terms.items() if coefficient]
    if len(kept) > MAX_TERMS or any(abs(coefficient) > MAX_NUMBER for _, coefficient in kept):
        raise SizeError("A size expression is too large. The shapes of this model are not plausible.")
    if not kept or (len(kept) == 1 and not kept[0][0]):
        return kept[0][1] if kept else 0
    if len(kept) > 1:
        kept.sort(key=lambda term: _order(term[0]))
    return Expr(tuple(kept))


def of_atom(atom: Atom) -> Expr:
    return Expr(((((atom, 1),), 1),))


def _sum(size: Size, other: Size, sign: int) -> Size:
    if not isinstance(size, (int, Expr)) or not isinstance(other, (int, Expr)):
        return NotImplemented
    total = terms_of(size)
    for monomial, coefficient in terms_of(other).items():
        _add_term(total, monomial, sign * coefficient)
    return _made(total)


def _product(size: Expr, other: Size) -> Size:
    if not isinstance(other, (int, Expr)):
        return NotImplemented
    total: dict[Monomial, int] = {}
    for monomial, coefficient in size.terms:
        for beside, factor in terms_of(other).items():
            _add_term(total, _times(monomial, beside), coefficient * factor)
    return _made(total)


def _add_term(terms: dict[Monomial, int], monomial: Monomial, coefficient: int) -> None:
    total = terms.get(monomial, 0) + coefficient
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def _times(monomial: Monomial, other: Monomial) -> Monomial:
    if not monomial or not other:
        return monomial or other
    powers = dict(monomial)
    for atom, power in other:
        powers[atom] = powers.get(atom, 0) + power
    if sum(powers.values()) > MAX_DEGREE:
        raise SizeError("A size expression is too large. The shapes of this model are not plausible.")
    return _sorted(powers)


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """monomial / divisor, or None if it does not divide."""
    powers = dict(monomial)
    for atom, power in divisor:
        if powers.get(atom, 0) < power:
            return None
        powers[atom] -= power
    return tuple((atom, powers[atom]) for atom, _ in monomial if powers[atom])


def _sorted(powers: Mapping[Atom, int]) -> Monomial:
    return tuple(sorted(powers.items(), key=lambda item: _rank(item[0])))


def _rank(atom: Atom) -> tuple[bool, str]:
    return isinstance(atom, SizeFunction), str(atom)


def _order(monomial: Monomial) -> tuple[int, list[tuple[bool, str]]]:
    """A key that sorts terms from the highest degree to the constant: an admissible order of monomials."""
    word = [_rank(atom) for atom, power in monomial for _ in range(power)]
    return -len(word), word


def _in_brackets(size: Size) -> str:
    simple = isinstance(size, int) or (len(size.terms) == 1 and len(size.terms[0][0]) == 1 and size.terms[0][1] == 1)
    return str(size) if simple else f"({size})"


def _spelled(size: Expr) -> str:
    text = ""
    for monomial, coefficient in size.terms:
        factors = [str(atom) if power == 1 else f"{atom}**{power}" for atom, power in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = (" - " if coefficient < 0 else " + ") if text else ("-" if coefficient < 0 else "")
        text += sign + "*".join(factors)
    return text
