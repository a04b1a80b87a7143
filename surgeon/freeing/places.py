"""Indices that tell the place along what is free: at a size of 1 they are all 0, which is no count to be seen."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from surgeon.freeing.plan import Back, Counted, Stuck, Tuples
from surgeon.freeing.walk import Walk
from surgeon.ops.records import record
from surgeon.shapes.facts import INT64, Facts, NodeView, Shape
from surgeon.shapes.symbols import Size, exact_quotient, symbol, symbols


def tell_tuples(walk: Walk, site: NodeView, element: int) -> None:
    """Make one element of tuples of indices that are fixed count.  Raises Back once it does, Stuck where it cannot."""
    name, shape = site.inputs[1], site.shape(1) or ()
    array = walk.shapes.origin.constants.array(site.scope, name)
    if array is None or array[..., element].any():
        raise Stuck(site.node, f"picks fixed places by {name!r} of what is to be free")
    axis = _axis(walk, site, 1, shape[:-1])
    made = _at(shape, axis, _size(walk, (site.shape(0) or ())[element]))
    walk.telling.add(site.node)
    walk.give(site, 1, Tuples(name, element, axis, made), Facts(site.dtype(1), made))
    raise Back(site.node)


def tell_flat(walk: Walk, site: NodeView, size: Size) -> None:
    """The same of indices into a table laid flat, a row of which is as long as what the count is multiplied by."""
    row = exact_quotient(size, _size(walk, size))
    for factor, position in _counts(walk, site, site.inputs[1], row):
        walk.telling.add(site.node)
        shape = factor.shape(position) or ()
        axis = _axis(walk, factor, position, shape)
        made = _at(shape, axis, _size(walk, size))
        dtype = factor.dtype(position) or INT64
        walk.give(factor, position, Counted(axis, made, dtype), Facts(dtype, made))
        raise Back(factor.node)


def _counts(walk: Walk, site: NodeView, name: str, row: Size | None) -> Iterator[tuple[NodeView, int]]:
    """Zeros that are multiplied by the length of a row, on the way to a tensor of indices, and who reads them."""
    source = walk.shapes.origin.producer(site.scope, name)
    if source is None or row is None:
        return
    maker = walk.site(source[1])
    told = record(maker.node.op)
    if told.broadcasts and len(maker.inputs) == 2:
        for position in (0, 1):
            if _is(walk, maker, position, 0) and _is(walk, maker, 1 - position, row) and told.family == "product":
                yield maker, position
            elif told.family == "sum":
                yield from _counts(walk, maker, maker.inputs[position], row)
    elif told.regroups or told.retypes:
        yield from _counts(walk, maker, maker.inputs[0], row)


def _is(walk: Walk, site: NodeView, position: int, number: Size) -> bool:
    """Whether all elements of what a node reads are a number; of zeros, whether they are fixed in the file."""
    if number == 0 and not walk.shapes.origin.constants.is_constant(site.scope, site.inputs[position]):
        return False
    found: Any = site.value(position)
    return found is not None and found.size > 0 and bool(np.all(found.reshape(-1) == number))


def _size(walk: Walk, size: Size) -> Size:
    """The symbol that a size hangs on."""
    return symbol(next(iter(walk.free.keys() & symbols(size))))


def _axis(walk: Walk, site: NodeView, position: int, shape: Shape) -> int:
    """The axis along which to count, which must be of size 1."""
    axes = [axis for axis, size in enumerate(shape) if size == 1]
    if not axes:
        raise Stuck(site.node, f"picks fixed places by {site.inputs[position]!r} of what is to be free")
    return axes[walk.choose(site, (site.node.op, shape, position), len(axes))]


def _at(shape: Shape, axis: int, size: Size) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])
