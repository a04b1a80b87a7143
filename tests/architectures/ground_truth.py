"""What torch ran in an architecture: operations by `tests.truth`, and residual sums that a norm reads, by hooks.

An activation that runs again on the same tensor counts once, for both exporters merge what is computed twice: all
ResNet blocks of a UNet take the SiLU of one time embedding.

Loads torch, so only what makes exports imports it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers.models.clip import modeling_clip

from tests import truth

ACTIVATIONS = ("silu", "gelu")
IN_FLOAT = ("GemmaRMSNorm", "Gemma2RMSNorm")
"""Norms whose weight is float32 also where the model is half: no op takes a half sum and such a weight."""
SUMS = ("add", "add_", "__add__", "__iadd__", "__radd__")
SKIPS = {"layer_norm": "skip_layer_norm", "rms_norm": "skip_rms_norm"}


def count(module: nn.Module, inputs: Sequence[torch.Tensor]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """What one forward pass ran, by name: operations, norms of a residual sum, and norms of any sum at all.

    A residual sum has two terms of one shape, sequences of vectors (two or three axes), none of them a parameter, and
    the dtype of the norm's weight.  One of other terms, as where positions are broadcast over a batch, may be taken
    into the norm too, but need not be.
    """
    with _l2_norms() as more:
        ran = truth.count(module, inputs)
    seen = _Seen()
    skips, sums = _skips(module, inputs, seen)
    return ran + more - seen.repeated, skips, sums


@contextlib.contextmanager
def _l2_norms() -> Iterator[Counter[str]]:
    """CLIP divides by a function of its own, which no hook on modules sees; each call of it is one L2 norm."""
    found: Counter[str] = Counter()
    original = modeling_clip._get_vector_norm

    def counted(tensor: torch.Tensor) -> torch.Tensor:
        found["l2_norm"] += 1
        return original(tensor)

    with mock.patch.object(modeling_clip, "_get_vector_norm", counted):
        yield found


class _Seen(TorchFunctionMode):
    """Sums, each with whether it is a residual one, and activations of a tensor that had the same before.

    All of these tensors are kept, so that the identity of each stays its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sums: dict[int, tuple[torch.Tensor, bool]] = {}
        self.repeated: Counter[str] = Counter()
        self._active: dict[tuple[str, int], torch.Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in SUMS and len(args) == 2:
            one, other = args
            if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
                fixed = isinstance(one, nn.Parameter) or isinstance(other, nn.Parameter)
                self.sums[id(result)] = result, one.shape == other.shape and one.ndim in (2, 3) and not fixed
        elif name in ACTIVATIONS:
            self.repeated[name] += (name, id(args[0])) in self._active
            self._active[name, id(args[0])] = args[0]
        return result


def _skips(module: nn.Module, inputs: Sequence[torch.Tensor], seen: _Seen) -> tuple[Counter[str], Counter[str]]:
    """Norms of a residual sum and norms of any sum, by the name of the operation that takes both."""
    skips, sums = Counter[str](), Counter[str]()

    def look(kind: str, norm: nn.Module, args: tuple[Any, ...]) -> None:
        if args and id(args[0]) in seen.sums:
            total, residual = seen.sums[id(args[0])]
            skips[kind] += residual and not (type(norm).__name__ in IN_FLOAT and total.dtype != torch.float32)
            sums[kind] += 1

    handles = []
    for inner in module.modules():
        kind = SKIPS.get(truth.kind_of(inner) or "")
        if kind is not None:
            handles.append(inner.register_forward_pre_hook(lambda norm, args, kind=kind: look(kind, norm, args)))
    with torch.no_grad(), seen:
        module(*inputs)
    for handle in handles:
        handle.remove()
    return +skips, +sums
