"""Appends non-maximum suppression: ONNX NonMaxSuppression or TensorRT EfficientNMS."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto, numpy_helper

from surgeon.edits.append import replace_outputs
from surgeon.edits.detection.head_decoding import DetectorEdit, HeadDecoder
from surgeon.errors import UsageError
from surgeon.ops.builder.graph import Graph, Tensor
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.runtime.kernels.vision.non_max_suppression import detect, padded

PLUGINS = "trt.plugins"  # domain of plugins in ONNX Runtime's TensorRT provider
EFFICIENT_NMS_OP = f"{PLUGINS}::EfficientNMS_TRT"
_MAX_COUNT = 1 << 31


@dataclass(frozen=True, slots=True)
class AppendNms(DetectorEdit):
    """Answer with detections instead of raw boxes and scores: ONNX's NonMaxSuppression behind a detector's head.

    The new outputs are `boxes` float32[count, 4] as x1, y1, x2, y2, `scores` float32[count], `classes` int64[count] and
    `batch` int64[count], the picture that each was found in; by picture, then class, then falling score.  With `extra`
    there is `extras` float32[count, extra] too; other outputs of the model, as prototypes of masks, stay.

    Raises:
        UsageError: the outputs are no such head, or finished detections, the columns behind the boxes may be no scores
            of classes, or a setting is out of its range.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.AppendNms("output0", iou=0.5).spelling
        'output0,iou=0.5,least=0.25,most=100'
    """

    iou: float = 0.45
    """The largest intersection over union at which the lower of two boxes stays."""
    least: float = 0.25
    """The score that a detection has to exceed."""
    most: int = 100
    """How many detections are kept of a class (`agnostic`: in all) in one picture."""
    agnostic: bool = False
    """Whether boxes of different classes drop each other too."""
    tunable: bool = False
    """Whether the two limits are inputs, `iou_threshold` and `score_threshold` float32[1], which have these values
    where they are not given (from IR version 4 on).
    """
    extra: int = 0
    """How many numbers of each box come after its scores and follow it, as the 32 of YOLOv8-seg that weigh prototypes
    of masks.
    """
    flag = "append-nms"
    jumps = True
    output_names: ClassVar[Sequence[str]] = ("boxes", "scores", "classes", "batch")
    metavar = (
        "OUTPUT[,scores=OUTPUT,head=yolov8,form=cxcywh,background=first,iou=0.45,least=0.25,most=100,agnostic,"
        "tunable,extra=32]"
    )

    def __post_init__(self) -> None:
        DetectorEdit.__post_init__(self)
        if not 0 <= self.extra < _MAX_COUNT:
            raise UsageError(f"extra={self.extra} has to be a number of numbers: 0 or more.")
        if not 0 <= self.iou <= 1 or not 0 < self.most < _MAX_COUNT:
            raise UsageError(f"iou={self.iou:g} has to lie between 0 and 1, and most={self.most} above 0.")

    @property
    def all_output_names(self) -> Sequence[str]:
        """Names of the new outputs."""
        return (*self.output_names, *(["extras"] if self.extra else []))

    @property
    def extra_values(self) -> int:
        """Number of values per box after its scores."""
        return self.extra

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Append it."""
        split = self.split(draft)
        makes = self._makes(draft, split)
        stated = self._stated(draft, list(makes))
        limits = self._limits(draft) if self.tunable else ()
        replace_outputs(draft, self.sources, makes, self._nodes(split), keeps=False, stated=stated, settings=limits)
        settings = f"scores above {self.least:g}, overlaps to {self.iou:g}"
        if limits:
            settings += f", as the inputs {' and '.join(map(repr, limits))} say by default"
        return (f"outputs {', '.join(map(repr, makes))} are the detections of {self.sources_text} ({settings})",)

    def _limits(self, draft: ModelDraft) -> Sequence[str]:
        """Add the two limits as inputs with default values; returns their names."""
        if draft.skeleton.ir_version < 4:
            raise UsageError("Below IR version 4 no input has a value of its own: leave out tunable.")
        made = {draft.fresh("iou_threshold"): self.iou, draft.fresh("score_threshold"): self.least}
        draft.store(*(numpy_helper.from_array(np.array([value], np.float32), name) for name, value in made.items()))
        draft.graph.input.extend(onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in made)
        draft.changed()
        return list(made)

    def _nodes(self, split: HeadDecoder) -> Callable[..., Sequence[Tensor]]:
        def build(g: Graph, *tensors: Tensor) -> Sequence[Tensor]:
            boxes, scores = split.build_nodes(g, tensors[: len(self.sources)])
            ranked = scores
            if self.agnostic:
                ranked = _best(g, scores)
            limits = tensors[len(self.sources) :] or [np.array([value], np.float32) for value in (self.iou, self.least)]
            found = g.non_max_suppression(boxes, ranked, np.array([self.most], np.int64), *limits, center_point_box=0)
            batch, classes, places = (g.gather(found, np.array(place, np.int64), axis=1) for place in range(3))
            where = g.gather(found, np.array([0, 2], np.int64), axis=1)
            values = g.gather_nd(ranked, found)
            if self.agnostic:
                classes = g.gather_nd(g.arg_max(scores, axis=1, keepdims=0), where)
            if split.first_class:
                classes = g.add(classes, np.array(split.first_class, np.int64))
            more = [g.gather_nd(split.extras(g, tensors), where)] if self.extra else []
            return g.gather_nd(boxes, where), values, classes, batch, *more

        return build

    def _stated(self, draft: ModelDraft, names: Sequence[str]) -> dict[str, ValueInfoProto]:
        """Types of new outputs that inference does not know."""
        return {}

    def _found(self, boxes: np.ndarray, scores: np.ndarray, first: int) -> Sequence[np.ndarray]:
        """The detections."""
        limits = np.float32(self.iou), np.float32(self.least)  # in the precision of the model
        found = detect(boxes, scores, *limits, self.most, agnostic=self.agnostic, first=first)
        more = [found.boxes[:, 4:]] if self.extra else []
        return found.boxes[:, :4], *found[1:], *more


