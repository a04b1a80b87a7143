"""Inputs that all models of a benchmark run on: the user's, or generated for the first model at the named sizes."""

from collections.abc import Mapping, Sequence
from shlex import quote

import numpy as np
from onnx import ModelProto, ValueInfoProto

from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.runtime.inputs.consistent_sizes import ConsistentSizes
from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown
from surgeon.runtime.inputs.user_inputs import read_inputs
from surgeon.runtime.run_limits import Inputs
from surgeon.shapes.algebra.size_expressions import is_total
from surgeon.shapes.constraints.input_dims import (
    DynamicDim,
    check_dim_names,
    dynamic_dims,
    input_dims,
    known_dims,
    require_sizes,
    required_inputs,
    total_size,
)

Feeds = dict[str, np.ndarray]


def feeds_of(
    models: Sequence[Model], inputs: Sequence[Inputs], shapes: Sequence[Mapping[str, int]], seed: int
) -> tuple[list[Feeds], list[dict[str, int]]]:
    """The inputs of all models at each shape, and the sizes of all dynamic dims.

    inputs: the user's, then there is one shape and it is empty; by default, inputs are generated for the first model.
    shapes: sizes of dynamic dims.  Further sizes are those that another model fixes, and those that follow from others.
    Raises UsageError for inputs that do not fit or cannot be generated, and for a dynamic dim without a size.
    """
    skeletons = [model.skeleton for model in models]
    if inputs:
        if any(shapes):
            raise UsageError("--inputs and --dim or --at cannot be combined, because the input data already has sizes.")
        sets = read_inputs(skeletons[0], inputs)
        if len(sets) != 1:
            raise UsageError(f"A benchmark needs one set of inputs, but there are {len(sets)}. Give one .npz file.")
        return [sets[0].arrays], [{}]
    for shape in shapes:
        require_sizes(shape)
    try:
        plan = InputGenerator(skeletons[0])
        fixed = _fixed(skeletons)
        sizes = [_sizes(models[0], plan.free, {**fixed, **shape}) for shape in shapes]
        return [plan.generate(seed, one) for one in sizes], [{key: one[key] for key in plan.free} for one in sizes]
    except InputsUnknown as unknown:
        kinds = {value.type.WhichOneof("value") for value in required_inputs(skeletons[0].graph).values()}
        advice = " Give your own inputs." if kinds <= {"tensor_type"} else ""
        raise UsageError(f"Inputs cannot be generated: {unknown.reason}.{advice}") from None


def _sizes(model: Model, free: Mapping[str, DynamicDim], chosen: Mapping[str, int]) -> dict[str, int]:
    """The sizes of all dynamic dims.  Raises UsageError for one that is not chosen and does not follow from others."""
    check_dim_names(free, chosen)
    if chosen.keys() >= free.keys():
        return dict(chosen)
    derived, needed = ConsistentSizes(model, chosen).derived()
    sizes = {**derived, **chosen}
    sizes |= {key: total for key in free.keys() - sizes.keys() if (total := total_size(key, free, sizes)) is not None}
    missing = [key for key in free if key not in sizes]
    if not missing:
        return sizes
    asked = [name for name in needed if name in known_dims(free) and not is_total(name)] or missing
    owner = next(dim.owner for key, dim in free.items() if asked[0] == key or asked[0] in known_dims({key: dim}))
    example = ",".join([*(f"{name}={size}" for name, size in chosen.items()), *(f"{name}=N" for name in asked)])
    raise UsageError(
        f"The dynamic dimension '{asked[0]}' of input '{owner}' has no size. Give the sizes of your deployment: "
        f"--at {quote(example)}"
    )


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
