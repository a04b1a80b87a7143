"""Runs of both sides of a region on the cases that strategies propose."""

import math
from collections.abc import Collection, Sequence

import numpy as np

from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.dims import REDUCE_ABOVE_ELEMENTS, CaseDims
from surgeon.proof.cases.literal_injection import Feeds
from surgeon.proof.cases.value_strategies import adds_nothing
from surgeon.proof.proof_case import ORIGINAL, REPLACEMENT
from surgeon.proof.site.proof_run import InputFacts, OpenSides, ProofRun
from surgeon.proof.strategies import roles, values, weights
from surgeon.proof.strategies.case_feeds import CaseFeeds, repeated_rows
from surgeon.proof.strategies.region_facts import CaseRegion
from surgeon.proof.strategies.rows import differing_rows, independent_rows, row_counts
from surgeon.proof.strategies.sizes import size_cases
from surgeon.proof.strategies.strategy import STRATEGIES, InputCase, Rows, Strategy, cases, next_proposed
from surgeon.runtime.inputs.fill import Fill
from surgeon.runtime.inputs.float_fills import SPECIAL
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.shapes.algebra.size_expressions import symbols

VALUE_STRATEGIES = [
    item
    for module in (values, roles, weights)
    for item in STRATEGIES.values()
    if item.propose.__module__ == module.__name__
]
ROWS_WANTED = len(SPECIAL) ** 2  # one case then holds all pairs of special numbers, and all fills of special rows
ELEMENTS_WANTED = 1 << 9  # where a row is one element: both signs of the 254 powers of two that float32 has
MEMBER_CASES = 5  # of a region whose class is proved in full, where rows mix and no case holds several fills
MAX_PACKED_ELEMENTS = 1 << 16  # of the largest tensor of a packed case, where it needs more rows
LOSING = frozenset(("extreme", "magnitudes"))  # kinds of which products overflow


