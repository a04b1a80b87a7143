"""The mappings from torch operators to ONNX that the exporters of torch have themselves.

Both registries are private to torch, so only this module reads them.  The dynamo exporter maps overloads at one opset
and converts to others; the TorchScript exporter maps names without overload for each opset.
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
    """Raise UsageError for an unknown exporter, and for an opset that it cannot write."""
    if exporter not in OPSETS:
        raise UsageError(f"Unknown exporter {exporter!r}. Choose {' or '.join(OPSETS)}.")
    opsets = OPSETS[exporter]
    if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int) or opset not in opsets):
        is_low = isinstance(opset, int) and opset < opsets[0]
        other = " or exporter='torchscript'" if exporter == DYNAMO and is_low else ""
        raise UsageError(
            f"The {exporter} exporter writes opsets {opsets[0]} to {opsets[-1]}, not {opset!r}. "
            f"Choose one of these{other}."
        )


def require_module(module: Any) -> None:
    """Raise UsageError for an object that is not a module."""
    if isinstance(module, type) and issubclass(module, torch.nn.Module):
        raise UsageError(f"{module.__name__} is a module class. Create a module: {module.__name__}(...)")
    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"Only an nn.Module can be exported, not {type(module).__name__}. Call it in the forward of a module."
        )


def mapped_opsets(op: Any, exporter: str) -> tuple[int, ...]:
    """The opsets at which an exporter maps an overload without decomposing it; empty if it never does."""
    if exporter == TORCHSCRIPT:
        return torchscript_opsets(str(op._schema.name))
    since = _dynamo_since(op)
    if since is None:
        return ()
    return tuple(opset for opset in OPSETS[DYNAMO] if max(opset, dynamo.LOWEST_NATIVE) >= since)


def torchscript_opsets(name: str) -> tuple[int, ...]:
    """The opsets at which the TorchScript exporter maps `ns::name`, without a trailing `_`."""
    registry = torchscript.symbolics()
    return tuple(opset for opset in OPSETS[TORCHSCRIPT] if registry.is_registered_op(name.rstrip("_"), opset))


@cache
def registry_at(opset: int) -> Any:
    """The dynamo exporter's registry for an opset."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with dynamo.silence_loggers("torch.onnx._internal.exporter._registration"):
        return ONNXRegistry.from_torchlib(max(opset, dynamo.LOWEST_NATIVE))


def _dynamo_since(op: Any) -> int | None:
    """The first opset at which the library of the dynamo exporter has an operator; None if it has none."""
    if registry_at(dynamo.LOWEST_NATIVE).is_registered(op):
        return dynamo.LOWEST_NATIVE
    since: int | None = None
    newest = OPSETS[DYNAMO][-1]
    while found := registry_at(newest).get_decomps(op):  # of several, the newest applies
        since = max(one.opset_introduced for one in found)
        newest = since - 1
    return since


@cache
def decompositions(opset: int) -> dict[Any, Callable[..., Any]]:
    """The decompositions of the dynamo exporter for operators that it does not map at an opset."""
    from torch.onnx._internal.exporter._decomp import create_onnx_friendly_decomposition_table

    mapped = {ones[0].fx_target for ones in registry_at(opset).functions.values() if ones}
    found: dict[Any, Callable[..., Any]] = create_onnx_friendly_decomposition_table(mapped)
    return found


def is_decomposed(op: Any, opset: int) -> bool:
    """Whether the dynamo exporter, or torch before it, decomposes an overload."""
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    return bool(op in decompositions(opset) or composite)
