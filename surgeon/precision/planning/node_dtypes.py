"""The inputs and outputs of a node that follow a new dtype, and those that are fixed.

Decided by the node's schema at the model's own opset, and by the traits in `ops.traits.dtype_traits`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from onnx import AttributeProto, TensorProto

from surgeon.ir.scope import Node, split_op
from surgeon.ops.schemas import type_string
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.schemas.node_check import target_of_op
from surgeon.ops.schemas.op_schema import FormalParameter, Schema, display_domain, history, schema
from surgeon.ops.traits.dtype_traits import (
    CAST,
    DTYPE_ATTRIBUTES,
    FIXED_DTYPE_INPUTS,
    FIXED_DTYPE_OUTPUTS,
    SEQUENCE_LOOPS,
    UNSUPPORTED_BODY_DTYPES,
)
from surgeon.ops.traits.trait_lookup import WITH_BODIES, traits_of
from surgeon.ops.traversal import subgraphs
from surgeon.printed_commands import upgrade_to
from surgeon.shapes.tensor_types import HALVES

_UNKNOWN = "the dtype of an input is unknown"
_SET_BY_CALL = "an attribute of the function call sets its dtype"
Dtype = Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class DtypeChange:
    """The old and the new dtype of a conversion."""

    old: int
    """As `TensorProto.DataType`."""
    new: int
    """As `TensorProto.DataType`."""

    @property
    def narrows(self) -> bool:
        """Whether numbers lose digits."""
        return self.new in HALVES or (self.old, self.new) == (TensorProto.DOUBLE, TensorProto.FLOAT)

    @property
    def is_integer(self) -> bool:
        """Whether it converts integers."""
        return self.old == TensorProto.INT64

    @property
    def names(self) -> tuple[str, str]:
        """The names of both dtypes."""
        return dtype_name(self.old), dtype_name(self.new)


@dataclass(frozen=True, slots=True)
class NodeDtypes:
    """The inputs and outputs of a node that are of the old dtype.  Inputs in no field may have either dtype."""

    following_inputs: tuple[int, ...] = ()
    """Indices of inputs that have the dtype of the node."""
    following_outputs: tuple[int, ...] = ()
    """Indices of outputs that have the dtype of the node."""
    fixed_inputs: tuple[int, ...] = ()
    """Indices of inputs that keep the old dtype."""
    fixed_outputs: tuple[int, ...] = ()
    """Indices of outputs that keep the old dtype."""
    keep_reason: str = ""
    """Why the node keeps the old dtype; "" if it need not."""
    benefits: bool = False
    """Whether the new dtype is worth a Cast; otherwise the node takes the dtype of its neighbours."""

    @property
    def any(self) -> bool:
        """Whether anything of the node depends on the choice."""
        return bool(self.following_inputs or self.following_outputs or self.fixed_inputs or self.fixed_outputs)


def node_dtypes(node: Node, dtype: Dtype, change: DtypeChange, *, is_call: bool = False) -> NodeDtypes:
    """The dtypes of a node's inputs and outputs.

    dtype: of the tensors around it.  is_call: whether it calls a local function.
    """
    own = [place for place, name in enumerate(node.inputs) if name and dtype(name) == change.old]
    made = [place for place, name in enumerate(node.outputs) if name and dtype(name) == change.old]
    if node.op in SEQUENCE_LOOPS:
        return _fixed(own, made, f"{node.op} handles sequences, which keep their dtype")
    if node.op not in WITH_BODIES and any(subgraphs(node.proto)):
        return _fixed(own, made, f"the inputs of the bodies of {node.op} are unknown")
    if not own and not made:
        return NodeDtypes()
    if node.op in WITH_BODIES or is_call:
        counting = traits_of(node.op).control.trip_counts
        given = tuple(place for place in own if place not in counting)
        return NodeDtypes(given, tuple(made), tuple(place for place in own if place in counting))
    if DTYPE_ATTRIBUTES.get(node.op, ("",))[0] == "to":  # a Cast reads either
        return (
            NodeDtypes(following_outputs=tuple(made))
            if not _refers(node)
            else NodeDtypes(fixed_outputs=tuple(made), keep_reason=_SET_BY_CALL)
        )
    proto = node.proto
    if node.op == "Constant":
        is_sparse = any(item.name == "sparse_value" or item.ref_attr_name for item in proto.attribute)
        return NodeDtypes(fixed_outputs=tuple(made)) if is_sparse else NodeDtypes(following_outputs=tuple(made))
    domain, name = split_op(node.op)
    opset = node.scope.versions.get(domain, 1)
    version, cast = schema(domain, name, opset), schema("", CAST, node.scope.versions.get("", 1))
    if domain and cast is not None and type_string(change.new) not in cast.types["T2"]:  # no Cast makes its inputs
        return _fixed(own, made, _untaken(cast, change))
    if version is None:
        return _without_schema(node, dtype, change, own=own, made=made)
    return _by_schema(node, version, dtype, change, own=own, made=made)


def is_determined_by_schema(node: Node) -> bool:
    """Whether only the op, the opset and the dtypes around a node determine the result of `node_dtypes`."""
    if node.op == "Constant" or node.op in DTYPE_ATTRIBUTES or node.op in WITH_BODIES or node.op in SEQUENCE_LOOPS:
        return False
    domain, name = split_op(node.op)
    return schema(domain, name, node.scope.versions.get(domain, 1)) is not None and not _tensors_of(node)


def _by_schema(
    node: Node, version: Schema, dtype: Dtype, change: DtypeChange, *, own: Sequence[int], made: Sequence[int]
) -> NodeDtypes:
    facts, text = traits_of(node.op), type_string(change.new)
    takes: list[int] = []
    makes: list[int] = []
    stays: list[int] = []
    fixed: list[int] = []
    staying, fixed_places = FIXED_DTYPE_INPUTS.get(node.op, ()), FIXED_DTYPE_OUTPUTS.get(node.op, ())
    tied = {formal.type for place in own if (formal := version.input_at(place)) and place not in staying}
    past = None if facts.products.attention_inputs is None else facts.products.attention_inputs.past_key
    if past is not None and not any(node.inputs[past : past + 1]) and (cache := version.input_at(past)):
        tied.add(cache.type)  # without past keys, the cache has the dtype of the keys
    for place in own:
        formal = version.input_at(place)
        if formal is not None and ((place == 0 and facts.shape.reads_only_shape) or facts.shape.returns_sizes):
            continue
        follows = formal is not None and place not in staying and text in version.allowed(formal)
        (takes if follows else stays).append(place)
    for place in made:
        formal = version.output_at(place)
        says = node.op in DTYPE_ATTRIBUTES or (formal is not None and formal.type in tied)
        follows = formal is not None and place not in fixed_places and text in version.allowed(formal) and says
        (makes if follows else fixed).append(place)
    ports = NodeDtypes(tuple(takes), tuple(makes), tuple(stays), tuple(fixed))
    if _handles_lists(node, version):
        return _kept(ports, f"{version.name} handles sequences or optionals, which keep their dtype")
    if takes and change.new in UNSUPPORTED_BODY_DTYPES.get(node.op, ()):
        return _kept(ports, f"the function body of {version.name} in ONNX does not support {change.names[1]}")
    if change.old in _tensors_of(node):
        return _kept(ports, f"attributes of {version.name} contain {change.names[0]}")
    if not takes and not makes:
        could_be = [name for name, formal in _formals(node, version) if text in version.allowed(formal)]
        why = _UNKNOWN if not own and any(dtype(name) is None for name in could_be) else _untaken(version, change)
        return _kept(ports, why) if fixed or set(stays) - set(staying) else ports
    if any(_has_free_type(version, place, node, tied=tied, kind=text) for place in fixed if place not in fixed_places):
        return _kept(ports, f"the dtype of further outputs of {version.name} is unknown")
    if _refers(node):
        return _kept(ports, _SET_BY_CALL)
    if any(_is_unknown(name, formal, version, tied=tied, dtype=dtype) for name, formal in _formals(node, version)):
        return _kept(ports, _UNKNOWN)
    decides = facts.algebra.compares or facts.dtype.returns_bool or facts.dtype.returns_indices
    chooses = decides or facts.numerics.reduces == "extremum"
    exact = facts.numerics.exact or chooses or bool(facts.data.copies_elements)
    return replace(ports, benefits=not exact)


def _tensors_of(node: Node) -> list[int]:
    """The dtypes of tensor attributes of a node; in ai.onnx no operator's dtype depends on these."""
    if not split_op(node.op)[0]:
        return []
    return [item.t.data_type for item in node.proto.attribute if item.type == AttributeProto.TENSOR]


