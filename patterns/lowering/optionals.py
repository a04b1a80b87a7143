"""Optional values that are known to be there."""

import numpy as np

from surgeon import Graph, Tensor, require, rule


def of_made(g: Graph, x: Tensor) -> Tensor:
    """What an Optional was made of."""
    return g.optional_get_element(g.shared(g.op("Optional", x)))


def of_tensor(g: Graph, x: Tensor) -> Tensor:
    """A tensor as its own optional value."""
    return g.optional_get_element(x)


def has_made(g: Graph, x: Tensor) -> Tensor:
    """Whether an Optional that was made of something holds something."""
    return g.optional_has_element(g.shared(g.op("Optional", x)))


def has_tensor(g: Graph, x: Tensor) -> Tensor:
    """Whether a tensor is there."""
    return g.optional_has_element(x)


def is_tensor(x: Tensor) -> None:
    """Refuse what may be optional itself, or a sequence."""
    require(x.dtype is not None, "what it reads is no tensor")


@rule(patterns=[of_made, of_tensor], conditions=[is_tensor], target="any", lacking=True)
def optional_get_element(g: Graph, x: Tensor) -> Tensor:
    """Take the tensor itself that an optional value is known to be.

    What: OptionalGetElement of an Optional of a tensor, or of a tensor, where the target has no optional values.
    Numerics: none.
    """
    return x


@rule(patterns=[has_made, has_tensor], conditions=[is_tensor], target="any", lacking=True)
def optional_has_element(g: Graph, x: Tensor) -> Tensor:
    """Write whether an optional value is there as a constant, where it is a tensor.

    What: OptionalHasElement of an Optional of a tensor, or of a tensor, where the target has no optional values.
    Numerics: none.
    """
    return g.literal(np.array(True))
