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
    """Replace a detector's raw boxes and scores with detections, using ONNX's NonMaxSuppression.

    The new outputs are `boxes` float32[count, 4] as x1, y1, x2, y2, `scores` float32[count], `classes` int64[count] and
    `batch` int64[count], the image of each detection.  They are sorted by image, then by class, then by falling score.
    With `extra` there is also `extras` float32[count, extra].  Other outputs, such as mask prototypes, stay.

    Raises:
        UsageError: the outputs are not a detector's head, the columns after the boxes may not be class scores, or a
            setting is out of range.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.AppendNms("output0", iou=0.5).spelling
        'output0,iou=0.5,least=0.25,most=100'
    """

    iou: float = 0.45
    """A box is removed if its intersection over union with a better box is larger than this."""
    least: float = 0.25
    """The score that a detection must exceed."""
    most: int = 100
    """Maximum number of detections for each class of an image (`agnostic`: for each image)."""
    agnostic: bool = False
    """Let boxes of different classes suppress each other too."""
    tunable: bool = False
    """Add the two limits as inputs, `iou_threshold` and `score_threshold` float32[1], with these values as defaults.
    This needs IR version 4.
    """
    extra: int = 0
    """Number of values after the scores of each box, which become outputs too: 32 mask coefficients for YOLOv8-seg."""
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
            raise UsageError(f"extra must be 0 or more, not {self.extra}.")
        if not 0 <= self.iou <= 1 or not 0 < self.most < _MAX_COUNT:
            raise UsageError(f"iou must be between 0 and 1 (here {self.iou:g}), and most above 0 (here {self.most}).")

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
        settings = f"scores above {self.least:g}, overlaps up to {self.iou:g}"
        if limits:
            settings += f", as defaults of the inputs {' and '.join(map(repr, limits))}"
        return (f"outputs {', '.join(map(repr, makes))} are the detections of {self.sources_text} ({settings})",)

    def _limits(self, draft: ModelDraft) -> Sequence[str]:
        """Add the two limits as inputs with default values; returns their names."""
        if draft.skeleton.ir_version < 4:
            raise UsageError("Before IR version 4, inputs cannot have default values. Leave out tunable.")
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
    """Replace a detector's raw boxes and scores with detections, using TensorRT's EfficientNMS_TRT.

    The new outputs are `num_detections` int32[batch, 1], `detection_boxes` float32[batch, most, 4] as x1, y1, x2, y2,
    `detection_scores` float32[batch, most] and `detection_classes` int32[batch, most], the best first.  TensorRT
    deprecated the plugin in 10.12 and recommends the op that `AppendNms` inserts.  The settings are those of
    `AppendNms`, but `most` is the number for each image, and `tunable` and `extra` do not exist.

    Raises:
        UsageError: the outputs are not a detector's head, or a setting is out of range or unknown to the plugin.

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
            raise UsageError("EfficientNMS_TRT does not return indices of boxes, which extra needs. Use nms.")
        if self.tunable:
            raise UsageError("The limits of EfficientNMS_TRT are attributes, not inputs. Leave out tunable.")

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
