"""A model that measures itself: nodes beside its own, which answer in a few numbers what each inner tensor holds.

To fetch the tensors themselves would take as much memory and time as they do.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from surgeon.editing.draft import ModelDraft, graphs_below, names_in
from surgeon.file.beside import written_beside
from surgeon.file.model import Model
from surgeon.file.save import Written

FAR = float("inf")
FIRST_OPSET = 9
"""Of ai.onnx, from which on there is all that gauges are made of."""
_NUMBERS = ("most", "above", "least", "mean", "square")


@dataclass(slots=True)
class Magnitudes:
    """What a tensor held in all runs.

    most: the largest magnitude.  above: the same without what lies far below zero, as fills of masks do.  least: the
    smallest magnitude but zero.  mean, square: of magnitudes, and of their squares, at most.  shape: in the largest.
    """

    most: float = 0.0
    above: float = 0.0
    least: float = FAR
    mean: float = 0.0
    square: float = 0.0
    shape: tuple[int, ...] = ()

    def add(self, numbers: Sequence[float], shape: tuple[int, ...]) -> None:
        """Take in what a run showed, in the order of the fields."""
        most, above, least, mean, square = (FAR if np.isnan(number) else float(number) for number in numbers)
        if most == -FAR or (most == 0 and not np.prod(shape)):
            return
        self.most, self.above, self.least = max(self.most, most), max(self.above, above), min(self.least, least)
        self.mean, self.square = max(self.mean, mean), max(self.square, square)
        if np.prod(shape) >= np.prod(self.shape or (0,)):
            self.shape = shape


class Gauged:
    """The outputs of a gauged model: by tensor, that of its numbers and that of its shape."""

    def __init__(self, outputs: Mapping[str, tuple[str, str]]) -> None:
        self._outputs = outputs

    @property
    def names(self) -> list[str]:
        """Of all outputs."""
        return [name for pair in self._outputs.values() for name in pair]

    def read(self, answer: Mapping[str, np.ndarray], found: dict[str, Magnitudes]) -> dict[str, Sequence[int]]:
        """Take in what a run answered; returns the shapes in it."""
        shapes: dict[str, Sequence[int]] = {}
        for name, (numbers, shape) in self._outputs.items():
            if numbers in answer and shape in answer:
                sizes = shapes[name] = tuple(int(size) for size in answer[shape])
                found.setdefault(name, Magnitudes()).add(answer[numbers].tolist(), sizes)
        return shapes


@contextmanager
def gauging(model: Written, names: Sequence[str], low: float) -> Iterator[tuple[Written, Gauged]]:
    """Give the model with gauges at these floats of its main graph.  low: from where on down a number is a fill.

    Of a file a copy lies beside it until the block is left.
    """
    with Model.open(model) as opened:
        draft = ModelDraft(opened)
        gauged = _add(draft, names, low)
        patch = draft.patch()
        if isinstance(model, Path):
            with written_beside(opened, patch, None) as path:
                yield path, gauged
        else:
            yield patch.to_proto(), gauged


def _add(draft: ModelDraft, names: Sequence[str], low: float) -> Gauged:
    """Put the gauges behind the nodes that make the tensors."""
    graph, taken = draft.graph, {name for graph in graphs_below(draft.graph) for name in names_in(graph)}
    prefix = "gauge"
    while any(name.startswith(f"{prefix}:") for name in taken):
        prefix += "_"
    for name, value in {"zero": 0.0, "inf": FAR, "low": max(low, -3e38)}.items():
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), f"{prefix}:{name}"))
    graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), f"{prefix}:one"))
    wanted, outputs = set(names), dict[str, tuple[str, str]]()
    nodes: list[NodeProto] = []
    for node in graph.node:
        copy = NodeProto()
        copy.CopyFrom(node)
        nodes.append(copy)
        for name in node.output:
            if name in wanted:
                outputs[name] = f"{prefix}:{len(outputs)}:numbers", f"{prefix}:{len(outputs)}:shape"
                nodes += _gauges(prefix, len(outputs), name, *outputs[name])
    del graph.node[:]
    graph.node.extend(nodes)
    ends = [(name, kind) for pair in outputs.values() for name, kind in zip(pair, (1, TensorProto.INT64), strict=True)]
    graph.output.extend(helper.make_tensor_value_info(name, kind, [None]) for name, kind in ends)
    return Gauged(outputs)


def _gauges(prefix: str, number: int, name: str, numbers: str, shape: str) -> Iterator[NodeProto]:
    """The nodes of one gauge: what is no number counts as zero."""

    def of(step: str) -> str:
        return f"{prefix}:{number - 1}:{step}"

    def constant(step: str) -> str:
        return f"{prefix}:{step}"

    yield helper.make_node("Shape", [name], [shape])
    yield helper.make_node("Cast", [name], [of("wide")], to=TensorProto.FLOAT)
    yield helper.make_node("Abs", [of("wide")], [of("any")])
    yield helper.make_node("Less", [of("any"), constant("inf")], [of("usual")])
    yield helper.make_node("Where", [of("usual"), of("any"), constant("zero")], [of("size")])
    yield helper.make_node("Greater", [of("wide"), constant("low")], [of("high")])
    yield helper.make_node("Where", [of("high"), of("size"), constant("zero")], [of("above?")])
    yield helper.make_node("Greater", [of("size"), constant("zero")], [of("some")])
    yield helper.make_node("Where", [of("some"), of("size"), constant("inf")], [of("least?")])
    yield helper.make_node("Mul", [of("size"), of("size")], [of("square?")])
    for step, op, source in (
        ("most", "ReduceMax", "size"),
        ("above", "ReduceMax", "above?"),
        ("least", "ReduceMin", "least?"),
        ("mean", "ReduceMean", "size"),
        ("square", "ReduceMean", "square?"),
    ):
        yield helper.make_node(op, [of(source)], [of(f"{step}!")], keepdims=0)
        yield helper.make_node("Reshape", [of(f"{step}!"), constant("one")], [of(step)])
    yield helper.make_node("Concat", [of(step) for step in _NUMBERS], [numbers], axis=0)

