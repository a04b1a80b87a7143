"""Finds a detector's head by graph structure: boxes, scores and box format."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from surgeon.edits.append import FLOATS
from surgeon.edits.detection.column_tracing import is_constant, maker_of, scales, shape_of
from surgeon.edits.detection.head_columns import ENDS, JOINS, columns_of, raw_tensors
from surgeon.errors import UsageError
from surgeon.ir.scope import Node
from surgeon.ops.traits.op_traits import EVERY
from surgeon.ops.traits.trait_lookup import ADDITIONS, SUBTRACTIONS, ops_with, traits_of
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.proof.model.exposed_outputs import required_nodes
from surgeon.shapes.op_rules.element_origins import MOVES

NMS_OP = "NonMaxSuppression"
_SIZES = {"Pow", *(ops_with("never_negative") & ops_with("same_type_as_input"))}  # compute widths


@dataclass(frozen=True, slots=True)
class DetectorHead:
    """The head of a detector."""

    boxes: str
    """Tensor of boxes."""
    scores: str
    """Tensor of scores; empty if `boxes` holds both."""
    box_format: str
    """"xyxy" or "cxcywh"; empty if the structure does not show it."""
    score_activation: str
    """Activation of the scores in the model: "sigmoid" or "softmax"; empty if there is none."""
    nms_thresholds: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the suppression that follows the head in the model."""
    is_suppressed: bool = False
    """Whether the model itself suppresses boxes (NonMaxSuppression) after the head."""


def find_head(draft: ModelDraft) -> DetectorHead:
    """The head of a model: the inputs of its suppression, or else the outputs that are boxes and their scores.

    If there are several pairs, for example one per decoder layer, the one that depends on most nodes is chosen.  Raises
    UsageError if there is none, or two are equally good.
    """
    own = draft.index.main.by_op.get(NMS_OP, ())
    if own:
        return _suppressed(draft, own)
    shapes = {value.name: shape_of(draft, value.name) for value in draft.graph.output}
    of_three = [name for name, shape in shapes.items() if shape is not None and len(shape) == 3]
    of_three = [name for name in of_three if draft.facts(name).type.tensor_type.elem_type in FLOATS]
    depth = {name: required_nodes(draft.graph, [name]) for name in of_three}
    boxes = [name for name in of_three if _size(shapes[name], 2) == 4 and _scores_of(name, of_three, shapes)]
    if not boxes:
        if len(of_three) == 1:
            return DetectorHead(of_three[0], "", "", "")
        raise UsageError(
            "No outputs are boxes [batch, count, 4] with scores [batch, count, classes]. Give the head with --output, "
            "and with --scores if it has two tensors."
        )
    chosen = _best(boxes, lambda name: len(depth[name][0]), "boxes", "--output")
    return _beside(draft, chosen, _scores_of(chosen, of_three, shapes), depth)


def describe_head(draft: ModelDraft, boxes: str, scores: str) -> DetectorHead:
    """A head of the given tensors, with the properties that the structure shows; `scores` may be empty."""
    return DetectorHead(
        boxes, scores, form_of(draft, boxes) if scores else "", _made_by(draft, scores) if scores else ""
    )


def _size(shape: Sequence[Any] | None, axis: int) -> Any:
    return None if shape is None else shape[axis]


def _scores_of(boxes: str, others: Sequence[str], shapes: Mapping[str, Sequence[Any] | None]) -> list[str]:
    count = _size(shapes[boxes], 1)
    return [name for name in others if name != boxes and count in (shapes[name] or ())[1:]]


def _beside(
    draft: ModelDraft, boxes: str, candidates: Sequence[str], depth: Mapping[str, tuple[set[int], set[str]]]
) -> DetectorHead:
    """The head with the scores of boxes: the candidate that shares most nodes and feeds no other output."""
    last = [name for name in candidates if not any(name in depth[other][1] for other in depth if other != name)]
    kinds = {name: columns_of(draft, name, 2) for name in candidates}
    chosen = [name for name in last or candidates if "class" not in kinds[name]]
    scores = _best(
        chosen or candidates, lambda name: len(depth[name][0] & depth[boxes][0]), f"the scores of {boxes!r}", "--scores"
    )
    if "best score" in kinds[scores] or not chosen:
        raw = raw_tensors(draft, (boxes, 2, 0), (scores, 2, 0))
        how = f": --output {raw[0]} --scores {raw[1]}" if all(raw) else " with --output and --scores."
        raise UsageError(f"{boxes!r} and {scores!r} are finished detections. Give the raw tensors{how}")
    return describe_head(draft, boxes, scores)


def _best(names: Sequence[str], rank: Callable[[str], int], what: str, option: str) -> str:
    """The name of the highest rank.  Raises UsageError if two have it."""
    ordered = sorted(names, key=rank, reverse=True)
    if len(ordered) > 1 and rank(ordered[0]) == rank(ordered[1]):
        listed = ", ".join(map(repr, ordered))
        raise UsageError(f"Several outputs could be {what}: {listed}. Choose one with {option}.")
    return ordered[0]


