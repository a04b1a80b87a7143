"""Runs an edited model at other batch sizes and compares each sample with a run of the original."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from surgeon.file.save import OutputModel
from surgeon.pipeline.editing.claim import DynamicDimsClaim
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.model.comparison_tally import tolerances
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.inputs.role_fills import FURTHER
from surgeon.runtime.inputs.user_inputs import read_inputs
from surgeon.runtime.numerics.array_comparison import Comparison, OutputError, compare, dtype_name
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.shapes.constraints.input_dims import dim_kind

Arrays = dict[str, np.ndarray]
REDRAWS = 8  # draws of an input until it differs between samples


def batch_sizes(old: int) -> tuple[int, ...]:
    """Batch sizes at which an edited model is compared with runs of the original.

    1, because broadcasting then hides a fixed size; 2, the smallest size at which samples can mix; 7, which divides no
    usual size; and one more than the old size if that is larger.
    """
    return tuple(size for size in (1, 2, 7, *((old + 1,) if old >= 7 else ())) if size != old)


@dataclass(slots=True)
class SampleRun:
    """Outputs of an edited model at several sizes."""

    ran: list[int] = field(default_factory=list)
    """Sizes at which it ran."""
    refusal: str = ""
    """Why it did not run at another size; empty if it ran at all."""
    compared: dict[str, list[Comparison]] = field(default_factory=dict)
    """By output, one comparison per size."""
    answers: dict[int, Arrays] = field(default_factory=dict)
    """By size, all outputs."""
    merged: set[str] = field(default_factory=set)
    """Outputs with the samples inside a longer axis, although the original has an axis of the old size."""
    silent: frozenset[str] = frozenset()
    """Outputs that are equal for the first two samples of the original."""
    positional: set[str] = field(default_factory=set)
    """Outputs that differ if only the order of the samples does, in a dim that may be a batch."""

    @property
    def equal(self) -> frozenset[str]:
        """Outputs, by the original's names, that equal the original for each sample at all sizes."""
        if self.refusal:
            return frozenset()
        return frozenset(name for name, found in self.compared.items() if all(one.error.ok for one in found))

    @property
    def right(self) -> frozenset[str]:
        """Those of them that differ between two samples, which shows that samples are independent."""
        return self.equal - self.silent


