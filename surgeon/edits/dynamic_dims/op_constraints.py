"""Per operator: which input sizes must match, and which inputs must follow a dynamic size."""

from collections.abc import Callable, Sequence

from surgeon.edits.dynamic_dims.planned_inputs import CannotBeDynamic
from surgeon.edits.dynamic_dims.position_indices import enumerate_concatenated, enumerate_flat, enumerate_tuples
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.edits.dynamic_dims.reshape_candidates import candidate_shapes, target_for
from surgeon.edits.dynamic_dims.size_sources import make_follow
from surgeon.edits.dynamic_dims.trip_counts import check_loop
from surgeon.ir.scope import split_op
from surgeon.ops.schemas import history
from surgeon.ops.traits.trait_lookup import (
    ELEMENT_LOOKUPS,
    GATHERS,
    LOOPS,
    LOSSES,
    TUPLE_LOOKUPS,
    ops_with,
    traits_of,
)
from surgeon.printed_commands import upgrade_to
from surgeon.shapes.algebra.size_expressions import (
    Size,
    as_function,
    exact_quotient,
    has_calls,
    product,
    substitute,
    symbol,
)
from surgeon.shapes.op_rules.data_movement import reshaped
from surgeon.shapes.op_rules.indexing import FAR, slice_parameters
from surgeon.shapes.op_rules.rule_table import axis_labels
from surgeon.shapes.opsets.migration import OLDEST
from surgeon.shapes.tensor_types import INT32, NodeView, normalize_axis

MULTIPLES = 9  # multiples of the old size at which two sizes are compared
UNCLEAR = "and the graph does not show whether that changes with the size"


def check(walk: SizePropagation, site: NodeView) -> None:
    """Make the inputs of one node fit.

    Raises Revisit if an earlier node had to change, CannotBeDynamic if no change helps.
    """
    if site.node.op in CHECKS:
        CHECKS[site.node.op](walk, site)
    labels = axis_labels(site)
    for _, axes in () if labels is None else labels.axes(site):
        make_equal(walk, site, axes)
    made = [walk.view.facts(site.scope, name) for name in site.node.outputs if name]
    if any(facts.shape is None for facts in made) and not walk.shapes.bodies(site.node):
        walk.notes.unknown_nodes[site.node] = None


def make_equal(walk: SizePropagation, site: NodeView, axes: Sequence[tuple[int, int, Size]]) -> None:
    """Make sizes equal.  axes: positions of inputs, their axes, and the sizes there."""
    wanted = next((size for _, _, size in axes if walk.is_dynamic([size])), None)
    if wanted is None:
        return
    for position, axis, size in axes:
        if _are_equal(walk, size, wanted) or (not isinstance(size, int) and not walk.is_dynamic([size])):
            continue
        if size != walk.fixed_size(wanted):
            raise CannotBeDynamic(
                site.node, f"cannot combine the size {size} with {wanted}", number=size, symbolic=wanted
            )
        make_follow(walk, site, position, axis=axis, size=wanted)


def _are_equal(walk: SizePropagation, size: Size, other: Size) -> bool:
    """Whether two sizes are equal, or differ only if a division has a remainder.

    An image that is halved and doubled again has its old size if that is even.
    """
    size, other = _without_bound(size), _without_bound(other)
    if size == other or not (walk.is_dynamic([size]) and walk.is_dynamic([other])):
        return size == other
    if not (has_calls(size, "floor") or has_calls(other, "floor")):
        return False
    multiples = [{name: old * factor for name, old in walk.fixed_sizes.items()} for factor in range(1, MULTIPLES)]
    return all(substitute(size, known) == substitute(other, known) for known in multiples)


def _without_bound(size: Size) -> Size:
    """A size without a constant bound, which a size that must match another does not reach.

    A table that is sliced to a length has such a bound: its own length.
    """
    call = as_function(size)
    others = [item for item in call.args if not isinstance(item, int)] if call and call.kind != "floor" else []
    return others[0] if len(others) == 1 else size


def _per_channel(walk: SizePropagation, site: NodeView) -> None:
    """Ops with weights for each channel."""
    shape, axis = site.shape(0), traits_of(site.node.op).products.weighted_axis
    if shape is not None and walk.is_dynamic(shape[axis:][:1]):
        raise CannotBeDynamic(
            site.node, "has weights for each channel, so the number of channels cannot change"
        )


