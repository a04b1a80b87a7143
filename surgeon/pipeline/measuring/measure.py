"""`Measure`: a rule set whose forms are chosen by measurement; the result is never slower than its source."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Self

from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.pipeline.acceptance.kernel_support import resolve_provider
from surgeon.pipeline.checks import Checks, Progress
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.measuring.form_variants import FormVariant, FormVariants
from surgeon.pipeline.measuring.race import MOST, Race, is_bounded, over_shapes, search
from surgeon.pipeline.measuring.sampler import StoredSampler
from surgeon.pipeline.reports.measurement import BOUNDED, BUDGET, BUSY, KEPT, SAME_GRAPH, Measurement
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.rule_set import RuleSet
from surgeon.pipeline.transform import Claim, Compound, Transform
from surgeon.runtime.timing.bench import ort_provider
from surgeon.runtime.timing.bench_inputs import feeds_of
from surgeon.runtime.timing.bench_tasks import LoadRequest
from surgeon.runtime.timing.latency import Bench, LatencyRatio
from surgeon.runtime.timing.load_batches import others_share, sample_until
from surgeon.runtime.timing.loaded_graphs import LoadedModel, graph_key, peak_memory
from surgeon.runtime.timing.samples import intervals

MARGIN = 0.01
LAST = 20.0  # seconds of the budget for the last measurement: 24 loads, spread over 15 s
MOST_RESULTS = 2  # results that are measured anew before the original stays


@dataclass(frozen=True)
class Measure:
    """Choose among the forms of rules by measurement, and keep the model if no result is as fast."""

    over: RuleSet
    """The rules; all options but the choice are theirs."""
    at: Sequence[Mapping[str, int]] = ()
    """Sizes of the dynamic dims of the inputs, one shape each; sizes that follow from others may be left out."""
    threads: int = 0
    """Threads of one operator; 0 for one per physical core."""
    budget: float = BUDGET
    """Seconds for the search and the last measurement."""
    margin: float = MARGIN
    """Allowed loss: a model is written if its latency is at most 1 + margin of the original's (95 %)."""

    @property
    def report(self) -> RewriteReport:
        """Report of the rules."""
        return self.over.report

    def require(self) -> None:
        """Raise UsageError for invalid options, and as the rules do."""
        self.over.require()
        if self.threads < 0:
            raise UsageError(f"Invalid number of threads {self.threads}. Give at least 1, or 0 for one on each core.")
        if not LAST <= self.budget < float("inf"):
            raise UsageError(f"Invalid budget {self.budget}. Give at least {LAST:.0f} seconds.")

    def expand(self, draft: ModelDraft, checks: Checks) -> Sequence[Transform | Compound]:
        """Search the forms, measure the result, and return the rules with these forms; no rules if it is slower."""
        self.require()
        with ExitStack() as stack, checks.timer.phase("measure"):
            search = _Search.of(self, draft, checks, stack)
            chosen, self.report.measurement = search.run()
        if chosen is None:
            return [_Kept(self.report, search.variants.start().rule_set.report)]
        return [replace(self.over, rules=chosen.rule_set.rules, report=self.report)]


@dataclass(frozen=True)
class _Kept:
    """No change, because no result is as fast as the model."""

    report: RewriteReport
    """The report of the rules."""
    tried: RewriteReport
    """The report of the rules with their default forms."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Change nothing."""
        report, tried = self.report, self.tried
        report.target, report.ep, report.selection = tried.target, tried.ep, tried.selection
        report.nodes_before = report.nodes_after = tried.nodes_before
        return Claim.unchanged(report)


