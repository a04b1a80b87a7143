"""Words of the vocabulary, in each of their forms: a rule that writes the first, and models that hold the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from surgeon import Graph, Rule
from surgeon.ops.builder import composites
from tests.mutation.building import exported, initializers, rule_of, written

OPSET = 18
CALLS: dict[str, Any] = {
    "square": lambda g, x: g.square(x),
    "square_root": lambda g, x: g.square_root(g.abs(x)),
    "rsqrt": lambda g, x: g.rsqrt(g.add(g.abs(x), 0.5)),
    "over_root": lambda g, x: g.over_root(x, g.add(g.abs(x), 0.5)),
    "sum_over": lambda g, x: g.sum_over(x, [-1]),
    "maximum_over": lambda g, x: g.maximum_over(x, [-1]),
    "mean_over": lambda g, x: g.mean_over(x, [-1]),
    "mean_last": lambda g, x: g.mean_last(x),
    "centred": lambda g, x: g.centred(x, [-1]),
    "variance_over": lambda g, x: g.variance_over(x, [-1]),
    "softplus_of": lambda g, x: g.softplus_of(x),
    "relu_of": lambda g, x: g.relu_of(x),
    "negative_part": lambda g, x: g.negative_part(x),
    "clamp": lambda g, x: g.clamp(x, -1.0, 2.0),
    "by_sign": lambda g, x: g.by_sign(x, x, g.mul(x, 0.25)),
    "length_over": lambda g, x: g.length_over(x, [-1]),
}
"""How each word is called, on what its forms are equal for; those that may only cast have no form of their own."""


class Choosing(Graph):
    """A graph on which any form of a word may be built.

    picks: for each choice in the order in which they are met, which form; the first where nothing is said.
    """

    def __init__(self, **settings: Any) -> None:
        self.picks: dict[int, int] = {}
        self.met: list[int] = []
        super().__init__(**settings)

    def any_of(self, *forms: Any) -> Any:
        """The form that is picked."""
        self.met.append(len(forms))
        return forms[self.picks.get(len(self.met) - 1, 0)]

    def any_tensor(self) -> Any:
        """The shape that puts back the last axis, which was reduced."""
        return self.literal(np.array([0, 3, 1]))

    def any_number(self) -> Any:
        """The size of the last axis."""
        return self.literal(4.0)


def forms(word: str, dtype: str = "float32") -> list[onnx.ModelProto]:
    """Models of a word, one for each form that can be built, each once; the first is what a replacement writes."""
    first = _built(word, dtype, {})
    found: dict[bytes, onnx.ModelProto] = {}
    tries = [{}] + [{at: pick} for at, count in enumerate(first[0].met) for pick in range(1, count)]
    for picks in tries:
        graph, model = _built(word, dtype, picks)
        if model is not None:
            found.setdefault(_shape_of(model), model)
    return list(found.values())


def _shape_of(model: onnx.ModelProto) -> bytes:
    """What tells forms apart: ops, attributes and constants, not names."""
    graph = model.graph
    names: dict[str, str] = {value.name: value.name for value in graph.input}
    reported = []
    constants = initializers(graph)
    for at, node in enumerate(graph.node):
        names.update((name, f"{at}.{place}") for place, name in enumerate(node.output))
        reported.append(
            (node.op_type, [names.get(n, str(constants.get(n))) for n in node.input], [str(a) for a in node.attribute])
        )
    return repr(reported).encode()


def _built(word: str, dtype: str, picks: dict[int, int]) -> tuple[Choosing, onnx.ModelProto | None]:
    graph = Choosing(opset=OPSET)
    graph.picks = picks
    graph.inputs = [gs.Variable("x", dtype=np.dtype(dtype), shape=["n", 3, 4])]
    result = CALLS[word](graph, graph.inputs[0])
    if result.dtype is not None and result.dtype != np.dtype(dtype):
        return graph, None
    model = exported(graph, [graph.identity(result)], dtype)
    loads = all(node.op_type != "Expand" for node in model.graph.node) and _is_valid(model)
    return graph, model if loads else None


def _is_valid(model: onnx.ModelProto) -> bool:
    """Whether the dtypes of the form fit each other: a Cast that may stand somewhere may not stand there alone."""
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def rule_of_word(word: str) -> Rule:
    """A rule that looks for any form of a word and writes the first."""

    def call(g: Any, x: Any) -> Any:
        return CALLS[word](g, x)

    return rule_of(call, call, name=f"word_{word}")


def rule_of_form(word: str, model: onnx.ModelProto) -> Rule:
    """A rule that looks for any form of a word and writes that of a model."""

    def call(g: Any, x: Any) -> Any:
        return CALLS[word](g, x)

    nodes = [node for node in model.graph.node if node.op_type != "Identity"]
    last = next(node.input[0] for node in model.graph.node if node.op_type == "Identity")
    return rule_of(call, written(nodes, initializers(model.graph), ["x"], [last]), name=f"word_{word}")


def all_words() -> tuple[str, ...]:
    """The words that have forms to write."""
    return tuple(name for name in composites.words() if name in CALLS)
