"""What torch ran: attention calls and rotary embeddings of one forward pass, counted on the torch side alone.

A call of attention is one of a model's `eager_attention_forward`, of transformers' function for another implementation,
of `scaled_dot_product_attention` outside of those, or of a module with `operation = "attention"` (nn.MultiheadAttention
too).  A rotary embedding is one tensor turned: a call of `apply_rotary_pos_emb` turns two.  An attention whose keys
have fewer heads than its queries counts as "grouped" as well.

Loads torch and transformers.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

EAGER, ROTARY = "eager_attention_forward", "apply_rotary_pos_emb"


def count(module: nn.Module, inputs: Sequence[torch.Tensor]) -> Counter[str]:
    """Run the module once and count "attention", "grouped" and "rotary"; no hook and no patch stays behind."""
    calls = _Calls()
    handles = []
    for inner in module.modules():
        kind = "attention" if isinstance(inner, nn.MultiheadAttention) else getattr(inner, "operation", None)
        if kind is not None:
            handles.append(inner.register_forward_pre_hook(partial(calls.enter, kind)))
            handles.append(inner.register_forward_hook(calls.leave, always_call=True))
    try:
        with torch.no_grad(), _patched(calls), calls:
            module(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return +calls.ran


class _Calls(TorchFunctionMode):
    """Counts calls; those made inside of a counted one are part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: Counter[str] = Counter()
        self.inside = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "scaled_dot_product_attention" and not self.inside:
            self.ran["attention"] += 1
            self.ran["grouped"] += args[0].shape[-3] != args[1].shape[-3]
        return func(*args, **(kwargs or {}))

    def enter(self, kind: str, *_: Any) -> None:
        if not self.inside:
            self.ran[kind] += 1
        self.inside += 1

    def leave(self, *_: Any) -> None:
        self.inside -= 1

    def attention(
        self, original: Callable[..., Any], module: Any, query: Any, key: Any, *args: Any, **more: Any
    ) -> Any:
        """A call of the attention of transformers: of the module, queries, keys, and more."""
        self.enter("attention")
        self.ran["grouped"] += query.shape[1] != key.shape[1]
        try:
            return original(module, query, key, *args, **more)
        finally:
            self.leave()

    def rotary(self, original: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """A call that turns queries and keys."""
        self.ran["rotary"] += 2
        return original(*args, **more)


@contextlib.contextmanager
def _patched(calls: _Calls) -> Iterator[None]:
    """transformers with its attention and rotary functions counted, in every model that is loaded."""
    with contextlib.ExitStack() as stack:
        for name, loaded in list(sys.modules.items()):
            if name.startswith("transformers.models.") and ".modeling_" in name:
                for function, counted in ((EAGER, calls.attention), (ROTARY, calls.rotary)):
                    original = vars(loaded).get(function)
                    if original is not None:
                        stack.enter_context(mock.patch.object(loaded, function, partial(counted, original)))
        wrapped = {name: partial(calls.attention, made) for name, made in ALL_ATTENTION_FUNCTIONS.items()}
        stack.enter_context(mock.patch.dict(ALL_ATTENTION_FUNCTIONS._global_mapping, wrapped))
        yield
