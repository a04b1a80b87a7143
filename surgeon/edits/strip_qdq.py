"""Removes QuantizeLinear/DequantizeLinear pairs: a quantized model becomes a float model."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.dtype_traits import DEQUANTIZE, QUANTIZE
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.ops.traversal import nodes_of
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.prune import filter_repeated, prune
from surgeon.pipeline.editing.tensor_renaming import rename_in_graph
from surgeon.printed_commands import command
from surgeon.runtime.kernels.kernel_registry import dequantize_linear
from surgeon.text import format_count

CLIP_INPUTS_SINCE = 11  # first opset at which the limits of Clip are inputs (ONNX changelog)
UNTOLD = (
    "The outputs differ on purpose, because nothing is rounded to integers any more. To see by how much: "
    f"{command('compare', 'IN', 'OUT')}"
)


@dataclass(frozen=True, slots=True)
class StripQdq(Edit):
    """Remove QuantizeLinear and DequantizeLinear pairs, which gives a float model.

    The edit removes a QuantizeLinear and the DequantizeLinear after it if they have the same scale and zero point.  In
    the main graph, stored integers that a DequantizeLinear reads become stored floats with the same values.  If 0 is
    one end of the range of a pair, a Clip keeps the range, because quantizers omit a Relu or Clip there.  Nodes between
    a pair that compute with integers stay, and so do integer operators such as QLinearConv.

    If only stored integers became floats, the result is proved.  If pairs are removed, it is UNPROVED, because the
    outputs differ on purpose.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> _, report = surgeon.edit(model, surgeon.edits.StripQdq(), output="floats.onnx")
        >>> report.outcome
        'unchanged'
    """

    flag = "strip-qdq"
    metavar = ""

    @property
    def alone(self) -> bool:
        """Yes, so that the edits before and after it are proved."""
        return True

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Remove them."""
        made = {name: node for node in draft.graph.node for name in node.output}
        ends = {value.name for value in draft.graph.output}
        renamed: dict[str, str] = {}
        gone, pairs, stored, stored_limits = set[int](), 0, list[onnx.TensorProto](), list[onnx.TensorProto]()
        for place, node in enumerate(draft.graph.node):
            if node.op_type != DEQUANTIZE or not node.input:
                continue
            source, floats = _source_of(draft, node, made.get(node.input[0])), None
            if source is None and node.output[0] not in ends:
                floats = _dequantized(draft, node)
            if floats is not None:
                stored.append(floats)
                gone.add(place)
            elif source is not None:
                pairs += 1
                limits = _limits(draft, node, made.get(source))
                if limits is not None:
                    stored_limits += _clip(draft, node, source, limits)
                elif node.output[0] in ends:
                    node.CopyFrom(onnx.helper.make_node("Identity", [source], list(node.output), node.name))
                else:
                    renamed[node.output[0]] = source
                    gone.add(place)
        if pairs or stored:
            filter_repeated(draft.graph.node, lambda place, _: place not in gone)
            draft.store(*stored, *stored_limits)
            _replace_tensors(draft, renamed)
            prune(draft)
            draft.claim.by_structure = False
            if pairs:  # without pairs, the stored floats equal the dequantized integers
                draft.claim.untold = UNTOLD
        return self._sentences(draft, pairs, len(stored))

    def _sentences(self, draft: ModelDraft, pairs: int, stored: int) -> Iterator[str]:
        if pairs:
            yield f"{format_count(pairs, 'pair')} of {QUANTIZE} and {DEQUANTIZE} removed"
        if stored:
            yield f"{format_count(stored, 'stored integer tensor')} became float"
        left = sum(node.op_type in (QUANTIZE, DEQUANTIZE) for node in nodes_of(draft.skeleton))
        if left and (pairs or stored):
            yield f"{left:,} of these nodes stay, because other nodes compute with their integers"


def _source_of(draft: ModelDraft, node: NodeProto, before: NodeProto | None) -> str | None:
    """Input of a QuantizeLinear that the following DequantizeLinear undoes, with the same dtype; None otherwise."""
    if before is None or before.op_type != QUANTIZE:
        return None
    if not all(_is_same(draft, one, other) for one, other in zip(_settings(node), _settings(before), strict=True)):
        return None
    dtypes = {draft.shapes.dtype(draft.index.main, name) for name in (before.input[0], node.output[0])}
    return before.input[0] if len(dtypes) == 1 else None