def _suppressed(draft: ModelDraft, nodes: Sequence[Node]) -> DetectorHead:
    """The head before the model's own suppression."""
    if len(nodes) > 1:
        raise UsageError(
            f"The model has {len(nodes)} {NMS_OP} nodes, one for each class or image. "
            "Give the head with --output and --scores."
        )
    node = nodes[0]
    boxes, scores, *limits = node.inputs
    names = ("most", "iou", "least")
    known: dict[str, Any] = {}
    for name, tensor in zip(names, limits, strict=False):
        array = draft.index.constants.array(node.scope, tensor) if tensor else None
        if array is not None and array.size == 1:
            known[name] = int(array.flat[0]) if name == "most" else float(array.flat[0])
    _require_whole(draft, node, boxes)
    centred = node.attribute("center_point_box")
    form = "cxcywh" if centred is not None and centred.i else "xyxy"
    return DetectorHead(
        boxes, scores, form, score_activation=_made_by(draft, scores), nms_thresholds=known, is_suppressed=True
    )


def _require_whole(draft: ModelDraft, node: Node, boxes: str) -> None:
    """Raise UsageError if the suppression reads boxes that were selected, or shifted by class."""
    shape = shape_of(draft, boxes)
    maker = draft.index.main.producers.get(boxes)
    while maker is not None and maker.op in MOVES:
        maker = draft.index.main.producers.get(maker.inputs[0])
    is_moved = maker is not None and maker.op in ADDITIONS and any(_is_thin(draft, name) for name in maker.inputs)
    if is_moved or shape is None or any(str(size).startswith("?") for size in shape[1:]):
        raise UsageError(
            f"The model's own {NMS_OP} at {node.label!r} reads boxes that were selected or shifted before it. "
            "Give the head before that with --output and --scores."
        )


def _is_thin(draft: ModelDraft, name: str) -> bool:
    """Whether a tensor has one number per box: the shift of boxes by class."""
    shape = shape_of(draft, name)
    return shape is not None and len(shape) > 1 and shape[-1] == 1 and shape[-2] != 1


def _made_by(draft: ModelDraft, scores: str) -> str:
    """The activation of scores: the last node before nodes that only move numbers; empty if there is none."""
    found: set[str] = set()
    pending, seen = [scores], set[str]()
    while pending:
        name = pending.pop()
        maker = draft.index.main.producers.get(name)
        if name in seen or (maker is None and is_constant(draft, name)):
            continue
        seen.add(name)
        if maker is not None and (maker.op in MOVES or maker.op in JOINS):
            pending += _moved(maker)
        else:
            found.add("" if maker is None else ENDS.get(maker.op, ""))
    return found.pop() if len(found) == 1 else ""


def _moved(node: Node) -> Sequence[str]:
    """The inputs of a node that it moves to its output."""
    is_joined = node.op in JOINS or traits_of(node.op).data.copies_elements == EVERY
    return node.inputs if is_joined else node.inputs[:1]


def form_of(draft: ModelDraft, boxes: str, axis: int = 2) -> str:
    """The box format, by the nodes that compute the four numbers along an axis; empty if they do not show it.

    The first and third numbers, and the second and fourth, have to show the same format.
    """
    makers = [maker_of(draft, boxes, axis, column) for column in range(4)]
    forms = {_form_of_pair(draft, makers[place], makers[place + 2]) for place in (0, 1)}
    return forms.pop() if len(forms) == 1 else ""


def _form_of_pair(draft: ModelDraft, first: Node | None, third: Node | None) -> str:
    """The box format, by the nodes that compute the two numbers of one coordinate; empty if they do not show it."""
    if first is None or third is None:
        return ""
    is_start = first.outputs[0] in _seen(draft, third)  # the end is the start plus a size
    if third.op in ADDITIONS and (is_start or first.op in SUBTRACTIONS):
        return "xyxy" if is_start or _share(draft, first, third) else ""
    if third.op in SUBTRACTIONS:  # two corners less each other; one Sub may be a corner: a point minus a distance
        return "cxcywh" if first is not third and _share(draft, first, third) else ""
    is_size = third.op in _SIZES or any(name for name in _seen(draft, third) if _is_size(draft, name))
    return "cxcywh" if is_size else ""


def _share(draft: ModelDraft, one: Node, other: Node) -> bool:
    return not _seen(draft, one).isdisjoint(_seen(draft, other))


def _seen(draft: ModelDraft, node: Node) -> set[str]:
    """The inputs of a node, and the tensors that they come from by moving and scaling."""
    return {end for name in node.inputs for end in _through(draft, name)}


def _through(draft: ModelDraft, name: str) -> Iterator[str]:
    """A tensor, and the tensors that it comes from by moving and scaling."""
    yield name
    maker = draft.index.main.producers.get(name)
    while maker is not None and (maker.op in MOVES or scales(draft, maker)):
        name = next((each for each in maker.inputs if not is_constant(draft, each)), "")
        yield name
        maker = draft.index.main.producers.get(name)


def _is_size(draft: ModelDraft, name: str) -> bool:
    maker = draft.index.main.producers.get(name)
    return maker is not None and maker.op in _SIZES
