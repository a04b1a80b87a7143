"""The tail of a detector: what it detects twice is suppressed inside of the model."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto

from surgeon.editing.draft import ModelDraft
from surgeon.editing.edit import Edit, flag_of, keyed, spelled
from surgeon.edits.heads import replace_outputs, require_floats
from surgeon.errors import UsageError
from surgeon.graph import Graph, Tensor
from surgeon.running.suppression import cornered, detect, padded

PLUGINS = "trt.plugins"  # the domain in which ONNX Runtime's TensorRT provider knows plugins
HEADS = ("yolov8", "yolov5")
FORMS = ("xyxy", "cxcywh")
_MOST = 1 << 31


@dataclass(frozen=True, slots=True)
class AppendNms(Edit):
    """Answer with detections instead of raw boxes and scores: ONNX's NonMaxSuppression behind a detector's head.

    The new outputs are `boxes` float32[count, 4] as x1, y1, x2, y2, `scores` float32[count], `classes` int64[count] and
    `batch` int64[count], the picture that each was found in; by picture, then class, then falling score.

    Attributes:
        output: the head: of boxes and scores in one [batch, 4 + classes, count] ("yolov8": v8, v9, v11) or
            [batch, count, 5 + classes] ("yolov5": v5, v7, scores times the fifth number); or of boxes alone
            [batch, count, 4], beside `scores`.
        scores: the output of scores, where the head has two: [batch, count, classes] or [batch, classes, count].
        head: "yolov8" or "yolov5"; empty to tell by the shape.
        form: how a box is written: by its centre and size, "cxcywh", or by its corners, "xyxy"; empty for the first
            where the head is one output, the second where it is two.
        iou: above which intersection over union the lower of two boxes goes.
        least: which score a detection has to exceed.
        most: how many are kept of a class (`agnostic`: in all) in one picture.
        agnostic: whether boxes of different classes drop each other too.

    Raises:
        UsageError: the outputs are no such head.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.AppendNms("output0", iou=0.5).spelling
        'output0,iou=0.5,least=0.25,most=100'
    """

    output: str
    scores: str = ""
    head: str = ""
    form: str = ""
    iou: float = 0.45
    least: float = 0.25
    most: int = 100
    agnostic: bool = False
    flag = "append-nms"
    jumps = True
    ends: ClassVar[Sequence[str]] = ("boxes", "scores", "classes", "batch")
    metavar = "OUTPUT[,scores=OUTPUT,head=yolov8,form=cxcywh,iou=0.45,least=0.25,most=100,agnostic]"

    def __post_init__(self) -> None:
        for name, known in (("head", HEADS), ("form", FORMS)):
            given = getattr(self, name)
            if given and given not in known:
                raise UsageError(f"There is no {name} {given!r} of a detector; choose one of {', '.join(known)}.")
        if not 0 <= self.iou <= 1 or not 0 < self.most < _MOST:
            raise UsageError(f"iou={self.iou:g} has to lie between 0 and 1, and most={self.most} above 0.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read OUTPUT, and settings behind it."""
        readers: dict[str, Callable[[str], Any]] = {"scores": str, "head": str, "form": str, "iou": float}
        name, settings = keyed(text, cls.metavar, {**readers, "least": float, "most": int, "agnostic": flag_of})
        return cls(name, **settings)

    @property
    def spelling(self) -> str:
        """OUTPUT, and settings behind it."""
        settings = ("scores", "head", "form", "iou", "least", "most", "agnostic")
        return spelled(self.output, {name: getattr(self, name) for name in settings})

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Append it."""
        split = self._two(draft) if self.scores else self._one(draft)
        makes = {draft.fresh(name): self._computed(split, place) for place, name in enumerate(self.ends)}
        reads = [self.output, *([self.scores] if self.scores else [])]
        stated = self._stated(draft, list(makes))
        replace_outputs(draft, reads, makes, self._nodes(split), keeps=False, stated=stated)
        told = f"scores above {self.least:g}, overlaps to {self.iou:g}"
        return (
            f"outputs {', '.join(map(repr, makes))} are the detections of {' and '.join(map(repr, reads))} ({told})",
        )

    def _one(self, draft: ModelDraft) -> "_Split":
        """How the head's one output is cut."""
        shape = self._shape(draft, self.output)
        head = self.head
        if not head:
            if not all(isinstance(size, int) for size in shape[1:]) or shape[1] == shape[2]:
                raise UsageError(
                    f"The head of {self.output!r} {list(shape)} cannot be told by its shape: give head=yolov8."
                )
            head = "yolov8" if shape[1] < shape[2] else "yolov5"
        rows = shape[1] if head == "yolov8" else shape[2]
        least = 5 if head == "yolov8" else 6
        if isinstance(rows, int) and rows < least:
            raise UsageError(f"{self.output!r} has {rows} numbers a box, and a {head} head has {least} or more.")
        return _Split(head, (self.form or "cxcywh") == "cxcywh")

    def _two(self, draft: ModelDraft) -> "_Split":
        """How boxes and scores in two outputs lie."""
        boxes, scores = self._shape(draft, self.output), self._shape(draft, self.scores)
        if boxes[2] != 4:
            raise UsageError(f"{self.output!r} {list(boxes)} holds no boxes; they have to be [batch, count, 4].")
        if boxes[1] not in scores[1:]:
            raise UsageError(
                f"{self.scores!r} {list(scores)} holds no scores of the {boxes[1]} boxes of {self.output!r}."
            )
        return _Split("rows" if scores[1] == boxes[1] else "columns", self.form == "cxcywh")

    def _shape(self, draft: ModelDraft, name: str) -> Sequence[Any]:
        if require_floats(draft, name) != 3:
            raise UsageError(f"{name!r} is no output of a detector's head, which has three axes.")
        return draft.shapes.shape(draft.index.main, name) or ()

    def _nodes(self, split: "_Split") -> Callable[..., Sequence[Tensor]]:
        def build(g: Graph, *tensors: Tensor) -> Sequence[Tensor]:
            boxes, scores = split.nodes(g, [g.cast(tensor, to=TensorProto.FLOAT) for tensor in tensors])
            ranked = scores
            if self.agnostic:
                ranked = _best(g, scores)
            limits = (
                np.array([self.most], np.int64),
                np.array([self.iou], np.float32),
                np.array([self.least], np.float32),
            )
            found = g.non_max_suppression(boxes, ranked, *limits, center_point_box=0)
            batch, classes, places = (g.gather(found, np.array(place, np.int64), axis=1) for place in range(3))
            where = g.gather(found, np.array([0, 2], np.int64), axis=1)
            values = g.gather_nd(ranked, found)
            if self.agnostic:
                classes = g.gather_nd(g.arg_max(scores, axis=1, keepdims=0), where)
            return g.gather_nd(boxes, where), values, classes, batch

        return build

    def _computed(self, split: "_Split", place: int) -> Callable[..., np.ndarray]:
        def computed(*arrays: np.ndarray) -> np.ndarray:
            boxes, scores = split.computed(*(array.astype(np.float32) for array in arrays))
            return self._found(boxes, scores)[place]

        return computed

    def _stated(self, draft: ModelDraft, names: Sequence[str]) -> dict[str, ValueInfoProto]:
        """Dtypes and shapes of new outputs that no analysis tells."""
        return {}

    def _found(self, boxes: np.ndarray, scores: np.ndarray) -> Sequence[np.ndarray]:
        """What the new outputs are, in numpy, of boxes by their corners and scores [batch, classes, count]."""
        limits = np.float32(self.iou), np.float32(self.least)  # as the model has them
        return detect(boxes, scores, *limits, self.most, agnostic=self.agnostic)


