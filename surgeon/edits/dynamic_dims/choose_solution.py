"""Makes sizes of a draft's inputs dynamic: chooses the right interpretation of the graph, and applies it.

If there are several interpretations, runs decide: in the right one samples are independent, so each sample of an output
equals the original's output for that sample.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from surgeon.edits.dynamic_dims.baked_in_size import hidden_sizes, size_inside
from surgeon.edits.dynamic_dims.materialize import materialize
from surgeon.edits.dynamic_dims.op_constraints import check
from surgeon.edits.dynamic_dims.planned_inputs import CannotBeDynamic
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.edits.dynamic_dims.solver import Choices, Interpretation, Interpretations
from surgeon.errors import GraphError, UsageError
from surgeon.pipeline.editing.batch_samples import SampleRun, Samples, batch_sizes
from surgeon.pipeline.editing.claim import DynamicDimsClaim
from surgeon.pipeline.editing.declared_dims import declare_shape
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.dynamic_dims_check import long_sizes
from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.shapes.algebra.size_expressions import symbol


def make_size_dynamic(draft: ModelDraft, name: str, old: int, feeds: Mapping[str, int]) -> tuple[int, DynamicDimsClaim]:
    """Change all nodes of a draft that contain an old size, so that they fit a dynamic dim of its inputs.

    name: of the dim.  feeds: by input, its axis.  Returns the number of changed nodes, and the claim.  Raises
    GraphError, whose message names a node, if no interpretation is known to be right.
    """
    outputs = tuple(draft.claim.original(value.name) for value in draft.graph.output)
    original_feeds = {draft.claim.original(source): axis for source, axis in feeds.items()}
    claim = DynamicDimsClaim(name, old, original_feeds, answers=outputs, mixed=())
    search = Interpretations(draft.index, {name: old})
    walk, right = _Choice(search, _Judge.of(draft, claim), frozenset(outputs)).made()
    nodes = _apply(draft, walk)
    answers = tuple(output for output in outputs if output in right)
    return nodes, replace(claim, answers=answers, mixed=tuple(output for output in outputs if output not in right))


def make_inner_size_dynamic(
    draft: ModelDraft, name: str, feeds: Mapping[str, int]
) -> tuple[int, DynamicDimsClaim] | None:
    """The same for a size that the graph contains although its inputs declare the dim; None without one.

    No node contradicts a 1, which broadcasts, or the trip count of a Loop.  Such a number is the old size if the model
    is wrong for 2 samples as it is, and right after the change.
    """
    found = size_inside(draft.index, name)
    if found is not None:
        return make_size_dynamic(draft, name, found.size, feeds)
    before = draft.skeleton.SerializeToString()
    for size in hidden_sizes(draft.index):
        first = Interpretations(draft.index, {name: size}).first()
        if (
            draft.runs is None
            or not any(item.walk.given for item in first)
            or _is_right_already(draft, name, size, feeds)
        ):
            continue
        try:
            nodes, claim = make_size_dynamic(draft, name, size, feeds)
        except GraphError:  # the number has another meaning
            continue
        if not claim.mixed:
            return nodes, claim
        draft.skeleton.ParseFromString(before)
        draft.changed()
    only = _only_size(draft, name)
    return None if only is None else make_size_dynamic(draft, name, only, feeds)


def _only_size(draft: ModelDraft, name: str) -> int | None:
    """The only size of a dynamic dim at which the original runs, or that its outputs have for larger sizes.

    None if it runs at several sizes with outputs of these sizes, or at none of the tried sizes.
    """
    runs = draft.runs
    if runs is None:
        return None
    before, options = draft.before.skeleton, runs.options
    declared = {
        value.name: axis
        for value in before.graph.output
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.dim_param == name
    }
    fitting = list[int]()
    others = set[int]()
    try:
        plan = InputGenerator(before)
        with IsolatedRuntime(options.required(), options.run_time).open(runs.original) as session:
            for size in _TRIED:
                sizes = plan.size_sets({**options.dims, name: size})[0]
                with suppress(SessionError):  # a size that does not fit
                    made = session.run(plan.generate(options.seed, sizes))
                    held = {made[one].shape[axis] for one, axis in declared.items()} - {size}
                    fitting += [] if held else [size]
                    others |= {other for other in held if 1 < other < size}
                if len(fitting) > 1 and not others:
                    return None
    except (InputsUnknown, SessionError, UsageError):  # the final check reports it
        return None
    found = others or {*fitting}
    return found.pop() if len(found) == 1 else None


_TRIED = (9, 2, 1, 4, 8, 16, 32, 3, 5, 6, 7, 64)  # sizes of batches; most models run at the first two


def _is_right_already(draft: ModelDraft, name: str, old: int, feeds: Mapping[str, int]) -> bool:
    """Whether the original is right for another number of samples as it is, or cannot run."""
    outputs = tuple(value.name for value in draft.graph.output)
    judge = _Judge.of(draft, DynamicDimsClaim(name, old, feeds, answers=outputs, mixed=()))
    size = 2 if old == 1 else 1
    return judge is None or draft.runs is None or judge.samples.run(draft.runs.original, (size,)).equal >= {*outputs}


def _apply(draft: ModelDraft, walk: SizePropagation) -> int:
    """Apply a propagation to a draft; returns the number of changed nodes."""
    _declare_shapes(walk)
    nodes = materialize(draft, walk, _sources(draft, walk))
    draft.changed()
    return nodes


class _Judge:
    """Runs of interpretations."""

    def __init__(self, draft: ModelDraft, samples: Samples) -> None:
        self.draft, self.samples = draft, samples

    @classmethod
    def of(cls, draft: ModelDraft, claim: DynamicDimsClaim) -> "_Judge | None":
        """A judge for a draft; None if nothing may run, or the original does not run."""
        if draft.runs is None:
            return None
        try:
            return cls(draft, Samples(claim, draft, draft.runs.original, draft.runs.options))
        except (InputsUnknown, SessionError):  # the final check reports it
            return None

    def run(self, choices: Choices) -> SampleRun:
        """Run one interpretation at batch sizes; if no output is equal there, at larger sizes."""
        made, old = ModelDraft(self.draft), self.samples.claim.old
        walk = SizePropagation(made.index, {self.samples.claim.name: old}, choices)
        walk.run(check)
        _apply(made, walk)
        assert self.draft.runs is not None  # a judge exists only with runs
        with self.draft.runs.written(made) as path:
            found = self.samples.run(path, batch_sizes(old))
            return found if found.equal else self.samples.run(path, long_sizes(old), every=False)


class _Choice:
    """The choice among interpretations."""

    def __init__(self, search: Interpretations, judge: _Judge | None, outputs: frozenset[str]) -> None:
        """outputs: names in the original."""
        self.search, self.judge, self.outputs = search, judge, outputs
        self._runs: list[tuple[Interpretation, SampleRun]] = []

    def made(self) -> tuple[SizePropagation, frozenset[str]]:
        """The right interpretation, and the outputs that keep samples independent.  Raises GraphError."""
        mixing = []
        for found in self.search:
            if found.mixed_outputs:
                mixing.append(found)
            elif not found.has_others or self.judge is None or self._is_right(found):
                return found.walk, self.outputs
        mixing.sort(key=lambda found: (len(found.mixed_outputs), len(found.mixed)))
        if self.judge is None or not any(found.has_others for found in (*mixing, *(one for one, _ in self._runs))):
            return self._by_operators(mixing)
        for found in mixing:
            if self._is_right(found):
                return found.walk, self.outputs
        return self._by_runs()

    def _is_right(self, found: Interpretation) -> bool:
        """Whether all outputs of an interpretation equal the original for each sample, on an axis of samples."""
        assert self.judge is not None
        run = self.judge.run(found.choices)
        self._runs.append((found, run))
        return run.right | (run.equal - found.mixed_outputs) >= self.outputs and not run.merged

    def _by_operators(self, mixing: list[Interpretation]) -> tuple[SizePropagation, frozenset[str]]:
        """The choice by operators if nothing runs or there is only one interpretation.  Raises GraphError."""
        if not mixing:
            raise self.search.refusal()
        best = mixing[0]
        right = self.outputs - best.mixed_outputs
        if best.has_others and self._is_one and (not right or any(map(best.follows, self.outputs - right))):
            raise self._ambiguous(best)
        if not right:
            self._require_known(best)
            self._require_followed(best)
        if not right and any(other.recipes != best.recipes for other in mixing):
            raise self._ambiguous(best)
        return best.walk, right

    def _by_runs(self) -> tuple[SizePropagation, frozenset[str]]:
        """The interpretation with the most right outputs; if none has any, the only one.  Raises GraphError."""
        ran = [(found, run) for found, run in self._runs if run.ran]
        if not ran:
            raise self.search.refusal()
        best, run = max(ran, key=_rank)
        right = run.right | (run.equal - best.mixed_outputs)
        wrong = self.outputs - right
        if wrong - best.mixed_outputs or (self._is_one and (not run.right or any(map(best.follows, wrong)))):
            raise self.search.refusal() if self.search.stuck else self._ambiguous(best)
        if not run.right:
            self._require_known(best)
            for other, answers in ran:
                if _rank((other, answers)) == _rank((best, run)) and _outputs_differ(run, answers):
                    raise self._ambiguous(other)
        return best.walk, right

    @property
    def _is_one(self) -> bool:
        """Whether the old size is 1, which does not show which 1 of the graph it is."""
        return 1 in self.search.free.values()

    def _require_known(self, found: Interpretation) -> None:
        """Raise GraphError for an interpretation with a node of unknown output shape."""
        if found.walk.notes.unknown_nodes:
            node = next(iter(found.walk.notes.unknown_nodes))
            raise self.search.refusal(CannotBeDynamic(node, "has an output of unknown shape"))

    def _require_followed(self, found: Interpretation) -> None:
        """Raise GraphError if the old size is 1 and no output has the dynamic dim, so that samples are lost."""
        if self._is_one and not any(map(found.follows, self.outputs)):
            names = ", ".join(map(repr, sorted(self.outputs)))
            made = found.walk.index.main.producers
            node = next((made[name] for name in sorted(self.outputs) if name in made), None)
            if node is None:
                return
            raise self.search.refusal(CannotBeDynamic(node, f"computes {names}, which has one row for all samples"))

    def _ambiguous(self, found: Interpretation) -> GraphError:
        node, _ = next(iter(found.walk.notes.choice_points.values()))
        return self.search.refusal(CannotBeDynamic(node, "has two interpretations with different results"))


def _rank(item: tuple[Interpretation, SampleRun]) -> tuple[int, int, int, int]:
    """Sort key of interpretations: results of runs first, then what the operators show."""
    found, run = item
    return len(run.right), -len(run.merged), -len(found.mixed_outputs), -len(found.mixed)


def _outputs_differ(one: SampleRun, other: SampleRun) -> bool:
    """Whether two interpretations differ at a size at which both ran, or have no such size."""
    sizes = one.answers.keys() & other.answers.keys()
    return not sizes or any(
        array.shape != (held := other.answers[size][name]).shape
        or not np.allclose(array, held, rtol=1e-3, atol=1e-5, equal_nan=True)
        for size in sizes
        for name, array in one.answers[size].items()
        if array.dtype.kind in "fiub"
    )


def _sources(draft: ModelDraft, walk: SizePropagation) -> dict[str, tuple[str, int]]:
    """For each dynamic dim an input, and its axis."""
    found: dict[str, tuple[str, int]] = {}
    for value in draft.inputs:
        for axis, size in enumerate(walk.shapes.shape(walk.index.main, value.name) or ()):
            if size == symbol(str(size)):
                found.setdefault(str(size), (value.name, axis))
    return found


def _declare_shapes(walk: SizePropagation) -> None:
    """Update declared shapes that depend on a dynamic dim, of outputs and value_info."""
    for scope in (scope for scope in walk.index.scopes if scope.function is None):
        given = () if scope.owner is None else scope.proto.input
        for value in (*given, *scope.proto.output, *scope.proto.value_info):
            if value.type.HasField("tensor_type"):
                facts = walk.shapes.facts(scope, value.name)
                if (scope, value.name) in walk.doubted or walk.is_dynamic(facts.shape or ()):
                    declare_shape(value, facts)
