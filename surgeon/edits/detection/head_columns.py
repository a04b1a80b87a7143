"""The kinds of columns in a detector's output, by the nodes that compute them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from surgeon.edits.detection.column_tracing import Place, changes_size, is_constant, places, shape_of, trace
from surgeon.errors import UsageError
from surgeon.ops.traits.dtype_traits import POWERS, SIGMOIDS, STEP_FUNCTIONS
from surgeon.ops.traits.trait_lookup import ADDITIONS, MULTIPLICATIONS, SUBTRACTIONS, ops_with, traits_of
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.printed_commands import command
from surgeon.shapes.tensor_types import INTEGERS

SIGMOID, SOFTMAX = "sigmoid", "softmax"
ENDS: Mapping[str, str] = {
    **dict.fromkeys(SIGMOIDS, SIGMOID),
    **dict.fromkeys(ops_with("is_softmax"), SOFTMAX),
}
_ROOTS = frozenset(op for op, exponent in POWERS.items() if exponent is None or exponent > 0)
JOINS = _ROOTS | MULTIPLICATIONS  # class score times objectness, and its root
_BEST = frozenset(("TopK", "ReduceMax"))
_SHIFTS = ADDITIONS | SUBTRACTIONS
Origin = tuple[str, int, int]  # a tensor, an axis, and an index along it
MIN_COLUMNS, MAX_COLUMNS = 5, 2048  # columns: a box with one score, and more than any detector has
Column = Literal["score", "best score", "class", "constant", "number", ""]


def column_of(draft: ModelDraft, name: str, axis: int, place: int) -> Column:
    """The kind of a tensor's numbers at one index of an axis; empty if the graph does not show it."""
    return _kind(draft, name, (axis, place))


def _kind(draft: ModelDraft, name: str, at: Place | None = None) -> Column:
    """The kind of a tensor's numbers, at one index of an axis or anywhere; a scaled score is just a number."""
    way = [*places(draft, name, at)]
    kind = _made_kind(draft, [each for each, _ in way])
    is_scaled = kind in ("score", "best score") and any(changes_size(draft, each, place) for each, place in way)
    return "number" if is_scaled else kind


def _made_kind(draft: ModelDraft, names: Sequence[str]) -> Column:
    """The kind of numbers that were traced through these tensors, by the node that computes them."""
    if any(draft.shapes.facts(draft.index.main, name).dtype in INTEGERS for name in names):
        return "class"
    node = draft.index.main.producers.get(names[-1])
    if node is None or is_constant(draft, names[-1]):
        return "constant" if is_constant(draft, names[-1]) else ""
    if node.op in _BEST:
        return "best score"
    if node.op in STEP_FUNCTIONS:
        return "class"  # computed from indices
    if node.op in ENDS:
        return "score"
    selectors = traits_of(node.op).control.selectors
    rest = [each for each in node.inputs if each and not is_constant(draft, each)]
    if node.op in _SHIFTS and len(rest) == 1:
        return "class" if _kind(draft, rest[0]) == "class" else "number"  # an angle: (sigmoid - 1/4) * pi
    if node.op in JOINS or selectors:
        kinds = {_kind(draft, each) for each in (rest[1:] if selectors else rest)}
        return next((kind for kind in _FIRST if kind in kinds), "number")
    return "number"


_FIRST: Sequence[Column] = ("class", "best score", "score")


def raw_tensors(draft: ModelDraft, box: Origin, best: Origin) -> tuple[str, str]:
    """The boxes [batch, count, 4] and class scores from which finished detections were selected; empty if not found.

    box: a column of a box.  best: the column with the best of several scores.
    """
    found = [each for each in trace(draft, *box) if _size_at(draft, each, 2) == 4]
    boxes = found[-1] if found and found[-1] != box[0] else ""
    count = _size_at(draft, boxes, 1)
    chosen = [] if count is None else [*_chosen_from(draft, *best)]
    by_place = {place: [each for each in chosen if _size_at(draft, each, place) == count] for place in (1, 2)}
    return boxes, (by_place[1] or by_place[2] or [""])[-1]


def _chosen_from(draft: ModelDraft, name: str, axis: int, best: int) -> Iterator[str]:
    """Tensors from which the best scores were selected, back to where other columns join them."""
    *_, last = trace(draft, name, axis, best)
    while (node := draft.index.main.producers.get(last)) is not None and node.op in _BEST:
        for last in trace(draft, node.inputs[0]):
            yield last
            maker = draft.index.main.producers.get(last)
            if maker is not None and maker.op in _PARTS:
                return


_PARTS = frozenset(("Split", "Slice", "Concat"))


def _size_at(draft: ModelDraft, name: str, axis: int) -> Any:
    """A size of a tensor of rank 3; None for any other tensor."""
    shape = (shape_of(draft, name) if name else None) or ()
    return shape[axis] if len(shape) == 3 else None


