"""What torch ran: the operations of one forward pass, counted on the torch side alone.

`count(module, args, kwargs)` runs the module once and returns how often each operation ran, by the names of the rules
("gelu", "layer_norm", "rms_norm", ...).  An operation is a module of a known class (torch's own, those of
transformers, or any module with an attribute `operation = "layer_norm"`), seen by forward hooks, or a call of a
function such as `torch.nn.functional.gelu` outside of such a module, seen by a `TorchFunctionMode`.  So nn.LayerNorm,
which calls F.layer_norm, counts once; of nested known modules the outer one counts.  The exported graph is never asked.

Loads torch, so nothing but what makes exports imports it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

KindOf = Callable[[nn.Module], str | None]

MODULES: tuple[tuple[type[nn.Module], str], ...] = (
    (nn.SiLU, "silu"),
    (nn.Hardswish, "hardswish"),
    (nn.Hardsigmoid, "hardsigmoid"),
    (nn.Mish, "mish"),
    (nn.Softplus, "softplus"),
    (nn.ELU, "elu"),
    (nn.SELU, "selu"),
    (nn.CELU, "celu"),
    (nn.LeakyReLU, "leaky_relu"),
    (nn.PReLU, "prelu"),
    (nn.ReLU6, "relu6"),
    (nn.LayerNorm, "layer_norm"),
    (nn.RMSNorm, "rms_norm"),
    (nn.GroupNorm, "group_norm"),
    (nn.modules.instancenorm._InstanceNorm, "instance_norm"),
    (nn.modules.batchnorm._BatchNorm, "batch_norm"),
)
"""torch's own classes, subclasses included; GELU apart, as its kind is an attribute."""

TRANSFORMERS = {
    "GELUActivation": "gelu",
    "NewGELUActivation": "gelu_tanh",
    "FastGELUActivation": "gelu_tanh",
    "AccurateGELUActivation": "gelu_tanh",
    "GELUTanh": "gelu_tanh",
    "PytorchGELUTanh": "gelu_tanh",
    "QuickGELUActivation": "quick_gelu",
    "SiLUActivation": "silu",
    "MishActivation": "mish",
    "T5LayerNorm": "rms_norm",
}
"""Classes of transformers by name; every other one whose name ends in RMSNorm is an RMS norm."""

FUNCTIONS = {
    "silu": "silu",
    "hardswish": "hardswish",
    "hardsigmoid": "hardsigmoid",
    "mish": "mish",
    "softplus": "softplus",
    "elu": "elu",
    "selu": "selu",
    "celu": "celu",
    "leaky_relu": "leaky_relu",
    "prelu": "prelu",
    "relu6": "relu6",
    "layer_norm": "layer_norm",
    "rms_norm": "rms_norm",
    "group_norm": "group_norm",
    "instance_norm": "instance_norm",
    "batch_norm": "batch_norm",
}
"""Functions by name, so that F.silu, torch.silu and Tensor.silu are one; gelu and normalize depend on arguments."""


def count(
    module: nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    kind: KindOf | None = None,
) -> Counter[str]:
    """Run `module(*args, **kwargs)` once, without gradients, and count the operations that ran, by name.

    kind: the operation that a module is, None for those that are none; `kind_of` unless given.
    """
    calls = _Calls()
    handles = []
    for inner in module.modules():
        operation = (kind or kind_of)(inner)
        if operation is not None:
            handles.append(inner.register_forward_pre_hook(partial(calls.enter, operation)))
            handles.append(inner.register_forward_hook(calls.leave, always_call=True))
    try:
        with torch.no_grad(), calls:
            module(*args, **(kwargs or {}))
    finally:
        for handle in handles:
            handle.remove()
    return calls.ran


def kind_of(module: nn.Module) -> str | None:
    """The operation that a module is as a whole, None where it is none or not known."""
    own = getattr(module, "operation", None)
    if own is not None:
        return str(own)
    name, package = type(module).__name__, type(module).__module__.partition(".")[0]
    if isinstance(module, nn.GELU):
        return "gelu_tanh" if module.approximate == "tanh" else "gelu"
    if package in ("transformers", "diffusers"):
        if name in TRANSFORMERS and package == "transformers":
            return TRANSFORMERS[name]
        if name.endswith("RMSNorm"):
            return "rms_norm"
    return next((kind for known, kind in MODULES if isinstance(module, known)), None)


class _Calls(TorchFunctionMode):
    """Counts modules as they are entered, and calls of functions outside of those modules.

    Inside `__torch_function__` the mode is off, so functions that a counted function calls are not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ran: Counter[str] = Counter()
        self.inside = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        kind = _function_kind(getattr(func, "__name__", "").rstrip("_"), args, kwargs)
        if kind is not None and not self.inside:
            self.ran[kind] += 1
        return func(*args, **kwargs)

    def enter(self, kind: str, *_: Any) -> None:
        if not self.inside:
            self.ran[kind] += 1
        self.inside += 1

    def leave(self, *_: Any) -> None:
        self.inside -= 1


def _function_kind(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    if name == "gelu":
        return "gelu_tanh" if kwargs.get("approximate", "none") == "tanh" else "gelu"
    if name == "normalize":
        power = kwargs.get("p", args[1] if len(args) > 1 else 2.0)
        return "l2_norm" if power == 2 else None
    return FUNCTIONS.get(name)
