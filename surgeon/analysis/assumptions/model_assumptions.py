"""The assumptions that a model carries, as entries of its metadata: `surgeon.assume.x` with the value `0..1`."""

from collections.abc import Iterable, Mapping

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper

from surgeon.analysis.assumptions.assumption import Assumption, parse_all
from surgeon.errors import UsageError
from surgeon.shapes.constraints.input_dims import required_inputs
from surgeon.text import did_you_mean

KEY = "surgeon.assume."
"""The prefix of the keys of these entries; the name of the input follows."""
Assumptions = dict[str, Assumption]


def assumptions_of(model: ModelProto) -> Assumptions:
    """The assumptions that a model carries, by input; only entries for inputs count.

    Raises UsageError for an entry that is not valid.
    """
    held = {item.key.removeprefix(KEY): item.value for item in model.metadata_props if item.key.startswith(KEY)}
    inputs = required_inputs(model.graph) if held else {}
    found: Assumptions = {}
    for name, text in held.items():
        if name in inputs:
            try:
                found[name] = Assumption.parse(text)
                found[name].require_dtype(dtype_of_input(inputs[name]))
            except UsageError as error:
                raise UsageError(
                    f"The model's metadata {KEY + name!r} is not valid: {error}. Remove it with "
                    f"--metadata '{KEY}{name}='"
                ) from None
    return found


def assumption_lines(model: ModelProto) -> tuple[str, ...]:
    """The assumptions that a model carries as `NAME: WORDS`."""
    return tuple([f"{name}: {assumption}" for name, assumption in assumptions_of(model).items()])


def with_assumptions(model: ModelProto, declared: Iterable[str]) -> ModelProto:
    """A copy of a model that carries these assumptions too; the same model if it already does.

    Raises UsageError as `declare`.
    """
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy if declare(copy, declared) else model


def declare(model: ModelProto, declared: Iterable[str]) -> bool:
    """Add these assumptions to a model; returns whether it changed.  declared: each as `NAME: WORDS`.

    Raises UsageError for an unknown input, words that its dtype cannot satisfy, and contradictions, also to assumptions
    of the model.
    """
    given = parse_all(declared)
    inputs, known = required_inputs(model.graph) if given else {}, assumptions_of(model)
    is_new = False
    for name, found in given.items():
        if name not in inputs:
            raise UsageError(f"No input named {name!r} for an assumption; {did_you_mean(name, inputs)}")
        try:
            found.require_dtype(dtype_of_input(inputs[name]))
        except UsageError as error:
            raise UsageError(f"The assumption on {name!r} is not valid: {error}.") from None
        if name in known:
            found = _narrowed(name, known[name], found)
        if known.get(name) != found:
            is_new = True
            _write(model, KEY + name, str(found))
    return is_new


def rename_assumptions(model: ModelProto, names: Mapping[str, str]) -> None:
    """Rename the assumptions of renamed inputs."""
    for item in model.metadata_props:
        name = item.key.removeprefix(KEY)
        if item.key.startswith(KEY) and name in names:
            item.key = KEY + names[name]


def _narrowed(name: str, known: Assumption, given: Assumption) -> Assumption:
    """Two assumptions together: the model's and the user's.  Raises UsageError if their ranges only overlap."""
    try:
        found = known.joined_with(given)
    except UsageError:
        found = None
    if found is None or found.bounds not in (known.bounds, given.bounds):
        raise UsageError(
            f"The model carries the assumption '{name}: {known}', which contradicts '{name}: {given}'. To replace it, "
            f"first remove it with --metadata '{KEY}{name}='"
        )
    return found


def _write(model: ModelProto, key: str, value: str) -> None:
    entry = next((item for item in model.metadata_props if item.key == key), None)
    entry = model.metadata_props.add(key=key) if entry is None else entry
    entry.value = value


def dtype_of_input(entry: ValueInfoProto) -> np.dtype:
    """The dtype of an input.  Raises UsageError, in a clause, if it is not a tensor."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type))
    except KeyError:
        raise UsageError("it is not a numeric tensor") from None
