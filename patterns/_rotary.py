"""What is turned by a rotary embedding, by what, and how: the patterns that its rules have in common."""

from surgeon import Graph, Tensor
from ._layouts import ABSENT
from ._rotary_parts import HALVES, Heads, Parts
from ._rotary_tables import Table, whole


class Rotary(Heads):
    """Heads and the tables that they are turned by; front, behind: what is joined to the turned halves by one node."""

    front: Tensor = ABSENT
    behind: Tensor = ABSENT
    cos: Table
    sin: Table


def by_tables(g: Graph, m: Rotary, axis: int, **how: bool) -> Tensor:
    """x · cos + turned(x) · sin, perhaps in another dtype than x's; the parts may be multiplied with the sine first."""
    parts, cosine, sine = Parts(g, m, axis, **how), whole(g, m.cos, g.cos, axis), whole(g, m.sin, g.sin, axis)
    own, other = (g.any_of(x, g.cast(x, to=m.wide)) for x in (m.x, parts.turned()))
    (a, b), sin = parts.two, m.sin.half
    products = parts.together(g.any_of(g.mul(g.neg(b), sin), g.neg(g.mul(b, sin))), g.mul(a, sin))
    return g.add(g.mul(own, cosine), g.any_of(g.mul(other, sine), products))


def by_formulas(g: Graph, m: Rotary, axis: int, is_moved: bool = False, **how: bool) -> Tensor:
    """a · cos − b · sin beside b · cos + a · sin, for the two parts a, b of a head and tables of half a head.

    is_moved: neighbours become halves.
    """
    parts, cos, sin = Parts(g, m, axis, **how), m.cos.half, m.sin.half
    a, b = parts.two
    if is_moved:
        m.evens = a
        a = m.evens
    turned = g.sub(g.mul(a, cos), g.mul(b, sin)), g.add(g.mul(b, cos), g.mul(a, sin))
    made = parts.together(*turned, axis=HALVES if is_moved else axis)
    if axis != HALVES and not is_moved:
        return made
    return g.any_of(made, g.concat(m.front, *turned, axis=-1), g.concat(*turned, m.behind, axis=-1))
