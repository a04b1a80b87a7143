"""Compares decoding: one model step by step on padded batches, and the original on each sequence by itself.

Many originals are wrong for a padded batch, since their windows and positions count the padding.  Caches are
private to a model, so only the scores of valid tokens are compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from onnx import ModelProto, helper

from surgeon.analysis.decoder_graph import Decoder, decoder_of
from surgeon.errors import Unavailable, UsageError
from surgeon.file.model_like import OpenedModel
from surgeon.ir.index import Index
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.comparison_tally import tolerances
from surgeon.proof.model.model_check import ModelRuntime
from surgeon.proof.model.output_noise import MAX_NOISE, measure_noise
from surgeon.runtime.numerics.array_comparison import Comparison, compare, tolerances_in_force, uninformative_outputs
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.ort_session import SessionError

STEPS = 6
"""Tokens that follow each prompt, one per run."""
PROMPTS = ((1, 1, 1), (5,), (3, 9, 6), (1, 300, 17), (64, 64, 64))
"""Lengths of the prompts of each batch: without padding, with it, and longer than the windows of small models."""
Feeds = dict[str, np.ndarray]
Placed = tuple[str, Comparison]
"""A comparison, with the prompts and the step that it is of."""


@dataclass(frozen=True, slots=True)
class DecoderSide:
    """A model as a decoder."""

    model: Path | ModelProto
    """The model for a runtime."""
    skeleton: ModelProto
    """The model without its large payloads."""
    decoder: Decoder
    """Its inputs and outputs."""

    def feeds(self, ids: np.ndarray, mask: np.ndarray, positions: np.ndarray, caches: Sequence[np.ndarray]) -> Feeds:
        """The inputs of one run, in the dtypes of the model.  caches: as `cache_outputs`; empty before the prompt."""
        decoder = self.decoder
        found = {decoder.ids: ids, decoder.mask: mask, decoder.positions: positions}
        dtypes = {value.name: value.type.tensor_type.elem_type for value in self.skeleton.graph.input}
        made = {name: array.astype(_numpy(dtypes[name])) for name, array in found.items() if name is not None}
        pasts = [name for cache in decoder.caches for name in (cache.past_key, cache.past_value)]
        if not caches:
            kinds = [cache for cache in decoder.caches for _ in range(2)]
            caches = [np.zeros((len(ids), one.heads, 0, one.size), _numpy(one.dtype)) for one in kinds]
        return made | dict(zip(pasts, caches, strict=True))

    def cache_outputs(self, outputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Keys and values of each layer among the outputs of a run."""
        return [outputs[name] for cache in self.decoder.caches for name in (cache.present_key, cache.present_value)]


def _numpy(dtype: int) -> np.dtype:
    return np.dtype(helper.tensor_dtype_to_np_dtype(dtype))


def compare_decoding(
    original: OpenedModel, other: OpenedModel, options: CheckOptions, runs_other: ModelRuntime | None = None
) -> CheckResult:
    """Decode with another model, and compare with the original.  Raises UsageError for other models."""
    first, second = _side(original, "The original"), _side(other, "The other model")
    return DecodingCheck(first, options, runs_other=runs_other).check(second)


def _side(model: OpenedModel, words: str) -> DecoderSide:
    opened, to_run = model
    found = decoder_of(Index(opened))
    if isinstance(found, Unavailable):
        raise UsageError(f"{words} is not a decoder: {found.reason}. Compare without decode.")
    return DecoderSide(to_run(), opened.skeleton, found)


