"""What torch's exporters can write by themselves: the middle link of torch op -> mapping -> ONNX op.

Both registries are private to torch, so they are asked here alone.  The exporter through dynamo maps single overloads
at one opset, and converts to others; the TorchScript exporter maps names without overload, by opset.
"""

from collections.abc import Callable
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
import torch.onnx

from surgeon.errors import UsageError
from surgeon.torch.exporters import dynamo, torchscript

DYNAMO, TORCHSCRIPT = "dynamo", "torchscript"
OPSETS = MappingProxyType(
    {
        name: range(exporter.opsets()[0], exporter.opsets()[1] + 1)
        for name, exporter in ((DYNAMO, dynamo), (TORCHSCRIPT, torchscript))
    }
)
"""The opsets that each exporter writes."""
DEFAULT_OPSET = 20


def require_exporter(exporter: str, opset: int | None) -> None:
    """Raise UsageError for an exporter that there is not, and an opset that it cannot write."""
    if exporter not in OPSETS:
        raise UsageError(f"There is no exporter {exporter!r}; choose one of {', '.join(OPSETS)}.")
    opsets = OPSETS[exporter]
    if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int) or opset not in opsets):
        is_low = isinstance(opset, int) and opset < opsets[0]
        other = " or exporter='torchscript'" if exporter == DYNAMO and is_low else ""
        raise UsageError(
            f"The {exporter} exporter writes opsets {opsets[0]} to {opsets[-1]}, not {opset!r}; "
            f"ask for one of these{other}."
        )


def require_module(module: Any) -> None:
    """Raise UsageError for what is no module."""
    if isinstance(module, type) and issubclass(module, torch.nn.Module):
        raise UsageError(f"{module.__name__} is a class of modules; make one of it: {module.__name__}(...).")
    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"An nn.Module is exported, and this is {type(module).__name__}; wrap it in a module's forward."
        )


def mapped_opsets(op: Any, exporter: str) -> tuple[int, ...]:
    """The opsets at which an exporter maps an overload by itself, without taking it apart; none if it never does."""
    if exporter == TORCHSCRIPT:
        return torchscript_opsets(str(op._schema.name))
    since = _dynamo_since(op)
    return () if since is None else tuple(opset for opset in OPSETS[DYNAMO] if max(opset, dynamo.OWN) >= since)


def torchscript_opsets(name: str) -> tuple[int, ...]:
    """The opsets at which the TorchScript exporter maps `ns::name`; in-place operators are those without `_`."""
    registry = torchscript.symbolics()
    return tuple(opset for opset in OPSETS[TORCHSCRIPT] if registry.is_registered_op(name.rstrip("_"), opset))


@cache
def registry_at(opset: int) -> Any:
    """The dynamo exporter's registry for an opset."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with dynamo.silence_loggers("torch.onnx._internal.exporter._registration"):
        return ONNXRegistry.from_torchlib(max(opset, dynamo.OWN))


def _dynamo_since(op: Any) -> int | None:
    """The opset from which the dynamo exporter's library has an operator; the newer ones are few."""
    if registry_at(dynamo.OWN).is_registered(op):
        return dynamo.OWN
    since: int | None = None
    newest = OPSETS[DYNAMO][-1]
    while found := registry_at(newest).get_decomps(op):  # of several it holds the last introduced
        since = max(one.opset_introduced for one in found)
        newest = since - 1
    return since


@cache
def decompositions(opset: int) -> dict[Any, Callable[..., Any]]:
    """How the dynamo exporter takes operators apart that it does not map at an opset."""
    from torch.onnx._internal.exporter._decomp import create_onnx_friendly_decomposition_table

    mapped = {ones[0].fx_target for ones in registry_at(opset).functions.values() if ones}
    found: dict[Any, Callable[..., Any]] = create_onnx_friendly_decomposition_table(mapped)
    return found


def is_decomposed(op: Any, opset: int) -> bool:
    """Whether the dynamo exporter takes an overload apart, or torch does before the exporter sees it."""
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    return bool(op in decompositions(opset) or composite)
