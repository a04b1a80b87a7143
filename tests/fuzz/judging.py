"""Whether two models compute the same, by runs of ONNX Runtime alone: nothing of surgeon is asked.

How much rounding may move a result is measured: the original runs again on inputs that differ in their last digits, and
what that moves may differ.  Where the original overflows there is nothing to compare.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

from tests.fuzz.generated import SIZES

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
DRAWS, SLACK = 3, 30.0  # perturbed runs, and how many times the largest move counts as rounding
OTHER_SIZE = 3  # of a symbolic size that `SIZES` does not name
LARGEST_HALF = 1e4  # beyond it a model of half precision may overflow on the way


class Refused(Exception):
    """ONNX Runtime does not load or run a model."""


@dataclass(frozen=True)
class Verdict:
    """kind: "" where both compute the same; otherwise "does not load", "does not run" or "wrong".  text: where."""

    kind: str = ""
    text: str = ""


class Runner:
    """One model under ONNX Runtime without optimisations.  Raises Refused."""

    def __init__(self, model: onnx.ModelProto) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise Refused(str(error).splitlines()[0]) from error

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        options = onnxruntime.RunOptions()
        options.log_severity_level = 4
        names = [one.name for one in self._session.get_outputs()]
        known = {one.name for one in self._session.get_inputs()}
        try:
            return dict(
                zip(names, self._session.run(names, {name: feeds[name] for name in known}, options), strict=True)
            )
        except Exception as error:
            raise Refused(str(error).splitlines()[0]) from error


def inputs(model: onnx.ModelProto, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Inputs of usual size, with zeros and repeated numbers among them, large ones, and ones of other sizes."""
    random = np.random.default_rng(seed)
    stored = {tensor.name for tensor in model.graph.initializer}
    wanted = [value for value in model.graph.input if value.name not in stored]
    for sizes, scale in ((SIZES, 1.0), (SIZES, 8.0), ({"n": 1, "m": 3}, 1.0)):
        feeds = {}
        for value in wanted:
            tensor = value.type.tensor_type
            shape = [dim.dim_value or sizes.get(dim.dim_param, OTHER_SIZE) for dim in tensor.shape.dim]
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
            if dtype.kind == "f":
                array = random.normal(size=shape) * scale
                array = np.where(random.random(shape) < 0.1, 0.0, array)
            elif dtype.kind == "b":
                array = random.random(shape) < 0.5
            else:
                array = random.integers(0 if dtype.kind == "u" else -4, 5, shape) * int(scale)
            feeds[value.name] = np.asarray(array).astype(dtype)
        yield feeds


def has_half(model: onnx.ModelProto) -> bool:
    """Whether some part of a model computes in half precision."""
    text = [
        value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output, *model.graph.value_info)
    ]
    nodes = list(_nodes(model))
    casts = [item.i for node in nodes if node.op_type == "Cast" for item in node.attribute if item.name == "to"]
    stored = [tensor.data_type for tensor in model.graph.initializer]
    held = [item.t.data_type for node in nodes for item in node.attribute if item.type == onnx.AttributeProto.TENSOR]
    return any(dtype in HALVES for dtype in (*text, *casts, *stored, *held))


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        for item in node.attribute:
            for graph in (item.g, *item.graphs):
                waiting += graph.node


def compare(
    original: onnx.ModelProto, made: onnx.ModelProto, names: Mapping[str, str] | None = None, *, half: bool = False
) -> Verdict:
    """Judge a result.

    names: what inputs and outputs of the original are called in the result.  half: it was converted to half precision.
    The original has to run; see `runs`.
    """
    names = names or {}
    first = Runner(original)
    try:
        second = Runner(made)
    except Refused as refused:
        return Verdict("does not load", str(refused))
    is_coarse = half or has_half(original) or has_half(made)
    for place, feeds in enumerate(inputs(original, seed=7)):
        if half and place == 1:  # large numbers overflow in half precision
            continue
        try:
            wanted = first.run(feeds)
            moved = [first.run(_moved(feeds, draw, is_coarse)) for draw in range(DRAWS)]
        except Refused:
            continue  # these sizes are none that the original takes
        try:
            found = second.run({names.get(name, name): array for name, array in feeds.items()})
        except Refused as refused:
            return Verdict("does not run", f"inputs {place}: {refused}")
        for name, array in wanted.items():
            other = found.get(names.get(name, name))
            if other is None:
                continue
            text = _difference(array, other, [one[name] for one in moved], is_coarse)
            if text:
                return Verdict("wrong", f"inputs {place}, output {name}: {text}")
    return Verdict()


def runs(model: onnx.ModelProto) -> bool:
    """Whether a model loads, and runs on the first inputs."""
    try:
        Runner(model).run(next(inputs(model, seed=7)))
    except Refused:
        return False
    return True


def _moved(feeds: Mapping[str, np.ndarray], draw: int, is_coarse: bool) -> dict[str, np.ndarray]:
    random = np.random.default_rng(draw)
    made = {}
    for name, array in feeds.items():
        if array.dtype.kind == "f":
            eps = max(float(np.finfo(array.dtype).eps), 1e-3 if is_coarse else 2e-7)
            moved = array.astype(np.float64) * (1 + 2 * eps * random.uniform(-1, 1, array.shape))
            array = (moved + eps * random.uniform(-1, 1, array.shape)).astype(array.dtype)
        made[name] = array
    return made


def _difference(wanted: object, found: object, moved: list[object], is_coarse: bool) -> str:
    """What differs, "" where nothing does."""
    if not isinstance(wanted, np.ndarray):
        return ""
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return f"{found.dtype}{list(found.shape)} in place of {wanted.dtype}{list(wanted.shape)}"
    same = [one for one in moved if one.shape == wanted.shape]
    if wanted.dtype.kind != "f":
        steady = np.all([one == wanted for one in same], axis=0) if len(same) == len(moved) else np.zeros(wanted.shape)
        wrong = (wanted != found) & steady.astype(bool)
        return f"{int(wrong.sum())} of {wrong.size} elements differ" if wrong.any() else ""
    if len(same) < len(moved):
        return ""
    low, high = wanted.astype(np.float64), found.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        noise = np.max([np.abs(one.astype(np.float64) - low) for one in same], axis=0, initial=0.0)
        finite = np.isfinite(low) & np.isfinite(noise) & (np.abs(low) < (LARGEST_HALF if is_coarse else np.inf))
        if not finite.any():
            return ""
        scale = np.abs(low[finite]).max()
        allowed = SLACK * np.where(finite, noise, 0.0).max() + (3e-2 if is_coarse else 1e-4) * scale + 1e-6
        gap = np.where(finite, np.abs(high - low), 0.0)
    worst = np.nanmax(np.where(np.isnan(gap), np.inf, gap))
    return f"differs by {worst:.3g} where {allowed:.3g} is allowed (scale {scale:.3g})" if worst > allowed else ""
