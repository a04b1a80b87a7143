"""Nodes that return their input unchanged: Identity, Cast to the same dtype, Dropout at inference, and similar."""

from typing import Any

from surgeon import Graph, Match, Tensor, require, rule, searches


def copied(g: Graph, x: Tensor) -> Tensor:
    """An Identity of x."""
    return g.identity(x)


@rule(patterns=[copied], target="any")
def identity(g: Graph, x: Tensor) -> Tensor:
    """Remove Identity nodes.

    What: Identity.  It stays if it gives an output of a graph its name; `named_output` removes most of these.
    Numerics: none.
    """
    return x


@rule(search=searches.copied_outputs, target="any")
def named_output(g: Graph, tensors: list[Tensor], places: list[int | None], match: Match) -> list[Tensor]:
    """Let a node produce an output of a graph itself, without an Identity after it.

    What: Identity of a tensor that a node produces, if its output must keep its name and the tensor need not.  Other
    consumers of the tensor read the output.  Nodes that contain graphs keep the Identity.
    Numerics: none.
    """
    node, copy = match.nodes
    domain, _, op = node.op.rpartition("::")
    inputs = [None if place is None else tensors[place] for place in places]
    made = g.emit(domain, op, inputs, {item.name: item for item in node.proto.attribute}, len(node.outputs))
    by_name = dict(zip(node.outputs, made, strict=True))
    return [by_name[copy.inputs[0] if name == copy.outputs[0] else name] for name in match.outputs]


def cast(g: Graph, x: Tensor, to: int, **attributes: Any) -> Tensor:
    """A Cast of x to a dtype in an attribute."""
    return g.capture("y", g.cast(x, to=to, **attributes))


def cast_like(g: Graph, x: Tensor, like: Tensor, **attributes: Any) -> Tensor:
    """A Cast of x to the dtype of another tensor."""
    return g.capture("y", g.cast_like(x, like, **attributes))


def keeps_dtype(x: Tensor, y: Tensor) -> None:
    """Require that the result has the dtype of the input."""
    require(x.dtype is not None and y.dtype is not None, "a dtype is unknown")
    require(x.dtype == y.dtype, f"it casts from {x.dtype} to {y.dtype}")


@rule(patterns=[cast, cast_like], conditions=[keeps_dtype], target="any")
def no_op_cast(g: Graph, x: Tensor) -> Tensor:
    """Remove Casts to the dtype that a tensor already has.

    What: Cast and CastLike whose result has the dtype of their input.
    Numerics: none.
    """
    return x


def dropped_out(
    g: Graph, x: Tensor, ratio: float | None = None, mode: Tensor | None = None, **attributes: Any
) -> Tensor:
    """A Dropout of x, which drops elements in training."""
    return g.dropout(x, ratio, mode, **attributes)


def with_mask(
    g: Graph, x: Tensor, ratio: float | None = None, mode: Tensor | None = None, **attributes: Any
) -> tuple[Tensor, Tensor]:
    """The same with the elements that it does not drop."""
    y, mask = g.dropout(x, ratio, mode, outputs=2, **attributes)
    return y, mask


def drops_nothing(
    match: Match, attributes: dict[str, Any], ratio: float | None = None, mode: Tensor | None = None
) -> None:
    """Require a ratio of 0, or inference: is_test decides before opset 7, training_mode from opset 12 on."""
    opset = match.scope.opset or 0
    is_inference = mode is None or (mode.is_constant and not mode.values.any())
    require(ratio == 0 or is_inference, "training_mode may be set")
    require(ratio == 0 or opset >= 7 or attributes.get("is_test") == 1, "is_test is not set")
    require(len(match.outputs) == 1 or opset >= 12, "before opset 12, kernels differ in the mask")


@rule(patterns=[dropped_out, with_mask], conditions=[drops_nothing], target="any")
def no_op_dropout(g: Graph, x: Tensor, match: Match) -> Any:
    """Remove Dropout nodes that drop nothing.

    What: Dropout at inference or with a ratio of 0.  A mask that is read is true everywhere.
    Numerics: none.
    """
    return x if len(match.outputs) == 1 else (x, g.expand(True, g.shape(x)))


def alone(g: Graph, x: Tensor, **attributes: Any) -> Tensor:
    """A node for several inputs that has only one."""
    return g.any_of(g.concat(x, **attributes), g.sum(x), g.mean(x), g.max(x), g.min(x))


def alone_part(g: Graph, x: Tensor, size: Tensor | None = None, **attributes: Any) -> Tensor:
    """A Split with one output."""
    part: Tensor = g.op("Split", x, size, outputs=1, **attributes)
    return part


@rule(patterns=[alone, alone_part], target="any")
def no_op_concat(g: Graph, x: Tensor) -> Tensor:
    """Remove nodes for several inputs or outputs that have only one.

    What: Concat, Sum, Mean, Max and Min of one input, and Split into one output.
    Numerics: none.
    """
    return x


def keeps_shape(x: Tensor, constant: Tensor) -> None:
    """Require that the constant does not broadcast the tensor."""
    is_same = constant.shape == () or not may_broadcast(x, constant)
    require(is_same, "the constant may give the result more axes or elements than x has")


@rule(search=searches.neutral_arithmetic, conditions=[keeps_shape], target="any")
def no_op_arithmetic(g: Graph, x: Tensor) -> Tensor:
    """Remove products and quotients with 1, and sums and differences with 0.

    What: x · 1, x / 1, x + 0 and x − 0 with constants of exactly these values, if the shape stays the same.
    Numerics: none, except that −0.0 stays −0.0 (−0.0 + 0 is 0.0).  A sum that is a divisor stays, because in half
    precision the 0 may be a rounded ε, as in x / (y + 1e-8).
    """
    return x


@rule(search=searches.neutral_tensors, conditions=[keeps_shape], target="any")
def no_op_tensors(g: Graph, x: Tensor) -> Tensor:
    """Remove products and quotients with a tensor of ones, and sums and differences with one of zeros.

    What: as `no_op_arithmetic`, with constants of several elements.  The rule runs after others, because they need the
    weights and the biases of a model before its training, which are ones and zeros.
    Numerics: as `no_op_arithmetic`.
    """
    return x


def may_broadcast(x: Tensor, *others: Tensor) -> bool:
    """Return whether elementwise operands may give the result more axes or elements than x has."""
    if x.shape is None or any(other.shape is None or other.rank > x.rank for other in others):
        return True
    pairs = (zip(other.shape[::-1], x.shape[::-1], strict=False) for other in others)
    return any(size not in (1, own) for sizes in pairs for size, own in sizes)
