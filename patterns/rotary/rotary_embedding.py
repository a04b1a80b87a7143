"""Rotary position embedding (Su et al., arXiv:2104.09864): halves of a head, or neighbours, rotated by angles."""

from typing import cast

from surgeon import Captures, Graph, Tensor, require, rule
from ._decomposed_rotary import (
    DecomposedRotary,
    DeinterleavedRotary,
    InterleavedRotary,
    matrix_form,
    rotate_half_form,
    two_term_form,
)
from ._emit_rotary import emit_onnx_rotary, emit_ort_rotary, emit_rotary
from ._fused_rotary import FusedRotary, decompose_rotary, onnx_rotary_node, ort_rotary_node, to_onnx_rotary


def of_halves(g: Graph, m: DecomposedRotary) -> Tensor:
    """a · cos − b · sin before b · cos + a · sin, or x · cos + (−b before a) · sin. a and b are halves of a head."""
    return g.any_of(two_term_form(g, m), rotate_half_form(g, m), rotate_half_form(g, m, of_base=True))


def of_neighbours(g: Graph, m: InterleavedRotary) -> Tensor:
    """The same for neighbours, optionally as complex numbers.  Heads may be split into pairs in one step."""
    forms = two_term_form(g, m), two_term_form(g, m, of_base=True), matrix_form(g, m), rotate_half_form(g, m)
    return g.any_of(*forms, rotate_half_form(g, m, of_base=True))


def of_sorted_neighbours(g: Graph, m: DeinterleavedRotary) -> Tensor:
    """The same for neighbours that become halves, as in DeepSeek."""
    return two_term_form(g, m)


@rule(patterns=[of_halves, of_neighbours, of_sorted_neighbours], form_patterns=[ort_rotary_node])
def rotary_embedding(g: Graph, m: Captures) -> Tensor:
    """Fuse a rotary embedding into one RotaryEmbedding node.

    What: a · cos − b · sin and b · cos + a · sin. a and b are the halves of the last axis of [batch, head, row,
    column], or neighbours there.  Each part may have its own formula, or both may be written as x · cos + turned(x) ·
    sin.  The sines may contain the signs.  The heads may follow the rows.  For target onnx, the op of ONNX Runtime
    becomes RotaryEmbedding too.  For target decomposed, both ops become primitives.
    Numerics: rounding only.
    """
    require(isinstance(m, DecomposedRotary), "RotaryEmbedding (ONNX) is not converted to an op of ONNX Runtime")
    return emit_rotary(g, cast(DecomposedRotary, m), emit_ort_rotary)


@rotary_embedding.on("onnx", opset=23, patterns=[onnx_rotary_node])
def _(g: Graph, m: Captures) -> Tensor:
    return (
        emit_rotary(g, m, emit_onnx_rotary)
        if isinstance(m, DecomposedRotary)
        else to_onnx_rotary(g, cast(FusedRotary, m))
    )


@rotary_embedding.on("decomposed")
def _(g: Graph, m: Captures) -> Tensor:
    require(not isinstance(m, DecomposedRotary), "it is already decomposed")
    return decompose_rotary(g, cast(FusedRotary, m))
