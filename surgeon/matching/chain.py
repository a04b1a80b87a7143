"""A sum or product to look for: signed operands and one number."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from surgeon.matching.pattern import Value
from surgeon.matching.state import State

Next = Callable[[], bool]
Matcher = Callable[[State, str, Next], bool]


class Folded(NamedTuple):
    """A constant on the way, folded into the number of a chain.

    number, eps, rank, is_float: what `Constants.scalar` says.  sign: -1 where it divides or is subtracted.  name: of
    the tensor, "" for the -1 that a Neg stands for.
    """

    number: float
    eps: float
    rank: int
    is_float: bool
    sign: int
    name: str


FLIP = Folded(-1.0, 0.0, 0, False, 1, "")
"""What a Neg is in a product."""


@dataclass(frozen=True, slots=True)
class Term:
    """An operand of a pattern's chain.  heads: ops that can make it (None: anything, a constant too)."""

    matcher: Matcher
    sign: int
    heads: frozenset[str] | None
    value: Value


@dataclass(frozen=True, slots=True)
class Chain:
    """A sum or product to look for.

    identity: what changes nothing, 1 in a product and 0 in a sum.  number: the constant part; capture: the name that
    binds it instead.  is_division: it is one Div, which means the same in integers only as it stands.  laws: what
    algebra may do to a product's operands, and opens: the ops of operands to which it may; merges: whether two operands
    of a sum may be one product (`surgeon.matching.algebra`).
    """

    family: frozenset[str]
    terms: tuple[Term, ...]
    identity: float
    number: float
    rtol: float | None
    capture: str | None
    key: int
    is_division: bool = False
    laws: frozenset[str] = frozenset()
    opens: frozenset[str] = frozenset()
    merges: bool = False

