"""Where ops put the elements of their first input, for affine indices and for choices."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import onnx

from surgeon.ops.records import REGROUPING, named
from surgeon.shapes import affine, choices
from surgeon.shapes.affine import Affine
from surgeon.shapes.choices import Choice
from surgeon.shapes.facts import NodeView, Shape, axis_of
from surgeon.shapes.selecting import slice_parameters

Move: TypeAlias = Callable[[Affine], Affine | None]
PICKING = named(lambda op: op.moves == (0,) and not op.reduces)  # so that one of equal elements stays one


def move_of(site: NodeView, own: Shape, shape: Shape) -> Move | None:
    """Where an op puts the elements of its first input; None for an op that does more than that."""
    if site.node.op in REGROUPING:
        return lambda found: affine.regrouped(found, own, shape)
    if site.node.op == "Expand":
        return affine.spreading(own, shape)
    if site.node.op == "Transpose":
        perm = site.attribute("perm") or list(reversed(range(len(own))))
        return lambda found: Affine(found.offset, tuple(found.strides[axis] for axis in perm))
    cut = slice_parameters(site) if site.node.op == "Slice" else None
    return None if cut is None else lambda found: _cut_out(found, cut, own, shape)


def _cut_out(found: Affine, cut: Any, own: Shape, shape: Shape) -> Affine | None:
    """The index of a Slice of a tensor."""
    made: Affine | None = found
    for start, _, axis, step in zip(*cut, strict=True):
        place = axis_of(axis, len(own))
        made = None if made is None else affine.sliced(made, own, own, place, start, step)
    return None if made is None else affine.normal(made.offset, made.strides, shape)


def handed_on(site: NodeView, choice: Choice, own: Shape, shape: Shape) -> Choice | None:
    """What an op of one choice makes of it: the same elements elsewhere, in another dtype, or some of them."""
    op = site.node.op
    if op == "Identity":
        return choice
    if op == "Cast":
        wanted = onnx.helper.tensor_dtype_to_np_dtype(site.attribute("to"))
        with np.errstate(all="ignore"):
            return choice.mapped(lambda value: np.asarray(value).astype(wanted)[()])
    if op == "Trilu":
        return _half(site, choice, shape)
    if op == "CumSum":
        return choice if choice.is_uniform and choice.inside == 0 else None
    if op in PICKING and choice.is_uniform:
        return choice
    move = move_of(site, own, shape)
    return None if move is None else choices.moved(choice, move, shape)


def _half(site: NodeView, choice: Choice, shape: Shape) -> Choice | None:
    """Trilu of equal elements: they stay on one side of a diagonal, and are 0 on the other (ONNX, Trilu)."""
    shift = site.sizes(1) if site.has(1) else [0]
    if not choice.is_uniform or not shift or len(shift) != 1 or len(shape) < 2:
        return None
    sign = -1 if site.attribute("upper", 1) else 1
    strides = (*[0] * (len(shape) - 2), sign, -sign)
    bound = affine.normal(shift[0] * sign, strides, shape)
    return choices.chosen(choice.inside, np.zeros((), np.asarray(choice.inside).dtype)[()], (bound,), shape)
