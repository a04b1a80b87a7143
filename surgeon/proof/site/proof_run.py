"""One way of running a proof case: at the first sizes that the original accepts, then on the cases of strategies."""

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.dims import MAX_ROW_ELEMENTS, REDUCE_ABOVE_ELEMENTS, CaseDims
from surgeon.proof.cases.literal_injection import Feeds
from surgeon.proof.check_result import Outcome
from surgeon.proof.judge.error_summary import ErrorSummary
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.site.both_sides import BothSides, Decided, FailingCase, InputFacts
from surgeon.proof.site.decision_coverage import DecisionCoverage
from surgeon.proof.site.failure_reduction import FailureReduction
from surgeon.proof.site.run_findings import RunFindings
from surgeon.proof.strategies.case_feeds import CaseFeeds
from surgeon.proof.strategies.region_facts import CaseRegion
from surgeon.proof.strategies.rows import differing_rows, independent_rows, row_counts
from surgeon.proof.strategies.site_strategies import SITE_STRATEGIES, SIZE_STRATEGIES
from surgeon.proof.strategies.strategy import InputCase, Rows, cases, next_proposed
from surgeon.runtime.inputs.fill import Fill
from surgeon.runtime.inputs.float_fills import SPECIAL
from surgeon.runtime.inputs.input_generator import InputsUnknown
from surgeon.runtime.sessions.engine_names import KERNEL_ENGINES
from surgeon.shapes.algebra.size_expressions import symbols

ROWS_WANTED = len(SPECIAL) ** 2  # one case then holds all pairs of special numbers, and all fills of special rows
ELEMENTS_WANTED = 1 << 9  # where a row is one element: both signs of the 254 powers of two that float32 has
LOSING = frozenset(("extreme", "magnitudes"))  # kinds of which products overflow


