"""Edge-case inputs: rows of zeros, and inputs on which two models may differ that count as equal.

Examples are NaN and infinity, fully masked rows, and indices from the end.  A fused operator may answer these
differently, and a model that never sees them is none the worse for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from surgeon.runtime.inputs.fractional_values import OF_NAN
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.inputs.input_spec import ValueKind

BEYOND_ORIGINAL = "inputs for which the original gives NaN or infinity"
"""Name of inputs for which only the original is not finite."""
LESSER = "rows of zeros and small rows"
"""Name of edge cases that are ordinary: any model may see them."""


@dataclass(frozen=True, slots=True)
class EdgeCaseKind:
    """One kind of edge-case inputs."""

    words: str
    """Its name in a sentence."""
    values: ValueKind
    """The values to generate."""
    turns: tuple[int, ...]
    """Offset of the seed for each set; `ValueKind` cycles through its variants by seed."""
    alike: bool = False
    """Only where both models give an input the same role: a plain number to one may be a loop count of the other."""


_ROUND = 60  # a multiple of all numbers of turns
_BESIDE = 2  # inputs that hold NaN or infinity while the others are usual, at most
_OF_ROWS = (2, 3)  # ranks of inputs whose rows are vectors, not parts of pictures
_LESSER, _LESSER_HALF = (0.0, 1e-4, 1.0), (0.0, 2.0**-8, 1.0)  # factors on rows, in turn
# The first set of each kind shows most; a costly model gets only that.
_KINDS = (
    EdgeCaseKind("inputs that hold NaN or infinity", ValueKind.NON_FINITE, (1, 0, 2)),
    EdgeCaseKind("inputs that hold NaN or infinity", ValueKind.FRACTIONS, (OF_NAN,)),
    EdgeCaseKind("masks that hide whole rows", ValueKind.HIDDEN_ROWS, (0, 1)),
    EdgeCaseKind("indices that count from the end", ValueKind.BACKWARDS, (0,)),
    EdgeCaseKind("counts and places that count from the end", ValueKind.COUNTS, (2, 4), alike=True),
    EdgeCaseKind("integers that half of their bits do not hold", ValueKind.LARGE_INTEGERS, (0,), alike=True),
)


def wants_both(plan: InputGenerator) -> bool:
    """Whether these inputs also depend on the inputs of the other model."""
    return any(kind.alike and plan.is_affected_by(kind.values) for kind in _KINDS)


def edge_case_inputs(
    plan: InputGenerator, other: InputGenerator | None, sizes: Mapping[str, int], seed: int, *, few: bool
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Sets of inputs of each kind that affects the model, with the name of the kind.

    other: the inputs of the other model, if known.  few: only one set for each of the first kinds, as for costly
    models.
    """
    for kind in _KINDS[:3] if few else _KINDS:
        if plan.is_affected_by(kind.values) and not (kind.alike and not _answer_alike(plan, other, kind.values)):
            for turn in kind.turns[:1] if few else kind.turns:
                yield kind.words, plan.generate(seed * _ROUND + turn, sizes, kind.values)
    for made in () if few else _beside_usual(plan, sizes, seed):
        yield _KINDS[0].words, made


def _beside_usual(plan: InputGenerator, sizes: Mapping[str, int], seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Sets in which one input holds NaN or infinity and the others are usual, for the first inputs in turn.

    Where all inputs hold them at the same places, an output taken from the wrong input is the same.
    """
    names = [want.name for want in plan.wants if want.answers_to(ValueKind.NON_FINITE)]
    for name in names[:_BESIDE] if len(names) > 1 else ():
        for turn in (1, 2):
            usual, ends = (
                plan.generate(seed * _ROUND + turn, sizes, kind) for kind in (ValueKind.USUAL, ValueKind.NON_FINITE)
            )
            yield {**usual, name: ends[name]}


def _answer_alike(plan: InputGenerator, other: InputGenerator | None, values: ValueKind) -> bool:
    """Whether all inputs that this kind changes are of this kind in the other model too."""
    answering, theirs = (
        {want.name for want in some.wants if want.answers_to(values)} if some else set[str]() for some in (plan, other)
    )
    return answering <= theirs


def with_small_rows(plan: InputGenerator, feeds: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray] | None:
    """The inputs with some rows along the last axis zero and some tiny; None without such rows.

    Rows of padding are zeros, and the epsilon that a norm adds to squares shows only on small rows.
    """
    made = dict(feeds)
    for want in plan.wants:
        array = feeds[want.name]
        if want.takes_edge_values and want.named is None and array.ndim in _OF_ROWS and array.size:
            rows = array.reshape(-1, array.shape[-1]).astype(np.float64)
            least = float(ml_dtypes.finfo(want.dtype).tiny)
            turn = (np.arange(len(rows)) + seed) % len(_LESSER)
            factors = np.array(_LESSER) if least < min(filter(None, _LESSER)) ** 2 else np.array(_LESSER_HALF)
            made[want.name] = (rows * factors[turn][:, None]).reshape(array.shape).astype(want.dtype)
    return plan.obeying(made) if any(made[name] is not feeds[name] for name in made) else None
