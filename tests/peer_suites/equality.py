"""Whether two models compute the same, by runs of ONNX Runtime alone: nothing of surgeon is asked.

These models may lack what `tests.fuzz.judging` relies on (types of inner tensors, imports of opsets).  So rounding is
measured at the inputs only: what the original's result moves by when its inputs move in their last digits is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx

from tests.fuzz.judging import Refused, Runner

Arrays = Mapping[str, np.ndarray[Any, Any]]
SCALES = (1.0, 0.05, 8.0)
SIZES = ((2, 4, 6, 3), (4, 4, 4, 4), (1, 8, 2, 16))  # of symbolic dims, in the order in which inputs name them
SHARE = {2: 2e-2, 4: 1e-3, 8: 1e-6}  # of an output's largest number may it differ by, by bytes of a number
MOVED, SLACK = 1e-6, 20.0  # what inputs move by, and how many times what that moves may differ
REPEATS = 50  # of the original where outputs differ, to see whether it is random
LARGEST = 1 << 24  # elements of one input


def has_plain_inputs(model: onnx.ModelProto) -> bool:
    """Whether inputs can be made for a model: tensors of a known rank and no strings."""
    types = [value.type.tensor_type for value in model.graph.input if value.type.HasField("tensor_type")]
    known = [item for item in types if item.HasField("shape") and item.elem_type != onnx.TensorProto.STRING]
    return len(known) == len(model.graph.input)


def inputs(model: onnx.ModelProto) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """Inputs of three scales and three sets of sizes; masks of zeros and ones are among the integers."""
    stored = {tensor.name for tensor in model.graph.initializer}
    wanted = [value for value in model.graph.input if value.name not in stored]
    for turn, base in enumerate(SIZES):
        random, names = np.random.default_rng(turn), dict[str, int]()
        for scale in SCALES:
            feeds = {}
            for value in wanted:
                tensor = value.type.tensor_type
                dims = [
                    dim.dim_value
                    if dim.dim_value > 0
                    else names.setdefault(dim.dim_param or f"{value.name}.{at}", base[len(names) % len(base)])
                    for at, dim in enumerate(tensor.shape.dim)
                ]
                if np.prod(dims, dtype=np.int64) > LARGEST:
                    return
                feeds[value.name] = _numbers(random, tensor.elem_type, dims, scale)
            yield feeds


def _numbers(random: np.random.Generator, elem_type: int, dims: list[int], scale: float) -> np.ndarray[Any, Any]:
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    if dtype.kind == "b":
        return np.asarray(random.random(dims) < 0.7)
    if dtype.kind in "iu":
        return np.asarray(random.integers(0, 2 if scale != 1 else 3, dims)).astype(dtype)
    return np.asarray(random.standard_normal(dims) * scale).astype(dtype)


def runs(model: onnx.ModelProto) -> bool:
    """Whether ONNX Runtime runs a model on any of the inputs."""
    try:
        runner = Runner(model)
    except Refused:
        return False
    return any(_answer(runner, feeds) is not None for feeds in inputs(model))


def difference(original: onnx.ModelProto, made: onnx.ModelProto) -> str:
    """Where two models differ, "" where they compute the same.  The original has to run; see `runs`."""
    first = Runner(original)
    try:
        second = Runner(made)
    except Refused as refused:
        return f"does not load: {refused}"
    for number, feeds in enumerate(inputs(original)):
        wanted, found = _answer(first, feeds), _answer(second, feeds)
        if wanted is None:
            continue  # the original does not take these sizes
        if found is None:
            return f"does not run on inputs {number}"
        moved = _answer(first, {name: _moved(array) for name, array in feeds.items()}) or wanted
        for name, array in wanted.items():
            text = _differs(array, found.get(name), moved[name])
            if text and all(_is_same(array, (_answer(first, feeds) or {}).get(name)) for _ in range(REPEATS)):
                return f"inputs {number}, output {name}: {text}"
    return ""


def _is_same(array: Any, other: Any) -> bool:
    return not isinstance(array, np.ndarray) or np.array_equal(array, other, equal_nan=array.dtype.kind == "f")


def _answer(runner: Runner, feeds: Arrays) -> dict[str, np.ndarray[Any, Any]] | None:
    try:
        return runner.run(feeds)
    except (Refused, KeyError):
        return None


def _moved(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind != "f":
        return array
    factor = np.random.default_rng(1).uniform(-1, 1, array.shape)
    return np.asarray(array * (1 + MOVED * factor)).astype(array.dtype)


def _differs(wanted: Any, found: Any, moved: Any) -> str:
    if not isinstance(wanted, np.ndarray):
        return "" if type(wanted) is type(found) else f"a {type(found).__name__}"
    if found is None or found.dtype != wanted.dtype or found.shape != wanted.shape:
        return "another shape or dtype"
    if wanted.dtype.kind not in "fV":
        steady = wanted == moved if moved.shape == wanted.shape else np.zeros(wanted.shape, bool)
        return "other integers" if ((wanted != found) & steady).any() else ""
    low, high, near = (array.astype(np.float64) for array in (wanted, found, moved))
    finite = np.isfinite(low) & np.isfinite(near)
    with np.errstate(invalid="ignore"):
        if not finite.any():
            return ""
        share = SHARE.get(wanted.dtype.itemsize, SHARE[4])
        allowed = share * np.abs(low[finite]).max() + SLACK * np.abs(near - low)[finite].max() + 1e-6
        gap = np.nan_to_num(np.abs(high - low)[finite], nan=np.inf, posinf=np.inf).max()
    return f"differs by {gap:.3g} where {allowed:.3g} is allowed" if gap > allowed else ""
