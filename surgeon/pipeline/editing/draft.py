"""A model being edited, with its index and shapes recomputed on demand."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from onnx import GraphProto, TensorProto, TypeProto, ValueInfoProto

from surgeon.analysis.assumptions.model_assumptions import declare
from surgeon.errors import UsageError
from surgeon.file.editable_model import EditableModel
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.ir.index import Index
from surgeon.ir.index_patch import commit, index_patch
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traversal import nested_graphs, unique_name
from surgeon.pipeline.editing.claim import ModelClaim
from surgeon.pipeline.editing.trial_runs import TrialRuns
from surgeon.pipeline.snapshot import Snapshot
from surgeon.printed_commands import command
from surgeon.shapes.algebra.size_expressions import Size, symbols
from surgeon.shapes.constraints.input_dims import required_inputs
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.non_tensor_types import is_no_tensor, type_of_no_tensor
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import TensorType
from surgeon.text import close_matches, did_you_mean


class ModelDraft(EditableModel):
    """A model being edited.

    Change `skeleton`, then call `changed`.  Until then, the index and shapes describe the earlier state.

    Attributes:
        skeleton: The edited model without the payloads of large tensors; see `surgeon.file.editable_model`.
        claim: The claims about the model before.
        runs: Runs models, for an edit that has to choose between several results; None if nothing may run.
        snapshot: The model before, for a transform that runs it.
        rewritten: An index of the model before, changed by rules; its changes are those of the skeleton.
    """

    def __init__(self, before: Model) -> None:
        super().__init__(before)
        self.claim = ModelClaim()
        self.runs: TrialRuns | None = None
        self.snapshot: Snapshot | None = None
        self.rewritten: Index | None = None
        self._index: Index | None = None

    def _copied(self) -> onnx.ModelProto:
        made = super()._copied()
        if self.rewritten is not None:
            commit(self.rewritten, made, self.without_data)
        return made

    def patch(self, out: Path | None = None, *, whole: bool = True) -> Patch:
        """As for any editable model; if only rules changed the source, directly from the index."""
        if self.rewritten is not None and self.before is self.source:
            return index_patch(self.rewritten)
        return super().patch(out, whole=whole)

    def node_count(self) -> int | None:
        """As for any editable model; the index knows it if only rules changed the source and no function is left."""
        index = self.rewritten
        if index is None or self.before is not self.source or any(index.local):
            return None
        return index.count_nodes()

    @property
    def graph(self) -> GraphProto:
        """The main graph."""
        return self.skeleton.graph

    @property
    def index(self) -> Index:
        """Producers and consumers of each tensor.  Raises GraphError for an invalid model."""
        if self._index is None:
            self._index = Index(self)
            self._index.check()
        return self._index

    @property
    def shapes(self) -> ShapeInference:
        """Shapes and dtypes of all tensors, for any size of the dynamic dims."""
        return shapes_of(self.index)

    def reset(self) -> None:
        """Undo all changes of the skeleton, and claim nothing."""
        super().reset()
        self.claim = ModelClaim()
        self.changed()

    def changed(self) -> None:
        """Discard the index and shapes after a change of `skeleton`."""
        self._index = None

    @property
    def inputs(self) -> list[ValueInfoProto]:
        """Required inputs of the main graph: those without an initializer."""
        return list(required_inputs(self.graph).values())

    def input(self, name: str) -> ValueInfoProto:
        """The input of this name.  Raises UsageError with the nearest names if there is none."""
        return _named(self.graph.input, name, "input")

    def output(self, name: str) -> ValueInfoProto:
        """The output of this name.  Raises UsageError with the nearest names if there is none."""
        return _named(self.graph.output, name, "output")

    def tensors(self) -> list[str]:
        """Tensors of the main graph: inputs, initializers, and outputs of nodes."""
        graph = self.graph
        found = [value.name for value in graph.input] + [tensor.name for tensor in graph.initializer]
        found += [tensor.values.name for tensor in graph.sparse_initializer]
        return list(dict.fromkeys([*found, *(name for node in graph.node for name in node.output if name)]))

    def kind(self, name: str) -> str:
        """The kind of a tensor of the main graph: "output", "input" or "tensor"."""
        if any(value.name == name for value in self.graph.output):
            return "output"
        return "input" if any(value.name == name for value in self.graph.input) else "tensor"

    def require_tensor(self, name: str) -> None:
        """Raise UsageError with the nearest names if the main graph has no tensor of this name."""
        known = self.tensors()
        if name not in known:
            if any(value.name == name for value in self.graph.output):
                raise UsageError(f"No node produces {name!r}, an output of the model. Export the model again.")
            if name and any(name in names_in(body) for body in list(nested_graphs(self.graph))[1:]):
                raise UsageError(f"{name!r} is a tensor in a subgraph. Choose a tensor of the main graph.")
            if known[3:] and not close_matches(name, known):  # too many to list
                raise UsageError(f"The model has no tensor {name!r}. To see its tensors, run: {command('view', 'IN')}")
            raise UsageError(no_such_message("tensor", name, known))

    def require_free(self, name: str) -> None:
        """Raise UsageError if a tensor in any scope has this name."""
        if not name:
            raise UsageError("A tensor cannot have an empty name. Choose a name.")
        if name in self.taken():
            raise UsageError(f"Another tensor of the model is already named {name!r}. Choose another name.")

    def taken(self) -> set[str]:
        """Names of all tensors in the main graph and its bodies."""
        return {name for graph in nested_graphs(self.graph) for name in names_in(graph)}

    def store(self, *tensors: TensorProto) -> None:
        """Add initializers to the main graph; below IR version 4 each is also an input (ONNX IR spec, "Graphs")."""
        self.graph.initializer.extend(tensors)
        if self.skeleton.ir_version < 4:
            stated = [(tensor.name, tensor.data_type, list(tensor.dims)) for tensor in tensors]
            self.graph.input.extend(onnx.helper.make_tensor_value_info(*item) for item in stated)

    def fresh(self, name: str) -> str:
        """An unused tensor name: this one, or this one with a number appended."""
        return unique_name(name, self.taken())

    def told_of(self, name: str) -> TensorType:
        """Dtype and shape of a tensor of the main graph, inferred from its producers without its own declaration."""
        stated = next((value for value in self.graph.value_info if value.name == name), None)
        if stated is None:
            return self.shapes.facts(self.index.main, name)
        kept = TypeProto()
        kept.CopyFrom(stated.type)
        stated.ClearField("type")
        self.changed()
        try:
            return self.shapes.facts(self.index.main, name)
        finally:
            stated.type.CopyFrom(kept)
            self.changed()

    def facts(self, name: str) -> ValueInfoProto:
        """Type of a tensor of the main graph, as an input or output would declare it; a sequence as onnx infers it.

        Raises UsageError if the dtype or the rank is unknown.
        """
        ends, inner = [*self.graph.input, *self.graph.output], self.graph.value_info
        others = [value for value in inner if value.type.WhichOneof("value") not in (None, "tensor_type")]
        stated = next((value for value in (*ends, *others) if value.name == name), None)
        if stated is not None and stated.type.WhichOneof("value") is not None:
            copy = ValueInfoProto()
            copy.CopyFrom(stated)
            return copy
        found = self.shapes.facts(self.index.main, name)
        if found.dtype is None:
            held = type_of_no_tensor(self.skeleton, name)
            if held is not None:
                return ValueInfoProto(name=name, type=held)
            if is_no_tensor(self.skeleton, name):
                raise UsageError(f"{name!r} is a sequence or optional of unknown type. Choose its inputs or elements.")
        if found.dtype is None or found.shape is None:
            raise unknown_type_error(name, found)
        return onnx.helper.make_tensor_value_info(name, found.dtype, [_dimension(size) for size in found.shape])


def declaring(model: Model, assumptions: Iterable[str]) -> Model:
    """A draft of a model that carries these assumptions too; the model itself if it does already.

    Raises UsageError for invalid assumptions, as `declare`.
    """
    draft = ModelDraft(model) if assumptions else None
    return draft if draft is not None and declare(draft.skeleton, assumptions) else model


def _dimension(size: Size) -> int | str | None:
    """A size as a graph declares it; an unknown size has no name."""
    return size if isinstance(size, int) else None if any(name.startswith("?") for name in symbols(size)) else str(size)


def names_in(graph: GraphProto) -> Iterator[str]:
    """Tensor names in all fields of a graph, without its bodies."""
    yield from (value.name for values in (graph.input, graph.output, graph.value_info) for value in values)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        yield from node.output
        yield from node.input


def no_such_message(kind: str, name: str, known: Iterable[str]) -> str:
    """A sentence on an unknown name, with the nearest known ones."""
    return f"The model has no {kind} {name!r}; {did_you_mean(name, known)}"


def unknown_type_error(name: str, known: TensorType) -> UsageError:
    """The error for a tensor whose dtype or rank is unknown."""
    what, dtype = ("dtype", "DTYPE") if known.dtype is None else ("rank", dtype_name(known.dtype))
    sizes = "SIZE,..." if known.shape is None else ",".join(str(_dimension(size) or "?") for size in known.shape)
    state = "--state", f"{name}={dtype}[{sizes}]"
    return UsageError(
        f"The {what} of {name!r} cannot be inferred from the graph. Declare it: {command('edit', 'IN', 'OUT', *state)}"
    )


def _named(values: Iterable[ValueInfoProto], name: str, kind: str) -> ValueInfoProto:
    found = {value.name: value for value in values}
    if name not in found:
        raise UsageError(no_such_message(kind, name, found))
    return found[name]