def _reshape(walk: SizePropagation, site: NodeView) -> None:
    shape, value = site.shape(0), site.value(1)
    target = site.attribute("shape") if not site.has(1) else None if value is None else value.reshape(-1).tolist()
    if shape is None or target is None or any(size is None for size in target):
        walk.notes.unknown_nodes[site.node] = None
        return
    allow_zero = bool(site.attribute("allowzero", 0))
    found = candidate_shapes(shape, target, allow_zero, walk.fixed_sizes)
    if not found:
        made = product([size for size in reshaped(shape, target, allow_zero) if size is not None])
        why = f"cannot reshape {_listed(shape)} to {_listed(target)}"
        raise CannotBeDynamic(site.node, why, number=made, symbolic=product(shape))
    reading = found[walk.choose(site, (shape, tuple(target), allow_zero), len(found))]
    if tuple(reshaped(shape, target, allow_zero)) != reading:
        _require_input(site, 1)
        walk.plan_size_input(site, 1, target_for(reading, shape, allow_zero, walk.fixed_sizes))


def _expand(walk: SizePropagation, site: NodeView) -> None:
    shape, value = site.shape(0), site.value(1)
    target = None if value is None else value.reshape(-1).tolist()
    if shape is None or target is None:
        walk.notes.unknown_nodes[site.node] = None
        return
    made = list(target)
    for axis, size in enumerate(shape):
        place = axis - len(shape) + len(target)
        if place < 0 or not walk.is_dynamic([size]) or target[place] in (1, size, None):
            continue
        if target[place] != walk.fixed_size(size):
            raise CannotBeDynamic(
                site.node, f"cannot expand the size {size} to {target[place]}", number=target[place], symbolic=size
            )
        made[place] = 1
    if made != target:
        walk.plan_size_input(site, 1, made)


def _slice(walk: SizePropagation, site: NodeView) -> None:
    shape, found = site.shape(0), slice_parameters(site)
    if shape is None or found is None:
        walk.notes.unknown_nodes[site.node] = None
        return
    starts, ends, axes, steps = found
    made = list(ends)
    far = FAR if site.dtype(2) == INT32 else (1 << 63) - 1
    for place, (start, end, axis, step) in enumerate(zip(starts, ends, axes, steps, strict=True)):
        size = shape[normalize_axis(axis, len(shape))]
        old = walk.fixed_size(size)
        if not walk.is_dynamic([size]) or not isinstance(old, int):
            continue
        if old > 1 and (old - 1 in (start, end) or (end == old and start not in (0, -old))):
            raise CannotBeDynamic(
                site.node, f"slices {start}:{end} of {size} (it was {old}), {UNCLEAR}"
            )
        if end == old and step > 0:
            made[place] = far
    if made != list(ends):
        _require_input(site, 2)
        walk.plan_size_input(site, 2, made)


def _gather(walk: SizePropagation, site: NodeView) -> None:
    table, value, indices = site.shape(0), site.value(1), site.shape(1)
    if table is None or indices is None:
        walk.notes.unknown_nodes[site.node] = None
        return
    size = table[normalize_axis(site.attribute("axis", 0), len(table))]
    old = walk.fixed_size(size)
    if not walk.is_dynamic([size]):
        return
    enumerate_flat(walk, site, size)
    if not walk.is_constant(site, 1):
        return
    numbers = None if value is None else value.reshape(-1).tolist()
    if numbers is None or (old == 1) or (len(numbers) > 1 and old in (len(numbers), max(numbers) + 1)):
        if len(indices) == 1 and indices[0] == old and old != 1:
            make_follow(walk, site, 1, axis=0, size=size)
        raise CannotBeDynamic(site.node, f"reads fixed positions of {size} (it was {old})")
    if len(numbers) > 1 and any(exact_quotient(size, symbol(name)) not in (None, 1) for name in walk.fixed_sizes):
        raise CannotBeDynamic(
            site.node, f"reads fixed positions of {size} (it was {old}), along which samples are concatenated"
        )
    if old - 1 in numbers:
        raise CannotBeDynamic(
            site.node, f"reads position {numbers[0]} of {size} (it was {old}), {UNCLEAR}"
        )


def _gather_elements(walk: SizePropagation, site: NodeView) -> None:
    """Ops whose indices and updates have the axes of the table, equal except for one."""
    table, indices = site.shape(0), site.shape(1)
    if table is None or indices is None or len(table) != len(indices):
        walk.notes.unknown_nodes[site.node] = None
        return
    along = normalize_axis(site.attribute("axis", 0), len(table))
    if walk.is_dynamic([table[along]]) and walk.fixed(site, 1):
        raise CannotBeDynamic(
            site.node, f"reads fixed positions of {table[along]} (it was {walk.fixed_size(table[along])})"
        )
    for axis, sizes in enumerate(zip(table, indices, strict=True)):
        if axis != along:
            make_equal(walk, site, [(place, axis, size) for place, size in enumerate(sizes)])


