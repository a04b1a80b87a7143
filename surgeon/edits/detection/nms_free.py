"""Appends plain boxes and scores, or the top-k boxes, without suppression (as for DETR)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surgeon.edits.append import replace_outputs
from surgeon.edits.detection.head_decoding import DetectorEdit, HeadDecoder
from surgeon.errors import UsageError
from surgeon.ops.builder.graph import Graph, Tensor
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.printed_commands import command, upgrade_to
from surgeon.runtime.kernels.vision.non_max_suppression import best_boxes
from surgeon.shapes.algebra.size_expressions import symbols

GATHER_ND_SINCE = 12  # first opset at which GatherND has batch_dims (ONNX changelog)


@dataclass(frozen=True, slots=True)
class AppendBoxes(DetectorEdit):
    """Replace the detection head's outputs with plain boxes and scores, and remove the exporter's post-processing.

    The new outputs are `boxes` float32[batch, count, 4] as x1, y1, x2, y2 and `scores`
    float32[batch, count, classes], the inputs of a suppression outside the model.

    Raises:
        UsageError: the outputs are not a detector's head.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.AppendBoxes("boxes", "logits", background="first").spelling
        'boxes,scores=logits,background=first'
    """

    flag = "append-boxes"
    output_names: ClassVar[Sequence[str]] = ("boxes", "scores")
    metavar = "OUTPUT[,scores=OUTPUT,head=yolov8,form=cxcywh,background=first]"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Append it."""
        split = self.split(draft)
        makes = self._makes(draft, split)
        replace_outputs(draft, self.sources, makes, self._nodes(split, draft), keeps=False)
        return (f"outputs {', '.join(map(repr, makes))} are {self._what()} of {self.sources_text}",)

    def _what(self) -> str:
        return "the corner boxes and the scores"

    def _nodes(self, split: HeadDecoder, draft: ModelDraft) -> Callable[..., Sequence[Tensor]]:
        def build(g: Graph, *tensors: Tensor) -> Sequence[Tensor]:
            boxes, scores = split.build_nodes(g, tensors)
            return boxes, g.transpose(scores, perm=[0, 2, 1])

        return build

    def _found(self, boxes: np.ndarray, scores: np.ndarray, first: int) -> Sequence[np.ndarray]:
        """Boxes and scores, unchanged."""
        return boxes, scores.transpose(0, 2, 1)


@dataclass(frozen=True, slots=True)
class AppendBestBoxes(AppendBoxes):
    """Replace a detector's raw boxes and scores with the best boxes, without suppression, as for DETR.

    The new outputs are `boxes` float32[batch, most, 4] as x1, y1, x2, y2, `scores` float32[batch, most] and `classes`
    int64[batch, most], sorted by falling score.  There are fewer than `most` if the head has fewer boxes.  The result
    is that of `post_process_object_detection` in transformers, without its threshold and its scaling to the image.

    Raises:
        UsageError: the outputs are not a detector's head, or the number of boxes or classes is dynamic.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.AppendBestBoxes("pred_boxes", "logits_softmax", single=True).spelling
        'pred_boxes,scores=logits_softmax,most=100,single'
    """

    most: int = 100
    """Number of boxes."""
    single: bool = False
    """Use each box only for its best class (DETR, YOLOS), not for each of its classes (RT-DETR, Deformable and
    Conditional DETR).
    """
    flag = "append-best-boxes"
    jumps = True
    output_names: ClassVar[Sequence[str]] = ("boxes", "scores", "classes")
    metavar = "OUTPUT[,scores=OUTPUT,head=yolov8,form=cxcywh,background=last,most=100,single]"

    def __post_init__(self) -> None:
        DetectorEdit.__post_init__(self)
        if self.most < 1:
            raise UsageError(f"most must be 1 or more, not {self.most}.")

    def _what(self) -> str:
        return f"the best {self.most} detections"

    def _nodes(self, split: HeadDecoder, draft: ModelDraft) -> Callable[..., Sequence[Tensor]]:
        count, classes = self._sizes(split, draft)
        if draft.index.main.opset is None or draft.index.main.opset < GATHER_ND_SINCE:
            how = upgrade_to(GATHER_ND_SINCE)
            raise UsageError(f"best-boxes needs opset {GATHER_ND_SINCE}. Raise it first: {how}")
        most = min(self.most, count if self.single else count * classes)

        def build(g: Graph, *tensors: Tensor) -> Sequence[Tensor]:
            boxes, scores = split.build_nodes(g, tensors)
            rows = g.transpose(scores, perm=[0, 2, 1])
            last = np.array([2], np.int64)
            if self.single:
                values, numbers = (g.squeeze(each, last) for each in g.top_k(rows, np.array([1], np.int64), axis=2))
            else:
                values = g.reshape(rows, np.array([0, -1], np.int64))
            values, places = g.top_k(values, np.array([most], np.int64), axis=1)
            if self.single:
                owners, numbers = places, g.gather_nd(numbers, g.unsqueeze(places, last), batch_dims=1)
            else:
                owners = g.div(places, np.array(classes, np.int64))
                numbers = g.sub(places, g.mul(owners, np.array(classes, np.int64)))
            if split.first_class:
                numbers = g.add(numbers, np.array(split.first_class, np.int64))
            return g.gather_nd(boxes, g.unsqueeze(owners, last), batch_dims=1), values, numbers

        return build

    def _sizes(self, split: HeadDecoder, draft: ModelDraft) -> tuple[int, int]:
        """Number of boxes and classes of the head; raises UsageError if they are not fixed."""
        shape = self.shape(draft, self.scores or self.output)
        count, classes = (shape[2], shape[1]) if split.layout in ("columns", "yolov8") else (shape[1], shape[2])
        if not isinstance(count, int) or not isinstance(classes, int):
            free = sorted({name for size in (count, classes) if not isinstance(size, int) for name in symbols(size)})
            how = command("edit", "IN", "OUT", *(word for name in free for word in ("--dim", f"{name}=N")))
            raise UsageError(
                f"{self.sources_text} has dynamic sizes ({count} boxes, {classes} classes). Fix them first: {how}"
            )
        apart = {"yolov8": 4, "yolov5": 5}.get(split.layout, 0)
        return count, classes - apart - bool(split.background)

    def _found(self, boxes: np.ndarray, scores: np.ndarray, first: int) -> Sequence[np.ndarray]:
        """The best boxes."""
        return best_boxes(boxes, scores, self.most, single=self.single, first=first)
