"""Generalises examples of one operation: values that differ become parameters, equal ones become literals."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from onnx import AttributeProto

from surgeon.authoring.learning.terms import (
    Example,
    Fixed,
    OpCall,
    OpOutput,
    ParameterKind,
    PatternParameter,
    Term,
    Wildcard,
)
from surgeon.errors import UsageError
from surgeon.file.tensors.decoding import Array
from surgeon.ir.scope import Node, qualified_name, split_op
from surgeon.ops.schemas import history, schema
from surgeon.ops.schemas.helper_names import snake_case
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.ops.traversal import without_absent_end
from surgeon.rules.matching.match_state import MatchState, plain
from surgeon.rules.mismatches.node_failures import describe_tensor
from surgeon.text import format_count

FIXED_SIZE = 16  # elements of a constant that becomes a literal
ALIASES = {"eps": "epsilon", "input": "x", "g": "g_"}  # names of torch, and those of ONNX
ROLES = {"B": "bias", "W": "weight", "R": "recurrent_weight", "K": "k"}  # of inputs with one-letter names
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)

Names = tuple[str, ...]


class StructuresDiffer(UsageError):
    """The examples differ in structure."""


def generalise(examples: Sequence[Example]) -> tuple[Term, ...]:
    """The operation common to the examples: a term for each output.

    Raises StructuresDiffer, which names the nodes, if the structures differ, and UsageError if no pattern can express
    the operation.
    """
    first = examples[0]
    for other in examples[1:]:
        for what, one, two in (
            ("inputs", first.graph_inputs, other.graph_inputs),
            ("outputs", first.outputs, other.outputs),
        ):
            if len(one) != len(two):
                raise StructuresDiffer(
                    f"The exports differ in their number of {what}: {len(one)} in {first.label}, {len(two)} in "
                    f"{other.label}. Learn them separately."
                )
    return _Comparison(examples).outputs()


class _Comparison:
    """Walks all examples in parallel, from the outputs to the inputs."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples
        self.states = [MatchState(example.index, example.index.main) for example in examples]
        self.terms: dict[Names, Term] = {}
        self.calls: dict[tuple[int, ...], OpCall] = {}
        self.parameters: dict[Any, PatternParameter] = {}

    def outputs(self) -> tuple[Term, ...]:
        names = zip(*(example.outputs for example in self.examples), strict=True)
        found = tuple(self.term(name) for name in names)
        for term in found:
            if not isinstance(term, OpOutput):
                raise UsageError(
                    f"{self.examples[0].label} returns an input or a constant unchanged, so it has no node to learn "
                    "from."
                )
        return found

    def term(self, names: Names, reader: tuple[str, str] = ("", ""), place: int = 0) -> Term:
        """The term of these tensors, one per example.  reader, place: the op that consumes them, and the input slot."""
        if place in traits_of(qualified_name(reader[0], reader[1])).operands.target_shape and any(self._varies(names)):
            return Wildcard()
        names = tuple(state.canonical(name) for state, name in zip(self.states, names, strict=True))
        if names not in self.terms:
            found = self._find(names, reader, place)
            if isinstance(found, (Fixed, Wildcard)):
                return found  # the meaning of a constant depends on its consumer
            self.terms[names] = found
        return self.terms[names]

    def _varies(self, names: Names) -> list[bool]:
        """For inputs that only determine sizes: whether each is computed or differs from the first."""
        found = [state.index.constants.get(state.scope, name) for state, name in zip(self.states, names, strict=True)]
        values = [None if item is None else item.array.tolist() for item in found]
        return [value is None or value != values[0] for value in values]

    def _find(self, names: Names, reader: tuple[str, str], place: int) -> Term:
        kinds = [self._kind(number, name) for number, name in enumerate(names)]
        if len(set(kinds)) > 1:
            raise self._difference(names)
        if kinds[0] == "input":
            places = {example.graph_inputs.index(name) for example, name in zip(self.examples, names, strict=True)}
            if len(places) > 1:
                raise self._difference(names)
            (at,) = places
            return self._parameter(("input", at), self._input_name(at), "Tensor", at)
        if kinds[0] == "constant":
            return self._constant(names, reader, place)
        return self._result(names)

    def _kind(self, number: int, name: str) -> str:
        if name in self.examples[number].graph_inputs:
            return "input"
        state = self.states[number]
        if state.index.constants.is_constant(state.scope, name):
            return "constant"
        node = state.producers.get(name)
        if node is None:
            return "nothing"
        return f"{node.op}/{node.outputs.index(name)}/{len(node.outputs)}/{len(without_absent_end(node.inputs))}"

    def _input_name(self, place: int) -> str:
        names = self.examples[0].inputs
        name = names[place] if place < len(names) else "x"
        return ALIASES.get(name, name)

    def _constant(self, names: Names, reader: tuple[str, str], place: int) -> Term:
        weights = {example.weights.get(name) for example, name in zip(self.examples, names, strict=True)}
        weight = weights.pop() if len(weights) == 1 else None
        if weight is not None:
            return self._parameter(("weight", weight), weight, "Constant", is_named=True)
        arrays = [self._array(number, name) for number, name in enumerate(names)]
        first = arrays[0]
        role = _role(*reader, place)
        finest = max(arrays, key=lambda array: array.itemsize)
        if all(_is_rounded(finest, other) for other in arrays):
            is_short = first.size <= FIXED_SIZE and (first.size == 1 or first.ndim < 2)
            return Fixed(finest) if is_short else self._parameter(names, _constant_name(role, first), "Constant")
        kind = _kind_of(first)
        if {array.size for array in arrays} == {1} and kind is not None:
            values = tuple(float(array.reshape(-1)[0]) for array in arrays)
            return self._number(values, role, kind, first.dtype)
        if first.dtype.kind in "iu" and first.ndim == 1 and max(array.size for array in arrays) <= FIXED_SIZE:
            return self._list([array.tolist() for array in arrays], role, "list[int]")
        return self._parameter(names, _constant_name(role, first), "Constant")

    def _array(self, number: int, name: str) -> Array:
        state = self.states[number]
        found = state.index.constants.array(state.scope, name)
        if found is None:
            raise UsageError(f"Constant {name!r} of {self.examples[number].label} cannot be read. Store it inside.")
        return found

    def _number(
        self, values: tuple[float, ...], role: str, kind: ParameterKind, dtype: Any = np.float32
    ) -> PatternParameter:
        """A parameter for a number, named after the hyper-parameter that has these values in this dtype."""
        key = (kind, *map(np.float32, values))
        name = self._hyperparameter(values, role, dtype)
        return self._parameter(key, name or role, kind, is_named=bool(name))

    def _list(self, values: Sequence[Sequence[float]], role: str, kind: ParameterKind) -> PatternParameter:
        """A parameter for a list, named after the hyper-parameter that equals all its elements."""
        is_one = all(len(set(value)) == 1 for value in values)
        name = self._hyperparameter([value[0] for value in values], role) if is_one else None
        return self._parameter((kind, *map(tuple, values)), name or role, kind, is_named=bool(name))

    def _hyperparameter(self, values: Sequence[float], role: str, dtype: Any = np.float32) -> str | None:
        """The hyper-parameter with these values in the examples; of several, the most similar name."""
        exact = [np.asarray(value).astype(dtype) for value in values]
        found = []
        for name in self.examples[0].hyperparameters:
            given = [np.asarray(example.hyperparameters.get(name, np.nan)).astype(dtype) for example in self.examples]
            if all(one == other for one, other in zip(exact, given, strict=True)):
                found.append(name)
        best = max(found, key=lambda name: SequenceMatcher(None, name, role).ratio(), default=None)
        return ALIASES.get(best, best) if best is not None else None

    def _result(self, names: Names) -> Term:
        nodes = [state.producers[name] for state, name in zip(self.states, names, strict=True)]
        key = tuple(map(id, nodes))
        if key not in self.calls:
            domain, op = split_op(nodes[0].op)
            read = list(zip(*(without_absent_end(node.inputs) for node in nodes), strict=True))
            inputs: list[Term | None] = []
            for place, tensors in enumerate(read):
                if len({bool(tensor) for tensor in tensors}) > 1:
                    raise self._difference(names)
                inputs.append(self.term(tensors, (domain, op), place) if tensors[0] else None)
            outputs = max(place + 1 for node in nodes for place, name in enumerate(node.outputs) if name)
            self.calls[key] = OpCall(
                domain, op, tuple(inputs), attributes=self._attributes(nodes, names), outputs=outputs
            )
        return OpOutput(self.calls[key], nodes[0].outputs.index(names[0]))

    def _attributes(self, nodes: list[Node], names: Names) -> dict[str, Any]:
        given = dict.fromkeys(item.name for node in nodes for item in node.proto.attribute)
        found: dict[str, Any] = {}
        for name in given:
            items = [node.attribute(name) for node in nodes]
            if any(item is not None and item.type in _GRAPHS for item in items):
                raise UsageError(
                    f"Node {nodes[0].label!r} ({nodes[0].op}) of {self.examples[0].label} has a body, which a pattern "
                    "cannot match. Learn from an operation without control flow."
                )
            read = [state.attribute_value(node, name)[1] for state, node in zip(self.states, nodes, strict=True)]
            if any(value is None for value in read):
                raise self._difference(names)
            value = read[0]
            if all(_equal(np.asarray(value), np.asarray(other)) for other in read[1:]):
                if not _is_default(nodes[0], name, value):
                    found[name] = value
            elif isinstance(value, (int, float)):
                found[name] = self._number(tuple(read), snake_case(name), "int" if isinstance(value, int) else "float")
            elif isinstance(value, str):
                found[name] = self._parameter(("str", *read), snake_case(name), "str")
            elif isinstance(value, list) and all(isinstance(item, (int, float)) for item in value):
                kind: ParameterKind = "list[int]" if all(isinstance(item, int) for item in value) else "list[float]"
                found[name] = self._list(read, snake_case(name), kind)
            else:
                raise self._difference(names)
        return found

    def _parameter(
        self, key: Any, name: str, kind: ParameterKind, place: int = -1, is_named: bool = False
    ) -> PatternParameter:
        return self.parameters.setdefault(key, PatternParameter(name, kind, place, is_named))

    def _difference(self, names: Names) -> StructuresDiffer:
        nodes = [
            f"{_sight(state, name)} in {example.label}"
            for example, state, name in zip(self.examples, self.states, names, strict=True)
        ]
        other = next((item for item in nodes[1:] if item.split()[0] != nodes[0].split()[0]), nodes[-1])
        return StructuresDiffer(
            f"The exports differ in structure: one has {nodes[0]}, another has {other}. Vary less, or learn them as "
            "separate patterns."
        )