class ProofRun:
    """One way of running a proof case.

    is_evaluated: only by onnx's ReferenceEvaluator.  once: on one set of inputs.
    """

    def __init__(
        self, case: ProofCase, note: Callable[[Any], None], *, is_evaluated: bool = False, once: bool = False
    ) -> None:
        self._case, self._note, self._is_evaluated, self._once = case, note, is_evaluated, once
        self.findings = RunFindings(ErrorSummary(case.always_empty))
        self.coverage = DecisionCoverage() if case.options.coverage and not case.is_brief else None
        """The decisions that its cases reach; None if not requested."""
        self.reduction: FailureReduction | None = None
        """Reduces the case on which the replacement fails."""
        self._last_strategy = ""  # it found a difference at other sizes, so it comes first at the next
        # It fails next to sizes at which it agrees: the same dims are reduced there, so they are not why.
        self._is_of_sizes = False

    @property
    def is_refused(self) -> bool:
        """Whether ONNX Runtime loads both sides, but runs the original at no informative sizes."""
        found = self.findings
        return bool(found.refusal) and not found.is_informative and found.oracle in KERNEL_ENGINES

    def merge(self, other: "ProofRun") -> None:
        """Add the runs and the worst errors of another run of the same region."""
        self.findings.runs += other.findings.runs
        self.findings.summary.merge(other.findings.summary)
        if self.coverage is not None and other.coverage is not None:
            self.coverage.merge(other.coverage)

    def outcome(self) -> tuple[Outcome, str]:
        """Return the outcome and its reason; unproved without inputs, or if the original is not deterministic."""
        try:
            with ExitStack() as stack:
                is_evaluated = self._is_evaluated
                opened = BothSides(self._case, self.findings, self._note, is_evaluated=is_evaluated)
                sides = stack.enter_context(opened)
                if self.coverage is not None:
                    stack.enter_context(self.coverage.opened(sides.case, is_evaluated=is_evaluated))
                if failure := self._run_all(sides):
                    self.reduction = FailureReduction(
                        failure, sides.case, self._feeds, sizes=self._sizes, is_evaluated=is_evaluated
                    )
        except Decided as found:
            return found.outcome, found.reason
        except InputsUnknown as error:
            return Outcome.UNPROVED, error.reason
        return (Outcome.FAILED, failure.text) if failure else self.findings.agreement(self._case)

    def _run_all(self, sides: BothSides) -> FailingCase | None:
        """Run all cases; return the first failure.

        Calm inputs come if the original rejects usual ones, at all sizes or at all but 1.
        """
        self._sides = sides
        self._feeds = CaseFeeds(sides.inputs, self._case.options.seed)
        failure = self._run_sizes()
        if not failure and self.findings.refusal and not self.findings.is_informative:
            self._feeds.calm_down()
            failure = self._run_sizes()
        return failure

    def _run_sizes(self) -> FailingCase | None:
        """Run at the first accepted sizes, and on the cases of strategies; return the first failure."""
        found = self.findings
        sizes = self._sizes = CaseDims(self._case, self._case.options.dims)
        failure: FailingCase | None = None
        for group in sizes.runnable():
            if failure and group[0].elements > MAX_ROW_ELEMENTS:
                continue
            before = found.summary, found.runs
            found.summary, found.runs = ErrorSummary(self._case.always_empty), 0
            failed = self._run_group(group)
            if not found.runs:
                found.summary, found.runs = before
                continue
            failure = failed
            if not failure and not found.is_informative:
                continue
            if not (failure and group[0].reduced) or self._case.weights or self._is_of_sizes:
                break  # else: a failure at reduced dims may pass at the true ones
        return failure

    def _run_group(self, group: Sequence[DimAssignment]) -> FailingCase | None:
        """Run at each of several sizes, then all strategies at the first that runs; return the first failure."""
        ran_at: DimAssignment | None = None
        for assignment in group:
            before = self.findings.runs
            failure = self._run_case(InputCase(assignment, {}, "usual"))
            # Sizes that strategies raise for more rows do not count: the other dims may all be 1 then.
            self.findings.is_informative |= self.findings.runs > before and assignment.is_informative
            if failure:
                return failure
            ran_at = assignment if ran_at is None and self.findings.runs else ran_at
            if (self._case.is_brief or self._once) and self.findings.is_informative:
                break
        return None if ran_at is None or self._once else self._run_strategies(ran_at)

    def _run_strategies(self, assignment: DimAssignment) -> FailingCase | None:
        """Run the cases of strategies at these sizes and at others; return the first failure."""
        region = CaseRegion(self._case, self._sides.inputs, self._sizes, assignment, rows=self._rows(assignment))
        chosen = [item for item in SITE_STRATEGIES if item.for_members or not region.is_member]
        if not self.findings.is_informative:  # then sizes near these show nothing either
            chosen = [item for item in chosen if item not in SIZE_STRATEGIES]
        chosen.sort(key=lambda item: item.name != self._last_strategy)
        proposed, is_taken = cases(region, chosen), None
        while (case := next_proposed(proposed, is_taken)) is not None:
            before = self.findings.runs
            if failure := self._run_case(case):
                self.findings.depends_on_weights = case.strategy == "weights"
                self._is_of_sizes = any(item.name == case.strategy for item in SIZE_STRATEGIES)
                self._last_strategy = case.strategy
                return failure
            is_taken = self.findings.runs > before
        return None

    def _run_case(self, case: InputCase) -> FailingCase | None:
        """Run one case; return why the replacement fails, None if it agrees."""
        found = self.findings
        feeds, before = self._feeds.make(case), found.runs
        if case.rows:
            failure = self._run_rows(case, feeds)
        else:
            failure = self._run_one(feeds, _facts(case.fills.values(), case.strategy), case.dims)
        if not failure and found.runs > before:
            found.kinds[case.strategy] = None
            if not any(case.dims is known for known in found.assignments):
                found.assignments.append(case.dims)
        return failure

    def _run_one(self, feeds: Feeds, facts: InputFacts, dims: DimAssignment) -> FailingCase | None:
        """Run one set of inputs; return why the replacement fails, None if it agrees."""
        before = self.findings.runs
        failure = self._sides.run(feeds, facts, dims)
        if self.coverage is not None and self.findings.runs > before:
            self.coverage.read(feeds)
        return failure

    def _run_rows(self, case: InputCase, feeds: Feeds) -> FailingCase | None:
        """Run a case with other fills in each row; rows that differ run again by themselves, and are judged then."""
        outputs, count = self._sides.outputs(feeds, case.dims), len(case.rows)
        if outputs is None:
            return self._run_each_alone(case, feeds, range(count))
        if self.coverage is not None:
            self.coverage.read(feeds)
        original, rewritten = outputs
        suspicious = np.zeros(case.row_count, np.bool_)
        for name, answer in original.items():
            other = rewritten.get(name)
            if other is None or answer.size % case.row_count:
                suspicious[:] = True
                continue
            has_signs = name in self._case.sign_sensitive
            rtol = self._case.options.rtol
            suspicious |= differing_rows(answer, other, case.row_count, rtol=rtol, has_signs=has_signs)
        if not suspicious.any():
            self._sides.agree()
        return self._run_each_alone(case, feeds, [place for place in range(count) if suspicious[place::count].any()])

    def _run_each_alone(self, case: InputCase, feeds: Feeds, places: Collection[int]) -> FailingCase | None:
        """Run the fills of some rows again, each in all rows."""
        for place in places:
            facts = _facts(case.rows[place].values(), case.strategy)
            if failure := self._run_one(self._feeds.repeated_rows(case, feeds, place), facts, case.dims):
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
        outputs = self._sides.original(feeds, first)
        if outputs is None:
            return mixing
        number, names = independent_rows(feeds, outputs, specs, lambda feeds: self._sides.original(feeds, first))
        if number == 1:
            return mixing
        largest = max(feeds[name].size for name in names)
        wanted = ELEMENTS_WANTED if number == largest else ROWS_WANTED
        rows = Rows(number, names, first)
        return self._more_rows(rows, wanted) if number < wanted else rows

    def _more_rows(self, rows: Rows, wanted: int) -> Rows:
        """The same with a dynamic dim raised until there are as many rows as fills; unchanged if that is rejected."""
        first, name = rows.dims, min(rows.inputs)
        shape = next(item.shape for item in self._case.inputs if item.name == name)
        dims = shape[: row_counts(tuple(map(first.size, shape)))[rows.number]]
        for dim in dims:
            if len(symbols(dim)) != 1:
                continue
            (symbol,) = symbols(dim)
            if first.by_symbol.get(symbol) != first.size(dim) or symbol in self._case.options.dims:
                continue
            others = rows.number // first.size(dim)
            raised = self._sizes.beside(first, {symbol: -(-wanted // others)})
            if raised is None or raised.elements > max(REDUCE_ABOVE_ELEMENTS, first.elements):
                continue
            number = math.prod(map(raised.size, dims))
            feeds = self._feeds.make(InputCase(raised, {}, "rows"))
            outputs = self._sides.original(feeds, raised)
            arrays = [*(feeds[name] for name in rows.inputs), *(outputs or {}).values()]
            if outputs is not None and all(number in row_counts(array.shape) for array in arrays):
                return Rows(number, rows.inputs, raised)
        return rows


def _facts(fills: Collection[Fill], strategy: str) -> InputFacts:
    """The facts of fills for a judgement."""
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
        strategy=strategy,
    )