@dataclass(frozen=True)
class _Search:
    """One search for the best forms of rules for an opened model."""

    asked: Measure
    """The options."""
    variants: FormVariants
    """Writes the models."""
    sampler: StoredSampler
    """Measures them."""
    started: float
    """When it began, on the monotonic clock."""

    @classmethod
    def of(cls, asked: Measure, draft: ModelDraft, checks: Checks, stack: ExitStack) -> Self:
        """The search for a draft.  stack: removes temporary files."""
        assert draft.snapshot is not None  # the driver sets it
        started, options, source = time.monotonic(), checks.options, draft.snapshot.runnable()
        over = asked.over
        provider = checks.plugin or ort_provider(resolve_provider(over.target, over.ep) or "cpu")
        with Model.open(source) as model:
            feeds, sizes = feeds_of([model], (), list(asked.at) or [{}], options.seed)
        shared: dict[str, Any] = {"feeds": feeds, "threads": asked.threads, "provider": provider}
        shared |= {"libraries": [str(path) for path in options.custom_ops], "run_time": options.run_time}
        how, request = LoadedModel(source, **shared), LoadRequest(["the model"], [source], **shared)
        note: Progress = checks.progress or (lambda *_: None)
        quiet = replace(checks, progress=None, dry_run=False)
        sampler = StoredSampler(request, sizes, graph_key(how), is_stored=options.cache, progress=note)
        variants = FormVariants(source, asked.over, quiet, how=how, stack=stack, progress=note)
        return cls(asked, variants, sampler, started)

    def run(self) -> tuple[FormVariant | None, Measurement]:
        """The chosen variant, None for the original, and the record."""
        start, sampler = self.variants.start(), self.sampler
        is_new = bool(start.fired) and not (start.key and start.key == sampler.original)
        races = search(start, self._neighbours, sampler, self._is_over, seen=[sampler.original]) if is_new else []
        if not is_new or sampler.busy:
            return start, self._record(BUSY if sampler.busy else SAME_GRAPH, start, races)
        for variant in races[-1].ranking[:MOST_RESULTS] if races else [start]:
            bench = self._measured_anew(variant)
            if bench.busy:
                return start, self._record(BUSY, start, races, bench)
            if is_bounded(bench.samples, 1, self.asked.margin):
                return variant, self._record(BOUNDED, variant, races, bench)
        return None, self._record(KEPT, variant, races, bench)

    def _neighbours(self, variant: FormVariant) -> Iterator[FormVariant]:
        """The models that differ in one form, as far as the budget allows."""
        return takewhile(lambda _: not self._is_over(), self.variants.neighbours(variant))

    def _is_over(self) -> bool:
        """Whether the rest of the budget is for the last measurement, or the samples are useless."""
        spent = time.monotonic() - self.started
        return spent > self.asked.budget - LAST or self.sampler.busy > 0

    def _measured_anew(self, variant: FormVariant) -> Bench:
        """The latency of a variant by the original's, in 24 loads or more."""
        begun, known, sizes = time.monotonic(), self.sampler.asked, self.sampler.sizes
        asked = replace(known, names=[*known.names, "the result"], sources=[*known.sources, variant.model])
        self.sampler.progress("measure", 1)
        left = max(LAST, self.asked.budget - (begun - self.started))
        samples = sample_until(asked, sizes, loads=MOST, seconds=left, precision=self.asked.margin / 2)
        took, ep = time.monotonic() - begun, self.variants.provider
        busy = others_share(asked, samples)
        names, shapes = tuple(asked.names), tuple(sizes)
        return Bench(names, samples, shapes, threads=asked.threads, ep=ep, seconds=took, busy=busy)

    def _record(
        self, outcome: str, chosen: FormVariant, races: Sequence[Race[FormVariant]], bench: Bench | None = None
    ) -> Measurement:
        """The record of the search."""
        how, memory = self.variants.how, dict[str, int]()
        selectors = self.variants.choices.selectors(chosen.decision)
        if outcome == BOUNDED:
            measured = {"original": peak_memory(how), "result": peak_memory(replace(how, source=chosen.model))}
            memory = {name: size for name, size in measured.items() if size is not None}
        return Measurement(
            outcome,
            margin=self.asked.margin,
            bench=bench,
            gains=[] if outcome == BUSY else [*gains(races, chosen)],
            equal=self.variants.equal_to(chosen),
            rules=[getattr(rule, "name", rule) for rule in (*self.variants.given, *selectors)],
            models=len(self.sampler.measured),
            busy=self.sampler.busy if bench is None else bench.busy,
            memory=memory,
            seconds=time.monotonic() - self.started,
        )


def gains(races: Sequence[Race[FormVariant]], chosen: FormVariant) -> Iterator[LatencyRatio]:
    """The chosen forms by other forms, from the last race that compares them, over all shapes."""
    found = dict[tuple[str, str], LatencyRatio]()
    for race in races:
        leader, *others = race.models
        for column, model in enumerate(others, 2):
            (name,) = (name for name, form in model.decision.items() if form != leader.decision[name])
            forms = {leader.decision[name]: 1, model.decision[name]: column}
            here = chosen.decision[name]
            if here not in forms:
                continue
            (other,) = (form for form in forms if form != here)
            ratio = intervals(over_shapes(race.samples), forms[here], forms[other])
            found[name, other] = LatencyRatio(f"{name}: {here}", f"{name}: {other}", {}, ratio, is_busy=False)
    yield from found.values()
