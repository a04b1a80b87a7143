"""Operators, functions and modules that the exporters do not know, for the tests of exports."""

import contextlib
from collections import Counter

import onnx
import pytest
import torch
from torch import Tensor

import surgeon.torch
from surgeon.torch.exporters.torchscript import symbolics
from tests import sampling

EXPORTERS = ("dynamo", "torchscript")
_asked: Counter[str] = Counter()


def both(test):
    """Run a test with each exporter.  That of dynamo takes ten times as long: by default every other test of a file."""
    _asked[test.__module__] += 1
    is_sampled = not sampling.is_whole() and _asked[test.__module__] % 2 == 0
    return pytest.mark.parametrize("exporter", EXPORTERS[1:] if is_sampled else EXPORTERS)(test)


@contextlib.contextmanager
def registered(name, symbolic, opset):
    """A symbolic of torch's own registry inside a `with`; after it nothing is left of a name that torch did not know.

    Torch itself leaves the name without functions, at which the export of other tests breaks.
    """
    torch.onnx.register_custom_op_symbolic(name, symbolic, opset)
    try:
        yield
    finally:
        torch.onnx.unregister_custom_op_symbolic(name, opset)
        if not symbolics().get_function_group(name)._functions:
            del symbolics()._registry[name]


@torch.library.custom_op("exports::addandround", mutates_args=())
def addandround(x: Tensor, y: Tensor) -> Tensor:
    """round(x + y)."""
    return torch.round(x + y)


@addandround.register_fake
def _(x, y):
    return torch.empty_like(x)


@torch.library.custom_op("exports::blind", mutates_args=())
def blind(x: Tensor) -> Tensor:
    """An operator without a fake kernel."""
    return x + 1


@torch.library.custom_op("exports::noise", mutates_args=())
def noise(x: Tensor) -> Tensor:
    """Another result at every call, though no tag says so."""
    return torch.rand_like(x)


@noise.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("exports::rows", mutates_args=())
def rows(x: Tensor, scales: list[float], name: str, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Two results, the second of another rank and dtype."""
    return x * scales[0] + (0 if mask is None else mask), (x.sum(1) * scales[1]).to(torch.int64)


@rows.register_fake
def _(x, scales, name, mask=None):
    return torch.empty_like(x), x.new_empty(x.shape[0], dtype=torch.int64)


class MyAdd(torch.autograd.Function):
    """times · a + b, with the symbolic that only one exporter knows."""

    @staticmethod
    def forward(ctx, a, b, times=2):
        return times * a + b

    @staticmethod
    def symbolic(g, a, b, times):
        return g.op("elsewhere::Old", a, b, times_i=times)


class NewStyle(torch.autograd.Function):
    """a · b, in the style with setup_context, and without a symbolic."""

    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


class Block(torch.nn.Module):
    """A linear layer with a buffer, an optional scale and mask, and nested results."""

    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)
        self.register_buffer("shift", torch.arange(float(size)))

    def forward(self, x, *, scale=None, mask=None):
        y = self.linear(x) + self.shift
        if scale is not None:
            y = y * scale
        if mask is not None:
            y = y * mask
        return y, (None, y.sum(-1))


class Two(torch.nn.Module):
    """Two blocks, one after the other, called in different ways."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Block(3), Block(3)

    def forward(self, x):
        y, (_, s) = self.first(x, scale=2.0)
        z, (_, t) = self.second(y, mask=x)
        return z + s[..., None], t


def module(function, names="x"):
    """A module of which `forward` has these parameters."""
    inputs = ", ".join(names.split())
    scope = {"function": function}
    exec(f"def forward(self, {inputs}): return function({inputs})", scope)
    return type("Module", (torch.nn.Module,), {"forward": scope["forward"]})()


def nodes(exported, domain=None):
    """The nodes, or those of one domain."""
    return [node for node in exported.model.graph.node if domain is None or node.domain == domain]


def attributes(node):
    """The attributes of a node as Python values."""
    found = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}


def types(exported):
    """(dtype, sizes) of each tensor that the model says something of."""
    graph = exported.model.graph
    return {
        info.name: (
            onnx.helper.tensor_dtype_to_string(info.type.tensor_type.elem_type).partition(".")[2],
            tuple(dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim),
        )
        for info in (*graph.input, *graph.value_info, *graph.output)
    }


def versions(exported):
    """The versions of the domains that the model imports."""
    return {item.domain: item.version for item in exported.model.opset_import}


def export(function, names, args, exporter, **options):
    """Export a function by one exporter."""
    made = function if isinstance(function, torch.nn.Module) else module(function, names)
    return surgeon.torch.export(made, args, exporter=exporter, **options)
