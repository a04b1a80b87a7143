"""Reductions after which a Squeeze or an Unsqueeze removes or restores the reduced axes, or that reduce nothing."""

from typing import Any

from surgeon import Graph, Match, Tensor, require, rule

KINDS = ("Max", "Min", "Sum", "Mean", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
REDUCTIONS = [f"Reduce{kind}" for kind in KINDS]
Axes = list[int] | None
CHOICES = ["ArgMax", "ArgMin"]
OF_ONE = ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceProd"]


def restored(g: Graph, x: Tensor, axes: list[int], moved: list[int], **attributes: Any) -> Tensor:
    """An Unsqueeze of a reduction that drops its axes."""
    return g.unsqueeze(g.any_of(*(g.op(op, x, axes, keepdims=0, **attributes) for op in REDUCTIONS)), moved)


def dropped(g: Graph, x: Tensor, axes: list[int], moved: list[int], **attributes: Any) -> Tensor:
    """A Squeeze of a reduction that keeps its axes."""
    return g.squeeze(g.any_of(*(g.op(op, x, axes, keepdims=1, **attributes) for op in REDUCTIONS)), moved)


def restored_choice(g: Graph, x: Tensor, axis: int, moved: list[int], **attributes: Any) -> Tensor:
    """An Unsqueeze of indices whose axis is dropped."""
    return g.unsqueeze(g.any_of(*(g.op(op, x, axis=axis, keepdims=0, **attributes) for op in CHOICES)), moved)


def dropped_choice(g: Graph, x: Tensor, axis: int, moved: list[int], **attributes: Any) -> Tensor:
    """A Squeeze of indices whose axis is kept."""
    return g.squeeze(g.any_of(*(g.op(op, x, axis=axis, keepdims=1, **attributes) for op in CHOICES)), moved)


def reduction(
    g: Graph, x: Tensor, match: Match, attributes: dict[str, Any], axes: Axes, axis: int, keepdims: bool
) -> Tensor:
    """Return the matched reduction of x, with or without its axes."""
    op = next(node.op for node in match.nodes if node.op in (*REDUCTIONS, *CHOICES))
    own = {"axis": axis} if axes is None else {"axes": axes}
    made: Tensor = g.op(op, x, **own, keepdims=int(keepdims), **attributes)
    return made


@rule(patterns=[restored, dropped, restored_choice, dropped_choice], form_patterns=[], target="any")
def reduced_axes(
    g: Graph, x: Tensor, match: Match, moved: list[int], attributes: dict[str, Any], axes: Axes = None, axis: int = 0
) -> Tensor:
    """Merge a reduction and a Squeeze or an Unsqueeze along the reduced axes into the reduction.

    What: Unsqueeze of ReduceMean, ReduceSum and other reductions with keepdims=0, and of ArgMax and ArgMin; Squeeze of
    those with keepdims=1.  Both have the same fixed axes.
    Numerics: none.
    """
    reduced = [axis] if axes is None else axes
    require(bool(reduced), "it reduces along all axes or none")
    if set(reduced) != set(moved):
        require(x.rank is not None, "the axes may differ, because the rank of the input is unknown")
        places = [{item % x.rank for item in given} for given in (reduced, moved)]
        require(places[0] == places[1], f"it reduces along {reduced}, but the other node has the axes {moved}")
    return reduction(g, x, match, attributes, axes=axes, axis=axis, keepdims=match.root.op == "Unsqueeze")


@reduced_axes.on("decomposed")
def _(
    g: Graph, x: Tensor, match: Match, moved: list[int], attributes: dict[str, Any], axes: Axes = None, axis: int = 0
) -> Tensor:
    is_restored = match.root.op == "Unsqueeze"
    made = reduction(g, x, match, attributes, axes=axes, axis=axis, keepdims=not is_restored)
    return g.unsqueeze(made, moved) if is_restored else g.squeeze(made, moved)


def reduced(g: Graph, x: Tensor, axes: Axes, **attributes: Any) -> Tensor:
    """A reduction whose axes stay."""
    return g.any_of(*(g.op(op, x, axes, keepdims=1, **attributes) for op in OF_ONE))


@rule(patterns=[reduced], form_patterns=[], target="any")
def no_op_reduction(g: Graph, x: Tensor, match: Match, axes: Axes, attributes: dict[str, Any]) -> Tensor:
    """Remove reductions of single numbers.

    What: ReduceSum, ReduceMean, ReduceMax, ReduceMin, and ReduceProd of floats, along axes of size 1, or along none.
    Numerics: none.
    """
    is_exact = match.root.op != "ReduceProd" or (x.dtype is not None and x.dtype.kind == "f")
    require(is_exact, "ONNX Runtime multiplies integers in floating point")
    if axes:
        require(x.shape is not None, "the shape of the input is unknown")
        require({x.shape[axis] for axis in axes} == {1}, "a reduced axis has another size than 1")
    else:
        require(bool(attributes.get("noop_with_empty_axes")), "it reduces along all axes")
    return x
