"""How many numbers the sums of a region have: the order in which they are added up is a kernel's own."""

import math
from collections.abc import Iterator

from surgeon.indexing.scope import Node
from surgeon.prove.cut import Cut
from surgeon.prove.sizes import Setting
from surgeon.shaping.symbols import SizeError

REDUCTIONS = frozenset({"ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSumExp"})
# Norms, and from which axis on they take the mean of a tensor: the attribute or, as a number, the axis itself.
NORMS: dict[str, str | int] = {
    "LayerNormalization": "axis",
    "RMSNormalization": "axis",
    "SimplifiedLayerNormalization": "axis",
    "com.microsoft::SkipLayerNormalization": -1,
    "com.microsoft::SkipSimplifiedLayerNormalization": -1,
    "InstanceNormalization": 2,
    "GroupNormalization": 1,
}
# Convolutions, and which input has the weights: [M, C/group, ...], of which each output adds up all but the first axis.
CONVOLUTIONS = {
    "DeformConv": 1,
    "custom::deform_conv2d": 1,
    "torchvision::deform_conv2d": 1,
    "mmcv::MMCVModulatedDeformConv2d": 3,
    "trt.plugins::ModulatedDeformConv2d": 3,
}


def longest_sum(cut: Cut, setting: Setting) -> int:
    """The most numbers that one sum of the original nodes adds up at these sizes; 1 where there is no sum."""
    return max((terms for node in cut.before for terms in _terms(cut, setting, node)), default=1)


def picks_by_products(cut: Cut) -> bool:
    """Whether the original nodes take a softmax, and multiply matrices that are both computed: scores of attention."""
    ops = {node.op for node in cut.before}
    constant = cut.origin.constants.is_constant
    return "Softmax" in ops and any(
        not any(constant(cut.origin.scope(node.scope), name) for name in node.inputs[:2])
        for node in cut.before
        if node.op == "MatMul"
    )


def _terms(cut: Cut, setting: Setting, node: Node) -> Iterator[int]:
    """The numbers in the sums of one node, where its shapes are known."""
    if node.op in CONVOLUTIONS:
        weight = _shape(cut, setting, node, node.inputs[CONVOLUTIONS[node.op]])
        if weight is not None:
            yield max(1, math.prod(weight[1:]))
    if node.op not in REDUCTIONS and node.op not in NORMS:
        return
    shapes = [_shape(cut, setting, node, name) for name in (node.inputs[0], node.outputs[0])]
    given, made = shapes
    if given is None or made is None:
        return
    if node.op in REDUCTIONS:
        yield max(1, math.prod(given) // max(1, math.prod(made)))
        return
    first = NORMS[node.op]
    if isinstance(first, str):
        axis = node.attribute(first)
        first = -1 if axis is None else axis.i
    yield max(1, math.prod(given[first:]))


def _shape(cut: Cut, setting: Setting, node: Node, name: str) -> tuple[int, ...] | None:
    facts = cut.shapes.facts(cut.origin.scope(node.scope), name)
    try:
        return None if facts.shape is None else tuple(setting.size(size) for size in facts.shape)
    except SizeError:
        return None  # it hangs on a size that has no value in this run
