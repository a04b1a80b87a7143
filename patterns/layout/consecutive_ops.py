"""Chains of nodes that move or cut, in one node."""

from surgeon import Graph, Tensor, require, rule


def transposed_twice(g: Graph, x: Tensor, first: list[int], second: list[int]) -> Tensor:
    """x with its axes in another order, and that in another."""
    return g.transpose(g.shared(g.transpose(x, perm=first)), perm=second)


@rule(patterns=[transposed_twice], target="any")
def consecutive_transposes(g: Graph, x: Tensor, first: list[int] | None, second: list[int] | None) -> Tensor:
    """Write two transposes as one, or as none where the second undoes the first.

    What: Transpose of a Transpose.  The first stays where others read it too.
    Numerics: none.
    """
    if first is None and second is None:
        return x
    back = list(range(len(first or second or ())))[::-1]
    order = [(first or back)[axis] for axis in second or back]
    return x if order == sorted(order) else g.transpose(x, perm=order)


def unsqueezed_twice(g: Graph, x: Tensor, first: list[int], second: list[int]) -> Tensor:
    """x with axes of one element, and with more of them."""
    return g.unsqueeze(g.shared(g.unsqueeze(x, first)), second)


@rule(patterns=[unsqueezed_twice], target="any")
def consecutive_unsqueezes(g: Graph, x: Tensor, first: list[int], second: list[int]) -> Tensor:
    """Write two Unsqueeze nodes as one.

    What: Unsqueeze of an Unsqueeze, both with fixed axes.  The first stays where others read it too.
    Numerics: none.
    """
    if min((*first, *second), default=0) < 0:
        require(x.shape is not None, "an axis counts from the back, and the rank of the input is unknown")
        inner = x.rank + len(first)
        first = [axis % inner for axis in first]
        second = [axis % (inner + len(second)) for axis in second]
    kept = [axis for axis in range(max((*first, *second), default=0) + len(first) + len(second)) if axis not in second]
    return g.unsqueeze(x, sorted([*second, *(kept[axis] for axis in first)]))


def sliced_twice(
    g: Graph,
    x: Tensor,
    starts: list[int],
    ends: list[int],
    further_starts: list[int],
    further_ends: list[int],
    axes: list[int] | None = None,
    steps: list[int] | None = None,
    further_axes: list[int] | None = None,
    further_steps: list[int] | None = None,
) -> Tensor:
    """A part of a part of x."""
    part = g.slice(x, starts, ends, axes, steps)
    return g.slice(part, further_starts, further_ends, further_axes, further_steps)


@rule(patterns=[sliced_twice], target="any")
def consecutive_slices(
    g: Graph,
    x: Tensor,
    starts: list[int],
    ends: list[int],
    axes: list[int] | None,
    steps: list[int] | None,
    further_starts: list[int],
    further_ends: list[int],
    further_axes: list[int] | None,
    further_steps: list[int] | None,
) -> Tensor:
    """Write two slices along different axes as one.

    What: Slice of a Slice with fixed bounds, each axis cut once.  Where others read the first, both stay.
    Numerics: none.
    """
    first = list(range(len(starts))) if axes is None else axes
    second = list(range(len(further_starts))) if further_axes is None else further_axes
    if min((*first, *second), default=0) < 0:
        require(x.shape is not None, "an axis counts from the back, and the rank of the input is unknown")
        first, second = ([axis % x.rank for axis in given] for given in (first, second))
    require(not set(first) & set(second), "both cut along one axis")
    strides = [*(steps or [1] * len(first)), *(further_steps or [1] * len(second))]
    return g.slice(
        x,
        starts=[*starts, *further_starts],
        ends=[*ends, *further_ends],
        axes=[*first, *second],
        **({} if set(strides) == {1} else {"steps": strides}),
    )
