"""Folds size arithmetic that becomes constant when a dim gets a fixed size."""

import onnx
from onnx import NodeProto

from surgeon.file.tensors.decoding import encode
from surgeon.ir.scope import Scope
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.prune import delete_slots
from surgeon.rules.searches.constant_folding import MAX_ADDED_BYTES, MAX_RESULT_BYTES, ConstantFolder


def fold_constant_sizes(draft: ModelDraft) -> int:
    """Replace each node with a constant result that follows from sizes; returns the number of replaced nodes.

    Nodes that only these nodes read are removed and counted too.
    """
    found = [(scope, *_folded(draft, scope)) for scope in draft.index.scopes if scope.function is None]
    for scope, made, gone in found:  # after all results are known, because a body reads nodes of the outer graph
        for place, proto in made.items():
            scope.protos[place].CopyFrom(proto)
        delete_slots(scope.protos, gone)
    count = sum(len(made) + len(gone) for _, made, gone in found)
    if count:
        draft.changed()
    return count


def _folded(draft: ModelDraft, scope: Scope) -> tuple[dict[int, NodeProto], set[int]]:
    """The new Constants of a scope by index of the replaced node, and the indices of removed nodes."""
    folding = ConstantFolder.of(draft.index, scope, MAX_RESULT_BYTES)
    gone: set[int] = set()
    idle: set[int] = set()
    made: dict[int, NodeProto] = {}
    for node, outputs in folding.places(MAX_ADDED_BYTES)[0]:
        if folding.of_sizes.isdisjoint(outputs) or len(node.outputs) != 1:
            continue
        tensor = encode(folding.values[outputs[0]])
        made[node.source_slot] = onnx.helper.make_node("Constant", [], [outputs[0]], name=node.name, value=tensor)
        idle.update(item.source_slot for item in folding.below(node))
    for place in sorted(idle - made.keys(), reverse=True):
        node = scope.nodes[place]
        readers = [reader for name in node.outputs if name for reader in scope.readers(name)]
        held = any(name in scope.protected for name in node.outputs)
        if not held and all(reader.scope is scope and reader.source_slot in gone | made.keys() for reader in readers):
            gone.add(place)
    return made, gone
