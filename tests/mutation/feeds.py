"""Inputs to tell two models apart by: sizes, magnitudes, masks and integers, but not those that proofs use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

Feeds = dict[str, np.ndarray[Any, Any]]
MAX_ELEMENTS = 1 << 18  # elements of one input
BASES = ((2, 3, 5, 4, 6, 7), (3, 2, 4, 5, 7, 6), (4, 4, 4, 4, 4, 4), (2, 8, 8, 2, 8, 8))
ALONE = (1, 8, 131, 514, 0)
NEVER_EMPTY = frozenset(
    ("Attention", "MultiHeadAttention", "GroupQueryAttention", "Einsum", "Conv", "ConvTranspose", "FusedMatMul",
     "MatMul", "RotaryEmbedding", "GroupNorm", "LayerNormalization", "AveragePool", "MaxPool")
)  # fmt: skip
"""Ops some of whose kernels end the process on an empty tensor."""
DIVIDING = frozenset(("Div", "Mod"))
LOWS = (-np.inf, "least", -1e9, -1e4)
KINDS = (
    "normal",
    "exponents",
    "large",
    "middle",
    "tiny",
    "zeros",
    "non_finite",
    "integers",
    "halves",
    "rows",
    "mask",
    "levels",
)
"""Of floats.  middle: from 2e4 to 1e15; halves: whole numbers and a half, where roundings tie; levels: a row, or all,
of one magnitude.
"""
TURNS = {"mask": 3, "normal": 3, "levels": 8}  # of 2 for the others
PLAIN = ("normal", "large", "integers")
"""Kinds that are tried at every set of sizes, the others at the first that runs."""


@dataclass(frozen=True)
class Setting:
    """What one set of inputs is like: sizes by dim, and the kind of values of the floats."""

    sizes: Mapping[str, int]
    kind: str
    seed: int

    def __str__(self) -> str:
        message = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"{self.kind.replace('_', ' ')} values{', ' * bool(message)}{message}, seed {self.seed}"


def settings(model: onnx.ModelProto) -> Iterator[Setting]:
    """Sets of inputs worth trying, plain ones first."""
    names = list(dict.fromkeys(dim for value in _inputs(model) for dim in _dims(value) if isinstance(dim, str)))
    for seed, base in enumerate(BASES):
        sizes = {name: base[at % len(base)] for at, name in enumerate(names)}
        for kind in KINDS if seed < 2 else PLAIN:
            yield from (Setting(sizes, kind, seed * 100 + turn) for turn in range(TURNS.get(kind, 2)))
    is_safe = NEVER_EMPTY.isdisjoint(node.op_type for node in model.graph.node)
    for at, name in enumerate(names):
        for size in ALONE if is_safe else ALONE[:-1]:
            sizes = {other: BASES[0][place % 6] for place, other in enumerate(names)} | {name: size}
            yield Setting(sizes, "normal", 1000 + at)


def make(model: onnx.ModelProto, setting: Setting) -> Feeds | None:
    """One value for each input without an initializer; None where they would be too large."""
    random = np.random.default_rng(setting.seed * 7919 + 17)
    made: Feeds = {}
    ops = {node.op_type for node in model.graph.node}
    divides = not DIVIDING.isdisjoint(ops)
    for value in _inputs(model):
        shape = tuple(dim if isinstance(dim, int) else setting.sizes[dim] for dim in _dims(value))
        if np.prod(shape, dtype=np.int64) > MAX_ELEMENTS:
            return None
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        found = _values(dtype, shape, setting, random)
        if "Loop" in ops and dtype.kind in "iu":  # which has to end, whatever it counts to
            found = np.asarray(np.clip(found, 0 if dtype.kind == "u" else -50, 50), dtype)
        made[value.name] = np.where(found == 0, dtype.type(1), found) if divides and dtype.kind in "iu" else found
    return made


def _inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    given = {item.name for item in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in given]


def _dims(value: onnx.ValueInfoProto) -> list[int | str]:
    dims = value.type.tensor_type.shape.dim
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{value.name}.{at}"
        for at, dim in enumerate(dims)
    ]


def _values(dtype: np.dtype[Any], shape: tuple[int, ...], setting: Setting, random: Any) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        share = (0.5, 0.9, 0.1)[setting.seed % 3]
        found = random.random(shape) < share
        if shape and found.shape[-1] and setting.seed % 2:
            found[..., :1] = True
        return np.asarray(found)
    if dtype.kind in "iu":
        return _integers(dtype, shape, setting, random)
    if dtype.kind not in "fcV":
        return np.full(shape, "a", dtype=object)
    with np.errstate(all="ignore"):
        return np.asarray(_floats(dtype, shape, setting, random)).astype(dtype)


def _integers(dtype: np.dtype[Any], shape: tuple[int, ...], setting: Setting, random: Any) -> np.ndarray[Any, Any]:
    limits = np.iinfo(dtype)
    low, high = ((0, 2), (0, 4), (-2, 2), (-50, 50), (int(limits.min) // 2, int(limits.max) // 2), (1, 3))[
        setting.seed % 6
    ]
    return np.asarray(random.integers(max(low, int(limits.min)), min(high, int(limits.max)), shape)).astype(dtype)


def _floats(dtype: np.dtype[Any], shape: tuple[int, ...], setting: Setting, random: Any) -> np.ndarray[Any, Any]:
    normal, kind = random.standard_normal(shape), setting.kind
    largest = float(np.finfo(dtype).max) if dtype.kind == "f" else 3e38
    sign = np.where(random.random(shape) < 0.5, -1.0, 1.0)
    spread = np.log10(largest)
    if kind == "exponents":
        return np.asarray(sign * 10.0 ** random.uniform(-spread, spread, shape))
    if kind == "levels":
        each = (*shape[:-1], 1) if shape and setting.seed % 2 else (1,) * len(shape)
        return np.asarray(normal * 10.0 ** random.uniform(-spread, spread - 2, each))
    if kind == "zeros":
        return np.asarray(np.where(random.random(shape) < 0.5, 0.0, -0.0))
    if kind == "non_finite":
        return np.asarray(
            np.where(random.random(shape) < 0.15, random.choice([np.inf, -np.inf, np.nan], shape), normal)
        )
    if kind == "mask":
        low = LOWS[setting.seed % len(LOWS)]
        value = -largest if low == "least" else float(low)
        return np.asarray(np.where(random.random(shape) < 0.4, value, 0.0 if len(shape) > 1 else normal))
    if kind == "rows":
        return np.asarray(np.broadcast_to(random.standard_normal((*shape[:-1], 1)) if shape else normal, shape))
    scales = {
        "normal": normal,
        "large": 100 * normal,
        "middle": sign * 10.0 ** random.uniform(4.4, min(14.9, spread), shape),
        "tiny": sign * 10.0 ** random.uniform(-8, -5.1, shape),
        "integers": np.floor(random.uniform(-9, 9, shape)),
        "halves": np.floor(random.uniform(-9, 9, shape)) + 0.5,
    }
    return np.asarray(scales[kind])
