"""Nodes that hand their input on as it is: identities, casts to the same type, dropout in inference, and the like."""

from typing import Any

from surgeon import Graph, Match, Tensor, require, rule, searches


def copied(g: Graph, x: Tensor) -> Tensor:
    """x under another name."""
    return g.identity(x)


@rule(patterns=[copied], target="any")
def identity(g: Graph, x: Tensor) -> Tensor:
    """Take out Identity nodes.

    What: Identity; one that gives an output of a graph its name stays.
    Numerics: none.
    """
    return x


def cast(g: Graph, x: Tensor, to: int, **attributes: Any) -> Tensor:
    """x in a type named by an attribute."""
    return g.capture("y", g.cast(x, to=to, **attributes))


def cast_like(g: Graph, x: Tensor, like: Tensor, **attributes: Any) -> Tensor:
    """x in the type of another tensor."""
    return g.capture("y", g.cast_like(x, like, **attributes))


def keeps_dtype(x: Tensor, y: Tensor) -> None:
    """The result has the type of the input."""
    require(x.dtype is not None and y.dtype is not None, "a dtype is unknown")
    require(x.dtype == y.dtype, f"it casts from {x.dtype} to {y.dtype}")


@rule(patterns=[cast, cast_like], conditions=[keeps_dtype], target="any")
def no_op_cast(g: Graph, x: Tensor) -> Tensor:
    """Take out casts to the type that a tensor has already.

    What: Cast and CastLike whose result has the dtype of their input.
    Numerics: none.
    """
    return x


def dropped_out(g: Graph, x: Tensor, ratio: float | None = None, mode: bool | None = None, **attributes: Any) -> Tensor:
    """x with elements dropped, in training."""
    return g.dropout(x, ratio, mode, **attributes)


def is_inference(match: Match, attributes: dict[str, Any], mode: bool | None = None) -> None:
    """Dropout drops only in training: is_test says so before opset 7, training_mode from 12 on."""
    require(not mode, "training_mode is set")
    require((match.scope.opset or 0) >= 7 or attributes.get("is_test") == 1, "is_test is not set")


@rule(patterns=[dropped_out], conditions=[is_inference], target="any")
def no_op_dropout(g: Graph, x: Tensor) -> Tensor:
    """Take out Dropout nodes that drop nothing.

    What: Dropout in inference whose mask nobody reads.
    Numerics: none.
    """
    return x


def alone(g: Graph, x: Tensor, **attributes: Any) -> Tensor:
    """A node for many inputs that has one."""
    return g.any_of(g.concat(x, **attributes), g.sum(x), g.max(x), g.min(x))


@rule(patterns=[alone], target="any")
def no_op_concat(g: Graph, x: Tensor) -> Tensor:
    """Take out nodes that join a single tensor.

    What: Concat, Sum, Max and Min of one input.
    Numerics: none.
    """
    return x


def keeps_shape(x: Tensor, constant: Tensor) -> None:
    """The constant does not spread the tensor out."""
    is_same = constant.shape == () or not may_broadcast(x, constant)
    require(is_same, "the constant may give the result more axes or elements than x has")


@rule(search=searches.neutral_arithmetic, conditions=[keeps_shape], target="any")
def no_op_arithmetic(g: Graph, x: Tensor) -> Tensor:
    """Take out products and quotients with 1, and sums and differences with 0.

    What: x · 1, x / 1, x + 0 and x − 0 with constants of exactly these values, where the shape stays.
    Numerics: none, but that −0.0, which + 0 makes 0.0, stays −0.0; a sum that something divides by stays for that, as
    x / (y + 1e-8) is in half precision.
    """
    return x


def may_broadcast(x: Tensor, *others: Tensor) -> bool:
    """Whether tensors that meet x element by element may give the result more axes or elements than x has."""
    if x.shape is None or any(other.shape is None or other.rank > x.rank for other in others):
        return True
    pairs = (zip(other.shape[::-1], x.shape[::-1], strict=False) for other in others)
    return any(size not in (1, own) for sizes in pairs for size, own in sizes)