def _handles_lists(node: Node, version: Schema) -> bool:
    """Whether an input or output is never a tensor."""
    sides = ((node.inputs, version.input_at), (node.outputs, version.output_at))
    formals = [at(place) for names, at in sides for place, name in enumerate(names) if name]
    return any(
        formal is not None and not any(text.startswith("tensor(") for text in version.allowed(formal))
        for formal in formals
    )


def _has_free_type(version: Schema, place: int, node: Node, *, tied: set[str], kind: str) -> bool:
    """Whether an output could have the new dtype, but neither inputs nor attributes determine that."""
    formal = version.output_at(place)
    return formal is not None and formal.type not in tied and kind in version.allowed(formal) and bool(node.inputs)


def _refers(node: Node) -> bool:
    known = DTYPE_ATTRIBUTES.get(node.op)
    item = None if known is None else node.attribute(known[0])
    return item is not None and bool(item.ref_attr_name)


def _formals(node: Node, version: Schema) -> Iterator[tuple[str, FormalParameter]]:
    for place, name in enumerate(node.inputs):
        formal = version.input_at(place)
        if name and formal is not None:
            yield name, formal


def _is_unknown(name: str, formal: FormalParameter, version: Schema, *, tied: set[str], dtype: Dtype) -> bool:
    """Whether an input that shares its type with others has an unknown dtype."""
    return formal.type in tied and formal.type in version.types and formal.homogeneous and dtype(name) is None


