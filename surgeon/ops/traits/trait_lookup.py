"""Look up the traits of an operator by name, or the names of all operators with a trait.

Names are those of `Node.op`: with the domain, but for ONNX's own.  An operator without a record has `NO_TRAITS`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, cast

from onnx import ModelProto, NodeProto

from surgeon.ops.traits.op_traits import GROUP_OF, NO_TRAITS, IndexedTable, OpTraits
from surgeon.ops.traits.trait_table import OTHERS, STANDARD
from surgeon.ops.traversal import all_nodes, node_label

OP_TRAITS: Mapping[str, OpTraits] = MappingProxyType({record.name: record for record in (*STANDARD, *OTHERS)})


def _index() -> Mapping[str, Mapping[str, object]]:
    """By field, the value of each operator whose value is not the field's default."""
    found: dict[str, dict[str, object]] = {field: {} for field in GROUP_OF}
    for name, traits in OP_TRAITS.items():
        groups: tuple[Any, ...] = traits[1:]
        for group, default in zip(groups, NO_TRAITS[1:], strict=True):
            if group is not default:
                for field, value, usual in zip(group._fields, group, default, strict=True):
                    if value != usual:
                        found[field][name] = value
    return found


_VALUES = _index()  # a condition for each operator would take a call for each at import


def ops_with(field: str, *values: object) -> frozenset[str]:
    """The names of the operators for which a field of their traits is not its default, or is one of these values."""
    known = _VALUES[field]
    return frozenset([name for name, value in known.items() if value in values] if values else known)


def _ops_with_lookup(condition: Callable[[IndexedTable], object]) -> frozenset[str]:
    """The names of the operators with a table whose indices fulfil a condition."""
    lookups = cast(Mapping[str, Sequence[IndexedTable]], _VALUES["lookups"])
    return frozenset([name for name, tables in lookups.items() if any(map(condition, tables))])


BROADCASTING = ops_with("broadcasts")
COMMUTATIVE = ops_with("commutes")
IDENTITY_OPS = ops_with("identity_when", "always")
DATA_MOVEMENT = ops_with("copies_elements", (0,)) - ops_with("reduces")
"""Those that move, repeat or drop elements of the first input, and do not choose them by value."""
FOLDABLE = ops_with("foldable")
ELEMENT_LOOKUPS = _ops_with_lookup(lambda at: at.by_element)
"""Those that read or write a table at an index for each element; table and indices have the same axes."""
TUPLE_LOOKUPS = _ops_with_lookup(lambda at: at.by_tuples)
"""Those that read or write a table at tuples of indices."""
GATHER_LIKE = ops_with("copies_elements") & ops_with("lookups")
"""Those that copy elements of a table by index."""
GATHERS = GATHER_LIKE & _ops_with_lookup(lambda at: not (at.by_tuples or at.by_element))
"""Those that copy slices of a table along one axis."""
TUPLE_GATHERS = GATHER_LIKE & TUPLE_LOOKUPS
"""Those that copy elements or slices of a table at tuples of indices."""
LOSSES = _ops_with_lookup(lambda at: at.default_axis == 1)
"""Those that pick scores [N, C, ...] by labels [N, ...]."""
ONE_TYPE = ops_with("one_type")
RESHAPE_OPS = ops_with("is_reshape")
SIZE_OPS = ops_with("returns_sizes")
CAST_OPS = ops_with("is_cast")
EXPANDING = ops_with("expands")
TRANSPARENT = ops_with("identity_when")
WITH_BODIES = ops_with("has_bodies")
LOOPS = ops_with("trip_counts")
"""Those with a trip count and a condition; their bodies read and return both before what they carry."""
BRANCHES = WITH_BODIES & ops_with("selectors")
"""Those that run one of their bodies."""
SCANS = ops_with("scans")
"""Those that run their body for each slice of some inputs."""
ADDITIONS = ops_with("family", "sum") & ops_with("signs", (1, 1))
SUBTRACTIONS = ops_with("family", "sum") & ops_with("signs", (1, -1))
MULTIPLICATIONS = ops_with("family", "product") & ops_with("signs", (1, 1))

ALWAYS_RANDOM = frozenset([name.rpartition("::")[2] for name in ops_with("random", "always")])
"""The operators that draw random numbers in every run, without their domains."""
RANDOM = frozenset([name.rpartition("::")[2] for name in ops_with("random")])
"""Those, and the operators that draw in training mode."""

TRAINING_HELP = "export the model after model.eval()"
"""The advice for a model in training mode."""


def is_random(node: NodeProto) -> bool:
    """Whether a node may draw random numbers; Dropout does only with an input for training mode."""
    slot = guess_node_traits(node).control.training_slot
    return node.op_type in ALWAYS_RANDOM or (slot is not None and any(node.input[slot : slot + 1]))


def random_among(nodes: Iterable[NodeProto]) -> str:
    """Name the first random node among these in parentheses, as the likely cause of results that differ."""
    for node in nodes:
        if is_random(node):
            of_training = f" in training: {TRAINING_HELP}" if node.op_type not in ALWAYS_RANDOM else ""
            return f" ({node.op_type} {node_label(node)!r} is random{of_training})"
    return ""


def shape_only_inputs(*models: ModelProto) -> set[str]:
    """The tensors of which the nodes of these models read the shape, and nothing else."""
    nodes = [node for model in models for node in all_nodes(model.graph.node)]
    measured = {node.input[0] for node in nodes if guess_node_traits(node).shape.reads_only_shape and node.input}
    read = {name for node in nodes for name in node.input[guess_node_traits(node).shape.reads_only_shape :]}
    return measured - read


def traits_of(name: str) -> OpTraits:
    """The traits of an operator by its qualified name."""
    return OP_TRAITS.get(name, NO_TRAITS)


@cache
def guess_traits(name: str) -> OpTraits:
    """The likely traits of an operator, for uses where a wrong guess costs little, such as generated inputs.

    An operator without a record gets that of the same name in another domain, or traits by its name: FusedConvRelu
    is taken for a convolution.
    """
    found = OP_TRAITS.get(name)
    bare = name.rpartition("::")[2]
    if found is None:
        found = next((item for item in OP_TRAITS.values() if item.name.rpartition("::")[2] == bare), None)
    return _by_name(name, bare) if found is None else found


def guess_node_traits(node: NodeProto) -> OpTraits:
    """The likely traits of a node's operator."""
    return guess_traits(f"{node.domain}::{node.op_type}" if node.domain else node.op_type)


def _by_name(name: str, bare: str) -> OpTraits:
    found = NO_TRAITS._replace(name=name)
    for regex, fields in _NAME_PATTERNS.items():
        if re.search(regex, bare):
            found = found.having(**fields)
    return found


_NAME_PATTERNS: Mapping[str, Mapping[str, object]] = {
    "MatMul|Gemm": {"kind": "matmul"},
    "Einsum": {"kind": "einsum"},
    "LSTM|GRU|RNN": {"kind": "rnn"},
    "[Cc]onv": {"kind": "conv", "weight_slot": 1, "slides_window": True},
    "ConvTranspose": {"kind": "conv_transpose", "weight_slot": 1, "slides_window": True},
    "Attention": {"kind": "attention"},
    "eform": {"reads_coordinates": True},
    "Norm": {"accumulates": True, "squares": True},
    "Reduce|Softmax|Pool|CumSum": {"accumulates": True},
    "Rotary|ReduceM|MaxPool": {"is_max_like": True},
}
for _fields in _NAME_PATTERNS.values():
    NO_TRAITS.having(**_fields)  # a misspelt field fails at import
