"""A mini-model run node by node: by users' Python implementations where there are some, else by what knows the node."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto

from surgeon.errors import GraphError
from surgeon.implementations import Implementation, available
from surgeon.ops.schema_tables import schema
from surgeon.ops.walking import all_nodes, free_names, graphs_of, nodes_of
from surgeon.running.evaluator import Evaluator, attributes_of
from surgeon.running.formulas import FORMULAS
from surgeon.running.inlining import inlined
from surgeon.running.runtime import Session, SessionError
from surgeon.running.serving import answered
from surgeon.running.worker import Worker

# Operators of lists: a list cannot be the input of a session of one node.
_LISTS = ("Sequence", "Optional", "SplitToSequence", "ConcatFromSequence")


def implemented(model: ModelProto, custom_ops: Sequence[Path | str] = ()) -> list[Implementation]:
    """Return the implementations of the model's operators, each once, in the model's order.

    They come from the Python files among `custom_ops`, else from what is registered.  Raises UsageError for a file that
    cannot be run.
    """
    known = available(custom_ops)
    keys = dict.fromkeys((node.domain, node.op_type) for node in nodes_of(model))
    return [known[key] for key in keys if key in known]


class Implementations:
    """Users' implementations for one model, in one process.  A context manager; leaving it ends the process.

    Raises UsageError for an implementation that cannot be sent to that process.
    """

    def __init__(self, model: ModelProto, found: Sequence[Implementation], limit: float | None = None) -> None:
        for one in found:
            one.require()
        self._found = {(one.domain, one.op): one for one in found}
        self._dtypes = dict(_dtypes(model.graph))
        self._worker = Worker([one for one in found if not one.is_trusted], limit)

    @property
    def names(self) -> str:
        """The operators, as one phrase."""
        return ", ".join(one.name for one in self._found.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.close()

    def table(self) -> dict[tuple[str, str], Callable[[NodeProto, list[Any]], tuple[Any, ...]]]:
        """Return what computes each operator, as an Evaluator takes it."""
        return dict.fromkeys(self._found, self.compute)

    def computes(self, node: NodeProto) -> bool:
        """Whether a node's operator is among them."""
        return (node.domain, node.op_type) in self._found

    def compute(self, node: NodeProto, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a node's implementation.  Raises SessionError."""
        one = self._found[node.domain, node.op_type]
        settings = attributes_of(node)
        results = answered(one, inputs, settings) if one.is_trusted else self._worker.call(one.name, inputs, settings)
        wanted = max((place + 1 for place, name in enumerate(node.output) if name), default=0)
        if len(results) < wanted:
            raise SessionError(
                f"The implementation of {one.name}{one.where} returned {len(results)} of the node's {wanted} "
                "outputs: let it return them all, as a tuple."
            )
        for name, array in zip(node.output, results, strict=False):
            declared = self._dtypes.get(name)
            if declared is not None and array.dtype != declared:
                raise SessionError(
                    f"The implementation of {one.name}{one.where} returned {array.dtype.name} where the model "
                    f"has {declared.name}: let it return that dtype."
                )
        return tuple(results)

    def require_dtypes(self, outputs: Mapping[str, np.ndarray]) -> None:
        """Raise SessionError for an output of another dtype than the model declares: so an implementation made it."""
        for name, array in outputs.items():
            declared = self._dtypes.get(name)
            if declared is not None and array.dtype != declared:
                raise SessionError(
                    f"Output '{name}' came out as {array.dtype.name} where the model has {declared.name}: let the "
                    f"implementation of {self.names} return the dtype that its operator has."
                )


def _dtypes(graph: GraphProto) -> Iterator[tuple[str, np.dtype[Any]]]:
    """Yield the dtype of every tensor that a graph or its bodies declare, by name."""
    for port in (*graph.value_info, *graph.output):
        number = port.type.tensor_type.elem_type
        if number:
            yield port.name, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    for node in graph.node:
        for body in graphs_of(node):
            yield from _dtypes(body)


class Stepwise:
    """One model run node by node.  A context manager; leaving it ends the implementations' process.

    Raises SessionError; with `missing` where a node's operator is known to nobody.
    """

    independent = True

    def __init__(
        self,
        model: ModelProto,
        found: Sequence[Implementation],
        custom_ops: Sequence[Path | str] = (),
        limit: float | None = None,
    ) -> None:
        try:
            self._model = inlined(model)
        except GraphError as error:
            raise SessionError(str(error)) from error
        self._own = Implementations(self._model, found, limit)
        self.name = f"Python implementation of {self._own.names}"
        self._custom_ops = custom_ops
        self._constants = {tensor.name: tensor for tensor in self._model.graph.initializer}
        self._values = {name: onnx.numpy_helper.to_array(tensor) for name, tensor in self._constants.items()}
        self._steps: dict[tuple[Any, ...], Session | Evaluator] = {}
        nodes = list(all_nodes(self._model.graph.node))
        self._require_known(nodes)
        self._whole: Evaluator | None = None
        if any(node.op_type.startswith(_LISTS) for node in nodes):
            self._whole = Evaluator(self._model, self._own.table())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._own.__exit__(kind, error, trace)
        self._steps.clear()

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once.  Raises SessionError."""
        if self._whole is not None:
            return self._whole.run(feeds)
        values: dict[str, np.ndarray] = {**self._values, **feeds}
        for place, node in enumerate(self._model.graph.node):
            inputs = [_value(values, name) if name else None for name in node.input]
            if self._own.computes(node):
                results = dict(zip(node.output, self._own.compute(node, inputs), strict=False))
            else:
                needed = {name: _value(values, name) for name in free_names(node)}
                results = self._step(place, node, needed).run(
                    {name: array for name, array in needed.items() if name not in self._constants}
                )
            values.update(results)
        outputs = {port.name: _value(values, port.name) for port in self._model.graph.output}
        self._own.require_dtypes(outputs)
        return outputs

    def _require_known(self, nodes: Sequence[NodeProto]) -> None:
        opsets = {one.domain: one.version for one in self._model.opset_import}
        for node in nodes:
            key = (node.domain, node.op_type)
            if not self._own.computes(node) and key not in FORMULAS and schema(*key, opsets.get(node.domain)) is None:
                raise SessionError(f"Nothing here knows the operator {node.domain}::{node.op_type}.", missing=True)

    def _step(self, place: int, node: NodeProto, needed: Mapping[str, np.ndarray]) -> Session | Evaluator:
        """Return what runs one node on inputs of these dtypes: made once for each."""
        key = (place, *((name, array.dtype) for name, array in needed.items()))
        if key not in self._steps:
            self._steps[key] = self._opened(self._alone(node, needed), node)
        return self._steps[key]

    def _opened(self, model: ModelProto, node: NodeProto) -> Session | Evaluator:
        if not any(self._own.computes(inner) for body in graphs_of(node) for inner in all_nodes(body.node)):
            try:
                return Session(model, self._custom_ops)
            except SessionError as refused:
                if not refused.missing:
                    raise
        return Evaluator(model, self._own.table())

    def _alone(self, node: NodeProto, needed: Mapping[str, np.ndarray]) -> ModelProto:
        """Return a model of one node, on inputs of the given dtypes and any shape."""
        inputs = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), None)
            for name, array in needed.items()
            if name not in self._constants
        ]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        constants = [self._constants[name] for name in needed if name in self._constants]
        graph = onnx.helper.make_graph([node], "node", inputs, outputs, constants)
        imports = list(self._model.opset_import)
        return onnx.helper.make_model(graph, opset_imports=imports, ir_version=self._model.ir_version)


def _value(values: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in values:
        raise SessionError(f"Nothing makes the tensor '{name}': correct the graph.")
    return values[name]
