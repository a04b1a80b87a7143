"""Whether two models compute the same, by runs of ONNX Runtime alone: nothing of surgeon is asked.

How much rounding may move a result is measured: the original runs again with its inputs and the result of each op moved
in their last digits, and what that moves may differ.  Where the original overflows there is nothing to compare.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime

from tests.fuzz.generated import SIZES
from tests.fuzz.rounding import has_half, varied

PAIRS, SLACK = 3, 10.0  # pairs of runs that round otherwise, and how many times what they move counts as rounding
MAJORITY = 0.9  # of the elements of an output; what moves these counts as rounding of all
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
    others = [_Variant(original, draw, is_coarse) for draw in range(2 * PAIRS)]
    for place, feeds in enumerate(inputs(original, seed=7)):
        if half and place == 1:  # large numbers overflow in half precision
            continue
        try:
            wanted = first.run(feeds)
        except Refused:
            continue  # these sizes are none that the original takes
        moved = [other.run(feeds) for other in others]
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


class _Variant:
    """The original with other roundings: those of an even number, and of the next one the opposite."""

    def __init__(self, model: onnx.ModelProto, number: int, is_coarse: bool) -> None:
        self._eps = 1e-3 if is_coarse else 2e-7
        self._seed, self._sign = number // 2, 1 - 2 * (number % 2)
        made = varied(model, 2 * self._eps, 1000 * self._seed, mirrored=self._sign < 0)
        self._dtypes = {
            value.name: onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            for value in made.graph.input
        }
        self._runner = Runner(made)

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        random = np.random.default_rng(self._seed)
        made = {}
        for name, array in feeds.items():
            if array.dtype.kind == "f":
                factor, more = (random.uniform(-1, 1, array.shape) for _ in range(2))
                moved = array.astype(np.float64) * (1 + 2 * self._eps * self._sign * factor)
                array = np.asarray(moved + self._eps * self._sign * more, self._dtypes[name])
            made[name] = array
        return self._runner.run(made)


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
        noise = np.max([np.abs(one.astype(np.float64) - low) for one in same], axis=0)
        finite = np.isfinite(low) & np.isfinite(noise) & (np.abs(low) < (LARGEST_HALF if is_coarse else np.inf))
        if not finite.any():
            return ""
        scale = np.abs(low[finite]).max()
        usual = np.quantile(noise[finite], MAJORITY, method="lower")
        allowed = SLACK * np.maximum(noise, usual) + (3e-2 if is_coarse else 1e-4) * scale + 1e-6
        gap = np.where(finite, np.nan_to_num(np.abs(high - low), nan=np.inf, posinf=np.inf), 0.0)
        over = np.where(finite, gap - allowed, 0.0)
    worst = np.unravel_index(np.argmax(over), over.shape)
    if not over[worst] > 0:
        return ""
    return f"differs by {gap[worst]:.3g} where {allowed[worst]:.3g} is allowed (scale {scale:.3g})"
