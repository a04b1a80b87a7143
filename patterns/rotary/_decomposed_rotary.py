"""Patterns of a decomposed rotary embedding: its input, its tables and its rotation."""

from typing import Any

from surgeon import Captures, Graph, Tensor
from ._rotary_halves import HALF_SPLIT, INTERLEAVED, HeadPairs, RotaryInput


class CosSinTable(Captures):
    """Cosines or sines: for half a head, or for whole heads with each column twice.

    lifted: for half a head, with an axis of one at the end. signed: sines for whole heads, in which the first part is
    the negative of the second. negated: the negative sines for half a head.

    pair: two tables stacked in the last axis: (cos, sin) for the cosines, (−sin, cos) for the sines.
    """

    half: Tensor | Any = None
    whole: Tensor | Any = None
    lifted: Tensor | Any = None
    signed: Tensor | Any = None
    negated: Tensor | Any = None
    pair: Tensor | Any = None


class DecomposedRotary(RotaryInput):
    """Heads and the tables that rotate them.

    front, behind: tensors that one node joins with the rotated halves. backwards: the parts that are multiplied by the
    sines, if the rotation is in the opposite direction.

    y: the result, if its shape may differ. scale: a factor of both tables. matrix: ((cos, −sin), (sin, cos)) for each
    pair, instead of tables.
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
    """The same for heads whose neighbouring elements form pairs."""

    axis = cut_at = INTERLEAVED


class DeinterleavedRotary(DecomposedRotary):
    """Heads whose neighbouring elements form pairs and become halves."""

    cut_at = INTERLEAVED


def rotate_half_form(g: Graph, m: DecomposedRotary, of_base: bool = False) -> Tensor:
    """x · cos ± turned(x) · sin, optionally in another dtype.  The parts may be multiplied by the sine first.

    Also x · cos + swapped(x) · sin with signed sines, and x · cos · scale + turned(x) · sin · scale, as in xPos.

    of_base: match heads that are split from one tensor together with their parts.
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
    """a · cos − b · sin and b · cos + a · sin. a and b are the parts of a head, and the tables are for half a head.

    of_base: match heads that are split into the parts in one step.
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
    """(cos, sin) · a + (−sin, cos) · b, for neighbours a, b, as in FLUX.  Heads are split into pairs in one step.

    Also the sums of the rows of ((cos, −sin), (sin, cos)) · (a, b), as in Kandinsky.
    """
    m.parts = g.reshaped(m.base)
    a, b = g.unstacked(m.parts, 2, -1)
    rows = g.reduce_sum(g.mul(m.matrix, m.parts), axes=[-1], keepdims=0)
    m.y = g.reshaped(g.any_of(g.add(g.mul(m.cos.pair, a), g.mul(m.sin.pair, b)), rows))
    return m.y


def rotated(g: Graph, m: DecomposedRotary, two: Any, cos: Any, sin: Any) -> list[tuple[Tensor, Tensor]]:
    """The two rotated parts, each by its formula: forwards, backwards, or with a sine and its negative."""
    a, b = two
    of_a, of_b = g.mul(a, cos), g.mul(b, cos)
    m.backwards = g.sub(of_b, g.mul(a, sin))
    forwards = g.sub(of_a, g.mul(b, sin)), g.add(of_b, g.mul(a, sin))
    return [forwards, (g.add(of_a, g.mul(b, sin)), m.backwards), (g.add(of_a, g.mul(b, m.sin.negated)), forwards[1])]
