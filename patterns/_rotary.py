"""What is turned by a rotary embedding, by what, and how: the patterns of its rule."""

from typing import Any

from surgeon import Captures, Graph, Tensor
from ._rotary_parts import HALVES, NEIGHBOURS, Heads, Parts


class Table(Captures):
    """Cosines or sines: of half a head, or of whole heads, and then each column stands twice.

    lifted: those of half a head, with an axis of one behind.
    """

    half: Tensor | Any = None
    whole: Tensor | Any = None
    lifted: Tensor | Any = None


class Rotary(Heads):
    """Heads and the tables that they are turned by.

    front, behind: what is joined to the turned halves by one node.  backwards: the parts that meet the sines, if they
    turn the other way.  y: what is made, where that may have another shape.
    """

    y: Tensor | Any = None
    backwards: Tensor | Any = None
    front: Tensor | Any = None
    behind: Tensor | Any = None
    cos: Table
    sin: Table


class Neighbours(Rotary):
    """The same, for heads whose neighbours are turned against each other."""

    axis = cut_at = NEIGHBOURS


class NeighboursAsHalves(Rotary):
    """Heads whose neighbours are turned against each other, and become halves."""

    cut_at = NEIGHBOURS


def by_tables(g: Graph, m: Rotary) -> Tensor:
    """x · cos ± turned(x) · sin, perhaps in another dtype than x's; the parts may be multiplied with the sine first."""
    return g.any_of(*(turned_by_tables(g, m, of_base) for of_base in (False, True)))


def turned_by_tables(g: Graph, m: Rotary, of_base: bool) -> Tensor:
    """The same.  of_base: of heads that are split from one tensor with their parts."""
    parts = Parts(g, m, of_base)
    m.backwards = parts.backwards()
    own, other = (g.any_of(x, g.cast(x, to=m.wide)) for x in (m.x, g.any_of(parts.turned(), m.backwards)))
    (a, b), sin = parts.two, m.sin.half
    products = parts.together(g.any_of(g.mul(g.neg(b), sin), g.neg(g.mul(b, sin))), g.mul(a, sin))
    return g.add(g.mul(own, m.cos.whole), g.any_of(g.mul(other, m.sin.whole), products))


def by_formulas(g: Graph, m: Rotary, of_base: bool = False) -> Tensor:
    """a · cos − b · sin beside b · cos + a · sin, for the two parts a, b of a head and tables of half a head.

    of_base: for heads that are split at once into the parts.
    """
    parts = Parts(g, m, of_base, has_x=not of_base)
    turned = rotated(g, parts.two, m.cos.half, m.sin.half)
    if m.axis != HALVES:
        lifted = rotated(g, parts.kept, m.cos.lifted, m.sin.lifted)
        m.y = g.any_of(parts.stacked(*turned), parts.joined(*lifted))
        return m.y
    m.y = parts.stacked(*turned)
    joined = ([*turned], [m.front, *turned], [*turned, m.behind])
    return g.any_of(*(g.concat(*x, axis=-1) for x in joined), m.y)


def rotated(g: Graph, two: Any, cos: Any, sin: Any) -> tuple[Tensor, Tensor]:
    """The two parts, each by its formula."""
    a, b = two
    return g.sub(g.mul(a, cos), g.mul(b, sin)), g.add(g.mul(b, cos), g.mul(a, sin))