def _limits(draft: ModelDraft, node: NodeProto, before: NodeProto | None) -> tuple[float, float] | None:
    """Limits of the pair if one of them is 0 and the producer may exceed it; None otherwise."""
    scope, constants = draft.index.main, draft.index.constants
    if before is not None and (_is_never_negative(before) or _clips_at_0(draft, before)):
        return None
    stored = draft.shapes.dtype(scope, node.input[0])
    scale, zero = (constants.array(scope, name) if name else np.zeros(1) for name in _settings(node))
    if scale is None or zero is None or stored is None:
        return None
    dtype = onnx.helper.tensor_dtype_to_np_dtype(stored)
    if not np.issubdtype(dtype, np.integer):
        return None
    kind = np.iinfo(dtype)
    reach = float(scale.max()) * (kind.max - kind.min)
    if (zero == kind.min).all():
        return 0.0, reach
    return (-reach, 0.0) if (zero == kind.max).all() else None


def _is_never_negative(node: NodeProto) -> bool:
    return traits_of(qualified_name(node.domain, node.op_type)).numerics.never_negative


def _clips_at_0(draft: ModelDraft, node: NodeProto) -> bool:
    """Whether a node is a Clip with a minimum of at least 0."""
    if node.op_type != "Clip":
        return False
    if (draft.index.main.opset or 0) < CLIP_INPUTS_SINCE:
        return any(item.name == "min" and item.f >= 0 for item in node.attribute)
    least = draft.index.constants.array(draft.index.main, node.input[1]) if any(node.input[1:2]) else None
    return least is not None and bool((least >= 0).all())


def _clip(draft: ModelDraft, node: NodeProto, source: str, limits: tuple[float, float]) -> list[onnx.TensorProto]:
    """Turn a DequantizeLinear into a Clip.  Returns its limits, to be stored as initializers."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(draft.shapes.dtype(draft.index.main, source) or onnx.TensorProto.FLOAT)
    if (draft.index.main.opset or 0) < CLIP_INPUTS_SINCE:
        least, largest = limits
        made = onnx.helper.make_node("Clip", [source], list(node.output), node.name, min=least, max=largest)
        node.CopyFrom(made)
        return []
    names = [draft.fresh(f"{node.output[0]}_{what}") for what in ("least", "largest")]
    node.CopyFrom(onnx.helper.make_node("Clip", [source, *names], list(node.output), node.name))
    return [numpy_helper.from_array(np.array(limit, dtype), name) for limit, name in zip(limits, names, strict=True)]


def _settings(node: NodeProto) -> tuple[str, str]:
    """The scale and the zero point."""
    given = [*node.input[1:], "", ""]
    return given[0], given[1]


def _is_same(draft: ModelDraft, one: str, other: str) -> bool:
    """Whether two tensors are the same or constants of equal values; a missing zero point is 0."""
    if one == other:
        return True
    scope, constants = draft.index.main, draft.index.constants
    values = [constants.array(scope, name) if name else np.zeros(1) for name in (one, other)]
    if values[0] is None or values[1] is None:
        return False
    return bool(np.array_equal(values[0].reshape(-1), values[1].reshape(-1)))


def _dequantized(draft: ModelDraft, node: NodeProto) -> onnx.TensorProto | None:
    """The output of a DequantizeLinear of constants as an initializer; None if an input is not constant."""
    scope, constants = draft.index.main, draft.index.constants
    arrays = [constants.array(scope, name) if name else None for name in node.input]
    if any(array is None and name for array, name in zip(arrays, node.input, strict=True)):
        return None
    given = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    values = dequantize_linear(*arrays, **given)
    return numpy_helper.from_array(np.asarray(values), node.output[0])


def _replace_tensors(draft: ModelDraft, names: dict[str, str]) -> None:
    """Replace tensors by others in all nodes of the main graph and their bodies."""
    final = {}
    for name in names:
        found = names[name]
        while found in names:
            found = names[found]
        final[name] = found
    filter_repeated(draft.graph.value_info, lambda _, value: value.name not in final)
    rename_in_graph(draft.graph, final)
    draft.changed()