@dataclass(frozen=True, slots=True)
class AppendEfficientNms(AppendNms):
    """Answer with detections instead of raw boxes and scores: TensorRT's EfficientNMS_TRT behind a detector's head.

    The new outputs are `num_detections` int32[batch, 1], `detection_boxes` float32[batch, most, 4] as x1, y1, x2, y2,
    `detection_scores` float32[batch, most] and `detection_classes` int32[batch, most], the best first.  TensorRT calls
    the plugin deprecated since 10.12; `AppendNms` is what it wants instead.  The settings are those of `AppendNms`, but
    that `most` is of a picture.

    Raises:
        UsageError: the outputs are no such head.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.AppendEfficientNms.parse("output0,most=300").most
        300
    """

    flag = "append-efficient-nms"
    ends: ClassVar[Sequence[str]] = ("num_detections", "detection_boxes", "detection_scores", "detection_classes")

    def _nodes(self, split: "_Split") -> Callable[..., Sequence[Tensor]]:
        def build(g: Graph, *tensors: Tensor) -> Sequence[Tensor]:
            boxes, scores = split.nodes(g, [g.cast(tensor, to=TensorProto.FLOAT) for tensor in tensors])
            settings = {
                "score_threshold": self.least,
                "iou_threshold": self.iou,
                "max_output_boxes": self.most,
                "background_class": -1,
                "score_activation": 0,
                "class_agnostic": int(self.agnostic),
                "box_coding": 0,
                "plugin_version": "1",
            }
            made = g.op(
                f"{PLUGINS}::EfficientNMS_TRT", boxes, g.transpose(scores, perm=[0, 2, 1]), outputs=4, **settings
            )
            return list(made)

        return build

    def _stated(self, draft: ModelDraft, names: Sequence[str]) -> dict[str, ValueInfoProto]:
        batch = draft.facts(self.output).type.tensor_type.shape.dim[0]
        first = batch.dim_value or batch.dim_param or None
        dtypes = (TensorProto.INT32, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT32)
        shapes = ([first, 1], [first, self.most, 4], [first, self.most], [first, self.most])
        told = zip(names, dtypes, shapes, strict=True)
        return {name: onnx.helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in told}

    def _found(self, boxes: np.ndarray, scores: np.ndarray) -> Sequence[np.ndarray]:
        limits = np.float32(self.iou), np.float32(self.least)
        every = detect(boxes, scores, *limits, boxes.shape[1], agnostic=self.agnostic)
        return padded(every, len(boxes), self.most)


