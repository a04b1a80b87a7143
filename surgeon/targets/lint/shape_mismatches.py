"""Shapes that do not fit each other: products, sums, joins and convolutions of known sizes, and declared shapes.

Dynamic dims never count against a node.  Nodes after a misfit are checked with the shape of the corrected node, if
known, and else skipped.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import BROADCASTING
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import Shape, contradict, fixed_sizes, size_text
from surgeon.targets.lint.dtype_conflicts import InferredDtypes, op_text
from surgeon.targets.lint.finding import DiagnosticCollector, node_path

REFUSED = "which onnx.checker refuses where it can tell"


class Misfit(NamedTuple):
    """Shapes that do not fit an operator."""

    reason: str
    """What does not fit, a clause."""
    help: str
    """What helps, a clause."""
    mended: Shape | None = None
    """Output shape of the corrected node, None if unknown."""


Shapes_ = Sequence[Shape | None]


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
        rule = RULES.get(node.op)
        misfit = None
        if rule is not None:
            given = [shapes.facts(node.scope, name).shape if name else None for name in node.inputs]
            misfit = rule(node, given)
        if misfit is None:
            continue
        found.add("shape", op_text(node), misfit.reason, at=node_path(node), node=node, helps=[misfit.help])
        if misfit.mended is None:
            doubtful.update(node.outputs)
        else:
            shapes.add_observed(node.scope, node.outputs[0], dtypes.dtype(node.scope, node.outputs[0]), misfit.mended)  # type: ignore[arg-type]  # sizes may be open here


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
            reason = f"the graph states the shape {before}, and the node makes {after}, {REFUSED}"
            together = f"the graph states other shapes than the node makes, {REFUSED}"
            helps = [f"state {after}"]
            found.add("shape", op_text(node), reason, at=node_path(node), node=node, helps=helps, stops=False,
                      together=together)


def _gemm(node: Node, given: Shapes_) -> Misfit | None:
    left, right = (*given, None, None)[:2]
    for name, shape in zip("AB", (left, right), strict=True):
        if shape is not None and len(shape) != 2:
            return Misfit(f"its input {name} has shape {text(shape)} and must have two axes", "reshape it")
    if left is None or right is None:
        return None
    flips = [_integer(node, name) for name in ("transA", "transB")]
    a, b = _turned(left, flips[0]), _turned(right, flips[1])
    if _differ(a[1], b[0]):
        return _gemm_misfit(left, right, flips)
    bias = given[2] if len(given) > 2 else None
    result = (a[0], b[1])
    if bias is not None and (len(bias) > 2 or not _spreads(bias, result)):
        reason = f"its input C has shape {text(bias)}, which does not spread to the product's {text(result)}"
        return Misfit(reason, f"give C a shape such as {text(result[1:])}", result)
    return None


def _gemm_misfit(left: Shape, right: Shape, flips: Sequence[int]) -> Misfit:
    """A product whose inner sizes differ: which transposition would make them equal."""
    shown = [f"{text(shape)}{' transposed' if flip else ''}" for shape, flip in zip((left, right), flips, strict=True)]
    reason = f"A {shown[0]} times B {shown[1]} do not go together"
    for name, changed in (("transB", (flips[0], 1 - flips[1])), ("transA", (1 - flips[0], flips[1]))):
        a, b = _turned(left, changed[0]), _turned(right, changed[1])
        if a[1] == b[0]:
            old = flips[["transA", "transB"].index(name)]
            return Misfit(
                f"{reason} with {name}={old}", f"write {name}={1 - old}, or transpose the weight", (a[0], b[1])
            )
    a, b = _turned(left, flips[0]), _turned(right, flips[1])
    return Misfit(f"{reason}: {a[1]} is not {b[0]}", "give the weight another shape")


def _matmul(node: Node, given: Shapes_) -> Misfit | None:
    left, right = (*given, None, None)[:2]
    if not left or not right:  # nothing known, or a scalar, which the schema covers
        return None
    inner = right[-2] if len(right) > 1 else right[0]
    if _differ(left[-1], inner):
        turned = len(right) > 1 and left[-1] == right[-1]
        help_ = "transpose the second, or give it another shape" if turned else "give one of them another shape"
        return Misfit(f"{text(left)} times {text(right)} do not go together: {left[-1]} is not {inner}", help_)
    if not _broadcast(left[:-2], right[:-2]):
        return Misfit(f"{text(left)} times {text(right)} do not broadcast", "give one of them another shape")
    return None


def _elementwise(node: Node, given: Shapes_) -> Misfit | None:
    known = [(name, shape) for name, shape in zip(node.inputs, given, strict=True) if shape is not None]
    for place, (name, shape) in enumerate(known):
        for other, beside in known[:place]:
            if not _broadcast(beside, shape):
                reason = f"{text(beside)} and {text(shape)} do not broadcast"
                return Misfit(
                    reason, f"give {other!r} or {name!r} sizes that are equal or 1, counted from the last axis"
                )
    return None


def _concat(node: Node, given: Shapes_) -> Misfit | None:
    known = [shape for shape in given if shape is not None]
    axis = _integer(node, "axis")
    for shape in known[1:]:
        if len(shape) != len(known[0]):
            return Misfit(f"{text(known[0])} and {text(shape)} have not the same number of axes", "reshape one of them")
        joined = axis % len(shape) if shape else 0
        if any(_differ(a, b) for place, (a, b) in enumerate(zip(known[0], shape, strict=True)) if place != joined):
            reason = f"{text(known[0])} and {text(shape)} differ in more than axis {axis}"
            return Misfit(reason, "give them equal sizes in all other axes")
    return None


def _convolution(node: Node, given: Shapes_) -> Misfit | None:
    data, weight = (*given, None, None)[:2]
    if data is None or weight is None:
        return None
    if len(data) != len(weight):
        return Misfit(f"data {text(data)} and weight {text(weight)} have not the same number of axes", "reshape one")
    groups = _integer(node, "group", 1)
    channels = weight[1] * groups if isinstance(weight[1], int) else None
    if len(data) > 1 and channels is not None and _differ(data[1], channels):
        reason = f"data {text(data)} has {data[1]} channels and weight {text(weight)} is for {channels}"
        return Misfit(reason, f"give the weight {data[1]} input channels, or correct group={groups}")
    return None


Rule = Callable[[Node, Shapes_], Misfit | None]
RULES: dict[str, Rule] = {
    **dict.fromkeys(BROADCASTING, _elementwise),
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Concat": _concat,
    "Conv": _convolution,
}


def text(shape: Iterable[object]) -> str:
    """A shape as text."""
    return f"[{', '.join(map(str, shape))}]"


def _integer(node: Node, name: str, default: int = 0) -> int:
    found = node.attribute(name)
    return default if found is None else int(found.i)


def _turned(shape: Shape, flip: int) -> Shape:
    return (shape[1], shape[0]) if flip else shape


def _differ(size: object, other: object) -> bool:
    """Whether two sizes are numbers and not the same."""
    return isinstance(size, int) and isinstance(other, int) and size != other


def _broadcast(shape: Shape, other: Shape) -> bool:
    """Whether two shapes may broadcast (ONNX, Broadcasting); dynamic dims may be anything."""
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return not any(_differ(a, b) and 1 not in (a, b) for a, b in pairs)


def _spreads(shape: Shape, wanted: Shape) -> bool:
    """Whether a shape may broadcast to another, which stays as it is."""
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return not any(_differ(a, b) and a != 1 for a, b in pairs)
