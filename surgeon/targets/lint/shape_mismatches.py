"""Shapes that do not fit each other: products, sums, joins and convolutions of known sizes, and declared shapes.

Dynamic dims never count against a node.  Nodes after a misfit are checked with the shape of the corrected node, if
known, and else skipped.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import BROADCASTING
from surgeon.shapes.op_rules.axis_labels import Axis
from surgeon.shapes.op_rules.rule_table import axis_labels
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import NodeView, Shape, contradict, fixed_sizes, size_text
from surgeon.targets.lint.dtype_conflicts import InferredDtypes, op_text
from surgeon.targets.lint.finding import DiagnosticCollector, node_path

REFUSED = "which onnx.checker may reject"


class Misfit(NamedTuple):
    """Shapes that do not fit an operator."""

    reason: str
    """The mismatch, as a clause."""
    help: str
    """The remedy, as a clause."""
    mended: Shape | None = None
    """Output shape of the corrected node, None if unknown."""


def check_shapes(
    nodes: Sequence[Node], shapes: ShapeInference, dtypes: InferredDtypes, found: DiagnosticCollector
) -> None:
    """Report the nodes, given in file order, whose input shapes do not fit each other."""
    doubtful: set[str] = set()
    for node in nodes:
        if node.scope.function is not None:
            continue
        if doubtful.intersection(node.inputs):
            doubtful.update(node.outputs)
            continue
        describe = _aligned if node.op in BROADCASTING else RULES.get(node.op)
        misfit = None if describe is None else describe(shapes.site(node))
        if misfit is None:
            continue
        found.add("shape", op_text(node), misfit.reason, at=node_path(node), node=node, helps=[misfit.help])
        if misfit.mended is None:
            doubtful.update(node.outputs)
        else:
            shapes.add_observed(node.scope, node.outputs[0], dtypes.dtype(node.scope, node.outputs[0]), misfit.mended)  # type: ignore[arg-type]  # sizes may be open here


class Conflict(NamedTuple):
    """Two axes that an op takes for one, and that have different sizes."""

    one: Axis
    """The axis of the earlier input."""
    other: Axis
    """The axis of the later one."""
    label: Hashable
    """Their label."""


def _conflict(site: NodeView) -> Conflict | None:
    """The conflict of the earliest inputs."""
    labels = axis_labels(site)
    conflicts = [
        Conflict(one, other, label)
        for label, axes in (() if labels is None else labels.axes(site))
        for one, other in combinations(axes, 2)
        if _differ(one.size, other.size)
    ]
    return min(
        conflicts, key=lambda found: (found.other.position, found.one.position, found.label != "inner"), default=None
    )


def check_declared_shapes(index: Index, shapes: ShapeInference, found: DiagnosticCollector) -> None:
    """Report nodes of the main graph whose outputs have another size or rank than the graph declares.

    Symbolic sizes never contradict.  Nodes after a contradiction, or after another fault, are skipped.
    """
    doubtful = {name for one in found if one.kind == "shape" for node in one.where for name in node.outputs}
    graph: Any = index.main.proto
    stated = {value.name: value.type for value in (*graph.value_info, *graph.output)}
    for node in index.main.nodes:
        if doubtful.intersection(node.inputs):
            doubtful.update(node.outputs)
            continue
        for name in () if doubtful.intersection(node.outputs) else node.outputs:
            dims = stated[name].tensor_type.shape.dim if name in stated else ()
            made = shapes.facts(index.main, name).shape if dims else None
            if made is None or not contradict(fixed_sizes(dims), made):
                continue
            doubtful.add(name)
            before = text(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims)
            after = text(map(size_text, made))
            reason = f"the graph declares the shape {before}, but the node produces {after}, {REFUSED}"
            together = f"the graph declares other shapes than the node produces, {REFUSED}"
            helps = [f"declare {after}"]
            found.add(
                "shape",
                op_text(node),
                reason,
                at=node_path(node),
                node=node,
                helps=helps,
                stops=False,
                together=together,
            )


def _gemm(site: NodeView) -> Misfit | None:
    left, right, bias = (site.shape(position) for position in range(3))
    for name, shape in zip("AB", (left, right), strict=True):
        if shape is not None and len(shape) != 2:
            return Misfit(f"its input {name} has shape {text(shape)}, but must have two axes", "reshape it")
    if left is None or right is None:
        return None
    flips = [site.attribute(name, 0) for name in ("transA", "transB")]
    conflict = _conflict(site)
    if conflict is not None and conflict.label == "inner":
        return _gemm_misfit(left, right, flips)
    result = (_turned(left, flips[0])[0], _turned(right, flips[1])[1])
    if bias is not None and (len(bias) > 2 or conflict is not None):
        reason = f"its input C has shape {text(bias)}, which does not broadcast to the product's {text(result)}"
        return Misfit(reason, f"give C a shape such as {text(result[1:])}", result)
    return None


def _gemm_misfit(left: Shape, right: Shape, flips: Sequence[int]) -> Misfit:
    """A product whose inner sizes differ: which transposition would make them equal."""
    shown = [f"{text(shape)}{' transposed' if flip else ''}" for shape, flip in zip((left, right), flips, strict=True)]
    reason = f"A {shown[0]} and B {shown[1]} cannot be multiplied"
    for name, changed in (("transB", (flips[0], 1 - flips[1])), ("transA", (1 - flips[0], flips[1]))):
        a, b = _turned(left, changed[0]), _turned(right, changed[1])
        if a[1] == b[0]:
            old = flips[["transA", "transB"].index(name)]
            return Misfit(f"{reason} with {name}={old}", f"set {name}={1 - old}, or transpose the weight", (a[0], b[1]))
    a, b = _turned(left, flips[0]), _turned(right, flips[1])
    return Misfit(f"{reason}: {a[1]} is not {b[0]}", "give the weight another shape")


def _matmul(site: NodeView) -> Misfit | None:
    left, right, conflict = site.shape(0) or (), site.shape(1) or (), _conflict(site)
    if conflict is None:
        return None
    both = f"{text(left)} and {text(right)}"
    if conflict.label != "inner":
        return Misfit(f"the batch dims of {both} do not broadcast", "give one of them another shape")
    turned = len(right) > 1 and left[-1] == right[-1]
    help_ = "transpose the second, or give it another shape" if turned else "give one of them another shape"
    return Misfit(f"{both} cannot be multiplied: {conflict.one.size} is not {conflict.other.size}", help_)


def _aligned(site: NodeView) -> Misfit | None:
    conflict = _conflict(site)
    if conflict is None:
        return None
    positions = conflict.one.position, conflict.other.position
    shapes = [text(site.shape(position) or ()) for position in positions]
    names = " or ".join(repr(site.inputs[position]) for position in positions)
    help_ = f"give {names} sizes that are equal or 1, aligned at the last axis"
    return Misfit(f"{' and '.join(shapes)} do not broadcast", help_)


def _concat(site: NodeView) -> Misfit | None:
    shapes = [shape for position in range(len(site.inputs)) if (shape := site.shape(position)) is not None]
    other = next((shape for shape in shapes if len(shape) != len(shapes[0])), None)
    if other is not None:
        return Misfit(f"{text(shapes[0])} and {text(other)} have different numbers of axes", "reshape one of them")
    conflict = _conflict(site)
    if conflict is None:
        return None
    one, other = (site.shape(axis.position) or () for axis in (conflict.one, conflict.other))
    reason = f"{text(one)} and {text(other)} differ in more than axis {site.attribute('axis', 0)}"
    return Misfit(reason, "give them equal sizes in all other axes")


def _convolution(site: NodeView) -> Misfit | None:
    data, weight = site.shape(0), site.shape(1)
    if data is None or weight is None:
        return None
    if len(data) != len(weight):
        return Misfit(f"data {text(data)} and weight {text(weight)} have different numbers of axes", "reshape one")
    groups = site.attribute("group", 1)
    channels = weight[1] * groups if isinstance(weight[1], int) else None
    if len(data) > 1 and channels is not None and _differ(data[1], channels):
        reason = f"data {text(data)} has {data[1]} channels, but weight {text(weight)} expects {channels}"
        return Misfit(reason, f"give the weight {data[1]} input channels, or correct group={groups}")
    return None


RULES: dict[str, Callable[[NodeView], Misfit | None]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Concat": _concat,
    "Conv": _convolution,
}


def text(shape: Iterable[object]) -> str:
    """A shape as text."""
    return f"[{', '.join(map(str, shape))}]"


def _turned(shape: Shape, flip: int) -> Shape:
    return (shape[1], shape[0]) if flip else shape


def _differ(size: object, other: object) -> bool:
    """Whether two sizes are numbers and not the same."""
    return isinstance(size, int) and isinstance(other, int) and size != other
