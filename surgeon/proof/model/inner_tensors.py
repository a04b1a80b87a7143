"""Values of inner tensors from one run of a model on generated inputs, for facts that the graph does not show."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
from onnx import ModelProto

from surgeon.errors import ModelFileError
from surgeon.proof.model.exposed_outputs import HELD_BYTES, exposing, fetch, produced_tensors
from surgeon.runtime.inputs.consistent_sizes import candidate_sizes
from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown
from surgeon.runtime.inputs.role_fills import CALM, SAMPLED
from surgeon.runtime.sessions.model_session import ModelSession, open_model
from surgeon.runtime.sessions.ort_session import SessionError

_MAX_SIZES = 7  # sets of sizes to try before the largest


@dataclass(frozen=True, slots=True)
class InnerValues:
    """The inner tensors of one run."""

    values: dict[str, np.ndarray] = field(default_factory=dict)
    """Tensors by name.  One past the limit of memory has the right shape and dtype, and zeros for values."""
    shapes_only: frozenset[str] = frozenset()
    """Names of the tensors past the limit of memory."""
    refusal: str = ""
    """One sentence on why tensors are missing; "" if none is."""


def run_inner_tensors(
    model: Path | ModelProto,
    skeleton: ModelProto,
    names: Sequence[str],
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    custom_ops: Sequence[Path | str] = (),
    limit_bytes: int = HELD_BYTES,
) -> InnerValues:
    """Run the part of a model that these tensors of the main graph need, once, and return their values.

    Only the nodes and weights that lead to the tensors are loaded, so that other operators need no kernel.  Where ONNX
    Runtime does not load these either, the longest loadable run of tensors in the graph's order is fetched.  `names`
    may hold inputs of the graph; unknown names are left out.  Sizes of dynamic dims and inputs are those of a check:
    see `inputs.input_generator`.  At most `limit_bytes` of values are kept.

    Raises UsageError when `dims` names a dim that no input has; a failing model never raises.
    """
    wanted = set(names)
    inner = [name for name in produced_tensors(skeleton) if name in wanted]
    try:
        plan = InputGenerator(skeleton)
        last = plan.fallback_sets(dims or {})[-1:]
        size_sets = chain(islice(candidate_sizes(model, plan, dims or {}), _MAX_SIZES), last)
        sets = (plan.generate(seed, sizes, usual=usual) for sizes in size_sets for usual in (SAMPLED, CALM))
        try:
            return _attempt(model, custom_ops, sets, names=names, inner=inner, limit=limit_bytes)
        except SessionError as refused:
            refusal = f"ONNX Runtime does not load the model: {refused.message}"
        loading = _loading(model, inner, custom_ops)
        found = _attempt(model, custom_ops, sets, names=names, inner=loading, limit=limit_bytes)
        return replace(found, refusal=refusal)
    except InputsUnknown as unknown:
        return InnerValues(refusal=f"Inputs cannot be generated: {unknown.reason}.")
    except ModelFileError as error:
        return InnerValues(refusal=str(error))


def _attempt(
    model: Path | ModelProto,
    custom_ops: Sequence[Path | str],
    sets: Iterable[dict[str, np.ndarray]],
    *,
    names: Sequence[str],
    inner: Sequence[str],
    limit: int,
) -> InnerValues:
    """Run on the first set of inputs that the model accepts; raises SessionError when it does not load."""
    if not inner:
        feeds = next(iter(sets))
        return InnerValues({name: feeds[name] for name in names if name in feeds})
    refusal = ""
    with exposing(model, inner, only=True) as exposed, open_model(exposed, custom_ops) as session:
        for feeds in sets:
            try:
                return _run(session, feeds, names=names, inner=inner, limit=limit)
            except SessionError as refused:
                refusal = refusal or f"The model does not run on the generated inputs: {refused.message}"
    return InnerValues(refusal=refusal)


def _loading(model: Path | ModelProto, names: Sequence[str], custom_ops: Sequence[Path | str]) -> list[str]:
    """Return the tensors up to the first that ONNX Runtime does not load; it does not load all together."""
    good, bad = 0, len(names)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            with exposing(model, names[:middle], only=True) as exposed, open_model(exposed, custom_ops):
                good = middle
        except SessionError:
            bad = middle
    return list(names[:good])


def _run(
    session: ModelSession, feeds: Mapping[str, np.ndarray], *, names: Sequence[str], inner: Sequence[str], limit: int
) -> InnerValues:
    found = {name: feeds[name] for name in names if name in feeds}
    shapes_only: set[str] = set()
    for _, values in fetch(session, feeds, inner):
        for name, array in values.items():
            limit -= array.nbytes
            if limit < 0:
                limit += array.nbytes
                shapes_only.add(name)
                array = np.broadcast_to(np.zeros((), array.dtype), array.shape)
            found[name] = array
    return InnerValues(found, frozenset(shapes_only))
