"""Decodes a detector's raw head into corner boxes and class scores, as nodes and in numpy."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from onnx import TensorProto

from surgeon.edits.append import require_float_rank
from surgeon.edits.detection.find_head import form_of
from surgeon.edits.detection.head_columns import has_objectness, require_raw, require_scores
from surgeon.errors import UsageError
from surgeon.ops.builder.graph import Graph, Tensor
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import KeyedEdit
from surgeon.runtime.kernels.vision.non_max_suppression import to_corners

HEADS = ("yolov8", "yolov5")
FORMS = ("xyxy", "cxcywh")
BACKGROUND_CLASSES = ("first", "last")
_MAX_END = 1 << 31


@dataclass(frozen=True, slots=True)
class HeadDecoder:
    """How to compute corner boxes and scores [batch, classes, count] from a head."""

    layout: str
    """"yolov8" or "yolov5"; for two tensors "rows" (scores [batch, count, classes]) or "columns"."""
    is_cxcywh: bool
    """Whether a box is given by its centre and size."""
    background: str = ""
    """Class that means "no object": "first" or "last".  Its scores are removed."""
    extra: int = 0
    """Further values per box after its scores."""

    @property
    def first_class(self) -> int:
        """The number of the first class that is not the background."""
        return int(self.background == "first")

    def build_nodes(self, g: Graph, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The decoding as nodes, in float32."""
        boxes, scores = self._parts(g, [g.cast(tensor, to=TensorProto.FLOAT) for tensor in tensors])
        if self.is_cxcywh:
            centre, size = (_cut(g, boxes, *ends) for ends in ((0, 2), (2, 4)))
            half = g.mul(size, 0.5)
            boxes = g.concat(g.sub(centre, half), g.add(centre, half), axis=2)
        if self.background:
            scores = g.slice(scores, *_ends(*self._classes()), np.array([1], np.int64))
        return boxes, scores

    def extras(self, g: Graph, tensors: Sequence[Tensor]) -> Tensor:
        """The values after the scores, as nodes: float32[batch, count, extra]."""
        whole = g.cast(tensors[0], to=TensorProto.FLOAT)
        return _cut(g, g.transpose(whole, perm=[0, 2, 1]) if self.layout == "yolov8" else whole, -self.extra, _MAX_END)

    def _classes(self) -> tuple[int, int]:
        return (1, _MAX_END) if self.background == "first" else (0, -1)

    def _parts(self, g: Graph, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        if self.layout in ("rows", "columns"):
            boxes, scores = tensors
            return boxes, g.transpose(scores, perm=[0, 2, 1]) if self.layout == "rows" else scores
        if self.layout == "yolov8":
            scores = g.slice(tensors[0], *_ends(4, -self.extra or _MAX_END), np.array([1], np.int64))
            return _cut(g, g.transpose(tensors[0], perm=[0, 2, 1]), 0, 4), scores
        scores = g.mul(_cut(g, tensors[0], 5, -self.extra or _MAX_END), _cut(g, tensors[0], 4, 5))
        return _cut(g, tensors[0], 0, 4), g.transpose(scores, perm=[0, 2, 1])

    def run_numpy(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The decoding in numpy, in float32; values after the scores follow the corners of their box."""
        one = arrays[0].astype(np.float32)
        rows = one.transpose(0, 2, 1) if self.layout == "yolov8" else one
        rows, behind = np.split(rows, [rows.shape[2] - self.extra], axis=2)
        if self.layout in ("rows", "columns"):
            boxes, scores = rows, arrays[1].astype(np.float32)
            scores = scores.transpose(0, 2, 1) if self.layout == "rows" else scores
        else:
            boxes, scores = rows[..., :4], rows[..., 4:]
            scores = scores if self.layout == "yolov8" else scores[..., 1:] * scores[..., :1]
            scores = scores.transpose(0, 2, 1)
        if self.background:
            scores = scores[:, 1:] if self.background == "first" else scores[:, :-1]
        return np.concatenate([to_corners(boxes) if self.is_cxcywh else boxes, behind], axis=2), scores


def _ends(start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array([start], np.int64), np.array([end], np.int64)


def _cut(g: Graph, x: Tensor, start: int, end: int) -> Tensor:
    """A slice of the last of three axes."""
    return g.slice(x, *_ends(start, end), np.array([2], np.int64))


@dataclass(frozen=True, slots=True)
class DetectorEdit(KeyedEdit):
    """Base of edits that read a detector's head."""

    output: str
    """The head.  One tensor of boxes and scores is [batch, 4 + classes, count] ("yolov8": v8, v9, v11) or
    [batch, count, 5 + classes] ("yolov5": v5, v7; scores are multiplied by the fifth number).  A tensor of boxes is
    [batch, count, 4] and needs `scores`.  All outputs that are computed from an inner tensor are replaced.
    """
    scores: str = ""
    """The tensor of scores, if the head has two tensors: [batch, count, classes] or [batch, classes, count]."""
    head: Literal["", "yolov8", "yolov5"] = ""
    """The layout of a head with one tensor: "yolov8" or "yolov5".  By default the shape and the nodes that compute each
    column decide.
    """
    form: Literal["", "cxcywh", "xyxy"] = ""
    """The box format: "cxcywh" (centre and size) or "xyxy" (corners).  By default the nodes of a head with one tensor
    decide; with `head` the default is cxcywh, and with two tensors it is xyxy.
    """
    background: str = ""
    """The class that means "no object": "first" or "last".  Its scores are removed; other class numbers stay."""
    output_names: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def _found(self, boxes: np.ndarray, scores: np.ndarray, first: int) -> Sequence[np.ndarray]:
        """The new outputs in numpy, in the order of `all_output_names`.

        boxes: corners [batch, count, 4 + extra], with the values after the scores.  scores: [batch, classes, count].
        first: number of the first class.
        """

    @property
    def all_output_names(self) -> Sequence[str]:
        """Names of the new outputs."""
        return self.output_names

    @property
    def extra_values(self) -> int:
        """Number of values per box after its scores."""
        return 0

    def __post_init__(self) -> None:
        self.require_kinds()
        for name, known in (("head", HEADS), ("form", FORMS), ("background", BACKGROUND_CLASSES)):
            given = getattr(self, name)
            if given and given not in known:
                raise UsageError(f"Unknown {name} {given!r} of a detector. Choose one of {', '.join(known)}.")

    @property
    def sources(self) -> list[str]:
        """The tensors of the head."""
        return [self.output, *([self.scores] if self.scores else [])]

    @property
    def sources_text(self) -> str:
        """The tensors of the head as text."""
        return " and ".join(map(repr, self.sources))

    def _makes(self, draft: ModelDraft, split: HeadDecoder) -> dict[str, Callable[..., np.ndarray]]:
        """By new output, its numpy function of the head's tensors."""

        def computed(place: int) -> Callable[..., np.ndarray]:
            return lambda *arrays: self._found(*split.run_numpy(*arrays), split.first_class)[place]

        return {draft.fresh(name): computed(place) for place, name in enumerate(self.all_output_names)}

    def split(self, draft: ModelDraft) -> HeadDecoder:
        """The decoder of the head.  Raises UsageError if the tensors are not a detector's head."""
        return self._two(draft) if self.scores else self._one(draft)

    def _require_no_masks(self, draft: ModelDraft, rows: Any, head: str) -> None:
        """Raise UsageError if some of a box's values may be coefficients of mask prototypes instead of scores."""
        for value in draft.graph.output:
            shape = draft.shapes.shape(draft.index.main, value.name) or ()
            count = shape[1] if len(shape) == 4 else None
            if isinstance(count, int) and isinstance(rows, int) and 1 < count < rows - 4 - (head == "yolov5"):
                raise UsageError(
                    f"{self.output!r} has {rows} values per box, and {value.name!r} {list(shape)} looks like mask "
                    f"prototypes. Use nms with extra={count}, or head={head} if all values after the box are classes."
                )

    def _one(self, draft: ModelDraft) -> HeadDecoder:
        """The decoder of a head with one output."""
        shape = self.shape(draft, self.output)
        if shape[2] == 4 and not self.head:
            raise UsageError(f"{self.output!r} {list(shape)} contains only boxes. Give their scores with --scores.")
        require_raw(draft, self.output, self.flag.removeprefix("append-"))
        head = self.head
        if not head:
            if not all(isinstance(size, int) for size in shape[1:]) or shape[1] == shape[2]:
                raise UsageError(
                    f"The shape of {self.output!r} {list(shape)} does not show its layout. Give head=yolov8 or yolov5."
                )
            head = "yolov8" if shape[1] < shape[2] else "yolov5"
        axis = 1 if head == "yolov8" else 2
        rows = shape[axis]
        least = 5 if head == "yolov8" else 6
        if isinstance(rows, int) and rows < least:
            raise UsageError(f"{self.output!r} has {rows} values per box, but a {head} head has at least {least}.")
        extra = self.extra_values
        if isinstance(rows, int) and rows - extra < least:
            raise UsageError(f"{self.output!r} has {rows} values per box, too few for {extra} after its scores.")
        if self.head:
            return HeadDecoder(head, (self.form or "cxcywh") == "cxcywh", self.background, extra)
        if not extra:
            self._require_no_masks(draft, rows, head)
        require_scores(draft, self.output, axis, extra)
        if has_objectness(draft, self.output, axis) is (head == "yolov8"):
            raise UsageError(self._other_head(head))
        form = self.form or form_of(draft, self.output, axis)
        if not form:
            raise UsageError(
                f"The graph does not show the box format of {self.output!r}. Give it with --form xyxy (corners) "
                "or --form cxcywh (centre and size)."
            )
        return HeadDecoder(head, form == "cxcywh", self.background, extra)

    def _other_head(self, head: str) -> str:
        """The message for an output with the shape but not the columns of a head."""
        wanted = "no objectness in column 4, which a yolov5 head has"
        if head == "yolov8":
            wanted = "an objectness in column 4, which a yolov8 head does not have"
        return (
            f"{self.output!r} has {wanted}. Give the boxes with --output and the scores with --scores, or confirm "
            f"the layout with --head {head}."
        )

    def _two(self, draft: ModelDraft) -> HeadDecoder:
        """The decoder of a head with two outputs."""
        boxes, scores = self.shape(draft, self.output), self.shape(draft, self.scores)
        if self.extra_values:
            raise UsageError(f"{self.output!r} contains only boxes. Leave out extra.")
        if boxes[2] != 4:
            raise UsageError(f"{self.output!r} {list(boxes)} does not contain boxes, which are [batch, count, 4].")
        if boxes[1] not in scores[1:]:
            raise UsageError(
                f"{self.scores!r} {list(scores)} does not contain scores for the {boxes[1]} boxes of {self.output!r}."
            )
        return HeadDecoder("rows" if scores[1] == boxes[1] else "columns", self.form == "cxcywh", self.background)

    def shape(self, draft: ModelDraft, name: str) -> Sequence[Any]:
        """The shape of a tensor of the head; raises UsageError if its rank is not 3."""
        if require_float_rank(draft, name) != 3:
            raise UsageError(f"{name!r} is not an output of a detector's head, which has 3 axes.")
        return draft.shapes.shape(draft.index.main, name) or ()