def _gather_nd(walk: SizePropagation, site: NodeView) -> None:
    table, indices = site.shape(0), site.shape(1)
    width = indices[-1] if indices else None
    if table is None or indices is None or not isinstance(width, int):
        walk.notes.unknown_nodes[site.node] = None
        return
    batch = site.attribute("batch_dims", 0)
    for element, size in enumerate(table[batch : batch + width]):
        if not walk.is_dynamic([size]) or site.node in walk.notes.position_readers:
            continue
        is_fixed = walk.is_constant(site, 1)
        if is_fixed and batch:
            raise CannotBeDynamic(site.node, f"reads fixed positions of {_listed(table)}")
        if is_fixed:
            enumerate_tuples(walk, site, element)
        enumerate_concatenated(walk, site, element, size)


def _split(walk: SizePropagation, site: NodeView) -> None:
    shape = site.shape(0)
    if shape is None:
        return
    axis, parts = normalize_axis(site.attribute("axis", 0), len(shape)), len(site.node.outputs)
    if parts > 1 and walk.fixed_size(shape[axis]) == parts and walk.is_dynamic([shape[axis]]):
        raise CannotBeDynamic(site.node, f"splits {shape[axis]} into {parts} parts of 1")
    if walk.is_dynamic([shape[axis]]) and (site.has(1) or site.attribute("split") is not None):
        if parts > 1:
            raise CannotBeDynamic(site.node, f"splits {shape[axis]} into fixed parts")
        _require_input(site, 1)
        walk.plan_size_input(site, 1, [shape[axis]])


def _affine_grid(walk: SizePropagation, site: NodeView) -> None:
    """AffineGrid: one matrix per image, so the batch of its size input follows."""
    matrices, value = site.shape(0), site.value(1)
    if not matrices or value is None:
        walk.notes.unknown_nodes[site.node] = None
        return
    count, *rest = value.reshape(-1).tolist()
    if walk.is_dynamic([matrices[0]]) and count == walk.fixed_size(matrices[0]):
        walk.plan_size_input(site, 1, [matrices[0], *rest])
    elif count is not None:
        make_equal(walk, site, [(1, 0, count), (0, 0, matrices[0])])


def _squeeze(walk: SizePropagation, site: NodeView) -> None:
    shape, axes = site.shape(0), site.axes(1)
    if shape is None:
        return
    gone = range(len(shape)) if axes is None else [normalize_axis(axis, len(shape)) for axis in axes]
    if walk.is_dynamic([shape[axis] for axis in gone]):
        raise CannotBeDynamic(site.node, "removes the dynamic axis" if axes else "removes every axis of size 1")


def _resize(walk: SizePropagation, site: NodeView) -> None:
    shape, value = site.shape(0), site.value(3) if site.has(3) else None
    if shape is None or value is None:
        return
    axes = site.attribute("axes") or range(len(shape))
    target = value.reshape(-1).tolist()
    made = list(target)
    for place, axis in enumerate(axes):
        size = shape[normalize_axis(axis, len(shape))]
        if walk.is_dynamic([size]) and isinstance(target[place], int):
            if target[place] == walk.fixed_size(size):
                made[place] = size
            else:
                walk.notes.fixing_nodes[site.node] = (
                    f"resizes {size} (it was {walk.fixed_size(size)}) to {target[place]}"
                )
    if made != target:
        walk.plan_size_input(site, 3, made)


def _require_input(site: NodeView, position: int) -> None:
    if not site.has(position):
        later = (one.since_version for one in history(*split_op(site.node.op)) if len(one.inputs) > position)
        how = [f"Raise the opset first: {upgrade_to(min(later))}"] if (site.scope.opset or 0) >= OLDEST else []
        raise CannotBeDynamic(site.node, "has the size as an attribute", *how)


def _listed(sizes: "Sequence[Size | None]") -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _loss(walk: SizePropagation, site: NodeView) -> None:
    """Losses: scores [N, C, ...] and labels [N, ...] with values below C."""
    scores = site.shape(0)
    if scores is not None and walk.is_dynamic(scores[1:2]) and walk.fixed(site, 1):
        raise CannotBeDynamic(site.node, f"reads fixed positions of {scores[1]} (it was {walk.fixed_size(scores[1])})")


CHECKS: dict[str, Callable[[SizePropagation, NodeView], None]] = {
    **dict.fromkeys(ops_with("weighted_axis"), _per_channel),
    **dict.fromkeys(GATHERS, _gather),
    **dict.fromkeys(ELEMENT_LOOKUPS, _gather_elements),
    **dict.fromkeys(TUPLE_LOOKUPS, _gather_nd),
    **dict.fromkeys(LOSSES, _loss),
    **dict.fromkeys(LOOPS, check_loop),
    "AffineGrid": _affine_grid,
    "Expand": _expand,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
}
