"""Chains of nodes that move or slice a tensor and become one node."""

from surgeon import Graph, Tensor, require, rule


def transposed_twice(g: Graph, x: Tensor, first: list[int], second: list[int]) -> Tensor:
    """A Transpose of a Transpose."""
    return g.transpose(g.shared(g.transpose(x, perm=first)), perm=second)


@rule(patterns=[transposed_twice], target="any")
def consecutive_transposes(g: Graph, x: Tensor, first: list[int] | None, second: list[int] | None) -> Tensor:
    """Merge two Transposes into one, or remove both if the second undoes the first.

    What: Transpose of a Transpose.  The first stays if it has other consumers.
    Numerics: none.
    """
    if first is None and second is None:
        return x
    back = list(range(len(first or second or ())))[::-1]
    order = [(first or back)[axis] for axis in second or back]
    return x if order == sorted(order) else g.transpose(x, perm=order)


def unsqueezed_twice(g: Graph, x: Tensor, first: list[int], second: list[int]) -> Tensor:
    """An Unsqueeze of an Unsqueeze."""
    return g.unsqueeze(g.shared(g.unsqueeze(x, first)), second)


@rule(patterns=[unsqueezed_twice], target="any")
def consecutive_unsqueezes(g: Graph, x: Tensor, first: list[int], second: list[int]) -> Tensor:
    """Merge two Unsqueeze nodes into one.

    What: Unsqueeze of an Unsqueeze, both with fixed axes.  The first stays if it has other consumers.
    Numerics: none.
    """
    if min((*first, *second), default=0) < 0:
        require(x.shape is not None, "an axis counts from the end, and the rank of the input is unknown")
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
    """A Slice of a Slice."""
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
    """Merge two Slices along different axes into one.

    What: Slice of a Slice with fixed bounds and different axes.  The rule does not match if the first has other
    consumers.
    Numerics: none.
    """
    first = list(range(len(starts))) if axes is None else axes
    second = list(range(len(further_starts))) if further_axes is None else further_axes
    if min((*first, *second), default=0) < 0:
        require(x.shape is not None, "an axis counts from the end, and the rank of the input is unknown")
        first, second = ([axis % x.rank for axis in given] for given in (first, second))
    require(not set(first) & set(second), "both slice along the same axis")
    strides = [*(steps or [1] * len(first)), *(further_steps or [1] * len(second))]
    return g.slice(
        x,
        starts=[*starts, *further_starts],
        ends=[*ends, *further_ends],
        axes=[*first, *second],
        **({} if set(strides) == {1} else {"steps": strides}),
    )
