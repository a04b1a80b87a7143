"""How many numbers the sums of a region have: the order in which they are added up is a kernel's own."""

from collections.abc import Iterator

from surgeon.indexing.scope import Node
from surgeon.sites.cut import Cut
from surgeon.sites.experiment import Shape, Sum

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


def sums(cut: Cut) -> Iterator[Sum]:
    """The sums that the original nodes take, where their shapes are known."""
    for node in cut.before:
        yield from _sums(cut, node)


def picks_by_products(cut: Cut) -> bool:
    """Whether the original nodes take a softmax, and multiply matrices that are both computed: scores of attention."""
    ops = {node.op for node in cut.before}
    if any("Attention" in op for op in ops):
        return True
    constant = cut.origin.constants.is_constant
    return "Softmax" in ops and any(
        not any(constant(cut.origin.scope(node.scope), name) for name in node.inputs[:2])
        for node in cut.before
        if node.op == "MatMul"
    )


def _sums(cut: Cut, node: Node) -> Iterator[Sum]:
    """The sums that one node takes."""
    if node.op in CONVOLUTIONS:
        weight = _shape(cut, node, node.inputs[CONVOLUTIONS[node.op]])
        if weight is not None:
            yield Sum(weight[1:])
    if node.op not in REDUCTIONS and node.op not in NORMS:
        return
    given, made = (_shape(cut, node, name) for name in (node.inputs[0], node.outputs[0]))
    if given is None or made is None:
        return
    if node.op in REDUCTIONS:
        yield Sum(given, made)
        return
    first = NORMS[node.op]
    if isinstance(first, str):
        axis = node.attribute(first)
        first = -1 if axis is None else axis.i
    yield Sum(given[first:])


def _shape(cut: Cut, node: Node, name: str) -> Shape | None:
    return cut.shapes.facts(cut.origin.scope(node.scope), name).shape
