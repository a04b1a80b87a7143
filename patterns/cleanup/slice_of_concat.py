"""Tensors that are joined: slices of them, which are some of those tensors, and those that add nothing."""

from itertools import accumulate

from surgeon import Captures, Graph, Tensor, require, rule


class ConcatSlice(Captures):
    """Tensors that are joined along an axis, and a part y of what that makes."""

    first: Tensor
    rest: tuple[Tensor, ...]
    axis: int
    starts: Tensor
    ends: Tensor
    axes: Tensor
    y: Tensor


def cut_of_joined(g: Graph, m: ConcatSlice) -> Tensor:
    """A slice along one axis without steps."""
    bounds = (g.shared(g.concat(m.first, *m.rest, axis=m.axis)), m.starts, m.ends, m.axes)
    m.y = g.any_of(g.slice(*bounds), g.slice(*bounds, [1]))
    return m.y


@rule(patterns=[cut_of_joined], target="any", opset=10)
def slice_of_concat(g: Graph, m: ConcatSlice) -> Tensor:
    """Take what a slice cuts out of a Concat from what was joined, where it is one or several of these whole.

    What: Slice of a Concat along its axis, from where one of its inputs begins to where it or a later one ends.
    Numerics: none.
    """
    parts = [m.first, *m.rest]
    require(m.y.shape is not None and all(part.shape is not None for part in parts), "a shape is unknown")
    axis = m.axis % m.y.rank
    require(m.axes.elements in ([axis], [axis - m.y.rank]), "it is cut along another axis than it is joined")
    start, size = (m.starts.elements or [None])[0], m.y.shape[axis]
    sizes = [part.shape[axis] for part in parts]
    begins = list(accumulate(sizes, initial=0))
    require(start is not None and start in begins[:-1], "it does not begin where one of the joined tensors does")
    begin = begins.index(start)
    ends = [end - start for end in begins[begin + 1 :]]
    require(size in ends, "it does not end where one of the joined tensors does")
    taken = parts[begin : begin + 1 + ends.index(size)]
    return taken[0] if len(taken) == 1 else g.concat(*taken, axis=m.axis)


class ConcatInputs(Captures):
    """Tensors that are joined along an axis."""

    first: Tensor
    rest: tuple[Tensor, ...]
    axis: int


def of_parts(g: Graph, m: ConcatInputs) -> Tensor:
    """A Concat of two or more."""
    return g.concat(m.first, *m.rest, axis=m.axis)


@rule(patterns=[of_parts], target="any")
def empty_concat_inputs(g: Graph, m: ConcatInputs) -> Tensor:
    """Leave out of a Concat what has no elements.

    What: inputs whose size along its axis is 0, as of the columns that a rotary embedding leaves alone, where it turns
    all (litgpt, rotary-embedding-torch).
    Numerics: none.
    """
    parts = [m.first, *m.rest]
    left = [part for part in parts if part.shape is None or part.shape[m.axis % part.rank] != 0]
    require(0 < len(left) < len(parts), "all have elements, as far as that is known")
    return left[0] if len(left) == 1 else g.concat(*left, axis=m.axis)