def _kept(ports: NodeDtypes, why: str) -> NodeDtypes:
    inputs = *ports.following_inputs, *ports.fixed_inputs
    return _fixed(inputs, (*ports.following_outputs, *ports.fixed_outputs), why)


def _fixed(inputs: Sequence[int], outputs: Sequence[int], why: str) -> NodeDtypes:
    """A node that keeps the old dtype for all of these."""
    return NodeDtypes(fixed_inputs=tuple(inputs), fixed_outputs=tuple(outputs), keep_reason=why)


def _untaken(version: Schema, change: DtypeChange) -> str:
    """Why a node cannot have the new dtype: at this opset, or at all."""
    new, text = change.names[1], type_string(change.new)
    for later in history(version.domain, version.name):
        if later.since_version > version.since_version and any(text in allowed for allowed in later.types.values()):
            where = display_domain(version.domain)
            since = f"from opset {later.since_version} of {where}"
            how = "" if version.domain else f": {upgrade_to(later.since_version)}"
            return f"{version.name} supports {new} {since}{how}"
    return f"{version.name} does not support {new}"


def _without_schema(
    node: Node, dtype: Dtype, change: DtypeChange, *, own: Sequence[int], made: Sequence[int]
) -> NodeDtypes:
    """A node of an unknown domain, or of a target's own, whose support the target knows."""
    proto, opset = node.proto, node.scope.versions.get(split_op(node.op)[0], 1)
    kept = _fixed(own, made, f"the dtypes that {proto.op_type} supports are unknown")
    target = target_of_op(proto.domain, proto.op_type)
    if target is None or target.ops is None:
        return kept
    names = {name for name in (*node.inputs, *node.outputs) if name}
    before = {name: dtype(name) for name in names}
    after = {name: change.new if found == change.old else found for name, found in before.items()}
    has_said = set(target.ops.check(proto, opset, before.get, False))
    says = set(target.ops.check(proto, opset, after.get, False)) - has_said
    if any(dtype(name) is None for name in node.outputs if name):
        return _kept(kept, f"the dtypes of the outputs of {proto.op_type} are unknown")
    if not target.ops.has(proto.domain, proto.op_type) or says:
        return _kept(kept, f"{proto.op_type} is not known to support {change.names[1]}")
    return NodeDtypes(tuple(own), tuple(made), benefits=True)
