"""What is turned by a rotary embedding, by what, and how: the patterns of its rule."""

from typing import Any

from surgeon import Captures, Graph, Tensor
from ._rotary_halves import HALF_SPLIT, INTERLEAVED, HeadPairs, RotaryInput


class CosSinTable(Captures):
    """Cosines or sines: of half a head, or of whole heads, and then each column stands twice.

    lifted: those of half a head, with an axis of one behind.  signed: sines of whole heads, for the first part the
    negatives of those for the second.  negated: the negative of those of half a head.
    pair: both, beside each other: (cos, sin) for the cosines, (−sin, cos) for the sines.
    """

    half: Tensor | Any = None
    whole: Tensor | Any = None
    lifted: Tensor | Any = None
    signed: Tensor | Any = None
    negated: Tensor | Any = None
    pair: Tensor | Any = None


class DecomposedRotary(RotaryInput):
    """Heads and the tables that they are turned by.

    front, behind: what is joined to the turned halves by one node.  backwards: the parts that meet the sines, if they
    turn the other way.  y: what is made, where that may have another shape.  scale: what both tables are multiplied
    with.  matrix: ((cos, −sin), (sin, cos)) for each pair, in place of tables.
    """

    y: Tensor | Any = None
    backwards: Tensor | Any = None
    front: Tensor | Any = None
    behind: Tensor | Any = None
    cos: CosSinTable
    sin: CosSinTable
    scale: CosSinTable
    matrix: Tensor | Any = None


class InterleavedRotary(DecomposedRotary):
    """The same, for heads whose neighbours are turned against each other."""

    axis = cut_at = INTERLEAVED


class DeinterleavedRotary(DecomposedRotary):
    """Heads whose neighbours are turned against each other, and become halves."""

    cut_at = INTERLEAVED


def rotate_half_form(g: Graph, m: DecomposedRotary, of_base: bool = False) -> Tensor:
    """x · cos ± turned(x) · sin, perhaps in another dtype than x's; the parts may be multiplied with the sine first.

    Or x · cos + swapped(x) · sin, where the sines have the signs; or x · cos · scale + turned(x) · sin · scale, as xPos
    has it.  of_base: of heads that are split from one tensor with their parts.
    """
    parts = HeadPairs(g, m, of_base)
    forwards, m.backwards = parts.turned()
    turned = g.any_of(forwards, m.backwards)
    own, other, swapped = (g.any_of(x, g.cast(x, to=m.wide)) for x in (m.x, turned, parts.swapped()))
    (a, b), sin = parts.two, m.sin.half
    products = parts.together(g.mul(g.neg(b), sin), g.mul(a, sin))
    with_signs = g.mul(swapped, m.sin.signed)
    plain = g.add(g.mul(own, m.cos.whole), g.any_of(g.mul(other, m.sin.whole), products, with_signs))
    scale = m.scale.whole
    return g.any_of(plain, g.add(g.mul(own, m.cos.whole, scale), g.mul(other, m.sin.whole, scale)))


def two_term_form(g: Graph, m: DecomposedRotary, of_base: bool = False) -> Tensor:
    """a · cos − b · sin beside b · cos + a · sin, for the two parts a, b of a head and tables of half a head.

    of_base: for heads that are split at once into the parts.
    """
    parts, made = HeadPairs(g, m, of_base, has_x=not of_base), []
    for turned in rotated(g, m, parts.two, cos=m.cos.half, sin=m.sin.half):
        made.append(parts.stacked(*turned))
        if m.axis == HALF_SPLIT:
            joined = ([*turned], [m.front, *turned], [*turned, m.behind])
            made += (g.concat(*x, axis=-1) for x in joined)
    if m.axis == INTERLEAVED:
        made += (parts.joined(*turned) for turned in rotated(g, m, parts.kept, cos=m.cos.lifted, sin=m.sin.lifted))
    m.y = g.any_of(*made)
    return m.y


def matrix_form(g: Graph, m: InterleavedRotary) -> Tensor:
    """(cos, sin) · a + (−sin, cos) · b, for neighbours a, b, as FLUX has it; heads are split at once into pairs.

    Or the sums of the rows of ((cos, −sin), (sin, cos)) · (a, b), as Kandinsky has it.
    """
    m.parts = g.reshaped(m.base)
    a, b = g.unstacked(m.parts, 2, -1)
    rows = g.reduce_sum(g.mul(m.matrix, m.parts), axes=[-1], keepdims=0)
    m.y = g.reshaped(g.any_of(g.add(g.mul(m.cos.pair, a), g.mul(m.sin.pair, b)), rows))
    return m.y


def rotated(g: Graph, m: DecomposedRotary, two: Any, cos: Any, sin: Any) -> list[tuple[Tensor, Tensor]]:
    """The two parts, each by its formula: turned forwards, backwards, or by a sine and its negative."""
    a, b = two
    of_a, of_b = g.mul(a, cos), g.mul(b, cos)
    m.backwards = g.sub(of_b, g.mul(a, sin))
    forwards = g.sub(of_a, g.mul(b, sin)), g.add(of_b, g.mul(a, sin))
    return [forwards, (g.add(of_a, g.mul(b, sin)), m.backwards), (g.add(of_a, g.mul(b, m.sin.negated)), forwards[1])]