class Samples:
    """Runs of an original at its fixed size, as samples."""

    def __init__(
        self, claim: DynamicDimsClaim, draft: ModelDraft, original: OutputModel, options: CheckOptions
    ) -> None:
        """claim: the dynamic dim.  Raises InputsUnknown without inputs, SessionError if the original does not run."""
        before, self._draft = draft.before.skeleton, draft
        self.claim, self.names, self._original, self._seed = claim, draft.claim.tensors, original, options.seed
        self.away = IsolatedRuntime(options.required(), options.run_time)
        self.tolerances = tolerances(before, options)
        self._plan = InputGenerator(before)
        given = [one.arrays for one in read_inputs(before, options.inputs)]
        known = {**options.dims, **(self._plan.sizes_of(given[0]) if given else {}), claim.name: claim.old}
        self._sizes = self._plan.size_sets({name: size for name, size in known.items() if name in self._plan.free})[0]
        self._given = [made for made in given if self._sizes | self._plan.sizes_of(made) == self._sizes]
        self._fed: list[Arrays] = []
        self._answers: list[Arrays] = []
        self._extend(2)  # outputs that differ between two depend on more than the shared inputs

    def _extend(self, count: int) -> None:
        """Run the original on more sets of inputs, up to `count`; only the dynamic inputs differ between sets."""
        if len(self._fed) >= count:
            return
        with self.away.open(self._original) as session:
            for number in range(len(self._fed), count):
                fed = self._further(number)
                self._answers.append(session.run(fed))
                self._fed.append(fed)

    def _further(self, number: int) -> Arrays:
        """One more set of inputs, the user's first; each dynamic input differs from all earlier ones if it can."""
        feeds = self.claim.feeds
        made = self._plan.generate(self._seed + number, self._sizes)
        made |= self._given[number] if number < len(self._given) else {}
        if self._fed:
            made |= {name: array for name, array in self._fed[0].items() if name not in feeds}
        for turn in range(REDRAWS):
            equal = [name for name in feeds if any(np.array_equal(made[name], fed[name]) for fed in self._fed)]
            if not equal:
                break
            other = self._plan.generate(self._seed + number, self._sizes, usual=FURTHER, drawn_by=(turn,))
            made |= {name: other[name] for name in equal}
        return made

    def alike(self) -> list[str]:
        """Dynamic inputs that are equal in all samples, although the model may accept other values."""
        names = [want.name for want in self._plan.wants if want.kind != "indices" and want.name in self.claim.feeds]
        return [name for name in names if all(np.array_equal(self._fed[0][name], fed[name]) for fed in self._fed)]

    def run(self, edited: OutputModel, sizes: Sequence[int], *, every: bool = True) -> SampleRun:
        """Run an edited model at several sizes; errors of the model do not raise.  every: stop at the first error."""
        found = SampleRun(silent=self._silent())
        try:
            self._extend(-(-max(sizes) // self.claim.old))
            with self.away.open(edited) as session:
                for size in sizes:
                    try:
                        answer = session.run(self._feeds(size, session.inputs))
                        if self.claim.mixed and dim_kind(self.claim.name) in ("batch", "other"):
                            turned = session.run(self._feeds(size, session.inputs, turned=True))
                            found.positional.update(self._positional(answer, turned))
                    except SessionError as refused:
                        found.refusal = refused.message
                        if every:
                            break
                        continue
                    found.ran.append(size)
                    found.answers[size] = answer
                    for name, array in answer.items():
                        found.compared.setdefault(self._name(name), []).append(self._compare(name, array, size))
                        found.merged.update({self._name(name)} if self._is_merged(name, array) else ())
        except SessionError as refused:
            found.refusal = refused.message
        return found

    def _silent(self) -> frozenset[str]:
        """Outputs of the original that are equal for the first two samples."""
        one, other = self._answers[:2]
        shared = [name for name in one if name in other]
        return frozenset(name for name in shared if compare(name, one[name], other[name], *self.tolerances).error.ok)

    def _name(self, name: str) -> str:
        return self.names.get(name, name)

    def _positional(self, answer: Arrays, turned: Arrays) -> Iterator[str]:
        """Outputs with an axis of samples that are not in reverse order if the samples are."""
        for value in self._draft.graph.output:
            dims = enumerate(value.type.tensor_type.shape.dim)
            axes = tuple(axis for axis, dim in dims if dim.dim_param == self.claim.name)
            flips = (np.flip(answer[value.name], order) for order in {*((axis,) for axis in axes), axes})
            same = (compare(value.name, one, turned[value.name], *self.tolerances).error.ok for one in flips)
            if axes and not any(same):
                yield self._name(value.name)

    def _feeds(self, size: int, inputs: Sequence[str], *, turned: bool = False) -> Arrays:
        """Inputs of the edited model at a size.  turned: samples in reverse order."""
        found, order = Arrays(), [*(reversed(range(size)) if turned else range(size))]
        for name in inputs:
            source = self._name(name)
            axis = self.claim.feeds.get(source)
            parts = [fed[source] for fed in self._fed]
            found[name] = parts[0] if axis is None else np.concatenate(parts, axis).take(order, axis)
        return found

    def _compare(self, name: str, array: np.ndarray, size: int) -> Comparison:
        """An output compared with the samples that it should consist of, in the closest of all layouts."""
        parts = [answer[source] for answer in self._answers if (source := self._name(name)) in answer]
        found = [compare(name, wanted, array, *self.tolerances) for wanted in self._layouts(parts, array, size)]
        if found:
            return min(found, key=lambda one: (not one.error.ok, one.error.max_abs))
        if not parts:
            return _failed_comparison(name, array, "is not an output of the original")
        if self._name(name) in self._silent():
            return compare(name, parts[0], array, *self.tolerances)
        return _failed_comparison(name, array, f"has shape {list(array.shape)}, which does not fit {size} samples")

    def _is_merged(self, name: str, array: np.ndarray) -> bool:
        """Whether an output has the samples inside a longer axis, although an axis has the old size."""
        shape, old = self._answers[0].get(self._name(name), array).shape, self.claim.old
        grown = [one for one, other in zip(shape, array.shape, strict=False) if one != other]
        return old in shape and any(size != old for size in grown)

    def _layouts(self, parts: Sequence[np.ndarray], array: np.ndarray, size: int) -> Iterator[np.ndarray]:
        """All layouts of the samples in the shape of an output: the outer or inner part of one axis."""
        if not parts or any(part.shape != parts[0].shape for part in parts) or array.ndim != parts[0].ndim:
            return
        old, shape = self.claim.old, parts[0].shape
        for axis, width in enumerate(shape):
            wanted = (*shape[:axis], width // old * size, *shape[axis + 1 :])
            if width % old or width == 0 or array.shape != wanted:
                continue
            rows = width // old
            yield np.concatenate(parts, axis).take(range(rows * size), axis)
            if rows > 1:
                split = [part.reshape(*shape[:axis], rows, old, *shape[axis + 1 :]) for part in parts]
                yield np.concatenate(split, axis + 1).take(range(size), axis + 1).reshape(wanted)


def _failed_comparison(name: str, array: np.ndarray, why: str) -> Comparison:
    """A failed comparison of an output that cannot consist of the samples."""
    return Comparison(
        OutputError(name, dtype_name(array), math.inf, max_rel=math.inf, scale=0.0, allowed=0.0, ok=False), why
    )
