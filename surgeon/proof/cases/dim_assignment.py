"""The sizes of one run of a case."""

from collections.abc import Mapping

import numpy as np

from surgeon.shapes.algebra.size_expressions import Size, SizeError, evaluate, symbols
from surgeon.shapes.constraints.input_dims import sizes_text


class DimAssignment:
    """The sizes of one run: of symbols, and of fixed dims that are reduced.

    dims: the number of each dim of the inputs.  elements: of all inputs, or of the largest tensor if that has more.
    work: of the nodes, in multiplications.  is_empty: whether some dim is 0.  is_informative: whether some dynamic dim
    is not 1; at 1 everything broadcasts.
    """

    def __init__(self, by_symbol: Mapping[str, int], shrunk: Mapping[int, int]) -> None:
        self.by_symbol, self.reduced = by_symbol, shrunk
        self.dims: dict[Size, int] = {}
        self.elements, self.work = 0, 0
        self.is_informative = True
        self.is_empty = False

    @property
    def description(self) -> str:
        """The sizes of named symbols, in words."""
        return sizes_text({name: size for name, size in self.by_symbol.items() if not name.startswith("?")})

    def size(self, size: Size) -> int:
        """The number of a size."""
        return self.reduced.get(size, size) if isinstance(size, int) else evaluate(size, self.by_symbol)

    def value(self, value: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """A tensor of sizes as numbers."""
        flat = [evaluate(item, self.by_symbol) for item in value.reshape(-1)]
        return np.asarray(flat, dtype=dtype).reshape(value.shape)


def size_or_zero(size: Size, given: Mapping[str, int]) -> int:
    """The number of a size; 0 if it has none, such as after a division by zero."""
    try:
        return evaluate(size, given)
    except SizeError:
        return 0


def grows_with(size: Size, name: str, to: int) -> bool:
    """Whether a size is larger if one symbol is `to` and the others are 1 than if all are 1."""
    ones = dict.fromkeys(symbols(size), 1)
    return size_or_zero(size, {**ones, name: to}) > size_or_zero(size, ones)