def columns_of(draft: ModelDraft, name: str, axis: int) -> Sequence[Column]:
    """The kinds of a tensor's columns along an axis; empty if there are too many or an unknown number."""
    width = _size_at(draft, name, axis)
    is_known = isinstance(width, int) and width <= MAX_COLUMNS
    return [column_of(draft, name, axis, place) for place in range(width)] if is_known else []


def require_raw(draft: ModelDraft, name: str, tail: str) -> None:
    """Raise UsageError for an output of finished detections, with the names of the raw tensors.

    tail: name of the post-processing in `surgeon append`.
    """
    for axis in (2, 1):
        columns = columns_of(draft, name, axis)
        number, best = (columns.index(kind) if kind in columns else None for kind in ("class", "best score"))
        if number is None and best is None:
            continue
        kinds = [f"column {number} is a class number"] if number is not None else []
        kinds += [f"column {best} is the best of several scores"] if best is not None else []
        boxes, scores = "", ""
        if best is not None and "number" in columns:
            boxes, scores = raw_tensors(draft, (name, axis, columns.index("number")), (name, axis, best))
        what = "Give the raw boxes with --output, and their scores with --scores."
        if boxes and scores:
            named = command("append", "IN", "OUT", tail, "--output", boxes, "--scores", scores)
            what = f"Give the raw boxes and scores: {named}"
        raise UsageError(f"{name!r} contains finished detections ({' and '.join(kinds)}). {what}")


def require_scores(draft: ModelDraft, name: str, axis: int, extra: int) -> None:
    """Raise UsageError if the graph does not show that all columns after the box are scores.

    extra: number of columns after the scores.
    """
    columns = columns_of(draft, name, axis)
    behind = range(MIN_COLUMNS - 1, len(columns) - extra)
    other = next((place for place in behind if columns[place] not in ("score", "constant")), None)
    named = "the boxes with --output and the scores with --scores."
    if other is not None:
        fault = "is a number, but not a score" if columns[other] == "number" else "is not known from the graph"
        raise UsageError(
            f"Column {other} of {name!r} {fault}. Give the layout with --head yolov8 (4 + classes) or yolov5 "
            f"(5 + classes, and --extra for columns after these), or give {named}"
        )
    disorder = _disorder(draft, name, axis, behind) if columns else None
    if disorder is not None:
        raise UsageError(f"{disorder}. Give {named}")


def _disorder(draft: ModelDraft, name: str, axis: int, behind: Sequence[int]) -> str | None:
    """Why score columns are not those of the classes in order, as a clause; None if they may be.

    The scores of all classes are computed together; column 4 may be separate because it is the objectness.
    """
    ends = [list(places(draft, name, (axis, place)))[-1] for place in behind]
    apart = int(len(ends) > 1 and ends[0][0] != ends[1][0])
    for place, before, end in zip(behind[apart + 1 :], ends[apart:], ends[apart + 1 :], strict=False):
        if end[0] != before[0] or (end[1] is not None and before[1] is not None and end[1] < before[1]):
            return f"Column {place} of {name!r} is a score, but not of the class that follows column {place - 1}"
    node = draft.index.main.producers.get(ends[-1][0])
    if apart and node is not None and node.op in JOINS:
        joined = {last for each in node.inputs if each for last in trace(draft, each)}
        if ends[0][0] in joined:
            return f"The scores of {name!r} from column 5 on are already multiplied by column 4"
    return None


def has_objectness(draft: ModelDraft, name: str, axis: int) -> bool | None:
    """Whether column 4 is the objectness and the classes begin after it; None if that is unknown.

    It is if it is computed separately (YOLOv4, v6, X), and may be if one activation also computes the box (YOLOv5, v7).
    Class scores are computed together, and separately from the box (YOLOv8 and later).
    """
    if _size_at(draft, name, axis) == MIN_COLUMNS:
        return None
    *_, own = trace(draft, name, axis, 4)
    *_, beside = trace(draft, name, axis, MIN_COLUMNS)
    if own != beside:
        return True
    return None if any(own in _passed(draft, name, axis, place) for place in range(4)) else False


def _passed(draft: ModelDraft, name: str, axis: int, place: int) -> set[str]:
    """Tensors on the path of a box's number back through first operands."""
    found: set[str] = set()
    at: Place | None = (axis, place)
    while name:
        way = [item for item in places(draft, name, at) if item[0]]
        found.update(each for each, _ in way)
        name, at = way[-1]
        node = draft.index.main.producers.get(name)
        if node is None or node.op not in (*ENDS, *JOINS, *_SHIFTS):
            break
        name = next((each for each in node.inputs if not is_constant(draft, each)), "")
    return found
