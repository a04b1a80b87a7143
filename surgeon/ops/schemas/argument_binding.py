"""Sorts the arguments of a helper into the inputs and attributes of its operator at an opset.

`g.reduce_mean(x, axes=[-1])` and `g.reduce_mean(x, [-1])` are an attribute at opset 17 and an input at opset 18.
"""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from onnx import AttributeProto

from surgeon.errors import MissingInputError, OpsetError, RuleError
from surgeon.ops.schemas.attribute_values import coerce
from surgeon.ops.schemas.helper_names import snake_case
from surgeon.ops.schemas.op_schema import (
    VARIADIC,
    AttributeSpec,
    FormalParameter,
    Schema,
    attribute_name,
    attributes_become_inputs,
    display_domain,
    history,
    operators,
    schema,
)
from surgeon.text import close_matches, format_count

# Inputs of one dimension that were a single INT when they were attributes.
_VECTORS = {("", "TopK"): frozenset({1})}


class BoundArguments(NamedTuple):
    """The arguments of a helper's call, sorted."""

    inputs: tuple[Any, ...]
    """In order; None for an omitted optional input."""
    attributes: dict[str, Any]
    """By name."""
    outputs: int
    """How many outputs the node has."""
    several: bool = False
    """The helper returns a tuple, even of one: the op can have several outputs, or the caller gave their number."""


class _Plan:
    """The meaning of each position and keyword of a helper at one version: an input's index or an attribute.

    any_version: keywords of all versions are allowed.  vectors: inputs for which a single integer means a list of one.
    Facts about all versions of an op are computed only if a call needs them.
    """

    def __init__(self, version: Schema, any_version: bool) -> None:
        self.schema, self.any_version = version, any_version

    def keyword(self, key: str) -> int | AttributeSpec | None:
        """The meaning of a keyword; None for an unknown one."""
        return self.schema.attributes.get(key) or self.keywords.get(key)

    @cached_property
    def positions(self) -> tuple[int | AttributeSpec | None, ...]:
        known = len(self.schema.inputs)
        newest = schema(self.schema.domain, self.schema.name)
        later = newest.inputs[known:] if newest is not None else ()
        return (*range(known), *map(self._was, later))

    @cached_property
    def keywords(self) -> Mapping[str, int | AttributeSpec]:
        version = self.schema
        versions = history(version.domain, version.name)
        later: dict[str, int | AttributeSpec] = {}
        for formal in versions[-1].inputs:
            was = self._was(formal)
            if was is not None:
                later.update(dict.fromkeys(_spellings(formal), was))
        keywords: dict[str, int | AttributeSpec] = dict(version.attributes)
        for index, formal in enumerate(version.inputs):
            if formal.variadic:
                continue
            for key in _spellings(formal):
                keywords.setdefault(key, index)
            keywords.setdefault(attribute_name(version.domain, version.name, formal.name), index)
        keywords = _renamed(version) | later | keywords
        if self.any_version:
            for older in versions:
                for key, spec in older.attributes.items():
                    keywords.setdefault(key, spec)
        return keywords

    @cached_property
    def vectors(self) -> frozenset[int]:
        return _vectors(self.schema)

    @cached_property
    def wanted(self) -> int:
        """The minimum number of inputs."""
        needed = sum(not (one.optional or one.variadic) for one in self.schema.inputs)
        return max(self.schema.min_inputs, needed)

    def is_optional(self, index: int) -> bool:
        """Whether an input may be omitted."""
        formal = self.schema.input_at(index)
        return formal is None or formal.optional

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """The inputs that are always required."""
        formals = ((index, self.schema.input_at(index)) for index in range(self.wanted))
        return tuple(index for index, formal in formals if formal is not None and not formal.optional)

    @cached_property
    def _attributes(self) -> Mapping[str, AttributeSpec]:
        return {key.lower(): spec for key, spec in self.schema.attributes.items()}

    def _was(self, formal: FormalParameter) -> AttributeSpec | None:
        """The attribute at this version that is an input in the newest version."""
        return self._attributes.get(attribute_name(self.schema.domain, self.schema.name, formal.name).lower())


