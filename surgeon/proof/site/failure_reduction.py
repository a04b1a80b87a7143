"""Reduction of a failing case to a small one, which the reason of a failed proof states.

Elements that differ from usual inputs are taken back, halves first, and each dynamic dim is made smaller, as long as
the same output still differs by the same judgement.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.dims import CaseDims
from surgeon.proof.cases.literal_injection import Feeds
from surgeon.proof.counterexample import SHOWN, Counterexample, Element
from surgeon.proof.judge.error_summary import ErrorSummary
from surgeon.proof.model.bisect import minimal_part
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.site.both_sides import BothSides, Decided, FailingCase
from surgeon.proof.site.run_findings import RunFindings
from surgeon.proof.strategies.case_feeds import CaseFeeds
from surgeon.proof.strategies.strategy import BUDGET, LEAST_WORK, InputCase
from surgeon.runtime.inputs.input_spec import InputSpec
from surgeon.runtime.numerics.array_comparison import TOLERANCES, dtype_name
from surgeon.shapes.algebra.size_expressions import Size, symbols

MAX_RUNS = 8 + 2 * 16
"""Two for each halving of 2**16 elements, the most that a packed case has; and eight for dims, zeros and digits."""
MAX_PARTS = 1 << 12
"""Parts in which elements are taken back; a list of so many costs less than a run."""
STUCK = 2 + 4 + 8
"""Runs after which no element is taken back, if none was: all halves, quarters and eighths are needed."""
NON_FINITE = "non_finite"
Indices = Mapping[Size, Collection[int]]


class Reached(NamedTuple):
    """A failing case, as small as it is by now."""

    feeds: Feeds
    """Its inputs."""
    base: Feeds
    """Inputs of the same shapes, without the known cause of the failure."""
    dims: DimAssignment
    """Its sizes."""


class FailureReduction:
    """Runs parts of a failing case, for as long as they fail too.

    Both sides are opened anew, because the run that failed has ended.  runs: cases that ran.
    """

    def __init__(
        self, failing: FailingCase, case: ProofCase, feeds: CaseFeeds, *, sizes: CaseDims, is_evaluated: bool
    ) -> None:
        self._case, self._feeds, self._sizes, self._is_evaluated = case, feeds, sizes, is_evaluated
        self.failing = failing
        """The smallest case that fails."""
        self.runs, self._spent = 0, 0

    def reason(self) -> str | None:
        """Why the smallest case fails, as a clause; None if the case does not fail again."""
        findings = RunFindings(ErrorSummary(self._case.always_empty))
        try:
            with BothSides(self._case, findings, lambda step: None, is_evaluated=self._is_evaluated) as sides:
                self._sides, self._findings = sides, findings
                return self._reduced()
        except Decided:
            return None

    def _reduced(self) -> str | None:
        feeds, facts, dims, *_ = self.failing
        if not self._fails(feeds, dims):
            return None
        reached = Reached(feeds, feeds if facts.is_usual else self._usual(dims), dims)
        reached = self._at_one(reached, self._indices_of_output())
        reached = self._with_fewer_elements(reached)
        reached = self._with_smaller_dims(reached)
        return self._sentence(self._with_plain_numbers(reached))

    @property
    def _may_go_on(self) -> bool:
        return self.runs < MAX_RUNS and self._spent < BUDGET

    def _fails(self, feeds: Feeds, dims: DimAssignment) -> bool:
        """Whether these inputs fail as the case does; then they are the smallest."""
        if not self._may_go_on or self._violates(feeds):
            return False
        self.runs, self._spent = self.runs + 1, self._spent + max(dims.work, LEAST_WORK)
        self._findings.runs = 1  # the original is repeatable: the run that failed has found that
        found = self._sides.run(dict(feeds), self.failing.facts, dims)
        if found is None or _kind(found) != _kind(self.failing):
            return False
        self.failing = found
        return True

    def _violates(self, feeds: Feeds) -> bool:
        """Whether an input violates an assumption that the user declared."""
        assumed = [(item.assumption, feeds[item.name]) for item in self._case.inputs if item.name in feeds]
        return any(one is not None and one.violation(array) is not None for one, array in assumed)

    def _usual(self, dims: DimAssignment) -> Feeds:
        return self._feeds.make(InputCase(dims, {}, "usual"))

    def _specs(self) -> dict[str, InputSpec]:
        """The inputs that are not weights, by name."""
        inputs = self._sides.inputs
        return {spec.name: spec for spec in inputs.specs if spec.name not in inputs.weights}

    # Elements

    def _with_fewer_elements(self, reached: Reached) -> Reached:
        """The same with as few elements as possible that differ from usual ones; of many, from zeros."""
        usual = self._with_fewer_beside(reached)
        if 0 < len(_differing(usual.feeds, usual.base)) <= SHOWN:
            return usual
        zeros = usual._replace(base=self._zeros(usual.feeds))
        found = self._with_fewer_beside(zeros)
        return found if len(_differing(found.feeds, found.base)) < len(_differing(zeros.feeds, zeros.base)) else usual

    def _with_fewer_beside(self, reached: Reached) -> Reached:
        """The same with as few elements as possible that differ from the base, and with none if the base fails."""
        elements, before = _differing(reached.feeds, reached.base), 0
        if not len(elements) or self._fails(reached.base, reached.dims):
            return reached._replace(feeds=reached.base)

        def holds(parts: Sequence[np.ndarray]) -> bool:
            return self._fails(_mixed(reached, np.concatenate(parts)), reached.dims)

        first, last = self.failing, self.runs + STUCK

        def may_go_on() -> bool:
            return self._may_go_on and (self.failing is not first or self.runs < last)

        while len(elements) != before and may_go_on():
            before = len(elements)
            parts = np.array_split(elements, min(len(elements), MAX_PARTS))
            elements = np.concatenate(minimal_part(parts, holds, may_go_on))
            if len(parts) == before:
                break
        return reached._replace(feeds=_mixed(reached, elements))

    def _zeros(self, feeds: Feeds) -> Feeds:
        """The same with zeros in inputs that may hold any number."""
        assumed = {item.name for item in self._case.inputs if item.assumption is not None}
        specs = self._specs()
        plain = {name for name, spec in specs.items() if spec.is_unconstrained and spec.kind != "mask"} - assumed
        return {
            name: np.zeros_like(array) if name in plain and array.dtype != object else array
            for name, array in feeds.items()
        }

    def _with_plain_numbers(self, reached: Reached) -> Reached:
        """The same with zeros in place of usual numbers, and with few digits, if the case still fails then."""
        zeros = self._zeros(reached.base)
        chosen = _differing(reached.feeds, reached.base)
        plain = Reached(_mixed(reached._replace(base=zeros), chosen), zeros, reached.dims)
        if len(_differing(plain.feeds, reached.feeds)) and self._fails(plain.feeds, plain.dims):
            reached = plain
        weights = self._sides.inputs.weights
        feeds, base = (
            {name: array if name in weights else _of_few_digits(array) for name, array in arrays.items()}
            for arrays in (reached.feeds, reached.base)
        )
        if len(_differing(feeds, reached.feeds)) and self._fails(feeds, reached.dims):
            reached = Reached(feeds, base, reached.dims)
        return reached

    # Dims

    def _with_smaller_dims(self, reached: Reached) -> Reached:
        """The same with each dynamic dim at 1, or at the smallest size that a bisection finds."""
        reached = self._at_one(reached, self._indices(reached))
        for name in self._larger(reached.dims):
            low, least = 0, 1
            while reached.dims.by_symbol[name] - low > 1 and self._may_go_on:
                smaller = self._at_sizes(reached, {name: least}, self._indices(reached))
                reached, low = (reached, least) if smaller is None else (smaller, low)
                least = (low + reached.dims.by_symbol[name]) // 2
        return reached

    def _at_one(self, reached: Reached, at: Indices) -> Reached:
        """The same with all dynamic dims at 1, unchanged if the case passes then."""
        larger = self._larger(reached.dims)
        return (larger and self._at_sizes(reached, dict.fromkeys(larger, 1), at)) or reached

    def _larger(self, dims: DimAssignment) -> list[str]:
        """The dynamic dims above 1 whose size is free to choose."""
        free = dims.by_symbol.keys() - self._case.options.dims.keys()
        above = [name for name in dims.by_symbol if name in free and dims.by_symbol[name] > 1]
        return [name for name in above if not self._sizes.depends_on_others(name, dims)]

    def _at_sizes(self, reached: Reached, sizes: Mapping[str, int], at: Indices) -> Reached | None:
        """The same at smaller sizes; None if the case passes then.  at: the indices to keep of each size."""
        dims = self._sizes.beside(reached.dims, sizes)
        if dims is None:
            return None
        usual = self._usual(dims)
        for has_usual_roles in (False, True):
            roles = {name for name, spec in self._specs().items() if not spec.is_unconstrained}
            if has_usual_roles and not roles:
                break
            smaller = self._cut(reached, usual, at, roles if has_usual_roles else set())
            if smaller is not None and self._fails(smaller[0], dims):
                return Reached(*smaller, dims)
        return None

    def _cut(
        self, reached: Reached, usual: Feeds, at: Indices, left_out: Collection[str]
    ) -> tuple[Feeds, Feeds] | None:
        """Feeds and base cut to the shapes of usual inputs; None if the indices to keep do not fit.

        left_out: inputs that become usual ones, because what they hold is bounded by the sizes.
        """
        feeds, base = dict(usual), dict(usual)
        for item in self._case.inputs:
            if item.value is not None or item.name in left_out or item.name not in reached.base:
                continue
            axes = []
            for size, old, new in zip(item.shape, reached.feeds[item.name].shape, usual[item.name].shape, strict=True):
                needed = {place for place in at.get(size, ()) if place < old}
                if new > old or len(needed) > new:
                    return None
                others = [place for place in range(old) if place not in needed]
                axes.append(sorted([*needed, *others[: new - len(needed)]]))
            for made, was in ((feeds, reached.feeds), (base, reached.base)):
                made[item.name] = was[item.name][np.ix_(*axes)] if axes else was[item.name]
        return feeds, base

    def _indices(self, reached: Reached) -> Indices:
        """The indices of the decisive elements, by the sizes of their axes."""
        shapes = {item.name: item.shape for item in self._case.inputs}
        found: dict[Size, set[int]] = {}
        for name, index in _elements(reached):
            for size, place in zip(shapes[name], index, strict=True):
                if symbols(size):
                    found.setdefault(size, set()).add(place)
        return found

    def _indices_of_output(self) -> Indices:
        """The indices of the element of the output that differs, by the sizes of its axes."""
        result = self.failing.result
        if result is None or result.error.place is None:
            return {}
        index = np.unravel_index(result.error.place, result.expected.shape)
        shape = self._case.stated_shapes.get(result.error.name, ())
        return {size: [int(place)] for size, place in zip(shape, index, strict=False) if symbols(size)}

    # Words

    def _sentence(self, reached: Reached) -> str:
        """Why the case fails, as a clause."""
        facts, elements, weights = self.failing.facts, _elements(reached), self._sides.inputs.weights
        shown = {name: array for name, array in reached.feeds.items() if name not in weights or name in dict(elements)}
        is_zero = all(not np.any(reached.base[name]) for name in self._specs() if name in reached.base)
        example = Counterexample(
            shown,
            elements,
            "zeros" if is_zero else "usual inputs",
            strategy="" if facts.is_usual else facts.strategy,
            failure=self.failing.why,
            result=self.failing.result,
        )
        is_finite = all(np.isfinite(array).all() for array in reached.feeds.values() if _is_float(array))
        return f"{example}{'' if is_finite and facts.kind == NON_FINITE else facts.hint}"


def _kind(case: FailingCase) -> tuple[str, bool]:
    """The output that differs, and whether it can be compared: equal for cases that fail for the same reason."""
    return ("", False) if case.result is None else (case.result.error.name, case.result.is_comparable)


def _differing(one: Feeds, other: Feeds) -> np.ndarray:
    """The elements in which two sets of inputs differ by a bit, counted through all inputs in order."""
    return np.flatnonzero(np.concatenate([_differs(one[name], other[name]) for name in one] or [np.zeros(0)]))


def _differs(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    if one.shape != other.shape:
        return np.ones(one.size, np.bool_)
    if one.dtype == object:
        return np.asarray(one != other, np.bool_).reshape(-1)
    bits = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (one, other)]
    return np.asarray((bits[0] != bits[1]).reshape(one.size, one.dtype.itemsize).any(axis=1))


def _mixed(reached: Reached, elements: np.ndarray) -> Feeds:
    """The base with these elements of the failing inputs."""
    made, first = dict(reached.base), 0
    for name, array in reached.feeds.items():
        own = elements[(elements >= first) & (elements < first + array.size)] - first
        if len(own):
            flat = reached.base[name].reshape(-1).copy()
            flat[own] = array.reshape(-1)[own]
            made[name] = flat.reshape(array.shape)
        first += array.size
    return made


def _elements(reached: Reached) -> list[Element]:
    """The decisive elements."""
    found = []
    for name, array in reached.feeds.items():
        places = np.flatnonzero(_differs(array, reached.base[name]))
        found += [Element(name, tuple(map(int, np.unravel_index(place, array.shape)))) for place in places]
    return found


def _is_float(array: np.ndarray) -> bool:
    return dtype_name(array) in TOLERANCES


def _of_few_digits(array: np.ndarray) -> np.ndarray:
    """The same with two significant digits of each finite number, as many as one reads at a glance."""
    if not _is_float(array) or array.dtype.kind == "c":
        return array
    return np.asarray([float(f"{float(value):.1e}") for value in array.reshape(-1)], array.dtype).reshape(array.shape)
