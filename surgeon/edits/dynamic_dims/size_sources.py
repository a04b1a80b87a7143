"""Traces a fixed size back to the constant or node that sets it, and plans its replacement."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from surgeon.edits.dynamic_dims.planned_inputs import CannotBeDynamic, Revisit
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.shapes.algebra.size_expressions import Size, exact_quotient, symbols
from surgeon.shapes.op_rules.indexing import slice_parameters
from surgeon.shapes.op_rules.rule_table import axis_labels
from surgeon.shapes.tensor_types import NodeView, normalize_axis

MAX_ELEMENTS = 1 << 24  # most elements of a constant that is examined
INDEXED = {"GatherND": 1, "ScatterND": 1}
"""By op whose indices are tuples, the position of that input."""


def make_follow(walk: SizePropagation, site: NodeView, position: int, axis: int, size: Size) -> None:
    """Make an input of a node follow a size along an axis.  Raises Revisit on success, else CannotBeDynamic."""
    source = walk.shapes.origin.producer(site.scope, site.inputs[position])
    old = walk.fixed_size(size)
    if source is not None and source[1].op in SOURCES:
        maker = walk.node_view(source[1])
        readers = source[1].scope.readers(source[1].outputs[0])
        if old != 1 or len(readers) <= 1:
            SOURCES[source[1].op](walk, maker, axis, size)
    if walk.is_constant(site, position):
        _follow_constant(walk, site, position, axis=axis, size=size)
    elif old == 1:
        _repeat(walk, site, position, axis=axis, size=size)
    if source is not None:
        _follow_through(walk, walk.node_view(source[1]), axis, size)
    raise CannotBeDynamic(
        site.node, f"reads {_original_name(walk, site, position)!r}, which has {old} where {size} is free"
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
    if site.node.op != "Concat":
        return False
    before: Size = 0
    for place in range(len(site.inputs)):
        shape = site.shape(place)
        if walk.is_constant(site, place):
            break
        before = before + (shape[-1] if shape else 0)
    for reader in site.node.scope.readers(site.node.outputs[0]):
        if reader.op in INDEXED and reader.inputs[INDEXED[reader.op]] == site.node.outputs[0]:
            table = walk.node_view(reader).shape(0)
            if (
                table is not None
                and isinstance(before, int)
                and before < len(table)
                and walk.is_dynamic([table[before]])
            ):
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
    if site.node.op in SEVERAL_ORIGINS:
        SEVERAL_ORIGINS[site.node.op](walk, site, axis, size)
    elif labels is None or labels.output is None:
        _follow_in_place(walk, site, axis, size)
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


SEVERAL_ORIGINS: dict[str, Callable[[SizePropagation, NodeView, int, Size], None]] = {"Reshape": _follow_reshaped}
"""Ops with several input axes that an output axis may come from."""


def _replace_number(walk: SizePropagation, site: NodeView, position: int, place: int, size: Size) -> None:
    """Replace one number of a size input, if it is the old size."""
    value = site.value(position)
    numbers = None if value is None else value.reshape(-1).tolist()
    if (
        value is not None
        and numbers is not None
        and 0 <= place < len(numbers)
        and numbers[place] == walk.fixed_size(size)
    ):
        walk.plan_size_input(site, position, [*numbers[:place], size, *numbers[place + 1 :]], scalar=value.ndim == 0)
        raise Revisit(site.node)


def _follow_expand(walk: SizePropagation, site: NodeView, axis: int, size: Size) -> None:
    value, made = site.value(1), walk.view.facts(site.scope, site.node.outputs[0]).shape
    shape = site.shape(0)
    if value is None or made is None or shape is None:
        return
    own = axis - len(made) + len(shape)
    if own < 0 or shape[own] == 1:
        _replace_number(walk, site, 1, place=axis - len(made) + value.size, size=size)


def _follow_slice(walk: SizePropagation, site: NodeView, axis: int, size: Size) -> None:
    found, shape = slice_parameters(site), site.shape(0)
    if found is None or shape is None or not site.has(2):
        return
    for place, (start, end, along, step) in enumerate(zip(*found, strict=True)):
        if normalize_axis(along, len(shape)) == axis and (start, step) == (0, 1) and end == walk.fixed_size(size):
            _replace_number(walk, site, 2, place=place, size=size)


def _follow_range(walk: SizePropagation, site: NodeView, axis: int, size: Size) -> None:
    if site.sizes(0) == [0] and site.sizes(2) == [1]:
        _replace_number(walk, site, 1, place=0, size=size)


def _follow_resize(walk: SizePropagation, site: NodeView, axis: int, size: Size) -> None:
    if site.has(3) and not site.attribute("axes"):
        _replace_number(walk, site, 3, place=axis, size=size)


SOURCES: dict[str, Callable[[SizePropagation, NodeView, int, Size], None]] = {
    "AffineGrid": lambda walk, site, axis, size: (
        None if axis else _replace_number(walk, site, 1, place=axis, size=size)
    ),
    "ConstantOfShape": lambda walk, site, axis, size: _replace_number(walk, site, 0, place=axis, size=size),
    "Expand": _follow_expand,
    "Range": _follow_range,
    "Resize": _follow_resize,
    "Slice": _follow_slice,
    "Tile": lambda walk, site, axis, size: _replace_number(walk, site, 1, place=axis, size=size),
}
"""Ops with an input that sets a size of the output; each raises Revisit once that input follows."""