class StrategyRun(ProofRun):
    """One way of running a proof case: on the cases of strategies."""

    _last_strategy = ""  # the strategy that found a difference at other sizes comes first at the next

    def _run_all(self, sides: OpenSides) -> str | None:
        """Run all sets of inputs; return the first failure.

        Calm inputs come where the original rejects usual ones, at all sizes or at all but 1.
        """
        self._feeds = CaseFeeds(sides.inputs, self.case.options.seed)
        failure = super()._run_all(sides)
        if not failure and self.findings.refusal and not self.findings.is_informative:
            self._feeds.calm_down()
            failure = super()._run_all(sides)
        return failure

    def _run_of_group(self, assignment: DimAssignment, has_run: bool) -> str | None:
        """Run at one of the sizes of a group: on usual inputs, then on the cases of all strategies if none has run."""
        before = self.findings.runs
        failure = self._run_case(InputCase(assignment, {}, "usual"))
        # Sizes that strategies raise for more rows do not count: the other dims may all be 1 then.
        self.findings.is_informative |= self.findings.runs > before and assignment.is_informative
        if failure or has_run or self._once or not self.findings.runs:
            return failure
        return self._run_strategies(assignment)

    def _run_strategies(self, assignment: DimAssignment) -> str | None:
        """Run the cases of strategies at these sizes; return the first failure."""
        region = CaseRegion(self.case, self._sides.inputs, assignment, self._rows(assignment))
        chosen: Sequence[Strategy] = sorted(VALUE_STRATEGIES, key=lambda item: item.name != self._last_strategy)
        if self.case.is_brief:
            chosen = [item for item in chosen if item.for_members]
        proposed, is_taken, done = cases(region, chosen), None, 0
        while (case := next_proposed(proposed, is_taken)) is not None:
            before, done = self.findings.runs, done + 1
            if failure := self._run_case(case):
                self.findings.depends_on_weights = case.strategy == "weights"
                self._last_strategy = case.strategy
                return failure
            is_taken = self.findings.runs > before
            if self.case.is_brief and done == (1 if case.rows else MEMBER_CASES):
                break
        return None

    def _run_case(self, case: InputCase) -> str | None:
        """Run one case; return why the replacement fails, None where it does not."""
        found, self._progress.assignment = self.findings, case.dims
        self._sides.judge.terms = self.case.longest_sum(case.dims.size)
        feeds, before = self._feeds.make(case), found.runs
        if case.rows:
            failure = self._run_rows(case, feeds)
        else:
            failure = self._run_described(feeds, _facts(case.fills.values(), case.strategy))
        if not failure and found.runs > before:
            found.kinds[case.strategy] = None
            if not any(case.dims is known for known in found.assignments):
                found.assignments.append(case.dims)
        return failure

    def _run_rows(self, case: InputCase, feeds: Feeds) -> str | None:
        """Run a case with other fills in each row; rows that differ run again by themselves, and are judged then."""
        sides, found = self._sides, self.findings
        self._progress.note(ORIGINAL)
        try:
            given = sides.run_prefix(feeds)
            original = sides.first.run(given)
            found.runs += 1
            self._progress.note(REPLACEMENT)
            rewritten = sides.second.run(given)
        except SessionError:
            return self._run_each_alone(case, feeds, range(len(case.rows)))
        suspicious = np.zeros(case.row_count, np.bool_)
        for name, answer in original.items():
            other = rewritten.get(name)
            if other is None or answer.size % case.row_count:
                suspicious[:] = True
                continue
            has_signs = name in self.case.sign_sensitive
            rtol = self.case.options.rtol
            suspicious |= differing_rows(answer, other, case.row_count, rtol=rtol, has_signs=has_signs)
        self._progress.agreed += not suspicious.any()
        count = len(case.rows)
        return self._run_each_alone(case, feeds, [place for place in range(count) if suspicious[place::count].any()])

    def _run_each_alone(self, case: InputCase, feeds: Feeds, places: Collection[int]) -> str | None:
        """Run the fills of some rows again, each in all rows."""
        for place in places:
            facts = _facts(case.rows[place].values(), case.strategy)
            if failure := self._run_described(repeated_rows(case, feeds, place), facts):
                return failure
        return None

    def _rows(self, first: DimAssignment) -> Rows:
        """The rows that do not mix, found by running the original with changed rows."""
        inputs, mixing = self._sides.inputs, Rows(1, frozenset(), first)
        specs = {
            spec.name: spec
            for spec in inputs.specs
            if spec.name not in inputs.weights and (spec.is_mask or spec.is_unconstrained)
        }
        if not specs:
            return mixing
        feeds = self._feeds.make(InputCase(first, {}, "rows"))
        outputs = self._answers(feeds)
        if outputs is None:
            return mixing
        number, names = independent_rows(feeds, outputs, specs, self._answers)
        if number == 1:
            return mixing
        largest = max(feeds[name].size for name in names)
        wanted = ELEMENTS_WANTED if number == largest else ROWS_WANTED
        rows = Rows(number, names, first)
        return self._more_rows(rows, wanted) if number < wanted else rows

    def _more_rows(self, rows: Rows, wanted: int) -> Rows:
        """The same with a dynamic dim raised until there are as many rows as fills; unchanged where that is refused."""
        first, name = rows.dims, min(rows.inputs)
        shape = next(item.shape for item in self.case.inputs if item.name == name)
        dims = shape[: row_counts(tuple(map(first.size, shape)))[rows.number]]
        for dim in dims:
            if len(symbols(dim)) != 1:
                continue
            (symbol,) = symbols(dim)
            if first.by_symbol.get(symbol) != first.size(dim) or symbol in self.case.options.dims:
                continue
            others = rows.number // first.size(dim)
            raised = self._sizes.beside(first, {symbol: -(-wanted // others)})
            if raised is None or raised.elements > max(MAX_PACKED_ELEMENTS, first.elements):
                continue
            number = math.prod(map(raised.size, dims))
            feeds = self._feeds.make(InputCase(raised, {}, "rows"))
            outputs = self._answers(feeds)
            arrays = [*(feeds[name] for name in rows.inputs), *(outputs or {}).values()]
            if outputs is not None and all(number in row_counts(array.shape) for array in arrays):
                return Rows(number, rows.inputs, raised)
        return rows

    def _answers(self, feeds: Feeds) -> Feeds | None:
        """What the original gives; None where it rejects the inputs."""
        self._progress.note(ORIGINAL)
        try:
            return self._sides.first.run(self._sides.run_prefix(dict(feeds)))
        except SessionError:
            return None

    def _run_further(self, sizes: CaseDims, at: DimAssignment) -> str | None:
        """Run the cases of strategies for sizes.  at: the sizes of all strategies of values."""
        region = CaseRegion(self.case, self._sides.inputs, at, Rows(1, frozenset(), at))
        proposed, is_taken, number = size_cases(self.case, sizes, at), None, 0
        while (case := next_proposed(proposed, is_taken)) is not None:
            before, number, is_taken = self.findings.runs, number + 1, None
            for each in () if adds_nothing(case.dims, self._ops) else region.at_size(case, number):
                if failure := self._run_case(each):
                    return failure
                is_taken = self.findings.runs > before
                if not is_taken and case.dims.elements > REDUCE_ABOVE_ELEMENTS:
                    break  # the nodes reject these sizes, not these values
        return None


def _facts(fills: Collection[Fill], strategy: str) -> InputFacts:
    """What fills mean for a judgement."""
    names = " and ".join(dict.fromkeys(fill.name for fill in fills))
    kinds = list(dict.fromkeys(kind for fill in fills for kind in fill.kinds))
    return InputFacts(
        f"{names}, by {strategy}" if names and names != strategy else strategy,
        kinds[0] if kinds else "",
        may_not_fit=any(fill.may_not_fit for fill in fills),
        may_overflow=any(fill.may_overflow for fill in fills),
        may_lose=not LOSING.isdisjoint(kinds),
        has_denormals="denormals" in kinds,
        is_usual=strategy == "usual",
    )
