"""Inputs of the exports, as data: roles and shapes with named sizes, and arrays made of them for any sizes.

Needs no torch, so that measuring does not load it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

VOCAB = 99
SIZES = {"batch": 2, "sequence": 7, "past": 4, "target": 5, "memory": 6}
"""The sizes that a model is exported with; `total` is past and sequence together, or past and target."""
NUMBERS = {"fp32": np.float32, "fp16": np.float16}

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Input:
    """An input of a model.

    role: "ids" (words), "types" (0 or 1), "mask" (1 where a word is, 0 at padding), "seen" (the same as booleans),
    "bias" (0 or a low number), or "real".  shape: sizes, by name where they are free: batch, sequence, past, target,
    memory, and total for what came before and what comes now.
    """

    role: str
    shape: tuple[int | str, ...]

    def axes(self) -> dict[int, str]:
        """The free axes by their names."""
        return {place: size for place, size in enumerate(self.shape) if isinstance(size, str)}


Inputs = dict[str, Input]


def text(**roles: str) -> Inputs:
    """Inputs of [batch, sequence]."""
    return {name: Input(role, ("batch", "sequence")) for name, role in roles.items()}


def arrays(
    inputs: Mapping[str, Input], dtype: str, sizes: Mapping[str, int], padding: str = "", seed: int = 0
) -> Arrays:
    """Random arrays for the inputs, dtype "fp32" or "fp16" for real numbers.

    sizes: of the free axes, those that are not given as in SIZES.  padding: "" for none, "left" or "right": each row
    but the first has one word less than the row before.
    """
    known = {**SIZES, **sizes}
    known["total"] = known["past"] + known["sequence"]
    rng = np.random.default_rng(seed)
    found = {}
    for name, one in inputs.items():
        shape = tuple(known[size] if isinstance(size, str) else size for size in one.shape)
        found[name] = _array(one.role, shape, NUMBERS[dtype], padding, rng)
    return found


def _array(role: str, shape: tuple[int, ...], number: type, padding: str, rng: np.random.Generator) -> np.ndarray:
    if role == "ids":
        return rng.integers(3, VOCAB - 2, shape)
    if role == "types":
        return rng.integers(0, 2, shape)
    if role == "mask":
        return _padded(shape, padding).astype(np.int64)
    if role in ("seen", "bias"):
        seen = np.broadcast_to(_padded((shape[0], shape[-1]), padding)[:, None, None], shape).copy()
        return seen if role == "seen" else np.where(seen, rng.normal(size=shape) * 0.5, -1e4).astype(number)
    return rng.normal(size=shape).astype(number)


def _padded(shape: tuple[int, ...], padding: str) -> np.ndarray:
    """True where a word is."""
    rows, columns = shape
    lost = np.minimum(np.arange(rows), columns - 1)[:, None] if padding else np.zeros((rows, 1), np.int64)
    places = np.arange(columns)[None]
    return places >= lost if padding == "left" else places < columns - lost
