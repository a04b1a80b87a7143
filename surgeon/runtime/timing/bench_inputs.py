"""Inputs that all models of a benchmark run on: the user's, or generated for the first model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from onnx import ModelProto, ValueInfoProto

from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.runtime.inputs.consistent_sizes import candidate_sizes
from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown
from surgeon.runtime.inputs.user_inputs import read_inputs
from surgeon.runtime.run_limits import Inputs
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.shapes.constraints.input_dims import (
    check_dim_names,
    dynamic_dims,
    input_dims,
    require_sizes,
    required_inputs,
)

Feeds = dict[str, np.ndarray]
Prepared = tuple[list[Callable[[], None]], dict[str, int]]


class TimedModel(Protocol):
    """A model that is loaded for timing."""

    def bind_inputs(self, feeds: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Return a function that runs once on these inputs; it raises SessionError if they are rejected."""
        ...


def bind_inputs(
    sessions: Sequence[tuple[str, TimedModel]],
    models: Sequence[Model],
    inputs: Sequence[Inputs],
    dims: Mapping[str, int],
    seed: int,
    *,
    at: Callable[[str], None],
) -> Prepared:
    """Return functions that run each session once, on inputs that all of them accept, and the sizes of dynamic dims.

    sessions: by name, in the order of `models`.  The inputs are those of the first model.  Generated inputs have the
    usual sizes, or sizes that another model fixes, or those of `dims`.  If a model rejects them, others are tried.  at:
    gets the name of each model before it runs.  Raises UsageError for inputs that do not fit, and for models that
    reject all generated inputs.
    """
    refusal = ""
    for feeds, sizes in _candidates(models, inputs, dims, seed):
        runs = []
        for name, session in sessions:
            at(name)
            run = session.bind_inputs(feeds)
            try:
                run()
            except SessionError as refused:
                refusal = refusal or f"{name} does not run on these inputs ({refused.message.rstrip('.')})"
                break
            runs.append(run)
        else:
            return runs, sizes
    made = "Give other inputs" if inputs else "Give sizes with dims, or your own inputs"
    raise UsageError(f"{refusal}. {made}.")


def require_same_inputs(names: Sequence[str], skeletons: Sequence[ModelProto]) -> None:
    """Raise UsageError for a model whose inputs differ from the first model's in name or dtype."""
    first = required_inputs(skeletons[0].graph)
    for name, skeleton in zip(names, skeletons, strict=True):
        theirs = required_inputs(skeleton.graph)
        odd = sorted(first.keys() ^ theirs.keys())
        if odd:
            listed = ", ".join(f"'{item}'" for item in odd)
            raise UsageError(f"{names[0]} and {name} do not have the same inputs ({listed}).")
        for item, value in first.items():
            kinds = [_kind(value), _kind(theirs[item])]
            if all(kinds) and kinds[0] != kinds[1]:
                raise UsageError(f"Input '{item}' is {kinds[0]} in {names[0]}, but {kinds[1]} in {name}.")


def _kind(value: ValueInfoProto) -> str | None:
    """The type of an input without its shape; None if unknown."""
    which = value.type.WhichOneof("value")
    if which != "tensor_type":
        return None if which is None else which.removesuffix("_type")
    dtype = value.type.tensor_type.elem_type
    return dtype_name(dtype) if dtype else None


def _candidates(
    models: Sequence[Model], inputs: Sequence[Inputs], dims: Mapping[str, int], seed: int
) -> Iterator[tuple[Feeds, dict[str, int]]]:
    skeletons = [model.skeleton for model in models]
    if inputs:
        if dims:
            raise UsageError("--inputs and --dim cannot be combined, because the input data already has sizes.")
        sets = read_inputs(skeletons[0], inputs)
        if len(sets) != 1:
            raise UsageError(f"A benchmark needs one set of inputs, but there are {len(sets)}. Give one .npz file.")
        yield sets[0].arrays, {}
        return
    require_sizes(dims)
    try:
        plan = InputGenerator(skeletons[0])
        check_dim_names(plan.free, dims)
        chosen = {**_fixed(skeletons), **dims}
        for sizes in candidate_sizes(models[0], plan, chosen):
            yield plan.generate(seed, sizes), {key: sizes[key] for key in plan.free}
    except InputsUnknown as unknown:
        kinds = {value.type.WhichOneof("value") for value in required_inputs(skeletons[0].graph).values()}
        advice = " Give your own inputs." if kinds <= {"tensor_type"} else ""
        raise UsageError(f"Inputs cannot be generated: {unknown.reason}.{advice}") from None


def _fixed(skeletons: Sequence[ModelProto]) -> dict[str, int]:
    """Sizes that other models fix for dims that are dynamic in the first."""
    first = required_inputs(skeletons[0].graph)
    free = dynamic_dims(list(first.values()))
    found: dict[str, int] = {}
    for skeleton in skeletons[1:]:
        theirs = required_inputs(skeleton.graph)
        for name, value in first.items():
            for ours, other in zip(input_dims(value), input_dims(theirs[name]), strict=False):
                if isinstance(ours, str) and isinstance(other, int) and ours in free:
                    found.setdefault(ours, other)
    return found
