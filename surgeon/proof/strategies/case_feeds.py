"""The arrays of a case: usual ones, and the fills of the case in whole inputs or in rows."""

import zlib
from collections.abc import Mapping

import numpy as np

from surgeon.proof.cases.case_inputs import CaseInputs
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.strategies.rows import as_rows, row_counts
from surgeon.proof.strategies.strategy import InputCase
from surgeon.runtime.inputs.fill import Blank, Fill, fill_array
from surgeon.runtime.inputs.input_spec import InputSpec
from surgeon.runtime.inputs.role_fills import CALM, USUAL

WEIGHTS = "generated weights"  # seeds them: they are the same in all cases
Arrays = dict[str, np.ndarray]


class CaseFeeds:
    """Makes the arrays of cases.

    inputs: of the proof case, analysed.  Each array draws from the options' seed, the strategy and the input, and from
    how many cases the strategy had before: a further strategy changes no other case.
    """

    def __init__(self, inputs: CaseInputs, seed: int) -> None:
        self._inputs, self._seed = inputs, seed
        self._weights: dict[frozenset[tuple[int, int]], Arrays] = {}  # by the reduced dims
        self._before: dict[str, int] = {}  # cases of each strategy
        self._usual = USUAL

    def calm_down(self) -> None:
        """Use calm values where usual ones are asked for: the original rejects these."""
        self._usual = CALM

    def make(self, case: InputCase) -> Arrays:
        """The arrays of a case."""
        number = self._before.get(case.strategy, 0)
        self._before[case.strategy] = number + 1
        sizes = self._inputs.model_sizes(case.dims)
        made: Arrays = {}
        for spec in self._inputs.specs:
            fill = case.fills.get(spec.name)
            if spec.name in self._inputs.weights and fill is None:
                made[spec.name] = self._weight(spec, case.dims, sizes)
            else:
                made[spec.name] = self._array(spec, fill or self._usual, sizes, (case.strategy, number))
        if case.rows:
            self._fill_rows(made, case, sizes, number)
        made |= self._inputs.shape_only(sizes)
        return self._inputs.obeying(made) | self._inputs.sized_values(case.dims, made)

    def _array(
        self,
        spec: InputSpec,
        fill: Fill,
        sizes: Mapping[str, int],
        drawn_by: tuple[str, int],
        *,
        shape: tuple[int, ...] | None = None,
    ) -> np.ndarray:
        strategy, number = drawn_by
        key = [self._seed, zlib.crc32(strategy.encode()), zlib.crc32(spec.name.encode()), number]
        blank = Blank(spec, spec.shape(sizes) if shape is None else shape, sizes, np.random.default_rng(key))
        return fill_array(fill, blank)

    def _weight(self, spec: InputSpec, dims: DimAssignment, sizes: Mapping[str, int]) -> np.ndarray:
        """A usual weight, kept for the next cases with the same fixed dims: weights may be large."""
        reduced = frozenset(dims.reduced.items())
        if reduced not in self._weights:
            self._weights.clear()
            self._weights[reduced] = {}
        known = self._weights[reduced]
        if spec.name not in known:
            known[spec.name] = self._array(spec, USUAL, sizes, (WEIGHTS, 0))
        return known[spec.name]

    def _fill_rows(self, made: Arrays, case: InputCase, sizes: Mapping[str, int], number: int) -> None:
        """Put the fills of each row into the arrays that have rows."""
        count, total = len(case.rows), case.row_count
        specs = {spec.name: spec for spec in self._inputs.specs}
        for place, fills in enumerate(case.rows):
            for name, fill in fills.items():
                rows = as_rows(made[name], total)
                shape = made[name].shape
                row = shape[row_counts(shape)[total] :] or (1,)
                held = len(range(place, total, count))
                drawn_by = (f"{case.strategy}, {place}", number)
                values = self._array(specs[name], fill, sizes, drawn_by, shape=(held, *row))
                rows[place::count] = values.reshape(held, -1)

    def repeated_rows(self, case: InputCase, feeds: Arrays, place: int) -> Arrays:
        """The inputs of a case, so that all rows hold the values that the fills at `place` gave some of them."""
        made = dict(feeds)
        for name in frozenset[str]().union(*case.rows):
            held = as_rows(feeds[name], case.row_count)[place :: len(case.rows)]
            made[name] = np.ascontiguousarray(held[np.arange(case.row_count) % len(held)]).reshape(feeds[name].shape)
        return self._inputs.obeying(made)
