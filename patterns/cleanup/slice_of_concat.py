"""Concat: slices of its output that are some of its inputs, inputs without elements, and inputs that are Concats."""

from itertools import accumulate

from surgeon import Captures, Graph, Tensor, require, rule


class ConcatSlice(Captures):
    """Tensors that are concatenated along an axis, and a slice y of the result."""

    first: Tensor
    rest: tuple[Tensor, ...]
    axis: int
    starts: Tensor
    ends: Tensor
    axes: Tensor
    y: Tensor


def cut_of_joined(g: Graph, m: ConcatSlice) -> Tensor:
    """A slice along one axis with step 1."""
    bounds = (g.shared(g.concat(m.first, *m.rest, axis=m.axis)), m.starts, m.ends, m.axes)
    m.y = g.any_of(g.slice(*bounds), g.slice(*bounds, [1]))
    return m.y


@rule(patterns=[cut_of_joined], target="any", opset=10)
def slice_of_concat(g: Graph, m: ConcatSlice) -> Tensor:
    """Replace a Slice of a Concat by the inputs that it selects, if it selects one or several inputs whole.

    What: Slice of a Concat along its axis, from the start of one of its inputs to the end of the same or a later one.
    Numerics: none.
    """
    parts = [m.first, *m.rest]
    require(m.y.shape is not None and all(part.shape is not None for part in parts), "a shape is unknown")
    axis = m.axis % m.y.rank
    require(m.axes.elements in ([axis], [axis - m.y.rank]), "the Slice and the Concat must be along the same axis")
    start, size = (m.starts.elements or [None])[0], m.y.shape[axis]
    sizes = [part.shape[axis] for part in parts]
    begins = list(accumulate(sizes, initial=0))
    require(start is not None and start in begins[:-1], "the Slice must start at the start of an input of the Concat")
    begin = begins.index(start)
    ends = [end - start for end in begins[begin + 1 :]]
    require(size in ends, "the Slice must end at the end of an input of the Concat")
    taken = parts[begin : begin + 1 + ends.index(size)]
    return taken[0] if len(taken) == 1 else g.concat(*taken, axis=m.axis)


class ConcatInputs(Captures):
    """Tensors that are concatenated along an axis."""

    first: Tensor
    rest: tuple[Tensor, ...]
    axis: int


def of_parts(g: Graph, m: ConcatInputs) -> Tensor:
    """A Concat of two or more tensors."""
    return g.concat(m.first, *m.rest, axis=m.axis)


@rule(patterns=[of_parts], target="any")
def empty_concat_inputs(g: Graph, m: ConcatInputs) -> Tensor:
    """Remove inputs without elements from a Concat.

    What: inputs whose size along the axis is 0.  For example, a rotary embedding of all columns leaves no columns
    unchanged (litgpt, rotary-embedding-torch).
    Numerics: none.
    """
    parts = [m.first, *m.rest]
    left = [part for part in parts if part.shape is None or part.shape[m.axis % part.rank] != 0]
    require(0 < len(left) < len(parts), "no input is known to be empty, or all inputs are")
    return left[0] if len(left) == 1 else g.concat(*left, axis=m.axis)


class NestedConcat(Captures):
    """The inputs of a Concat, of which one is a Concat of the tensors `inner`."""

    before: Tensor | None = None
    ahead: Tensor | None = None
    inner: tuple[Tensor, ...]
    rest: tuple[Tensor, ...]
    axis: int


def first(g: Graph, m: NestedConcat) -> Tensor:
    """The first input is a Concat."""
    return g.concat(g.concat(*m.inner, axis=m.axis), *m.rest, axis=m.axis)


def second(g: Graph, m: NestedConcat) -> Tensor:
    """The second input is a Concat."""
    return g.concat(m.before, g.concat(*m.inner, axis=m.axis), *m.rest, axis=m.axis)


def third(g: Graph, m: NestedConcat) -> Tensor:
    """The third input is a Concat."""
    return g.concat(m.before, m.ahead, g.concat(*m.inner, axis=m.axis), *m.rest, axis=m.axis)


@rule(patterns=[third, second, first], target="any", last=True)
def nested_concat(g: Graph, m: NestedConcat) -> Tensor:
    """Merge two Concats along the same axis into one.

    What: Concat of a Concat that is one of its first three inputs and has no other consumer.
    Numerics: none.
    """
    outer = [one for one in (m.before, m.ahead) if one is not None]
    return g.concat(*outer, *m.inner, *m.rest, axis=m.axis)
