"""Changes the dtype of an input or output, with a Cast if one is needed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto

from surgeon.errors import UsageError
from surgeon.ops.schemas import schema
from surgeon.ops.schemas.attribute_values import dtype_name, type_string
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traits.trait_lookup import node_traits
from surgeon.ops.traversal import imports_of, names_read, node_label, subgraphs
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit, parse_dtype, parse_pair
from surgeon.pipeline.editing.node_insertion import require_casts
from surgeon.pipeline.editing.tensor_renaming import split_boundary_tensor

CAST = ":cast"
INDICES = frozenset(("tensor(int32)", "tensor(int64)"))
_COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)


@dataclass(frozen=True, slots=True)
class Retype(Edit):
    """Change the dtype of an input or output.

    An input needs no Cast if every consumer accepts the new dtype and computes the same from it, as for indices.  In
    all other cases a Cast is needed, and `cast` must allow it.

    Raises:
        UsageError: the input, output or dtype does not exist, or a Cast is needed but not allowed.

    Examples:
        >>> import surgeon
        >>> retype = surgeon.edits.Retype("attention_mask", "bool", cast=True)
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", retype, output="retyped.onnx")
        >>> report.edits[0].said, report.outcome
        (("input 'attention_mask' changes from int64 to bool, with a Cast after it",), 'proved')
    """

    name: str
    """The name of the input or output."""
    dtype: str
    """The new dtype, by name: "bool", "float16", "int64"."""
    cast: bool = False
    """Whether a Cast may be inserted."""
    flag = "retype"
    metavar = "NAME=DTYPE[:cast]"
    feeds: ClassVar[Literal["kept", "inner", "made"]] = "made"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read NAME=DTYPE or NAME=DTYPE:cast."""
        name, dtype = parse_pair(text.removesuffix(CAST), cls.metavar)
        return cls(name, dtype, text.endswith(CAST))

    @property
    def spelling(self) -> str:
        """NAME=DTYPE or NAME=DTYPE:cast."""
        return f"{self.name}={self.dtype}{CAST * self.cast}"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Retype it."""
        new = parse_dtype(self.dtype)
        kind = draft.kind(self.name)
        value = draft.output(self.name) if kind == "output" else draft.input(self.name)
        if not value.type.HasField("tensor_type"):
            raise UsageError(f"The {kind} {self.name!r} is not a tensor, so it has no dtype to change.")
        old = value.type.tensor_type.elem_type
        if old == new:
            return ()
        if old not in TensorProto.DataType.values() or old == TensorProto.UNDEFINED:
            raise UsageError(f"The {kind} {self.name!r} has an invalid dtype ({dtype_name(old)}). Fix the model first.")
        if old in _COMPLEX and new not in _COMPLEX:
            raise UsageError(
                f"{self.name!r} is {dtype_name(old)}, and {dtype_name(new)} would lose its imaginary part."
            )
        if TensorProto.STRING in (old, new):
            raise UsageError(
                f"{self.name!r} cannot change from {dtype_name(old)} to {dtype_name(new)}: strings are not numbers."
            )
        if kind == "output" and any(given.name == self.name for given in draft.graph.input):
            raise UsageError(f"{self.name!r} is both an input and an output, so no Cast can be inserted between.")
        if sum(given.name == self.name for given in draft.graph.output) > 1:
            raise UsageError(
                f"The model lists the output {self.name!r} more than once, so its dtype cannot change. "
                "Export the model again with each output once."
            )
        if self.cast:
            require_casts(draft.skeleton, old, new)
        retype = self._retype_output if kind == "output" else self._retype_input
        how = retype(draft, value, old, new)
        value.type.tensor_type.elem_type = new
        draft.claim.by_structure = False
        return (f"{kind} {self.name!r} changes from {dtype_name(old)} to {dtype_name(new)}{how}",)

    def _retype_input(self, draft: ModelDraft, value: ValueInfoProto, old: int, new: int) -> str:
        if any(tensor.name == self.name for tensor in draft.graph.initializer):
            raise UsageError(f"Input {self.name!r} has a default value (an initializer). Choose an input without one.")
        needing = next(self._incompatible_consumers(draft, old, new), None)
        before = onnx.helper.tensor_dtype_to_np_dtype(old)
        if needing is None:
            source = draft.claim.original(self.name)
            draft.claim.make(source, (source,), lambda array: _converted(array, before))
            return ""
        if not self.cast:
            who = node_label(needing)
            raise UsageError(
                f"{needing.op_type} at {who!r} reads {self.name!r} as {dtype_name(old)}, so a Cast is needed. "
                f"Allow it with {self.name}={self.dtype}{CAST}"
            )
        inner = draft.fresh(f"{self.name}_{dtype_name(old)}")
        source, own = split_boundary_tensor(draft, value, inner)
        draft.claim.make(source, (own,), lambda array: _converted(array, before))
        draft.graph.node.insert(0, onnx.helper.make_node("Cast", [self.name], [inner], to=old))
        return ", with a Cast after it"

    def _retype_output(self, draft: ModelDraft, value: ValueInfoProto, old: int, new: int) -> str:
        if not self.cast:
            raise UsageError(
                f"The output {self.name!r} is computed as {dtype_name(old)}, so a Cast is needed. "
                f"Allow it with {self.name}={self.dtype}{CAST}"
            )
        inner, after = draft.fresh(f"{self.name}_{dtype_name(old)}"), onnx.helper.tensor_dtype_to_np_dtype(new)
        source, own = split_boundary_tensor(draft, value, inner)
        draft.graph.node.append(onnx.helper.make_node("Cast", [inner], [self.name], to=new))
        draft.claim.answer(own, (source,), lambda array: _converted(array, after))
        return ", with a Cast before it"

    def _incompatible_consumers(self, draft: ModelDraft, old: int, new: int) -> Iterator[NodeProto]:
        """Nodes that read the input and would compute something else, or be invalid, with the new dtype."""
        versions = imports_of(draft.skeleton.opset_import)
        for node in draft.graph.node:
            places = [place for place, name in enumerate(node.input) if name == self.name]
            takes = all(_computes_the_same(node, place, old, new=new, versions=versions) for place in places)
            if not takes or any(self.name in names_read(inner) for graph in subgraphs(node) for inner in graph.node):
                yield node


def _converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert as Cast does: numbers that are too large become infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)


def _computes_the_same(node: NodeProto, place: int, old: int, new: int, versions: dict[str, int]) -> bool:
    """Whether a node computes the same from an input of another dtype.

    A new dtype that holds more numbers than the old one (such as 0.5 or 300) is accepted only for indices, which an
    operator accepts in two dtypes, and for an input of which only the shape is read.
    """
    domain = normalize_domain(node.domain)
    found = schema(domain, node.op_type, versions.get(domain, 0))
    formal = None if found is None else found.input_at(place)
    if found is None or formal is None or type_string(new) not in found.allowed(formal):
        return False
    others = {item.type for number, item in enumerate(found.inputs) if number != place}
    said = {item.name for item in node.attribute} & {"to", "dtype"}
    is_fixed = all(len(found.allowed(item)) == 1 or item.type in others or said for item in found.outputs)
    kinds = (kind for item in (*found.inputs, *found.outputs) for kind in found.allowed(item))
    tensors = all(kind.startswith("tensor(") for kind in kinds)
    if formal.type in (*others, *(item.type for item in found.outputs)) or not is_fixed or not tensors:
        return False
    to, back = (onnx.helper.tensor_dtype_to_np_dtype(dtype) for dtype in (new, old))
    holds_more = not np.can_cast(to, back, "safe")
    return not holds_more or found.allowed(formal) <= INDICES or node_traits(node).shape.reads_only_shape
