"""Non-maximum suppression in numpy.

Defined as torchvision's `nms` and ONNX's NonMaxSuppression: boxes of one image and class are taken in falling order of
scores.  A box is dropped if its intersection over union with a kept box is above the limit.
"""

from typing import Any, NamedTuple

import numpy as np


class Detections(NamedTuple):
    """The detections in all images, ordered by image, then class, then falling score."""

    boxes: np.ndarray
    """Corners x1, y1, x2, y2, [count, 4]."""
    scores: np.ndarray
    """Scores, [count]."""
    classes: np.ndarray
    """Class indices, int64[count]."""
    batch: np.ndarray
    """Image indices, int64[count]."""


def overlaps(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of one box and many, given as two opposite corners: [count]; 0 if both are empty."""
    low, lows = (np.minimum(box[..., :2], box[..., 2:4]) for box in (one, others))
    high, highs = (np.maximum(box[..., :2], box[..., 2:4]) for box in (one, others))
    inside = np.clip(np.minimum(high, highs) - np.maximum(low, lows), 0, None).prod(axis=1)
    areas = (high - low).prod(), (highs - lows).prod(axis=-1)
    union = areas[0] + areas[1] - inside
    found: np.ndarray = np.divide(inside, union, out=np.zeros_like(inside), where=union > 0)
    return found


def suppress_boxes(boxes: np.ndarray, scores: np.ndarray, iou: np.float32, least: np.float32, most: int) -> list[int]:
    """The boxes of one image and class to keep, the best first.  boxes: [count, 4].  scores: [count]."""
    kept: list[int] = []
    for place in np.argsort(-scores, kind="stable"):
        if len(kept) == most or not scores[place] > least:
            break
        if not kept or not (overlaps(boxes[place], boxes[kept]) > iou).any():
            kept.append(int(place))
    return kept


def detect(
    boxes: np.ndarray,
    scores: np.ndarray,
    iou: np.float32,
    least: np.float32,
    most: int,
    *,
    agnostic: bool,
    first: int = 0,
) -> Detections:
    """Suppress duplicate detections.

    boxes: [batch, count, 4 or more] as x1, y1, x2, y2; further columns follow their box.  scores: [batch, classes,
    count].  agnostic: boxes of different classes also suppress each other, and each has its best class.  first: the
    number of the first class.
    """
    found: list[tuple[int, int, int]] = []
    ranked = scores.max(axis=1, keepdims=True) if agnostic else scores
    for picture, of_classes in enumerate(ranked):
        for number, row in enumerate(of_classes):
            found += [
                (picture, number, place) for place in suppress_boxes(boxes[picture], row, iou, least=least, most=most)
            ]
    batch, classes, places = np.array(found, np.int64).reshape(-1, 3).T
    values = ranked[batch, classes, places]
    if agnostic:
        classes = scores.argmax(axis=1)[batch, places].astype(np.int64)
    return Detections(boxes[batch, places], values, classes + first, batch)


def to_corners(boxes: np.ndarray) -> np.ndarray:
    """Convert boxes [..., 4] from centre and size to corners x1, y1, x2, y2."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return np.concatenate([centre - half, centre + half], axis=-1)


def efficient_nms(
    boxes: np.ndarray,
    scores: np.ndarray,
    *,
    score_threshold: float = 0.0,
    iou_threshold: float = 0.5,
    max_output_boxes: int = 100,
    background_class: int = -1,
    score_activation: int = 0,
    class_agnostic: int = 0,
    box_coding: int = 0,
    **_: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """TensorRT's EfficientNMS_TRT, according to the README of its plugin.

    boxes: [batch, count, 4].  scores: [batch, count, classes].  Returns num_detections int32[batch, 1], boxes
    [batch, most, 4], scores [batch, most] and classes int32[batch, most].  The detections of each image are in falling
    order of scores, and zeros follow them.
    """
    corners = to_corners(boxes) if box_coding else boxes
    ranked = 1 / (1 + np.exp(-scores)) if score_activation else scores
    if background_class >= 0:
        ranked = np.delete(ranked, background_class, axis=2)
    limits = np.float32(iou_threshold), np.float32(score_threshold)
    found = detect(corners, ranked.transpose(0, 2, 1), *limits, boxes.shape[1], agnostic=bool(class_agnostic))
    if background_class >= 0:  # the classes after it keep their numbers
        found = found._replace(classes=found.classes + (found.classes >= background_class))
    return padded(found, len(boxes), max_output_boxes)


def padded(found: Detections, pictures: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Detections of each image, the best first and at most `most`, in the form of EfficientNMS_TRT."""
    count = np.zeros((pictures, 1), np.int32)
    boxes, scores = np.zeros((pictures, most, 4), found.boxes.dtype), np.zeros((pictures, most), found.scores.dtype)
    classes = np.zeros((pictures, most), np.int32)
    for picture in range(pictures):
        (own,) = np.nonzero(found.batch == picture)
        own = own[np.argsort(-found.scores[own], kind="stable")][:most]
        count[picture] = len(own)
        boxes[picture, : len(own)], scores[picture, : len(own)] = found.boxes[own], found.scores[own]
        classes[picture, : len(own)] = found.classes[own]
    return count, boxes, scores, classes


def best_boxes(
    boxes: np.ndarray, scores: np.ndarray, most: int, *, single: bool, first: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best boxes of each image in falling order of scores; for equal scores, the earlier box and class first.

    boxes: [batch, count, 4].  scores: [batch, classes, count].  single: each box counts only for its best class, else
    for every class.  first: the number of the first class.  Returns boxes [batch, most, 4], scores [batch, most] and
    classes int64[batch, most].
    """
    rows = scores.transpose(0, 2, 1)
    ranked = rows.max(axis=2) if single else rows.reshape(len(rows), -1)
    places = np.argsort(-ranked, axis=1, kind="stable")[:, :most]
    values = np.take_along_axis(ranked, places, axis=1)
    if single:
        owners, classes = places, np.take_along_axis(rows.argmax(axis=2), places, axis=1)
    else:
        owners, classes = np.divmod(places, rows.shape[2])
    return np.take_along_axis(boxes, owners[..., None], axis=1), values, classes.astype(np.int64) + first
