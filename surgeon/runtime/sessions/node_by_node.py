"""Run a mini-model node by node: with users' Python implementations if there are any, else with another engine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto

from surgeon.errors import GraphError
from surgeon.file.tensors.decoding import decode_tensor
from surgeon.ops.schemas.op_schema import handles_lists, schema
from surgeon.ops.traversal import all_nodes, names_read, nodes_of, subgraphs
from surgeon.runtime.function_inlining import inline_functions
from surgeon.runtime.implementations.implementation import Implementation, available
from surgeon.runtime.implementations.implementation_tasks import answered
from surgeon.runtime.implementations.implementation_worker import ImplementationWorker
from surgeon.runtime.kernels.kernel_registry import REFERENCE_KERNELS
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession, attributes_of


def used_implementations(model: ModelProto, custom_ops: Sequence[Path | str] = ()) -> list[Implementation]:
    """Return the implementations of the model's operators, each once, in the model's order.

    They come from the Python files among `custom_ops`, or else from the registry.  Raises UsageError for a file that
    fails.
    """
    known = available(custom_ops)
    keys = dict.fromkeys((node.domain, node.op_type) for node in nodes_of(model))
    return [known[key] for key in keys if key in known]


class ImplementationSet:
    """The implementations for one model, in one worker.  A context manager; leaving it releases the worker.

    Raises UsageError for an implementation that cannot be pickled.
    """

    def __init__(self, model: ModelProto, found: Sequence[Implementation], limit: float | None = None) -> None:
        for one in found:
            one.require()
        self._found = {(one.domain, one.op): one for one in found}
        self._dtypes = dict(_dtypes(model.graph))
        self._worker = ImplementationWorker([one for one in found if not one.runs_in_process], limit)

    @property
    def names(self) -> str:
        """The names of the operators in one phrase."""
        return ", ".join(one.name for one in self._found.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.close()

    def table(self) -> dict[tuple[str, str], Callable[[NodeProto, list[Any]], tuple[Any, ...]]]:
        """Return a function for each operator, for an `EvaluatorSession`."""
        return dict.fromkeys(self._found, self.compute)

    def computes(self, node: NodeProto) -> bool:
        """Whether it implements a node's operator."""
        return (node.domain, node.op_type) in self._found

    def compute(self, node: NodeProto, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a node's implementation.  Raises SessionError."""
        one = self._found[node.domain, node.op_type]
        settings = attributes_of(node)
        results = (
            answered(one, inputs, settings) if one.runs_in_process else self._worker.call(one.name, inputs, settings)
        )
        wanted = max((place + 1 for place, name in enumerate(node.output) if name), default=0)
        if len(results) < wanted:
            raise SessionError(
                f"The implementation of {one.name}{one.where} returned {len(results)} of the node's {wanted} "
                "outputs. It must return all, as a tuple."
            )
        for name, array in zip(node.output, results, strict=False):
            declared = self._dtypes.get(name)
            if declared is not None and array.dtype != declared:
                raise SessionError(
                    f"The implementation of {one.name}{one.where} returned {array.dtype.name}, but the model "
                    f"declares {declared.name}. It must return that dtype."
                )
        return tuple(results)

    def require_dtypes(self, outputs: Mapping[str, np.ndarray]) -> None:
        """Raise SessionError for an output of an implementation whose dtype differs from the declared one."""
        for name, array in outputs.items():
            declared = self._dtypes.get(name)
            if declared is not None and array.dtype != declared:
                raise SessionError(
                    f"Output '{name}' is {array.dtype.name}, but the model declares {declared.name}. The "
                    f"implementation of {self.names} must return the dtype of its operator."
                )


def _dtypes(graph: GraphProto) -> Iterator[tuple[str, np.dtype[Any]]]:
    """Yield the dtype of every tensor that a graph or its bodies declare, by name."""
    for port in (*graph.value_info, *graph.output):
        number = port.type.tensor_type.elem_type
        if number:
            yield port.name, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    for node in graph.node:
        for body in subgraphs(node):
            yield from _dtypes(body)


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """Nodes that run together."""

    nodes: tuple[NodeProto, ...]
    """The nodes, in order."""
    makes: tuple[str, ...]
    """Tensors that later steps or the graph read."""
    last: tuple[str, ...]
    """Tensors that no later step reads and that can be released."""

    @property
    def needs(self) -> list[str]:
        """Tensors that the nodes read and do not compute."""
        made = {name for node in self.nodes for name in node.output}
        return list(dict.fromkeys(name for node in self.nodes for name in names_read(node) if name not in made))

    def apart(self) -> list["_Step"]:
        """The nodes as separate steps."""
        return [_Step((node,), tuple(name for name in node.output if name), ()) for node in self.nodes]


class NodeByNodeSession:
    """Runs one model node by node.  A context manager; leaving it releases the implementations' worker.

    merges_nodes: consecutive nodes without an implementation run together.  optimised: with ONNX Runtime's
    optimisations.  `outputs` may be set to some of the graph's outputs.

    Raises SessionError, with `is_unsupported` if no engine computes a node's operator.
    """

    is_independent = True

    def __init__(
        self,
        model: ModelProto,
        found: Sequence[Implementation],
        custom_ops: Sequence[Path | str] = (),
        limit: float | None = None,
        *,
        merges_nodes: bool = False,
        optimised: bool = False,
    ) -> None:
        try:
            self._model = inline_functions(model)
        except GraphError as error:
            raise SessionError(str(error)) from error
        graph = self._model.graph
        if graph.sparse_initializer:
            raise SessionError(
                "Sparse initializers cannot be used node by node. Make them dense.", is_unsupported=True
            )
        self._own = ImplementationSet(self._model, found, limit)
        self.name = f"Python implementation of {self._own.names}" if found else "numpy formulas of plugins"
        self._custom_ops, self._optimised = custom_ops, optimised
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._values: dict[str, np.ndarray] = {}  # of constants, decoded at first use
        self.inputs: tuple[str, ...] = tuple(port.name for port in graph.input if port.name not in self._constants)
        self.outputs: tuple[str, ...] = tuple(port.name for port in graph.output)
        nodes = list(all_nodes(graph.node))
        self._require_known(nodes)
        self._steps = self._planned(merges_nodes)
        self._engines: dict[tuple[Any, ...], OrtSession | EvaluatorSession] = {}
        self._divided: set[_Step] = set()  # steps whose nodes do not run together
        self._whole: EvaluatorSession | None = None
        # A session of one node cannot have a list as an input.
        if any(handles_lists(node.domain, node.op_type) for node in nodes):
            self._whole = EvaluatorSession(self._model, self._own.table())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._own.__exit__()
        self._engines.clear()

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once.  Raises SessionError."""
        if self._whole is not None:
            found = self._whole.run(feeds)
            apart = {name for name in self._whole.outputs if name not in self.outputs}
            return {name: array for name, array in found.items() if name not in apart}
        values = dict(feeds)
        for step in self._steps:
            values.update(self._computed(step, values))
            for name in step.last:
                if name not in self.outputs:
                    values.pop(name, None)
        outputs = {name: self._value(values, name) for name in self.outputs}
        self._own.require_dtypes(outputs)
        return outputs

    def _planned(self, merges_nodes: bool) -> list[_Step]:
        """The nodes of the graph as steps, in order."""
        groups: list[list[NodeProto]] = []
        was_plain = False
        for node in self._model.graph.node:
            is_plain = merges_nodes and not self._holds_own(node)
            if is_plain and was_plain:
                groups[-1].append(node)
            else:
                groups.append([node])
            was_plain = is_plain
        steps: list[_Step] = []
        read = {port.name for port in self._model.graph.output}
        for nodes in reversed(groups):
            made = [name for node in nodes for name in node.output if name]
            makes = tuple(name for name in made if name in read) if len(nodes) > 1 else tuple(made)
            needs = {name for node in nodes for name in names_read(node)}
            last = tuple(name for name in needs.union(makes) if name not in read)
            if makes:
                steps.append(_Step(tuple(nodes), makes, last))
                read |= needs
        return steps[::-1]

    def _holds_own(self, node: NodeProto) -> bool:
        """Whether an implementation computes a node, or a node in its bodies."""
        return any(self._own.computes(inner) for inner in all_nodes([node]))

    def _require_known(self, nodes: Sequence[NodeProto]) -> None:
        opsets = {one.domain: one.version for one in self._model.opset_import}
        for node in nodes:
            key = (node.domain, node.op_type)
            if (
                not self._own.computes(node)
                and key not in REFERENCE_KERNELS
                and schema(*key, opsets.get(node.domain)) is None
            ):
                raise SessionError(f"{node.domain}::{node.op_type} has no implementation.", lacks="op")

    def _computed(self, step: _Step, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The results of a step."""
        node = step.nodes[0]
        if self._own.computes(node):
            inputs = [self._value(values, name) if name else None for name in node.input]
            return dict(zip(node.output, self._own.compute(node, inputs), strict=False))
        given = {name: self._value(values, name) for name in step.needs if name not in self._constants}
        if step not in self._divided:
            try:
                return self._engine(step, given).run(given)
            except SessionError as refused:
                if len(step.nodes) == 1 or not refused.is_unsupported:
                    raise
            self._divided.add(step)
        found: dict[str, np.ndarray] = {}  # if one node has no kernel, the others still use theirs
        for single in step.apart():
            found.update(self._computed(single, {**values, **found}))
        return {name: found[name] for name in step.makes}

    def _engine(self, step: _Step, given: Mapping[str, np.ndarray]) -> OrtSession | EvaluatorSession:
        """The session of a step for inputs of these dtypes, opened once."""
        key = (step.makes, len(step.nodes), *((name, array.dtype) for name, array in given.items()))
        if key not in self._engines:
            self._engines[key] = self._opened(step, self._alone(step, given))
        return self._engines[key]

    def _opened(self, step: _Step, model: ModelProto) -> OrtSession | EvaluatorSession:
        if not any(self._holds_own(node) for node in step.nodes):
            try:
                return OrtSession(model, self._custom_ops, optimised=self._optimised)
            except SessionError as refused:
                if not refused.is_unsupported or len(step.nodes) > 1:
                    raise
        return EvaluatorSession(model, self._own.table())

    def _alone(self, step: _Step, given: Mapping[str, np.ndarray]) -> ModelProto:
        """A model of one step, with inputs of the given dtypes and any shape."""
        inputs = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), None)
            for name, array in given.items()
        ]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in step.makes]
        constants = [self._constants[name] for name in step.needs if name in self._constants]
        graph = onnx.helper.make_graph(step.nodes, "step", inputs, outputs=outputs, initializer=constants)
        imports = list(self._model.opset_import)
        return onnx.helper.make_model(graph, opset_imports=imports, ir_version=self._model.ir_version)

    def _value(self, values: Mapping[str, np.ndarray], name: str) -> np.ndarray:
        if name in values:
            return values[name]
        if name in self._constants:
            if name not in self._values:
                self._values[name] = decode_tensor(self._constants[name])
            return self._values[name]
        raise SessionError(f"No node produces the tensor '{name}'.")
