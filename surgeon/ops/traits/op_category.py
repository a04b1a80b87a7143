"""The kind of work of an operator, for people who look at a graph: from its traits, not from its name."""

from typing import Literal

from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import traits_of

Category = Literal[
    "attention", "product", "norm", "reduction", "movement", "dtype", "control", "arithmetic", "elementwise", "other"
]


def op_category(op: str) -> Category:
    """The category of an operator by its qualified name; "other" if its traits say nothing."""
    traits = traits_of(op)
    numerics, algebra = traits.numerics, traits.algebra
    if traits.products.kind:
        return "attention" if traits.products.kind == "attention" else "product"
    if traits.control.has_bodies:
        return "control"
    if numerics.is_softmax or numerics.norm_axis is not None or _sums_rows(traits):
        return "norm"
    if numerics.reduces or numerics.accumulates or numerics.is_argsort_like or traits.products.slides_window:
        return "reduction"
    if traits.dtype.is_cast or traits.dtype.quantization:
        return "dtype"
    if algebra.family or algebra.comparison or traits.shape.broadcasts:
        return "arithmetic"
    if traits.data.copies_elements or traits.shape.is_reshape or traits.shape.returns_sizes or traits.indexing.lookups:
        return "movement"
    return "elementwise" if traits.keeps_shape else "other"


def _sums_rows(traits: OpTraits) -> bool:
    """Whether each output element depends on sums over its row: a norm or a softmax, but not a running sum."""
    return traits.numerics.accumulates and traits.keeps_shape and traits.shape.axes is None
