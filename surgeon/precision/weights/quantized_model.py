"""Quantised copies of one model; kept nodes are given by their addresses, because each copy is built anew."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from surgeon.file.model import Model
from surgeon.file.save import OutputModel
from surgeon.ops.traits.weight_ops import LOOKUP
from surgeon.ops.traversal import imports_of, unique_name
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.prune import FIRST_IR_WITH_DEFAULTS, delete_slots, filter_repeated
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.precision.weights.weight_layers import (
    QuantizableWeight,
    WeightUse,
    bias_of,
    quantizable_weights,
)
from surgeon.precision.weights.weight_rounding import BlockRounding, Part, WeightLoss
from surgeon.precision.writing.draft_file import draft_as_file

DOMAIN = "com.microsoft"


@dataclass(slots=True)
class QuantizedNode:
    """A node that reads integers."""

    address: NodeAddress
    """Its address in the model before."""
    name: str
    """Its name; without one, the name of its first output."""
    op: str
    """Its operator before."""
    output: str
    """The name of its output."""
    is_main: bool
    """Whether it is in the main graph."""
    weight: str
    """Name of the weight before."""
    sizes: tuple[int, int]
    """Rows and columns of the weight; the columns are divided into blocks."""
    dtype: int
    """Dtype of the weight before, as `TensorProto.DataType`."""
    loss: WeightLoss
    """Error of the weight."""


@dataclass(slots=True)
class QuantizedModel:
    """A quantised model that is not written yet."""

    draft: ModelDraft
    """The copy."""
    nodes: list[QuantizedNode] = field(default_factory=list)
    """The nodes that read integers."""
    kept: list[tuple[NodeAddress, str, str, str]] = field(default_factory=list)
    """Address, name and op of the nodes that keep a weight of floats, and the reason."""
    rows: set[int] = field(default_factory=set)
    """Number of rows of the tables that are looked up: the sizes of vocabularies."""


class QuantizedModelBuilder:
    """One model, and how its weights are rounded."""

    def __init__(self, model: Model, rounding: BlockRounding, output: Path | None) -> None:
        self._model, self._rounding, self._output = model, rounding, output

    def build(self, kept: Mapping[NodeAddress, str], *, plain: bool = False, restored: bool = False) -> QuantizedModel:
        """A quantised copy.

        kept: reasons for nodes that keep their weights.  plain: let kernels not round activations.  restored: instead
        of integers, store the floats that these represent.
        """
        made = QuantizedModel(ModelDraft(self._model))
        weights = list(quantizable_weights(made.draft.index, self._rounding, kept))
        writer = _WeightWriter(made.draft, self._rounding, 0 if plain else self._rounding.accuracy_level)
        for weight in weights:
            made.kept += [(at, node.label, node.op, reason) for at, (node, reason) in weight.kept.items()]
            readers = [*(use.node for use in weight.uses), *(node for node, _ in weight.kept.values())]
            made.rows |= {int(weight.tensor.dims[0]) for node in readers if node.op == LOOKUP}
            if restored and weight.uses:
                part = weight.part("restored", self._rounding)
                old = TensorProto.FromString(weight.tensor.SerializeToString())
                weight.tensor.CopyFrom(made.draft.derive(old, part.tensor(weight.tensor.name), part))
            elif weight.uses:
                made.nodes += writer.write(weight)
        made.nodes.sort(key=lambda node: node.address)
        if made.nodes or restored:
            writer.finish(weights if not restored else ())
        return made

    def as_file(self, built: QuantizedModel) -> AbstractContextManager[OutputModel]:
        """A copy as a runtime reads it: a file next to the source if that is a file."""
        return draft_as_file(built.draft, self._output)


class _WeightWriter:
    """Replaces nodes of a draft; its index describes the state before."""

    def __init__(self, draft: ModelDraft, rounding: BlockRounding, accuracy_level: int) -> None:
        self._draft, self._rounding, self._level = draft, rounding, accuracy_level
        self._index, self._taken = draft.index, draft.taken()
        self._stored: list[TensorProto] = []
        self._first: list[NodeProto] = []
    def write(self, weight: QuantizableWeight) -> Iterator[QuantizedNode]:
        """Let the nodes that read a weight read its integers."""
        rows, columns = weight.sizes
        is_table = [use.node.op == LOOKUP for use in weight.uses]
        names, loss = self._parts(weight, "table" if all(is_table) else "codes")
        codes = names[0]
        if any(is_table) and not all(is_table):
            codes = self._reshaped(codes, (rows, columns * self._rounding.bits // 8))
        for use in weight.uses:
            node = use.node
            yield QuantizedNode(
                node_address(node),
                node.label,
                node.op,
                node.outputs[0],
                is_main=node.scope is self._index.main,
                weight=weight.name,
                sizes=(rows, columns),
                dtype=weight.tensor.data_type,
                loss=loss,
            )
            if node.op == LOOKUP:
                self._look_up(use, (codes, *names[1:]))
            else:
                self._multiply(use, names, rows, columns)

    def finish(self, weights: Sequence[QuantizableWeight]) -> None:
        """Store the new tensors, and remove the weights and the nodes that nothing reads any more."""
        draft, gone = self._draft, dict[int, tuple[NodeProto, set[int]]]()
        for weight in weights:
            if not weight.uses:
                continue
            graph, names = weight.home.proto, {weight.name, *(node.outputs[0] for node in weight.between)}
            filter_repeated(graph.initializer, lambda _, tensor, names=names: tensor.name not in names)
            if draft.skeleton.ir_version < FIRST_IR_WITH_DEFAULTS:
                filter_repeated(graph.input, lambda _, value, names=names: value.name not in names)
            filter_repeated(graph.value_info, lambda _, value, names=names: value.name not in names)
            gone.setdefault(id(graph), (graph, set()))[1].update(node.slot for node in weight.between)
        for graph, slots in gone.values():
            delete_slots(graph.node, slots)
        for number, node in enumerate(self._first):
            draft.graph.node.insert(number, node)
        draft.store(*self._stored)
        if self._stored and DOMAIN not in imports_of(draft.skeleton.opset_import):
            draft.skeleton.opset_import.add(domain=DOMAIN, version=1)
        draft.changed()

    def _parts(self, weight: QuantizableWeight, codes: Part) -> tuple[list[str], WeightLoss]:
        """The names of the tensors of a rounded weight, which are added, and its loss."""
        names, losses = list[str](), list[WeightLoss]()
        for part in (codes, *self._rounding.scale_parts):
            change = weight.part(part, self._rounding)
            names.append(self._fresh(f"{weight.name}_{part}"))
            self._stored.append(self._draft.derive(weight.tensor, change.tensor(names[-1]), change))
            losses.append(change.seen)
        return names, losses[0]

    def _reshaped(self, codes: str, dims: tuple[int, int]) -> str:
        """The same integers as a table; ONNX Runtime computes it once."""
        shape, made = self._fresh(f"{codes}_shape"), self._fresh(f"{codes}_table")
        self._stored.append(numpy_helper.from_array(np.array(dims, np.int64), shape))
        self._first.append(helper.make_node("Reshape", [codes, shape], [made], made))
        return made

    def _look_up(self, use: WeightUse, names: Sequence[str]) -> None:
        read = [names[0], use.node.inputs[1], *names[1:]]
        sizes = {"bits": self._rounding.bits, "block_size": self._rounding.block}
        self._replace(use, "GatherBlockQuantized", read, {**sizes, "gather_axis": 0, "quantize_axis": 1})

    def _multiply(self, use: WeightUse, names: Sequence[str], rows: int, columns: int) -> None:
        read, bias = [use.node.inputs[0], *names], bias_of(use.node)
        if bias:
            read += [""] * (5 - len(read)) + [bias]
        sizes = {"bits": self._rounding.bits, "block_size": self._rounding.block, "K": columns, "N": rows}
        self._replace(use, "MatMulNBits", read, {**sizes, **({"accuracy_level": self._level} if self._level else {})})

    def _replace(self, use: WeightUse, op: str, read: Sequence[str], attributes: Mapping[str, int]) -> None:
        """Let a node be of another op; its name, its outputs and its notes stay."""
        proto = use.node.proto
        proto.op_type, proto.domain = op, DOMAIN
        proto.ClearField("attribute")
        proto.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        proto.input[:] = read

    def _fresh(self, name: str) -> str:
        found = unique_name(name, self._taken)
        self._taken.add(found)
        return found

