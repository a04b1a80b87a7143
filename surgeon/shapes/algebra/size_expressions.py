"""Sizes by name: dims as expressions of the dynamic dims.

A `Size` is an int or an `Expr` (see `polynomials`): equal expressions compare equal, and print the same.  Symbols are
sizes of dims: bounds assume that they are at least 0.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from surgeon.shapes.algebra.polynomials import (
    MAX_DEGREE,
    Atom,
    Expr,
    Size,
    SizeError,
    SizeFunction,
    as_function,
    exact_quotient,
    floor_div,
    is_total,
    of_atom,
    product,
    symbol,
)

MAX_CASES = 6  # maximum number of calls for a bound by cases

__all__ = [
    "Expr",
    "Size",
    "SizeError",
    "SizeFunction",
    "as_function",
    "at_least",
    "evaluate",
    "exact_quotient",
    "floor_div",
    "has_calls",
    "is_total",
    "lower_bound",
    "parse_size",
    "product",
    "size_max",
    "size_min",
    "substitute",
    "symbol",
    "symbols",
]


def symbols(size: Size) -> frozenset[str]:
    """The names of all symbols in a size, including those in calls."""
    return frozenset() if isinstance(size, int) else _symbols(size)


@lru_cache(maxsize=4096)
def _symbols(size: Expr) -> frozenset[str]:
    found: set[str] = set()
    for atom in _atoms(size):
        found |= {atom} if isinstance(atom, str) else {name for item in atom.args for name in symbols(item)}
    return frozenset(found)


def has_calls(size: Size, *kinds: str) -> bool:
    """Whether a size contains a call of one of these kinds."""
    calls = [] if isinstance(size, int) else [atom for atom in _atoms(size) if isinstance(atom, SizeFunction)]
    return any(call.kind in kinds or any(has_calls(item, *kinds) for item in call.args) for call in calls)


def evaluate(size: Size, sizes: Mapping[str, int]) -> int:
    """The value of a size if every symbol has one.

    Raises SizeError for a symbol without a value and for a division by 0.
    """
    if isinstance(size, int):
        return size
    total = 0
    for monomial, coefficient in size.terms:
        for atom, power in monomial:
            coefficient *= _value(atom, sizes) ** power
        total += coefficient
    return total


def substitute(size: Size, sizes: "Mapping[str, Size]") -> Size:
    """A size with some symbols replaced by other sizes.  Raises SizeError if the result is too long."""
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        term: Size = coefficient
        for atom, power in monomial:
            if isinstance(atom, str):
                value = sizes.get(atom, symbol(atom))
            else:
                value = _called(atom.kind, [substitute(item, sizes) for item in atom.args])
            for _ in range(power):
                term = term * value
        total = total + term
    return total


def lower_bound(size: Size) -> int | None:
    """A lower bound of a size, for any values of its symbols; None if none is found."""
    if isinstance(size, int):
        return size
    total = 0
    for monomial, coefficient in size.terms:
        for atom, power in monomial:
            least = 0 if isinstance(atom, str) else _lower_bound_of_call(atom)
            if least is None or least < 0 or coefficient < 0:
                return _lower_bound_by_cases(size)
            coefficient *= least**power
        total += coefficient
    by_cases = _lower_bound_by_cases(size)
    return total if by_cases is None else max(total, by_cases)


def _lower_bound_by_cases(size: Expr) -> int | None:
    """max(a, b) + c is at least a + c and at least b + c; min(a, b) + c is one of the two; similarly for differences.
    """
    if not 0 < size.calls <= MAX_CASES:
        return None
    for monomial, coefficient in size.terms:
        call = monomial[0][0] if len(monomial) == 1 and monomial[0][1] == 1 else ""
        if isinstance(call, SizeFunction) and call.kind in ("min", "max") and abs(coefficient) == 1:
            rest = size - coefficient * of_atom(call)
            bounds = [lower_bound(rest + coefficient * item) for item in call.args]
            known = [bound for bound in bounds if bound is not None]
            if (call.kind == "max") == (coefficient > 0):
                return max(known, default=None)
            return min(known) if len(known) == len(bounds) else None
    return None


def at_least(size: Size, other: Size) -> bool:
    """Whether `size` is provably at least `other`."""
    least = lower_bound(size - other)
    return least is not None and least >= 0


def size_max(*sizes: Size) -> Size:
    """The largest of some sizes; a call if it depends on the symbols."""
    return _extreme("max", sizes, at_least)


def size_min(*sizes: Size) -> Size:
    """The smallest of some sizes; a call if it depends on the symbols."""
    return _extreme("min", sizes, lambda size, other: at_least(other, size))


def parse_size(text: str) -> Size:
    """The size that a dim_param represents.

    Syntax: integers, names, `+ - * / // % **`, parentheses, `floor`, `min` and `max` (in either case).  Any other text
    is the name of one symbol.  A dash without spaces is part of a name, as in `seq-len`.
    """
    text = text.strip()
    if not re.search(r"[+*/%(]| - |^-|^\d+$", text):
        return symbol(text)
    names: dict[str, str] = {}

    def stand_in(found: re.Match[str]) -> str:
        name = found.group()
        if text[found.end() :].lstrip().startswith("("):
            return name
        return names.setdefault(name, f"_{len(names)}")

    try:
        tree = ast.parse(re.sub(r"[A-Za-z_][\w.]*(?:-[\w.]+)*", stand_in, text), mode="eval")
        return _with_min(_read(tree.body, {short: name for name, short in names.items()}))
    except (SyntaxError, ValueError, SizeError, RecursionError):
        return symbol(text)  # a name, not an expression


def _with_min(size: Size) -> Size:
    """n - max(a, b) as min(n - a, n - b): the rest after a slice, in the form of `slice_size`; torch writes the former.
    """
    for monomial, coefficient in size.terms if isinstance(size, Expr) else ():
        call = as_function(Expr(((monomial, 1),))) if monomial and coefficient == -1 else None
        if call is not None and call.kind == "max":
            rest = size + of_atom(call)
            return size if isinstance(rest, Expr) and rest.calls else size_min(*(rest - item for item in call.args))
    return size


def _read(node: ast.expr, names: Mapping[str, str]) -> Size:
    """The size of a syntax tree.  Raises ValueError for anything but arithmetic on sizes."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return symbol(names[node.id])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_read(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_read(node.left, names), _read(node.right, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args and not node.keywords:
        read = [_read(item, names) for item in node.args]
        kind = node.func.id.lower()
        if kind == "floor" and len(read) == 1:
            return read[0]  # the quotient inside of it is floored already
        if kind in ("min", "max"):
            return _called(kind, read)
    raise ValueError("not an expression of sizes")