def bind(domain: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], opset: int | None) -> BoundArguments:
    """Sort the arguments of a helper call.

    Positional arguments are inputs in the order of the schema at `opset` (None: the newest); keywords are attributes,
    or inputs by their ONNX name or in snake_case; `outputs=n` asks for n outputs.  A parameter that moved from
    attribute to input between versions may be given either way.  Values other than plain Python, NumPy and ONNX values
    pass through.  Raises RuleError for arguments that do not fit the operator at this opset.
    """
    plan = _plan(domain, name, opset)
    inputs: dict[int, Any] = {}
    attributes: dict[str, Any] = {}
    for position, value in enumerate(args):
        slot = _position(plan, position, len(args))
        if value is None or not isinstance(slot, int) or slot in plan.vectors:
            _place(plan, slot, value, inputs=inputs, attributes=attributes)
        else:
            inputs[slot] = value
    asked = None
    for key, value in kwargs.items():
        if key == "outputs" or (key == "num_outputs" and _is_early_split(plan.schema, opset)):
            asked = kwargs.get("outputs", value)
            continue
        place = plan.keyword(key)
        if place is None:
            raise RuleError(_unknown_keyword(plan, key, opset))
        _place(plan, place, value, inputs=inputs, attributes=attributes)
    sorted_inputs = _sorted_inputs(plan, inputs)
    count = _outputs(plan.schema, asked, sorted_inputs, attributes)
    version = plan.schema
    if _is_split(version) and opset is not None and opset >= 18 and len(sorted_inputs) < 2:
        attributes.setdefault("num_outputs", count)
    always = version.min_outputs > 1 or version.max_outputs == VARIADIC
    several = always or (asked is not None and version.max_outputs > 1)
    return BoundArguments(sorted_inputs, attributes, count, several)


def missing(domain: str, name: str, opset: int | None) -> str:
    """The message about an operator that does not exist at `opset`: too new, or unknown with the nearest names."""
    versions = history(domain, name)
    where = display_domain(domain)
    if not versions:
        near = close_matches(name, operators(domain))
        plugin = "" if domain else "; if it is a plugin of TensorRT, declare it: --custom-ops plugins.toml"
        hint = f"the nearest are {', '.join(near)}" if near else f"check the spelling and the domain{plugin}"
        return f"{where} has no op {name}; {hint}."
    return f"{where} has no {name} at opset {opset}; {name} needs opset {versions[0].since_version}."


@cache
def _plan(domain: str, name: str, opset: int | None) -> _Plan:
    version = schema(domain, name, opset)
    if version is None:
        versions = history(domain, name)
        raise OpsetError(missing(domain, name, opset), versions[0].since_version if versions and not domain else None)
    if opset is not None and version.deprecated:
        where = display_domain(version.domain)
        raise RuleError(f"{name} is deprecated in {where} since opset {version.since_version}; use its replacement.")
    return _planned(version, any_version=opset is None)


@cache
def _planned(version: Schema, any_version: bool) -> _Plan:
    return _Plan(version, any_version)


def _spellings(formal: FormalParameter) -> tuple[str, ...]:
    snake = snake_case(formal.name)
    return formal.name, snake, formal.name.lower(), snake + "_"


def _renamed(version: Schema) -> dict[str, int | AttributeSpec]:
    """Names that an input has in other versions with as many inputs (BatchNormalization's `mean`, `input_mean`)."""
    return {
        key: index
        for other in history(version.domain, version.name)
        if len(other.inputs) == len(version.inputs)
        for index, formal in enumerate(other.inputs)
        for key in _spellings(formal)
    }


def _vectors(version: Schema) -> frozenset[int]:
    """Inputs for which a single integer means a list of one, because they were a list when they were attributes."""
    found = set(_VECTORS.get((version.domain, version.name), ()))
    lists = {
        key
        for older in history(version.domain, version.name)
        for key, spec in older.attributes.items()
        if spec.type == AttributeProto.INTS
    }
    for key, index in attributes_become_inputs(version.domain, version.name).items():
        if key in lists:
            found.add(index)
    return frozenset(found)


def _position(plan: _Plan, position: int, given: int) -> int | AttributeSpec:
    formals = plan.schema.inputs
    if formals and formals[-1].variadic and position >= len(formals) - 1:
        return position
    place = plan.positions[position] if position < len(plan.positions) else None
    if place is None:
        raise RuleError(f"{plan.schema.name} has at most {format_count(len(formals), 'input')}, but got {given}.")
    return place


