"""Lets a decoder score only the last token of each text: no client reads the other scores of a prompt."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from surgeon.edits.decoders.sequence_sizes import found_decoder
from surgeon.errors import UsageError
from surgeon.ir.scope import Node
from surgeon.ops.builder.graph import Graph, Tensor
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.node_insertion import add_nodes, opset_of
from surgeon.pipeline.editing.prune import filter_repeated
from surgeon.printed_commands import upgrade_to
from surgeon.shapes.op_rules.rule_table import axis_labels

_OPSET = 15  # since which Shape has a start and an end (ONNX changelog)
_ROWS = 1  # the axis of the tokens of a text
_END = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class LastLogits(Edit):
    """Let a decoder score only the last token of each text that its mask counts: [batch, 1, vocabulary].

    The row is chosen before the product with the vocabulary, which then has one row per text.  Without a mask, it is
    the last row.

    Raises:
        UsageError: the model is not a decoder, nodes after the product combine tokens, or the opset is below 15.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.LastLogits().flag
        'last-logits'
    """

    flag = "last-logits"
    metavar = ""

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Choose the rows, before the product."""
        decoder = found_decoder(draft)
        logits = draft.facts(decoder.logits)
        if logits.type.tensor_type.shape.dim[_ROWS].dim_value == 1:
            return ()
        if opset_of(draft) < _OPSET:
            raise UsageError(f"Scores of last tokens need opset {_OPSET}. Raise it first: {upgrade_to(_OPSET)}")
        product, slot, after = _product(draft, decoder.logits)
        source, reads = product.inputs[slot], (decoder.ids, *filter(None, (decoder.mask,)))
        proto, label, last = product.proto, product.label, draft.fresh(f"{product.inputs[slot]}_last")
        types = {name: draft.facts(name).type.tensor_type.elem_type for name in (source, *reads)}
        add_nodes(draft, _chosen_row(types), types, [last], at=list(draft.graph.node).index(proto))
        proto.input[slot] = last
        filter_repeated(draft.graph.value_info, lambda _, value: value.name not in after)
        logits.type.tensor_type.shape.dim[_ROWS].Clear()
        logits.type.tensor_type.shape.dim[_ROWS].dim_value = 1
        draft.output(decoder.logits).CopyFrom(logits)
        draft.claim.answer(decoder.logits, tuple(map(draft.claim.original, (decoder.logits, *reads))), _last)
        draft.changed()
        which = f"chosen before {product.op} '{label}'"
        return (f"'{decoder.logits}' has the scores of the last token of each text, {which}",)


def _product(draft: ModelDraft, logits: str) -> tuple[Node, int, list[str]]:
    """The product that makes the scores, the slot of its rows, and the tensors from it on.

    Raises UsageError if a node after it combines tokens, or another node reads such a tensor.
    """
    name, after = logits, list[str]()
    while True:
        after.append(name)
        node = draft.index.main.producers.get(name)
        slot = None if node is None else _carried(draft, node)
        if node is None or slot is None or len(draft.index.main.readers(name)) != (name != logits):
            where = f"{node.op} {node.label!r}" if node is not None else repr(name)
            why = "does not compute each token by itself, or several nodes read such scores"
            raise UsageError(f"The rows of {logits!r} cannot be chosen before their product: {where} {why}.")
        if traits_of(node.op).products.kind == "matmul":
            return node, slot, after
        name = node.inputs[slot]


def _carried(draft: ModelDraft, node: Node) -> int | None:
    """The input whose rows a node computes one by one, along the same axis; None if there is not exactly one."""
    site = draft.shapes.site(node)
    labels, made = axis_labels(site), site.made_shape()
    if labels is None and traits_of(node.op).products.kind == "matmul":  # by a matrix of integers
        return 0 if len(site.shape(0) or ()) == len(made or ()) else None
    if labels is None or labels.output is None or labels.output[_ROWS] in labels.mixed:
        return None
    found = [(slot, axis) for slot, axis in labels.origins(_ROWS) if (site.shape(slot) or ())[axis] != 1]
    return found[0][0] if len(found) == 1 and found[0][1] == _ROWS else None


def _chosen_row(types: dict[str, int]) -> Callable[..., Tensor]:
    """Nodes that choose a row of each text.  types: dtypes of the rows, the ids and the mask, if there is one."""
    dtype = list(types.values())[-1]

    def build(g: Graph, rows: Tensor, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return g.gather(rows, np.array([-1]), axis=_ROWS)
        new = g.slice(mask, g.neg(g.shape(ids, start=_ROWS, end=_ROWS + 1)), np.array([_END]), np.array([_ROWS]))
        new = new if dtype in (TensorProto.INT32, TensorProto.INT64) else g.cast(new, to=TensorProto.INT32)
        last = g.arg_max(new, axis=_ROWS, select_last_index=1)  # the mask has a row for each past token too
        return g.gather_nd(rows, g.unsqueeze(last, np.array([2])), batch_dims=1)

    return build


def _last(logits: np.ndarray, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """The scores of the last token that the mask counts, among the new ones."""
    new = np.ones_like(ids) if mask is None else mask[:, mask.shape[1] - ids.shape[1] :].astype(np.int64)
    rows = new.shape[1] - 1 - new[:, ::-1].argmax(axis=1)
    return np.asarray(np.take_along_axis(logits, rows[:, None, None], axis=1))
