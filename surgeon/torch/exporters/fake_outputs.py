"""Output shapes and dtypes of placeholders for the TorchScript exporter, from the fake kernel of the operator."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from surgeon.ops.torch_schema import Argument, TorchSchema
from surgeon.torch.placeholders.example_inputs import ExampleInputs
from surgeon.torch.placeholders.placeholder import has_own_fake
from surgeon.torch.tensor_conversion import torch_dtype


def set_output_types(
    g: Any,
    op: Any,
    schema: TorchSchema,
    values: Mapping[str, Any],
    outputs: Sequence[Any],
    examples: ExampleInputs,
) -> list[list[int | str | None]]:
    """Set the dtype and shape of each output of a node.

    They come from the trace.  If an input has a dynamic dim, or output sizes may depend on data, the trace is not
    enough: the fake kernel runs on symbolic sizes, and the shapes are returned, since the exporter drops some.
    values: arguments by name, tensors as values of the graph.
    """
    traced = [one.type() for one in g.original_node.outputs()]
    tensors = [one for one in values.values() if _is_value(one)]
    tensors += [one for some in values.values() if isinstance(some, list) for one in some if _is_value(one)]
    if not any(_is_free(_symbols(one.type())) for one in tensors) and not _may_depend_on_data(op):
        for value, kind in zip(outputs, traced, strict=True):
            value.setType(kind)
        return []
    inputs = [(one.debugName(), _symbols(one.type()) or []) for one in g.graph.inputs()]
    sizes = {name: tuple(tensor.shape) for (name, _), (_, tensor) in zip(inputs, examples.tensors, strict=False)}
    shapes = _SymbolicRun(g, sizes).run(op, schema, values)
    for value, kind, shape in zip(outputs, traced, shapes, strict=True):
        value.setType(kind if shape is None else kind.with_sizes(shape))
    names = {
        symbols[axis]: name
        for (_, symbols), axes in zip(inputs, examples.dynamic_axes, strict=False)
        for axis, name in axes.items()
        if axis < len(symbols)
    }
    return [[names.get(size) if (size or 0) < 0 else size for size in shape or ()] for shape in shapes]


def _may_depend_on_data(op: Any) -> bool:
    """Whether output sizes may depend on data: by the tag of the operator, or by a custom fake kernel."""
    return torch.Tag.dynamic_output_shape in op.tags or has_own_fake(op)


def _is_value(one: Any) -> bool:
    return isinstance(one, torch._C.Value)


def _symbols(kind: Any) -> "list[int | None] | None":
    """The sizes of a type, negative for symbols; None if the rank is unknown."""
    if not isinstance(kind, torch._C.TensorType) or kind.dim() is None:
        return None
    return [int(one) for one in kind.symbolic_sizes()]


def _is_free(sizes: "list[int | None] | None") -> bool:
    return sizes is None or any(size is None or size < 0 for size in sizes)


class _SymbolicRun:
    """One run of a fake kernel on tensors with symbolic sizes."""

    def __init__(self, g: Any, examples: Mapping[str, Sequence[int]]) -> None:
        self.env = ShapeEnv(duck_shape=False)
        self.mode = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)
        self.examples = examples
        self.symbols: dict[int, Any] = {}
        self.names: dict[Any, int] = {}
        self.numbers = itertools.count(1)
        self.old = [(one.debugName(), one.type()) for one in g.original_node.inputs()]

    def run(self, op: Any, schema: TorchSchema, values: Mapping[str, Any]) -> list[list[int | None] | None]:
        """The shapes of the outputs; None for unknown sizes."""
        taken = {item.name for item in op._schema.arguments}
        given: dict[str, Any] = {}
        with self.mode:
            for place, item in enumerate(schema.arguments):
                value = self._value(item, values[item.name], place)
                if item.name in taken and (value is not None or not item.has_default):
                    given[item.name] = value
            results = op(**given)
        return [self._shape(one) for one in (results if isinstance(results, (tuple, list)) else (results,))]

    def _value(self, item: Argument, value: Any, place: int) -> Any:
        if isinstance(value, list) and item.is_tensor:
            return [self._tensor(one, ()) if _is_value(one) else None for one in value]
        if _is_value(value):
            name, kind = self.old[place] if place < len(self.old) else ("", None)
            traced = kind.sizes() if isinstance(kind, torch._C.TensorType) else None
            return self._tensor(value, traced or self.examples.get(name, ()))
        if item.base == "ScalarType" and value is not None:
            return torch_dtype(value)
        return value

    def _tensor(self, value: Any, traced: Sequence[int]) -> Any:
        """A fake tensor for a value of the graph.  traced: its sizes in the trace."""
        kind, node = value.type(), value.node()
        sizes = _symbols(kind)
        if node.kind() == "onnx::Constant" and node.hasAttribute("value"):
            return node.t("value")
        if sizes is None:  # traced sizes are valid for weights, not for outputs of unknown ops
            is_weight = node.kind() == "prim::Param" and value.debugName() not in self.examples
            sizes = list(traced) if is_weight else [None] * len(traced)
        made = [
            size if size is not None and size >= 0 else self._symbol(size, traced[axis] if axis < len(traced) else 7)
            for axis, size in enumerate(sizes)
        ]
        return torch.empty(made, dtype=kind.dtype() or torch.float32)

    def _symbol(self, symbol: int | None, hint: int) -> Any:
        """The symbolic size of a symbol of the graph; a new one for None."""
        if symbol in self.symbols:
            return self.symbols[symbol]
        origin = ConstantSource(f"size_{next(self.numbers)}")
        made = self.env.create_symbol(
            hint, source=origin, dynamic_dim=DimDynamic.DYNAMIC, do_not_specialize_zero_one=True
        )
        size = self.env.create_symintnode(made, hint=hint, source=origin)
        if symbol is not None:
            self.symbols[symbol] = size
            self.names[size.node.expr] = symbol
        return size

    def _shape(self, result: Any) -> list[int | None] | None:
        """The sizes of a result: numbers, symbols of the graph, and None for unknown ones."""
        if not isinstance(result, torch.Tensor):
            return None
        names = {self.env.simplify(expr): name for expr, name in self.names.items()}
        return [
            size if isinstance(size, int) else names.get(self.env.simplify(size.node.expr)) for size in result.shape
        ]