@dataclass(frozen=True, slots=True)
class AppendEfficientNms(AppendNms):
    """Answer with detections instead of raw boxes and scores: TensorRT's EfficientNMS_TRT behind a detector's head.

    The new outputs are `num_detections` int32[batch, 1], `detection_boxes` float32[batch, most, 4] as x1, y1, x2, y2,
    `detection_scores` float32[batch, most] and `detection_classes` int32[batch, most], the best first.  TensorRT calls
    the plugin deprecated since 10.12; `AppendNms` is what it wants instead.  The settings are those of `AppendNms`, but
    that `most` is of a picture, and that there is neither `tunable` nor `extra`.

    Raises:
        UsageError: the outputs are no such head, or a setting is out of its range or not to be had of the plugin.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.AppendEfficientNms.parse("output0,most=300").most
        300
    """

    flag = "append-efficient-nms"
    metavar = "OUTPUT[,scores=OUTPUT,head=yolov8,form=cxcywh,background=first,iou=0.45,least=0.25,most=100,agnostic]"
    setting_names = ("scores", "head", "form", "background", "iou", "least", "most", "agnostic")
    output_names: ClassVar[Sequence[str]] = (
        "num_detections",
        "detection_boxes",
        "detection_scores",
        "detection_classes",
    )

    def __post_init__(self) -> None:
        AppendNms.__post_init__(self)
        if self.extra:
            raise UsageError("EfficientNMS_TRT does not tell which boxes it keeps, so nothing follows them: use nms.")
        if self.tunable:
            raise UsageError("The limits of EfficientNMS_TRT are attributes, and no inputs: leave out tunable.")

    def _nodes(self, split: HeadDecoder) -> Callable[..., Sequence[Tensor]]:
        def build(g: Graph, *tensors: Tensor) -> Sequence[Tensor]:
            whole = replace(split, background="") if split.first_class else split  # the plugin keeps class numbers
            boxes, scores = whole.build_nodes(g, tensors)
            settings = {
                "score_threshold": self.least,
                "iou_threshold": self.iou,
                "max_output_boxes": self.most,
                "background_class": split.first_class - 1,
                "score_activation": 0,
                "class_agnostic": int(self.agnostic),
                "box_coding": 0,
                "plugin_version": "1",
            }
            rows = g.transpose(scores, perm=[0, 2, 1])
            return list(g.op(EFFICIENT_NMS_OP, boxes, rows, outputs=4, **settings))

        return build

    def _stated(self, draft: ModelDraft, names: Sequence[str]) -> dict[str, ValueInfoProto]:
        batch = draft.facts(self.output).type.tensor_type.shape.dim[0]
        first = batch.dim_value or batch.dim_param or None
        dtypes = (TensorProto.INT32, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT32)
        shapes = ([first, 1], [first, self.most, 4], [first, self.most], [first, self.most])
        types = zip(names, dtypes, shapes, strict=True)
        return {name: onnx.helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in types}

    def _found(self, boxes: np.ndarray, scores: np.ndarray, first: int) -> Sequence[np.ndarray]:
        """The detections in the plugin's format."""
        limits = np.float32(self.iou), np.float32(self.least)
        every = detect(boxes, scores, *limits, boxes.shape[1], agnostic=self.agnostic, first=first)
        return padded(every, len(boxes), self.most)


def _best(g: Graph, scores: Tensor) -> Tensor:
    """The best score of each box over all classes: [batch, 1, count]."""
    return g.top_k(scores, np.array([1], np.int64), axis=1)[0]
