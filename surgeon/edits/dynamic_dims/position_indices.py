"""Index tensors that enumerate positions (0, 1, 2, ...) along a dynamic dim; at size 1 they are all 0."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from surgeon.edits.dynamic_dims.planned_inputs import CannotBeDynamic, IndexTuples, Revisit
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Size, exact_quotient, symbol, symbols
from surgeon.shapes.op_rules.rule_table import axis_labels
from surgeon.shapes.tensor_types import NodeView, Shape, TensorType


def enumerate_tuples(walk: SizePropagation, site: NodeView, element: int) -> None:
    """Make one element of constant index tuples enumerate positions.

    Raises Revisit once it does, CannotBeDynamic if it cannot.
    """
    name, shape, size = site.inputs[1], site.shape(1) or (), (site.shape(0) or ())[element]
    array = walk.constant(site, 1)
    axes = [] if array is None else _enumerated_axes(array, walk.fixed_size(size), element)
    if not axes or not all(isinstance(width, int) for width in shape):
        raise CannotBeDynamic(site.node, f"reads fixed positions along the dynamic axis, from {name!r}")
    axis = axes[walk.choose(site, (site.node.op, shape, element), len(axes))]
    made = _with_size(shape, axis, size)
    walk.notes.position_readers.add(site.node)
    walk.plan_input(site, 1, IndexTuples(name, element, axis, shape=made), TensorType(site.dtype(1), made))
    raise Revisit(site.node)


def enumerate_concatenated(walk: SizePropagation, site: NodeView, element: int, size: Size) -> None:
    """The same for tuples that a Concat joins: a constant part enumerates positions.  Raises Revisit."""
    found = walk.shapes.origin.producer(site.scope, site.inputs[1])
    joined = None if found is None else walk.node_view(found[1])
    labels = None if joined is None else axis_labels(joined)
    if joined is None or labels is None or not labels.joined:
        return
    before = 0
    for position in range(len(joined.inputs)):
        width = (joined.shape(position) or (0,))[-1]
        if not isinstance(width, int):
            return
        source = (
            _enumeration_source(walk, joined, position, walk.fixed_size(size))
            if before == element and width == 1
            else None
        )
        if source is not None:
            walk.notes.position_readers.add(site.node)
            _enumerate(walk, *source, size)
        before += width


def _enumeration_source(walk: SizePropagation, site: NodeView, position: int, old: Size) -> tuple[NodeView, int] | None:
    """The consumer of the constant enumeration that a tensor only moves and repeats; None without one."""
    while not _input_enumerated_axes(walk, site, position, old):
        source = walk.shapes.origin.producer(site.scope, site.inputs[position])
        if source is None or not (
            traits_of(source[1].op).data.copies_elements or traits_of(source[1].op).dtype.is_cast
        ):
            return None
        site, position = walk.node_view(source[1]), 0
    return site, position


def _enumerate(walk: SizePropagation, site: NodeView, position: int, size: Size) -> None:
    """Replace a constant enumeration by one of the dynamic size.  Raises Revisit."""
    axes = _input_enumerated_axes(walk, site, position, walk.fixed_size(size))
    shape = site.shape(position) or ()
    walk.plan_range(site, position, axes[walk.choose(site, (site.node.op, shape, position), len(axes))], size)
    raise Revisit(site.node)


def _input_enumerated_axes(walk: SizePropagation, site: NodeView, position: int, old: Size) -> list[int]:
    """Axes along which a constant input enumerates the old size; empty if it is not constant."""
    array = walk.constant(site, position)
    return [] if array is None or array.size != old else _enumerated_axes(array[..., None], old, 0)


def _enumerated_axes(array: np.ndarray[Any, Any], size: Size, element: int) -> list[int]:
    """Axes along which one element of tuples is 0, 1, 2, ..., and the others are constant."""
    found = []
    for axis in (axis for axis, width in enumerate(array.shape[:-1]) if width == size):
        wanted = np.repeat(array.take([0], axis), array.shape[axis], axis)
        count = np.arange(array.shape[axis]).reshape([-1 if at == axis else 1 for at in range(array.ndim - 1)])
        wanted[..., element] = count
        found += [axis] if np.array_equal(array, wanted) else []
    return found


def enumerate_flat(walk: SizePropagation, site: NodeView, size: Size) -> None:
    """The same for indices into a flattened table: an enumeration that is multiplied by the length of a row."""
    row = exact_quotient(size, _dynamic_dim(walk, size))
    for factor, position in _scaled_enumerations(
        walk, site, site.inputs[1], row=row, old=walk.fixed_size(_dynamic_dim(walk, size))
    ):
        walk.notes.position_readers.add(site.node)
        _enumerate(walk, factor, position, _dynamic_dim(walk, size))


def _scaled_enumerations(
    walk: SizePropagation, site: NodeView, name: str, row: Size | None, old: Size
) -> Iterator[tuple[NodeView, int]]:
    """Consumers of an enumeration that is multiplied by the length of a row, on the path to an index tensor."""
    source = walk.shapes.origin.producer(site.scope, name)
    if source is None or row is None:
        return
    maker = walk.node_view(source[1])
    traits = traits_of(maker.node.op)
    if traits.shape.broadcasts and len(maker.inputs) == 2:
        for position in (0, 1):
            if (
                traits.algebra.family == "product"
                and _is_constant_number(maker, 1 - position, row)
                and _input_enumerated_axes(walk, maker, position, old)
            ):
                yield maker, position
            elif traits.algebra.family == "sum":
                yield from _scaled_enumerations(walk, maker, maker.inputs[position], row=row, old=old)
    elif traits.shape.is_reshape or traits.dtype.is_cast:
        yield from _scaled_enumerations(walk, maker, maker.inputs[0], row=row, old=old)


def _is_constant_number(site: NodeView, position: int, number: Size) -> bool:
    """Whether all elements of an input equal a number."""
    found: Any = site.value(position)
    return found is not None and found.size > 0 and bool(np.all(found.reshape(-1) == number))


def _dynamic_dim(walk: SizePropagation, size: Size) -> Size:
    """The dynamic dim that a size depends on."""
    return symbol(next(iter(walk.fixed_sizes.keys() & symbols(size))))


def _with_size(shape: Shape, axis: int, size: Size) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])