def _sight(state: MatchState, name: str) -> str:
    node = state.producers.get(name)
    if node is None or node.op == "Constant":
        return describe_tensor(state, name)
    names = ", ".join(f"{item.name}={plain(item)}" for item in node.proto.attribute if item.type not in _GRAPHS)
    inputs, outputs = len(without_absent_end(node.inputs)), len(node.outputs)
    sizes = f"{format_count(inputs, 'input')} and {format_count(outputs, 'output')}"
    return f"{node.op} {node.label!r} with {sizes}" + (f" ({names})" if names else "")


def _role(domain: str, op: str, place: int) -> str:
    """The name of an input in its schema, or "number" if that name means nothing."""
    known = schema(domain, op, None)
    formal = known.input_at(place) if known is not None else None
    if formal is None or formal.variadic:
        return "number"
    is_operand = known is not None and known.inputs[0].name == "A"  # of an op such as Mul(A, B)
    name = snake_case(formal.name) if is_operand else ROLES.get(formal.name) or snake_case(formal.name)
    return "number" if len(name) == 1 or name in ("exponent", "condition", "input") else name


def _constant_name(role: str, array: Array) -> str:
    """The name of a constant of many elements."""
    return ("weight" if _kind_of(array) == "float" else "constant") if role == "number" else role


def _kind_of(array: Array) -> ParameterKind | None:
    """The annotation of a number of this dtype, by name: the dtype kind of ml_dtypes' floats is not "f"."""
    if array.dtype.name.startswith(("float", "bfloat")):
        return "float"
    return "int" if array.dtype.kind in "iub" else None


def _equal(one: Array, two: Array) -> bool:
    return (
        one.shape == two.shape and one.dtype == two.dtype and np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
    )


def _is_rounded(one: Array, two: Array) -> bool:
    """Whether floats are equal after rounding to the dtype of the second; other values are compared exactly."""
    are_floats = _kind_of(one) == _kind_of(two) == "float"
    return _equal(one.astype(two.dtype) if are_floats else one, two)


def _is_default(node: Node, name: str, value: Any) -> bool:
    """Whether a value is the default in every version that has the attribute."""
    versions = [item.attributes[name] for item in history(*split_op(node.op)) if name in item.attributes]
    if not versions or any(item.default is None for item in versions):
        return False
    defaults = [plain(item.default) for item in versions if item.default is not None]
    return all(_equal(np.asarray(item), np.asarray(value)) for item in defaults)