def _best(g: Graph, scores: Tensor) -> Tensor:
    """The best score of each box over all classes: [batch, 1, count]."""
    return g.top_k(scores, np.array([1], np.int64), axis=1)[0]


@dataclass(frozen=True, slots=True)
class _Split:
    """How boxes by their corners and scores [batch, classes, count] come of a head.

    head: "yolov8", "yolov5", or of two outputs "rows" (scores [batch, count, classes]) or "columns".  centred: boxes
    are written by centre and size.
    """

    head: str
    centred: bool

    def nodes(self, g: Graph, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """As nodes."""
        boxes, scores = self._parts(g, tensors)
        if self.centred:
            centre, size = (_cut(g, boxes, *ends) for ends in ((0, 2), (2, 4)))
            half = g.mul(size, 0.5)
            boxes = g.concat(g.sub(centre, half), g.add(centre, half), axis=2)
        return boxes, scores

    def _parts(self, g: Graph, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        if self.head in ("rows", "columns"):
            boxes, scores = tensors
            return boxes, g.transpose(scores, perm=[0, 2, 1]) if self.head == "rows" else scores
        if self.head == "yolov8":
            scores = g.slice(tensors[0], *_ends(4, _MOST), np.array([1], np.int64))
            return _cut(g, g.transpose(tensors[0], perm=[0, 2, 1]), 0, 4), scores
        scores = g.mul(_cut(g, tensors[0], 5, _MOST), _cut(g, tensors[0], 4, 5))
        return _cut(g, tensors[0], 0, 4), g.transpose(scores, perm=[0, 2, 1])

    def computed(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """In numpy."""
        if self.head in ("rows", "columns"):
            boxes, scores = arrays
            scores = scores.transpose(0, 2, 1) if self.head == "rows" else scores
        elif self.head == "yolov8":
            boxes, scores = arrays[0][:, :4].transpose(0, 2, 1), arrays[0][:, 4:]
        else:
            boxes, scores = arrays[0][..., :4], (arrays[0][..., 5:] * arrays[0][..., 4:5]).transpose(0, 2, 1)
        return cornered(boxes) if self.centred else boxes, scores


def _ends(start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array([start], np.int64), np.array([end], np.int64)


def _cut(g: Graph, x: Tensor, start: int, end: int) -> Tensor:
    """Part of the last of three axes."""
    return g.slice(x, *_ends(start, end), np.array([2], np.int64))
