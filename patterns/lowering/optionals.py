"""Optional values that are known to have an element."""

import numpy as np

from surgeon import Graph, Tensor, require, rule


def of_made(g: Graph, x: Tensor) -> Tensor:
    """The element of an Optional that the graph creates."""
    return g.optional_get_element(g.shared(g.op("Optional", x)))


def of_tensor(g: Graph, x: Tensor) -> Tensor:
    """The element of a tensor used as an optional value."""
    return g.optional_get_element(x)


def has_made(g: Graph, x: Tensor) -> Tensor:
    """Whether an Optional that the graph creates from a tensor has an element."""
    return g.optional_has_element(g.shared(g.op("Optional", x)))


def has_tensor(g: Graph, x: Tensor) -> Tensor:
    """Whether a tensor used as an optional value has an element."""
    return g.optional_has_element(x)


def is_tensor(x: Tensor) -> None:
    """Refuse values that may be optional or sequences themselves."""
    require(x.dtype is not None, "its input must be a tensor")


@rule(patterns=[of_made, of_tensor], conditions=[is_tensor], target="any", lacking=True)
def optional_get_element(g: Graph, x: Tensor) -> Tensor:
    """Replace an optional value that is known to be a tensor by this tensor.

    What: OptionalGetElement of an Optional of a tensor, or of a tensor, if the target does not support optional values.
    Numerics: none.
    """
    return x


@rule(patterns=[has_made, has_tensor], conditions=[is_tensor], target="any", lacking=True)
def optional_has_element(g: Graph, x: Tensor) -> Tensor:
    """Write OptionalHasElement as a constant, if the value is a tensor.

    What: OptionalHasElement of an Optional of a tensor, or of a tensor, if the target does not support optional values.
    Numerics: none.
    """
    return g.literal(np.array(True))