def _place(
    plan: _Plan, place: int | AttributeSpec, value: Any, inputs: dict[int, Any], attributes: dict[str, Any]
) -> None:
    name = plan.schema.name
    if isinstance(place, AttributeSpec):
        if value is None and place.required:
            raise MissingInputError(f"The attribute '{place.name}' of {name} is required, but is None.")
        if value is None:
            return
        if place.name in attributes:
            raise RuleError(f"The attribute '{place.name}' of {name} is given twice; give it once.")
        attributes[place.name] = coerce(name, place, value)
        return
    if value is None and not plan.is_optional(place):
        raise MissingInputError(f"Input {place + 1} of {name} is required, but is None.")
    if inputs.get(place) is not None:
        formal = plan.schema.input_at(place)
        raise RuleError(f"The input '{formal.name if formal else place}' of {name} is given twice; give it once.")
    if isinstance(value, (int, np.integer)) and place in plan.vectors:
        value = [int(value)]
    inputs[place] = value


def _sorted_inputs(plan: _Plan, given: Mapping[int, Any]) -> tuple[Any, ...]:
    inputs = list(map(given.get, range(max(given, default=-1) + 1)))
    while inputs and inputs[-1] is None:
        inputs.pop()
    for index in plan.needed:
        if index >= len(inputs) or inputs[index] is None:
            version, wanted = plan.schema, plan.wanted
            exact = "" if version.max_inputs == wanted else "at least "
            names = ", ".join(formal.name for formal in version.inputs if not formal.optional)
            got = sum(one is not None for one in inputs)
            raise RuleError(f"{version.name} needs {exact}{format_count(wanted, 'input')} ({names}), but got {got}.")
    return tuple(inputs)


def _outputs(version: Schema, asked: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> int:
    most = version.max_outputs
    least = max(1, version.min_outputs)
    if asked is None:
        if most != VARIADIC:
            return least
        asked = _implied_outputs(version.name, inputs, attributes)
        if asked is None:
            raise RuleError(f"{version.name} can have any number of outputs. Give the number with outputs=N.")
    if isinstance(asked, bool) or not isinstance(asked, int) or not least <= asked <= most:
        bounds = f"{least} or more" if most == VARIADIC else f"{least} to {most}" if most > least else f"{least}"
        plural = "" if bounds == "1" else "s"
        raise RuleError(f"{version.name} has {bounds} output{plural}, not outputs={asked!r}.")
    return asked


def _implied_outputs(name: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> int | None:
    """The number of outputs that the other arguments imply, else None."""
    if name == "Split":
        number = attributes.get("num_outputs")
        if isinstance(number, int):
            return number
        sizes = attributes.get("split", inputs[1] if len(inputs) > 1 else None)
        return len(sizes) if isinstance(sizes, (list, tuple, np.ndarray)) else None
    body = attributes.get("then_branch", attributes.get("body"))
    outputs = getattr(body, "output", None) or getattr(body, "outputs", None)
    if outputs is None:
        return None
    return len(outputs) - (1 if name == "Loop" else 0)


def _is_split(version: Schema) -> bool:
    return version.name == "Split" and not version.domain


def _is_early_split(version: Schema, opset: int | None) -> bool:
    """Before opset 18 Split has no `num_outputs`: the number of its outputs determines it."""
    return opset is not None and opset < 18 and _is_split(version)


def _unknown_keyword(plan: _Plan, key: str, opset: int | None) -> str:
    version = plan.schema
    where = "" if opset is None else f" at opset {opset}"
    for other in history(version.domain, version.name):
        if other.since_version > version.since_version and key in other.attributes:
            return f"{version.name} has no attribute '{key}'{where}; it appears at opset {other.since_version}."
    near = close_matches(key, plan.keywords)
    if near:
        return f"{version.name} has no attribute or input '{key}'{where}; the nearest are {', '.join(near)}."
    known = [*(formal.name for formal in version.inputs), *version.attributes]
    return f"{version.name} has no attribute or input '{key}'{where}; it has {', '.join(known)}."