class DecodingCheck:
    """An original to compare decoders with: scores of each sequence by itself, in one run."""

    def __init__(self, original: DecoderSide, options: CheckOptions, *, runs_other: ModelRuntime | None = None) -> None:
        self._original, self._options = original, options
        self._away = IsolatedRuntime(options.required(), options.run_time)
        self._runs_other = runs_other or self._away

    def check(self, other: DecoderSide) -> CheckResult:
        """Decode with the other model, and compare the scores of each valid token with the original's."""
        rtol, atol = tolerances(self._original.skeleton, self._options, other.skeleton)
        if self._original.decoder.vocabulary != other.decoder.vocabulary:
            counts = f"{other.decoder.vocabulary:,}, and not {self._original.decoder.vocabulary:,}"
            return _result(Outcome.FAILED, f"The other model has a vocabulary of {counts}.", [])
        made: list[Placed] = []
        scores: list[np.ndarray] = []
        outcome, reason, name = Outcome.PROVED, "", ""
        try:
            with self._away.open(self._original.model) as session:
                name = session.name
                cases = [(batch, self._scores(session, batch)) for batch in self._batches(other)]
        except SessionError as refused:
            return _result(Outcome.UNPROVED, f"The original does not run: {refused.message}", [])
        try:
            with self._runs_other.open(other.model) as session:
                for batch, wanted in cases:
                    scores.append(wanted[0])
                    for what, rows, expected in _decoded(other, session, batch, wanted):
                        found = compare(other.decoder.logits, expected, rows, rtol=rtol, atol=atol)
                        made.append((f"{what} of a batch of prompts of {_lengths(batch)} tokens", found))
        except SessionError as refused:
            reason = f"The original runs, but the other model does not: {refused.message}"
            return _result(Outcome.FAILED, reason, [found for _, found in made], oracle=name)
        failed = [(where, found) for where, found in made if not found.error.ok]
        if failed:
            made, outcome, reason = self._beyond_noise(made, failed, [case for case, _ in cases])
        elif _is_uninformative(scores, made):
            outcome, reason = Outcome.UNPROVED, "The scores are the same for all tokens, so nothing was compared."
        kinds = (f"prompts of {_lengths([ids for batch, _ in cases for ids in batch])} tokens, {STEPS} steps each",)
        return _result(outcome, reason, [one for _, one in made], oracle=name, kinds=kinds, asked=(rtol, atol))

    def _beyond_noise(
        self, made: list[Placed], failed: list[Placed], batches: Sequence[Sequence[np.ndarray]]
    ) -> tuple[list[Placed], Outcome, str]:
        """The comparisons, with errors accepted that the original's own rounding explains, and the outcome."""
        moved = self._noise([max(batch, key=len) for batch in batches])
        where, worst = max(failed, key=lambda one: one[1].error.severity)
        why = f"Output '{worst.error.name}' {worst.why} at {where}"
        if any(found.error.max_abs > found.error.allowed + moved for _, found in failed):
            return made, Outcome.FAILED, f"{why}."
        if any(moved > MAX_NOISE * found.error.scale for _, found in failed):
            return made, Outcome.UNPROVED, f"{why}, and the original's own rounding moves its scores by {moved:.2g}."
        errors = [(at, replace(one.error, allowed=one.error.allowed + moved, ok=True), one) for at, one in made]
        accepted = [(at, one if one.error.ok else Comparison(error, "")) for at, error, one in errors]
        return accepted, Outcome.PROVED, ""

    def _noise(self, sequences: Sequence[np.ndarray]) -> float:
        """How far rounding moves the original's scores of some sequences."""
        logits = self._original.decoder.logits
        with self._away.open(self._original.model) as session:
            runs = [(feeds, {logits: session.run(feeds)[logits]}) for feeds in map(self._single, sequences)]
        return max((one.get(logits, 0.0) for one in measure_noise(self._original.model, self._away, runs)), default=0.0)

    def _batches(self, other: DecoderSide) -> Iterator[list[np.ndarray]]:
        """Batches of sequences of random tokens, each a prompt and the tokens that follow."""
        rng = np.random.default_rng(self._options.seed)
        limits = [side.decoder.position_rows for side in (self._original, other)]
        most = min((rows for rows in limits if rows is not None), default=max(map(max, PROMPTS)) + STEPS)
        for lengths in PROMPTS:
            sizes = [max(1, min(length, most - STEPS)) + STEPS for length in lengths]
            yield [rng.integers(0, self._original.decoder.vocabulary, size) for size in sizes]

    def _scores(self, session: ModelSession, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The scores of each token [tokens, vocabulary], for each sequence by itself."""
        return [session.run(self._single(ids))[self._original.decoder.logits][0] for ids in batch]

    def _single(self, ids: np.ndarray) -> Feeds:
        """The inputs of the original for one sequence."""
        return self._original.feeds(ids[None], np.ones((1, len(ids))), np.arange(len(ids))[None], ())


def _decoded(
    side: DecoderSide, session: ModelSession, batch: Sequence[np.ndarray], wanted: Sequence[np.ndarray]
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """For the prompts and each step: its name, the valid scores, and the original's.  The padding is on the right."""
    lengths = np.array([len(ids) - STEPS for ids in batch])
    columns = np.arange(lengths.max())
    ids = np.zeros((len(batch), len(columns)), np.int64)
    for row, (tokens, length) in enumerate(zip(batch, lengths, strict=True)):
        ids[row, :length] = tokens[:length]
    mask = columns < lengths[:, None]
    outputs = session.run(side.feeds(ids, mask, np.broadcast_to(columns, ids.shape), ()))
    rows = outputs[side.decoder.logits]
    if rows.shape[1] == 1:  # scores of the last token only
        yield "the prompts", rows[:, 0], np.stack([own[n - 1] for own, n in zip(wanted, lengths, strict=True)])
    else:
        valid = [own[:n] for own, n in zip(wanted, lengths, strict=True)]
        yield "the prompts", rows[mask], np.concatenate(valid)
    for step in range(STEPS):
        places = lengths + step
        mask = np.concatenate([mask, np.ones((len(batch), 1), bool)], axis=1)
        ids = np.array([[tokens[place]] for tokens, place in zip(batch, places, strict=True)])
        feeds = side.feeds(ids, mask, places[:, None], side.cache_outputs(outputs))
        outputs = session.run(feeds)
        expected = np.stack([own[place] for own, place in zip(wanted, places, strict=True)])
        yield f"step {step + 1}", outputs[side.decoder.logits][:, 0], expected


def _lengths(batch: Sequence[np.ndarray]) -> str:
    """The numbers of tokens of prompts, as "1 to 300"."""
    counts = {len(ids) - STEPS for ids in batch}
    return " to ".join(map(str, dict.fromkeys((min(counts), max(counts)))))


def _is_uninformative(scores: Sequence[np.ndarray], made: Sequence[tuple[str, Comparison]]) -> bool:
    """Whether equal scores could not have shown a difference."""
    allowed = max(found.error.allowed for _, found in made)
    _, all_are = uninformative_outputs([{"": array} for array in scores], lambda *_: allowed, has_inputs=True)
    return all_are


def _result(
    outcome: Outcome,
    reason: str,
    found: Sequence[Comparison],
    *,
    oracle: str = "",
    kinds: tuple[str, ...] = (),
    asked: tuple[float | None, float | None] = (None, None),
) -> CheckResult:
    worst = max((one.error for one in found), key=lambda error: (not error.ok, error.severity), default=None)
    dtypes = {} if worst is None else {worst.dtype: None}
    return CheckResult(
        outcome,
        reason,
        () if worst is None else (worst,),
        0.0,
        runs=len(found),
        tolerance=tolerances_in_force(dtypes, *asked),
        oracle=oracle,
        kinds=kinds,
    )
