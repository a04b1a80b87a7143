"""Runs of the original: the ranges of its inner tensors, and the errors of other models' outputs."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property

import numpy as np
from onnx import ModelProto

from surgeon.errors import GraphError, ModelFileError
from surgeon.file.save import OutputModel
from surgeon.file.tensors.casting import finite_limits
from surgeon.file.tensors.decoding import dtype_of
from surgeon.ops.traversal import imports_of
from surgeon.precision.measuring.output_error import BLOCK, OutputDeviation, is_discrete
from surgeon.precision.measuring.range_instrumentation import (
    FIRST_OPSET,
    INFINITY,
    MAIN_GRAPH,
    ObservedRange,
    ProbeOutputs,
    Tensor,
    instrumented,
)
from surgeon.precision.planning.node_dtypes import DtypeChange
from surgeon.precision.segments.selected_rows import FIRST_OPSET as CHOOSING_OPSET
from surgeon.precision.segments.selected_rows import choices, choosing, scores_of
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.model.exposed_outputs import exposing, fetch
from surgeon.proof.model.hidden_rows import HiddenRows
from surgeon.proof.model.model_cost import ModelCost
from surgeon.proof.model.trial_generator import MUCH
from surgeon.runtime.inputs.consistent_sizes import ConsistentSizes
from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown
from surgeon.runtime.inputs.role_fills import CALM, SAMPLED, TRAILING_MASK, constant, mask
from surgeon.runtime.inputs.user_inputs import read_inputs
from surgeon.runtime.numerics.array_comparison import blocks, uninformative_outputs
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.ort_session import SessionError

Arrays = dict[str, np.ndarray]
_SIZES = 2  # sets of further sizes, before the long one
_MAX_BYTES = 1 << 28  # bytes of inner tensors in memory
_MAX_PROBES = 10_000  # in one model; each has two dozen nodes, and more tensors are fetched instead
_LONG, _BATCH = 8, 2  # factor for long sizes; batches are at most this size, and stay


class BaselineRuns:
    """The original, run once on each set of inputs.

    failure: one sentence on why nothing can run, else empty.  invalid: ONNX Runtime's message on an original that it
    does not load although it has all kernels.  engine: the runtime of the last model.  mismatch_fractions: of outputs
    that are not floats, the fraction of changed elements.  has_stale_value_info: whether declared shapes of inner
    tensors are wrong.  shown: the masks that hide a first key; `inner_values` runs with that key shown.

    Running and comparing share the inputs and their state, so it has more than twelve attributes.
    """

    def __init__(
        self, original: OutputModel, skeleton: ModelProto, change: DtypeChange, options: CheckOptions, *, io: str
    ) -> None:
        self._original, self._skeleton, self._change = original, skeleton, change
        self._converts = io == "convert"
        self._away = IsolatedRuntime(options.required(), options.run_time)
        self._low = finite_limits(change.new)[0] if change.narrows else -INFINITY
        self._nearness = OutputDeviation(skeleton.graph, change)
        self._lengths = {
            f"len({value.name})" for value in skeleton.graph.output
        }  # of sequences, which are not compared
        self.runs: list[tuple[Arrays, Arrays]] = []
        self.failure = "" if skeleton.graph.output else "The model has no outputs to compare."
        self.engine, self.has_stale_value_info, self.invalid = "", False, ""
        self.mismatch_fractions: dict[str, float] = {}
        self.shown: list[str] = []
        self._choice: list[tuple[Arrays, Arrays]] | None = None
        self.options = options

    @property
    def has_users_inputs(self) -> bool:
        """Whether it runs on the user's inputs."""
        return bool(self.options.inputs)

    def run(self, tensors: Collection[Tensor]) -> dict[Tensor, ObservedRange]:
        """Run the original; return the ranges of these tensors.  `failure` says why it cannot run."""
        found: dict[Tensor, ObservedRange] = {}
        if self.failure:
            return found
        imports = imports_of(self._skeleton.opset_import)
        fetched = [name for place, name in tensors if place == MAIN_GRAPH] if len(tensors) > _MAX_PROBES else []
        rest = [tensor for tensor in tensors if tensor[0] != MAIN_GRAPH] if fetched else tensors
        try:
            with ExitStack() as stack:
                shown, probed = self._original, ProbeOutputs(())
                if rest and imports.get("", 0) >= FIRST_OPSET:
                    shown, probed = stack.enter_context(instrumented(self._original, rest, self._low / 4))
                self._run_all(stack.enter_context(self._away.open(shown)), probed, found)
            if fetched and self.runs:
                self._fetch(fetched, found)
        except InputsUnknown as unknown:
            self.failure = f"No inputs can be generated: {unknown.reason}."
        except (SessionError, GraphError, ModelFileError) as refused:
            if tensors:  # the model may run without probes
                self.runs.clear()
                of_main = [tensor for tensor in tensors if tensor[0] == MAIN_GRAPH]
                return self.run(of_main if len(of_main) < len(tensors) else ())
            line = refused.message if isinstance(refused, SessionError) else str(refused)
            self.failure = f"ONNX Runtime does not load the original: {line}"
            self.invalid = line if isinstance(refused, SessionError) and not refused.is_unsupported else ""
        if self.runs:
            self.failure = ""
        elif not self.failure:
            self.failure = "On generated inputs, the original returns no numbers"
        return found

    def _run_all(self, session: ModelSession, probed: ProbeOutputs, found: dict[Tensor, ObservedRange]) -> None:
        """Run on every set of inputs; collect outputs in `runs` and ranges in `found`."""
        cost, more = ModelCost(self._original), set(probed.names)
        for feeds in self._made():
            try:
                answer = session.run(feeds)
            except SessionError as refused:
                self.failure = self.failure or f"The original rejects its inputs: {refused.message}"
                continue
            outputs = {name: array for name, array in answer.items() if name not in more}
            if _is_nothing(outputs) and not self.options.inputs:
                continue
            self.runs.append((feeds, outputs))
            shapes = probed.read(answer, found)
            shapes.update({name: array.shape for name, array in feeds.items()})
            self.has_stale_value_info = self.has_stale_value_info or self._is_misstated(shapes)
            for name, array in feeds.items():
                self._note(found, name, array)
            if cost.of(feeds) > MUCH:
                break

    def _fetch(self, names: Sequence[str], found: dict[Tensor, ObservedRange]) -> None:
        """Collect the ranges of these tensors of the main graph by fetching them in every run."""
        with exposing(self._original, names) as shown, self._away.open(shown) as session:
            for feeds, _ in self.runs:
                shapes: dict[str, Sequence[int]] = {name: array.shape for name, array in feeds.items()}
                for _, arrays in fetch(session, feeds, names):
                    for name, array in arrays.items():
                        self._note(found, name, array)
                        shapes[name] = array.shape
                self.has_stale_value_info = self.has_stale_value_info or self._is_misstated(shapes)

    def _is_misstated(self, shapes: Mapping[str, Sequence[int]]) -> bool:
        """Whether inner tensors of a run have other shapes than the file states, or sizes of one name differ."""
        named: dict[str, int] = {}
        for value in (*self._skeleton.graph.input, *self._skeleton.graph.value_info):
            if value.name not in shapes or not value.type.tensor_type.HasField("shape"):
                continue
            dims, sizes = value.type.tensor_type.shape.dim, shapes[value.name]
            if len(dims) != len(sizes):
                return True
            for dim, size in zip(dims, sizes, strict=True):
                known = dim.dim_value if dim.HasField("dim_value") else size
                if dim.dim_param:
                    known = named.setdefault(dim.dim_param, size)
                if known != size:
                    return True
        return False

    def inner_values(self, names: Sequence[str]) -> Arrays:
        """The values of these tensors of the main graph on the first inputs, as far as memory allows.

        With the first key of each mask shown; `shown` names the masks that this changes.  Raises SessionError.
        """
        feeds = self._with_keys(self.runs[0][0])
        found = {name: feeds[name] for name in names if name in feeds}
        inner, left = [name for name in names if name not in feeds], _MAX_BYTES
        if inner:
            with exposing(self._original, inner) as shown, self._away.open(shown) as session:
                for _, arrays in fetch(session, feeds, inner):
                    for name, array in arrays.items():
                        left -= array.nbytes
                        if left >= 0:
                            found[name] = array
        return found

    def inner_errors(self, made: OutputModel, names: Sequence[str]) -> dict[str, float]:
        """The errors of inner tensors of another model on the first inputs: norms, relative to those of the original.

        Raises SessionError.
        """
        feeds, found = self.runs[0][0], dict[str, float]()
        with ExitStack() as stack:
            sessions = []
            for model in (self._original, made):
                shown = stack.enter_context(exposing(model, names))
                sessions.append(stack.enter_context(self._away.open(shown)))
            for batch, wanted in fetch(sessions[0], feeds, names):
                for _, arrays in fetch(sessions[1], feeds, batch):
                    for name in arrays.keys() & wanted.keys():
                        one, two = (np.asarray(side[name], np.float64) for side in (wanted, arrays))
                        if one.shape == two.shape:
                            found[name] = float(np.linalg.norm(one - two) / max(float(np.linalg.norm(one)), 1e-30))
        return found

    def _with_keys(self, feeds: Arrays) -> Arrays:
        """The same inputs with the first key of each mask shown, so that no row is fully masked."""
        hidden = HiddenRows(self._original, self._skeleton, self._away)
        masks = {name: feeds[name].copy() for name in hidden.masks_of(feeds)}
        for array in masks.values():
            array[..., :1] = 1
        self.shown = [name for name, array in masks.items() if not np.array_equal(array, feeds[name])]
        return {**feeds, **masks}

    @cached_property
    def choices(self) -> dict[str, str]:
        """The rows that the original chooses by scores, as `choices` finds them: rounding may swap some of them."""
        imports = imports_of(self._skeleton.opset_import)
        return choices(self._skeleton.graph) if imports.get("", 0) >= CHOOSING_OPSET else {}

    def error_of_choice(self, made: OutputModel, *, is_new: bool = True) -> float:
        """As `error`, under the original's own choice of rows, whose scores are compared too."""
        if self._choice is None:
            self._choice = list(self._chosen())
        with choosing(made, self.choices) as shown, self._away.open(shown) as session:
            return self._error(session, [wanted for _, wanted in self.runs], self._choice, is_new=is_new)

    def _chosen(self) -> Iterator[tuple[Arrays, Arrays]]:
        """The original's chosen indices and scores, for each run.  Raises SessionError."""
        found = self.choices
        names = list(dict.fromkeys((*found, *found.values())))
        for feeds, _ in self.runs:
            arrays = {name: feeds[name] for name in names if name in feeds}
            inner = [name for name in names if name not in feeds]
            with exposing(self._original, inner) as shown, self._away.open(shown) as session:
                for _, some in fetch(session, feeds, inner):
                    arrays.update(some)
            yield (
                {places: arrays[places] for places in found},
                {scores_of(places): arrays[scores] for places, scores in found.items()},
            )

    def error(
        self,
        made: OutputModel,
        beside: OutputModel | None = None,
        *,
        is_new: bool = True,
        visit: Callable[[Arrays, Arrays], None] = lambda wanted, answer: None,
    ) -> float:
        """The largest error of a model's outputs, relative to their scale.  Raises SessionError.

        The error of an output that is not float is the fraction of changed elements; `INFINITY` if all are changed
        in all runs.  beside: a model of the old dtype to compare with instead of the original.  is_new: whether the
        model's inputs have the new dtype; else they are as the original's.  visit: gets both outputs of each run.
        """
        others = [wanted for _, wanted in self.runs]
        if beside is not None:
            with self._away.open(beside) as session:
                others = [session.run(feeds) for feeds, _ in self.runs]
        with self._away.open(made) as session:
            return self._error(session, others, [({}, {}) for _ in others], is_new=is_new, visit=visit)

    def _error(
        self,
        session: ModelSession,
        others: Sequence[Arrays],
        choice: Sequence[tuple[Arrays, Arrays]],
        *,
        is_new: bool,
        visit: Callable[[Arrays, Arrays], None] = lambda wanted, answer: None,
    ) -> float:
        """The same for an open model.  others: outputs to compare with.  choice: further inputs and outputs."""
        worst, parts = 0.0, dict[str, list[float]]()
        self.engine = session.name
        for (feeds, _), wanted, (places, scores) in zip(self.runs, others, choice, strict=True):
            given = {name: self._fed(array) for name, array in feeds.items()} if is_new else feeds
            answer = session.run({**given, **places})
            visit(wanted, answer)
            for name, array in {**wanted, **scores}.items():
                relative_error = self._nearness.error(name, array, answer.get(name))
                worst = max(worst, relative_error)
                if is_discrete(array) and array.size and name not in self._lengths:
                    parts.setdefault(name, []).append(min(relative_error, 1.0))
        self.mismatch_fractions = {name: max(found) for name, found in parts.items()}
        return INFINITY if any(min(found) == 1 for found in parts.values()) else worst

    def uninformative_outputs(self, most: float) -> tuple[dict[str, str], bool]:
        """The outputs that could not show a difference within the limit, and whether all are so."""
        return uninformative_outputs(
            [outputs for _, outputs in self.runs],
            lambda name, array: self._nearness.tolerance(name, array, most),
            has_inputs=any(feeds for feeds, _ in self.runs),
        )

    def loads(self, made: OutputModel) -> bool:
        """Whether ONNX Runtime loads another model."""
        try:
            with self._away.open(made):
                return True
        except SessionError:
            return False

    def nondeterminism(self) -> float:
        """The error of the original's outputs in another run: random operators change them."""
        try:
            return self.error(self._original, is_new=False)
        except SessionError:
            return 0.0

    def _fed(self, array: np.ndarray) -> np.ndarray:
        if self._converts and array.dtype == dtype_of(self._change.old):
            with np.errstate(over="ignore"):
                return array.astype(dtype_of(self._change.new))
        return array

    def _note(self, found: dict[Tensor, ObservedRange], name: str, array: np.ndarray) -> None:
        """Add a tensor of the main graph to the ranges, like its probe: non-finite elements count as zero."""
        if array.dtype == dtype_of(self._change.old) and array.size:
            parts = blocks(array, BLOCK)
            most, above, least, *means = zip(*map(self._numbers, parts), strict=True)
            mean, square = (np.average(one, weights=[part.size for part in parts]) for one in means)
            numbers = max(most), max(above), min(least), mean, square
            found.setdefault((MAIN_GRAPH, name), ObservedRange()).add(numbers, array.shape)

    def _numbers(self, array: np.ndarray) -> tuple[float, ...]:
        """The numbers of a part of a tensor, in the order of the fields of a range."""
        wide = np.asarray(array, np.float64)
        size = np.where(np.isfinite(wide), np.abs(wide), 0.0)
        above, least = size[wide > self._low / 4].max(initial=0.0), size[size > 0].min(initial=INFINITY)
        return size.max(), above, least, size.mean(), (size * size).mean()

    def _made(self) -> Iterator[Arrays]:
        given = read_inputs(self._skeleton, self.options.inputs)
        if given:
            yield from (one.arrays for one in given)
            return
        plan, dims, seed = InputGenerator(self._skeleton), self.options.dims, self.options.seed
        usual, fits = plan.size_sets(dims), ConsistentSizes(self._original, dims)
        # First with masks that hide no row fully: rounding decides the output of such rows, and nobody reads them.
        ways = (mask("gaps"), constant(0, "false")), (TRAILING_MASK, constant(1, "true"))
        kinds = [{"mask": hiding, "condition": condition} for hiding, condition in ways]
        for values in (SAMPLED, CALM):
            turns = [
                (turn, {want.name: chosen[want.kind] for want in plan.wants if want.kind in chosen})
                for turn, chosen in enumerate(kinds if values is SAMPLED else ({}, {}))
            ]
            sizes = usual
            yield from (plan.generate(seed + turn, sizes[0], fills, values) for turn, fills in turns)
            if not self.runs and (fitted := fits.of(usual)):
                sizes = [*fitted, *usual[1:]]
                yield from (plan.generate(seed + turn, sizes[0], fills, values) for turn, fills in turns)
            for other in sizes[1 : 1 + _SIZES]:
                yield plan.generate(seed, other, usual=values)
            free = {name: size * _LONG for name, size in sizes[0].items() if name not in dims and size > _BATCH}
            if free and self.runs:
                longer = {**sizes[0], **free}
                made = [] if sizes is usual else fits.of([longer])
                yield from (plan.generate(seed, other, usual=values) for other in made or [longer])
            for other in plan.fallback_sets(dims):
                if self.runs:
                    return
                yield plan.generate(seed, other, usual=values)
            if self.runs:
                return


def _is_nothing(outputs: Arrays) -> bool:
    """Whether a run gave only NaN."""
    floats = [array for array in outputs.values() if array.dtype.kind == "f" and array.size]
    return bool(floats) and all(np.isnan(array).all() for array in floats)
