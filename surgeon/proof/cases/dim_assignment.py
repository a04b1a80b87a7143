"""The sizes of one run of an experiment."""

from collections.abc import Mapping

import numpy as np

from surgeon.shapes.algebra.size_expressions import Size, SizeError, evaluate, symbols
from surgeon.shapes.constraints.input_dims import told_sizes


class DimAssignment:
    """The sizes of one run: of symbols, and of fixed dims that are made smaller.

    dims: what each dim of the inputs is.  elements: how many all inputs have, or the largest tensor made of them.
    work: what the nodes compute, in multiplications.  is_empty: some dim is 0.  is_informative: whether some dim that
    is free to choose is not 1, where everything broadcasts.
    """

    def __init__(self, by_symbol: Mapping[str, int], shrunk: Mapping[int, int]) -> None:
        self.by_symbol, self.reduced = by_symbol, shrunk
        self.dims: dict[Size, int] = {}
        self.elements, self.work = 0, 0
        self.is_informative = True
        self.is_empty = False

    @property
    def description(self) -> str:
        """The sizes of symbols that have names, in words."""
        return told_sizes({name: size for name, size in self.by_symbol.items() if not name.startswith("?")})

    def size(self, size: Size) -> int:
        """The number that a size is here."""
        return self.reduced.get(size, size) if isinstance(size, int) else evaluate(size, self.by_symbol)

    def value(self, value: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """A tensor of sizes in numbers."""
        flat = [evaluate(item, self.by_symbol) for item in value.reshape(-1)]
        return np.asarray(flat, dtype=dtype).reshape(value.shape)


def size_or_zero(size: Size, given: Mapping[str, int]) -> int:
    """What a size is; 0 where it is divided by nothing."""
    try:
        return evaluate(size, given)
    except SizeError:
        return 0


def grows_with(size: Size, name: str, to: int) -> bool:
    """Whether a size is larger where one symbol is as large as that, the others being 1."""
    ones = dict.fromkeys(symbols(size), 1)
    return size_or_zero(size, {**ones, name: to}) > size_or_zero(size, ones)
