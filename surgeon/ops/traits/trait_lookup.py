"""Look up the traits of an operator by name, or the names of all operators with a trait.

Names are those of `Node.op`: with the domain, except for ONNX's own.  Traits are recorded here or declared by the user;
nothing follows from a name.  Any other operator has `NO_TRAITS`: its inputs may be any numbers, its elements may move,
and its error is at most the rounding of its dtype.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from onnx import ModelProto, NodeProto

from surgeon.errors import UsageError
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traits.op_traits import GROUP_OF, NO_TRAITS, IndexedTable, OpTraits
from surgeon.ops.traits.trait_table import OTHERS, STANDARD
from surgeon.ops.traversal import all_nodes, node_label
from surgeon.text import format_count

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


_VALUES = _index()  # a condition would need a call per operator at import


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
"""Ops that move, repeat or drop elements of the first input, and do not choose them by value."""
FOLDABLE = ops_with("foldable")
ELEMENT_LOOKUPS = _ops_with_lookup(lambda at: at.by_element)
"""Ops that read or write a table at an index for each element; table and indices have the same axes."""
TUPLE_LOOKUPS = _ops_with_lookup(lambda at: at.by_tuples)
"""Ops that read or write a table at tuples of indices."""
GATHER_LIKE = ops_with("copies_elements") & ops_with("lookups")
"""Ops that copy elements of a table by index."""
GATHERS = GATHER_LIKE & _ops_with_lookup(lambda at: not (at.by_tuples or at.by_element))
"""Ops that copy slices of a table along one axis."""
TUPLE_GATHERS = GATHER_LIKE & TUPLE_LOOKUPS
"""Ops that copy elements or slices of a table at tuples of indices."""
LOSSES = _ops_with_lookup(lambda at: at.default_axis == 1)
"""Ops that pick scores [N, C, ...] by labels [N, ...]."""
ONE_TYPE = ops_with("one_type")
RESHAPE_OPS = ops_with("is_reshape")
SIZE_OPS = ops_with("returns_sizes")
CAST_OPS = ops_with("is_cast")
EXPANDING = ops_with("expands")
TRANSPARENT = ops_with("identity_when")
WITH_BODIES = ops_with("has_bodies")
LOOPS = ops_with("trip_counts")
"""Ops with a trip count and a condition; their bodies read and return both before the carried tensors."""
BRANCHES = WITH_BODIES & ops_with("selectors")
"""Ops that run one of their bodies."""
SCANS = ops_with("scans")
"""Ops that run their body for each slice of some inputs."""
ADDITIONS = ops_with("family", "sum") & ops_with("signs", (1, 1))
SUBTRACTIONS = ops_with("family", "sum") & ops_with("signs", (1, -1))
MULTIPLICATIONS = ops_with("family", "product") & ops_with("signs", (1, 1))
_ORDERS = [(op, sign) for op, sign in _VALUES["comparison"].items() if sign in ("<", "<=", ">", ">=")]
MIRRORED = {one: other for one, its in _ORDERS for other, sign in _ORDERS if {its, sign} in ({"<", ">"}, {"<=", ">="})}
"""Comparisons by order, and for each the one that has the same result for swapped inputs."""

FOR_TWO = cast(Mapping[str, str], _VALUES["for_two"])
"""Ops for any number of inputs, and the op by which the index knows a node with two: a Sum of two is an Add."""
RANDOM = ops_with("random")
"""Ops that draw random numbers in every run or in training mode."""

TRAINING_HELP = "export the model after model.eval()"
"""The advice for a model in training mode."""


def is_random(node: NodeProto) -> bool:
    """Whether a node may draw random numbers; Dropout does only with an input for training mode."""
    control = node_traits(node).control
    slot = control.training_slot
    return control.random == "always" or (slot is not None and any(node.input[slot : slot + 1]))


def random_among(nodes: Iterable[NodeProto]) -> str:
    """Name the first random node among these in parentheses: it probably causes the different results."""
    for node in nodes:
        if is_random(node):
            is_training = node_traits(node).control.random == "training"
            of_training = f" in training: {TRAINING_HELP}" if is_training else ""
            return f" ({node.op_type} {node_label(node)!r} is random{of_training})"
    return ""


def shape_only_inputs(*models: ModelProto) -> set[str]:
    """The tensors of which the nodes of these models read only the shape."""
    nodes = [node for model in models for node in all_nodes(model.graph.node)]
    measured = {node.input[0] for node in nodes if node_traits(node).shape.reads_only_shape and node.input}
    read = {name for node in nodes for name in node.input[node_traits(node).shape.reads_only_shape :]}
    return measured - read


class DeclaredTraits(NamedTuple):
    """The traits that a user declares for an operator."""

    traits: OpTraits
    """Its traits."""
    like: str = ""
    """The operator that it shares them with; empty for none."""
    least_inputs: int = 0
    """The number of inputs that `like` needs."""


_declared: dict[str, DeclaredTraits] = {}  # what users declare, until they declare something else


def declare(name: str, found: DeclaredTraits | None) -> None:
    """Set the traits that a user declares for an operator; None withdraws them."""
    _declared.pop(name, None)
    _declared.update({} if found is None else {name: found})


def all_declared() -> dict[str, DeclaredTraits]:
    """The declared traits, by operator."""
    return dict(_declared)


def replace_declared(found: Mapping[str, DeclaredTraits]) -> None:
    """Replace all declared traits, for example in a worker process."""
    _declared.clear()
    _declared.update(found)


def require_declared_inputs(op: str, inputs: Sequence[str], where: str) -> None:
    """Raise UsageError for a node with fewer inputs than needed by the operator that it is declared like.

    op: its qualified name.  where: name of the node.
    """
    found = _declared.get(op)
    if found is not None and len(inputs) < found.least_inputs:
        needs, has = (format_count(count, "input") for count in (found.least_inputs, len(inputs)))
        raise UsageError(
            f"{op} is declared like={found.like!r}, which needs {needs}, but node {where!r} has {has}. Declare it "
            "like another operator, or with indices, counts and random."
        )


def has_traits(name: str) -> bool:
    """Whether an operator has a record, or declared traits."""
    return name in _declared or name in OP_TRAITS


def traits_of(name: str) -> OpTraits:
    """The traits of an operator by its qualified name: declared by the user, or recorded here."""
    found = _declared.get(name)
    return OP_TRAITS.get(name, NO_TRAITS) if found is None else found.traits


def op_of(node: NodeProto) -> str:
    """The qualified name of a node's operator."""
    domain = normalize_domain(node.domain)
    return f"{domain}::{node.op_type}" if domain else node.op_type


def node_traits(node: NodeProto) -> OpTraits:
    """The traits of a node's operator."""
    return traits_of(op_of(node))
