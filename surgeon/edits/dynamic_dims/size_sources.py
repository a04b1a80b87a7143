"""Traces a fixed size back to the constant or node that sets it, and plans its replacement."""

from math import prod
from typing import Any

import numpy as np

from surgeon.edits.dynamic_dims.planned_inputs import CannotBeDynamic, Revisit
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Size, exact_quotient, symbols
from surgeon.shapes.op_rules.rule_table import axis_labels
from surgeon.shapes.op_rules.size_inputs import SizeInput, size_input
from surgeon.shapes.tensor_types import NodeView

MAX_ELEMENTS = 1 << 24  # most elements of a constant that is examined


def make_follow(walk: SizePropagation, site: NodeView, position: int, axis: int, size: Size) -> None:
    """Make an input of a node follow a size along an axis.  Raises Revisit on success, else CannotBeDynamic."""
    source = walk.shapes.origin.producer(site.scope, site.inputs[position])
    old = walk.fixed_size(size)
    if source is not None and (old != 1 or len(source[1].scope.readers(source[1].outputs[0])) <= 1):
        maker = walk.node_view(source[1])
        found = size_input(maker, axis)
        if found is not None:
            _replace_number(walk, maker, found, size)
    if walk.is_constant(site, position):
        _follow_constant(walk, site, position, axis=axis, size=size)
    elif old == 1:
        _repeat(walk, site, position, axis=axis, size=size)
    if source is not None:
        _follow_through(walk, walk.node_view(source[1]), axis, size)
    raise CannotBeDynamic(
        site.node, f"reads {_original_name(walk, site, position)!r}, which has the fixed size {old} instead of {size}"
    )


def _original_name(walk: SizePropagation, site: NodeView, position: int) -> str:
    name = site.inputs[position]
    given = next((item.recipe for item in walk.given.values() if item.name == name), None)
    return name if given is None else getattr(given, "tensor", site.node.inputs[position])


def _follow_constant(walk: SizePropagation, site: NodeView, position: int, axis: int, size: Size) -> None:
    """Repeat a constant of equal elements along an axis, or extend an enumeration of positions."""
    shape = site.shape(position)
    if shape is None or not all(isinstance(width, int) for width in shape):
        return
    if np.prod([int(str(width)) for width in shape], dtype=float) > MAX_ELEMENTS:
        return
    array = walk.constant(site, position)
    if array is None or array.ndim <= axis:
        return
    if array.dtype.kind in "iu" and _is_count(array, axis):
        selects = _selects_samples(walk, site)
        if array.shape[axis] > 1 and not selects:
            walk.notes.position_enumerators.add(site.node)
        if array.shape[axis] > 1 or selects:
            walk.plan_range(site, position, axis, size)
            raise Revisit(site.node)
    if bool((array == np.take(array, [0], axis)).all()):
        _repeat(walk, site, position, axis=axis, size=size)


def _is_count(array: np.ndarray[Any, Any], axis: int) -> bool:
    """Whether an array holds 0, 1, 2, ... along an axis, and one element along the others."""
    return array.size == array.shape[axis] and bool((array.reshape(-1) == np.arange(array.size)).all())


def _selects_samples(walk: SizePropagation, site: NodeView) -> bool:
    """Whether a constant part of a Concat is the index along a dynamic dim of a GatherND or ScatterND."""
    labels = axis_labels(site)
    if labels is None or not labels.joined:
        return False
    before: Size = 0
    for place in range(len(site.inputs)):
        shape = site.shape(place)
        if walk.is_constant(site, place):
            break
        before = before + (shape[-1] if shape else 0)
    for reader in site.node.scope.readers(site.node.outputs[0]):
        for lookup in traits_of(reader.op).indexing.lookups:
            if lookup.by_tuples and reader.inputs[lookup.indices] == site.node.outputs[0]:
                table = walk.node_view(reader).shape(lookup.table) or ()
                if isinstance(before, int) and before < len(table) and walk.is_dynamic([table[before]]):
                    walk.notes.position_readers.add(reader)
                    return True
    return False


def _repeat(walk: SizePropagation, site: NodeView, position: int, axis: int, size: Size) -> None:
    shape = site.shape(position)
    if shape is not None:
        walk.plan_repeat(site, position, axis, size, cut=shape[axis] != 1)
        raise Revisit(site.node)


def _follow_through(walk: SizePropagation, site: NodeView, axis: int, size: Size) -> None:
    """Make the inputs of a node follow a size of its output, if the node only passes the axis on."""
    labels = axis_labels(site)
    if labels is None or labels.output is None:
        follow = _follow_reshaped if traits_of(site.node.op).shape.is_reshape else _follow_in_place
        follow(walk, site, axis, size)
    else:
        for place, own in labels.origins(axis):
            if (site.shape(place) or ())[own] == walk.fixed_size(size):
                make_follow(walk, site, place, axis=own, size=size)


def _follow_in_place(walk: SizePropagation, site: NodeView, axis: int, size: Size) -> None:
    """Follow an output axis to the same axis of the first input: rows of a product, samples of a layer."""
    made, shape = walk.view.facts(site.scope, site.node.outputs[0]).shape, site.shape(0)
    if made is not None and shape is not None and len(made) == len(shape) and shape[axis] == made[axis]:
        make_follow(walk, site, 0, axis=axis, size=size)


def _follow_reshaped(walk: SizePropagation, site: NodeView, axis: int, size: Size) -> None:
    """Follow an output axis of a Reshape to the input axis at the same position in the order of elements.

    Several axes are possible if the Reshape merges axes, or the old size is 1.
    """
    made, given = walk.view.facts(site.scope, site.node.outputs[0]).shape, site.shape(0)
    if made is None or given is None:
        return
    sizes, ours = ([int(str(walk.fixed_size(one))) for one in shape if isinstance(one, int)] for shape in (given, made))
    if len(sizes) < len(given) or len(ours) < len(made) or not prod(ours):
        return
    begin, end = prod(ours[:axis]), prod(ours[: axis + 1])
    old = prod(walk.fixed_sizes[name] for name in symbols(size) & walk.fixed_sizes.keys())
    found: list[tuple[bool, int, Size]] = []
    for place, width in enumerate(sizes):
        start, stop = prod(sizes[:place]), prod(sizes[: place + 1])
        lies = begin <= start <= end if width == 1 else start < end and stop > begin
        wanted = exact_quotient(size * width, ours[axis])
        if lies and wanted is not None and width % old == 0 and walk.is_dynamic([wanted]):
            found.append((width != old, place, wanted))
    if found:
        found.sort(key=lambda item: item[:2])
        _, place, wanted = found[walk.choose(site, ("follow", given, made, axis), len(found))]
        make_follow(walk, site, 0, axis=place, size=wanted)


def _replace_number(walk: SizePropagation, site: NodeView, found: SizeInput, size: Size) -> None:
    """Replace one number of a size input, if it is the old size.  Raises Revisit once it does."""
    value = site.value(found.position)
    numbers = [] if value is None else value.reshape(-1).tolist()
    place = found.place
    if value is not None and 0 <= place < len(numbers) and numbers[place] == walk.fixed_size(size):
        made = [*numbers[:place], size, *numbers[place + 1 :]]
        walk.plan_size_input(site, found.position, made, scalar=value.ndim == 0)
        raise Revisit(site.node)