def _power(size: Size, power: Size) -> Size:
    if not isinstance(power, int) or not 0 <= power <= MAX_DEGREE:
        raise ValueError("not a power of a size")
    return product([size] * power)


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Size]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: floor_div(a, b),
    ast.FloorDiv: lambda a, b: floor_div(a, b),
    ast.Mod: lambda a, b: a - b * floor_div(a, b),
    ast.Pow: _power,
}


def _atoms(size: Expr) -> Iterator[Atom]:
    return (atom for monomial, _ in size.terms for atom, _ in monomial)


def _value(atom: Atom, sizes: Mapping[str, int]) -> int:
    if isinstance(atom, str):
        if atom not in sizes:
            raise SizeError(f"The size {atom!r} has no value. Give one.")
        return sizes[atom]
    values = [evaluate(item, sizes) for item in atom.args]
    if atom.kind == "floor":
        if not values[1]:
            raise SizeError(f"The size {atom} is divided by 0. Choose other sizes for the dims.")
        return values[0] // values[1]
    return max(values) if atom.kind == "max" else min(values)


def _called(kind: str, sizes: list[Size]) -> Size:
    return floor_div(*sizes) if kind == "floor" else (size_max if kind == "max" else size_min)(*sizes)


def _lower_bound_of_call(call: SizeFunction) -> int | None:
    bounds = [lower_bound(item) for item in call.args]
    known = [bound for bound in bounds if bound is not None]
    if call.kind == "max":
        return max(known, default=None)
    if len(known) < len(bounds):
        return None
    if call.kind == "min":
        return min(known)
    over, under = known
    if isinstance(call.args[1], int) and under > 0:
        return over // under
    return 0 if over >= 0 and under >= 0 else None


def _extreme(kind: str, sizes: Iterable[Size], beats: Callable[[Size, Size], bool]) -> Size:
    """The size that exceeds all others, or a call of those that no other exceeds."""
    flat: list[Size] = []
    for size in sizes:
        call = as_function(size)
        flat += call.args if call is not None and call.kind == kind else (size,)
    left: list[Size] = []
    for size in flat:
        if not any(beats(other, size) for other in left):
            left = [other for other in left if not beats(size, other)] + [size]
    if len(left) == 1:
        return left[0]
    return of_atom(SizeFunction(kind, tuple(sorted(left, key=lambda size: (isinstance(size, Expr), str(size))))))
