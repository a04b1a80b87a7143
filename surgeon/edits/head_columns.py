"""What the columns of a detector's output hold, by the nodes that compute them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from surgeon.editing.draft import ModelDraft
from surgeon.edits.head_tracing import Place, is_constant, places, shape_of, trace
from surgeon.errors import UsageError
from surgeon.shapes.facts import INTEGERS

SIGMOID, SOFTMAX = "sigmoid", "softmax"
ENDS: Mapping[str, str] = {"Sigmoid": SIGMOID, "Softmax": SOFTMAX}
JOINS = frozenset(("Mul", "Sqrt", "Pow"))  # a score times how likely there is anything at all, and its root
_BEST = frozenset(("TopK", "ReduceMax"))
_WHOLE = frozenset(("Floor", "Round", "Mod", "Trunc"))  # of floats: numbers of classes, computed from places
_SHIFTS = frozenset(("Add", "Sub"))
Column = Literal["score", "best score", "class", "constant", "number", ""]


def column_of(draft: ModelDraft, name: str, axis: int, place: int) -> Column:
    """What the numbers of a tensor at one place of an axis are; empty where the graph does not tell."""
    return _kind(draft, [*trace(draft, name, axis, place)])


def _kind(draft: ModelDraft, names: Sequence[str]) -> Column:
    """The kind of the numbers that were traced through these tensors."""
    if any(draft.shapes.facts(draft.index.main, name).dtype in INTEGERS for name in names):
        return "class"
    node = draft.index.main.producers.get(names[-1])
    if node is None or is_constant(draft, names[-1]):
        return "constant" if is_constant(draft, names[-1]) else ""
    if node.op in _BEST:
        return "best score"
    if node.op in _WHOLE:
        return "class"
    if node.op in ENDS:
        return "score"
    rest = [each for each in node.inputs if each and not is_constant(draft, each)]
    if node.op in JOINS or (node.op in _SHIFTS and len(rest) == 1) or node.op == "Where":
        kinds = {_kind(draft, [*trace(draft, each)]) for each in (rest[1:] if node.op == "Where" else rest)}
        return next((kind for kind in _FIRST if kind in kinds), "number")
    return "number"


_FIRST: Sequence[Column] = ("class", "best score", "score")


def raw_tensors(draft: ModelDraft, name: str, axis: int, best: int | None) -> tuple[str, str]:
    """The boxes [batch, count, 4] and the scores of classes that finished detections were chosen from.

    best: the column of the best scores; None for none.  Empty where the graph has no such tensor.
    """
    found = [each for each in trace(draft, name, axis, 0) if each and _size_at(draft, each, 2) == 4]
    boxes = found[-1] if found and found[-1] != name else ""
    count = _size_at(draft, boxes, 1) if boxes else None
    scores = ""
    for each in _chosen_from(draft, name, axis, best) if best is not None and count is not None else ():
        shape = shape_of(draft, each) or ()
        if len(shape) == 3 and count in shape[1:]:
            scores = each
    return boxes, scores


def _chosen_from(draft: ModelDraft, name: str, axis: int, best: int) -> Iterator[str]:
    """The tensors that the best scores were chosen from, back to where scores of other columns join them."""
    *_, last = trace(draft, name, axis, best)
    while (node := draft.index.main.producers.get(last)) is not None and node.op in _BEST:
        for last in trace(draft, node.inputs[0]):
            yield last
            maker = draft.index.main.producers.get(last)
            if maker is not None and maker.op in _PARTS:
                return


_PARTS = frozenset(("Split", "Slice", "Concat"))


def _size_at(draft: ModelDraft, name: str, axis: int) -> Any:
    shape = shape_of(draft, name) or ()
    return shape[axis] if len(shape) == 3 else None


def require_raw(draft: ModelDraft, name: str, axis: int) -> Sequence[Column]:
    """The kinds of an output's columns.  Raises UsageError for finished detections, with the raw tensors' names."""
    width = _size_at(draft, name, axis)
    if not isinstance(width, int):
        return ()
    columns = [column_of(draft, name, axis, place) for place in range(width)]
    number = next((place for place, kind in enumerate(columns) if kind == "class"), None)
    best = next((place for place, kind in enumerate(columns) if kind == "best score"), None)
    if number is None and best is None:
        return columns
    told = [f"column {number} is the number of a class"] if number is not None else []
    told += [f"column {best} the best of several scores"] if best is not None else []
    boxes, scores = raw_tensors(draft, name, axis, best)
    if boxes and scores:
        what = f"name the raw tensors: --output {boxes} --scores {scores}"
    else:
        what = "name the raw boxes with --output, and their scores with --scores"
    raise UsageError(f"{name!r} holds finished detections ({' and '.join(told)}); {what}.")


def require_scores(draft: ModelDraft, name: str, axis: int, columns: Sequence[Column], first: int, end: int) -> None:
    """Raise UsageError where columns from `first` to `end` are no scores, as far as the graph tells."""
    other = next((place for place in range(first, end) if columns[place] not in ("score", "constant")), None)
    if other is None:
        return
    told = "is a number that is no score" if columns[other] == "number" else "cannot be told from the graph"
    raise UsageError(
        f"Column {other} of {name!r} {told}; say how the columns lie, with --head yolov8 (4 + classes) or yolov5 "
        "(5 + classes, --extra for more behind these), or name the boxes with --output and the scores with --scores."
    )


def has_objectness(draft: ModelDraft, name: str, axis: int) -> bool | None:
    """Whether column 4 says how likely there is anything, and the classes begin behind it; None if that may be.

    It does where it is computed by itself (YOLOX, YOLOv6), and may where it is computed together with the box (YOLOv5,
    v7).  Scores of classes are computed together, and apart from the box (YOLOv8 and later).
    """
    own, next_ = (_source(draft, name, axis, place) for place in (4, 5))
    if own != next_:
        return True
    return None if own in {_source(draft, name, axis, place) for place in range(4)} else False


def _source(draft: ModelDraft, name: str, axis: int, place: int) -> str:
    """The tensor that a column was computed in before its activation."""
    at: Place | None = (axis, place)
    while True:
        *_, (name, at) = [item for item in places(draft, name, at) if item[0]]
        node = draft.index.main.producers.get(name)
        if node is None or node.op not in (*ENDS, *JOINS, *_SHIFTS):
            return name
        name = next((each for each in node.inputs if not is_constant(draft, each)), "")
        if not name:
            return node.outputs[0]
