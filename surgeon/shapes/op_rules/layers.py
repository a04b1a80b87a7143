"""Labels of the axes of recurrent layers, losses and samplers, whose shapes onnx infers."""

from surgeon.shapes.op_rules.axis_labels import AxisLabels, LabelRule, per_sample, rank, unknown
from surgeon.shapes.tensor_types import NodeView, require


def _recurrent(view: NodeView) -> AxisLabels:
    """Lengths and initial states for each sample, and weights for each column."""
    require(rank(view, 0) == 3)
    samples: list[str | None] = ["time", "batch", "columns"]
    states: list[str | None] = [None, "batch", None]
    if view.attribute("layout", 0):
        samples[:2], states[:2] = ["batch", "time"], ["batch", None]
    labels: dict[int, list[str | None]] = {0: samples, 1: [None, None, "columns"], 4: ["batch"], 5: states, 6: states}
    given = {place: axes for place, axes in labels.items() if view.has(place) and view.shape(place) is not None}
    require(all(rank(view, place) == len(axes) for place, axes in given.items()))
    return AxisLabels(given, mixed=["time", "columns"])


def _loss(view: NodeView) -> AxisLabels:
    """Scores [N, C, ...] and labels [N, ...]."""
    axes = range(rank(view, 0))
    require(rank(view, 1) == len(axes) - 1)
    return AxisLabels({0: axes, 1: [*axes[:1], *axes[2:]]}, mixed=axes)


def _sampled(view: NodeView) -> AxisLabels:
    """One grid for each image."""
    labels = per_sample(view)
    return labels._replace(inputs={**labels.inputs, 1: [0, *labels.inputs[1][1:]]})


LABELS: dict[str, LabelRule] = {
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"), _loss),
    **dict.fromkeys(("ReverseSequence", "TensorScatter", "Range"), unknown),
    "GridSample": _sampled,
}
