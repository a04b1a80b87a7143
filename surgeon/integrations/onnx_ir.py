"""onnx_ir: an `onnx_ir.Model` as a kind of model, and a pass that runs rules.

Large tensors are not serialised: the model for surgeon refers to them.  A result has the nodes, values and tensors of
the given model wherever no rewrite touched them.

    import onnx_ir as ir
    import surgeon

    model = ir.load("model.onnx")
    model, report = surgeon.rewrite(model, "ort")
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import onnx_ir as ir

from surgeon.errors import UsageError
from surgeon.file.external_data import locations
from surgeon.file.external_data.held_tensors import LOCATION, HeldModel, HeldTensors
from surgeon.file.kinds import Kind
from surgeon.integrations.ir_difference import MODEL_FIELDS, apply_difference, fill
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.rewrite import rewrite

SMALL = 1024  # bytes up to which a tensor in memory is serialised, since shape inference reads it
_HOLDERS = frozenset(getattr(ir.AttributeType, name) for name in ("TENSOR", "TENSORS", "GRAPH", "GRAPHS"))
_log = logging.getLogger("surgeon")


class InPlace(NamedTuple):
    """A model that is itself changed by the functions that return a model; they return it, or this value unchanged."""

    model: ir.Model
    """The model."""


class IrModelKind(Kind):
    """An `onnx_ir.Model`."""

    title = "an onnx_ir.Model"

    def takes(self, source: object) -> bool:
        """Whether it is an `onnx_ir.Model`."""
        return isinstance(source, (ir.Model, InPlace))

    def exported(self, source: Any) -> HeldModel:
        """The model with references to its large tensors; nothing of it is changed or copied."""
        model, held = source.model if isinstance(source, InPlace) else source, HeldTensors()
        functions = {key: _graph(function, held) for key, function in model.functions.items()}
        try:
            seen: Any = _Seen(model, graph=_graph(model.graph, held), functions=functions)
            held.origin = ir.serde.serialize_model(seen)
            return HeldModel(held.origin, held)
        except (ir.serde.SerdeError, NotImplementedError, TypeError, ValueError) as error:
            raise UsageError(f"onnx_ir cannot serialise this model ({_cause(error)}). Correct it first.") from error

    def give(self, source: Any, made: onnx.ModelProto, held: Mapping[str, HeldTensors]) -> ir.Model:
        """A new model with the nodes and tensors of the given one, in which copies of the nodes take their places."""
        if isinstance(source, InPlace):
            return self._changed(source.model, made, held)
        copied = _copy(source)
        fields = {name: getattr(source, name) for name in MODEL_FIELDS}
        result = ir.Model(source.graph, functions=list(source.functions.values()), **fields)
        result.metadata_props.update(source.metadata_props)
        result.meta.update(source.meta)
        self._changed(result, made, held)
        source.graph = copied.graph
        source.functions.clear()
        source.functions.update(copied.functions)
        return result

    def _changed(self, model: ir.Model, made: onnx.ModelProto, held: Mapping[str, HeldTensors]) -> ir.Model:
        """A model with the graph that was exported, turned into a result."""
        before = held[LOCATION].origin
        assert before is not None  # set by `exported`
        apply_difference(model, before, made, partial(_tensor, held))
        model.meta.pop("path", None)  # the file of the model before
        return model


KIND = IrModelKind()


class RewritePass(ir.passes.PassBase):
    """A pass of onnx_ir that runs rules, and keeps what is proved.

    A site whose proof fails is rolled back, and the pass goes on.  `report` is the report of the last call.

    Examples:
        >>> import onnx_ir
        >>> from surgeon.integrations.onnx_ir import RewritePass
        >>> step = RewritePass("gelu")
        >>> step(onnx_ir.load("notebooks/models/tiny_distilbert.onnx")).modified, step.report.counts
        (True, {'gelu': 4})
    """

    def __init__(
        self, rules: Any = None, *, in_place: bool = False, require_proof: bool = False, **options: Any
    ) -> None:
        """rules, options: as for `surgeon.rewrite`.  in_place: return the same model, changed, instead of a new one.

        require_proof: roll back sites that are not proved, too.
        """
        self._rules, self._is_in_place = rules, in_place
        self._options = {"keep_going": True, "require_proof": require_proof, **options}
        self.report: RewriteReport | None = None

    @property
    def in_place(self) -> bool:
        """Whether the same model is returned."""
        return self._is_in_place

    @property
    def changes_input(self) -> bool:
        """Whether the given model is changed."""
        return self._is_in_place

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the rules.  Raises the errors of `surgeon.rewrite`, which become the cause of onnx_ir's PassError."""
        given = InPlace(model) if self._is_in_place else model
        made, self.report = rewrite(given, self._rules, **self._options)
        _log.log(logging.INFO if self.report.proved else logging.WARNING, "%r", self.report)
        is_same = made is given
        if is_same:  # a pass that is not in place has to return another model
            made = model if self._is_in_place else _copy(model)
        return ir.passes.PassResult(made, modified=not is_same)


def _copy(model: ir.Model) -> ir.Model:
    """A model with other nodes and the same tensors."""
    try:
        return model.clone()
    except RuntimeError:  # onnx_ir clones only a sorted graph
        proto, held = KIND.exported(model)
        made = ir.serde.deserialize_model(proto)
        graphs: list[Any] = [made.graph, *made.functions.values()]
        for graph in graphs:
            fill(graph, partial(_tensor, {LOCATION: held}))
        for old, new in zip(model.graph.all_nodes(), made.graph.all_nodes(), strict=True):
            new.meta.update(old.meta)
        return made


def _tensor(held: Mapping[str, HeldTensors], tensor: Any) -> Any:
    """The tensor that a reference refers to; any other tensor itself."""
    tensors = held.get(str(tensor.location)) if isinstance(tensor, ir.ExternalTensor) else None
    if tensors is None:
        return tensor
    owner = tensors.owner(tensor.offset or 0)
    if isinstance(owner, ir.TensorProtocol):
        return owner
    proto = onnx.TensorProto(data_type=tensor.dtype.value, dims=tensor.shape.numpy())
    array = tensors.value(proto, tensor.offset or 0)  # made by surgeon, such as a converted weight
    return ir.Tensor(array, dtype=tensor.dtype, name=tensor.name)


class _Seen:
    """An object of onnx_ir with other parts, to be serialised without copies or new names of tensors."""

    def __init__(self, original: Any, nodes: Callable[[], Iterator[Any]] | None = None, **parts: Any) -> None:
        self.__dict__.update(parts, _original=original, _nodes=nodes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._nodes())

    def __len__(self) -> int:
        return len(self._original)


def _graph(graph: Any, held: HeldTensors) -> Any:
    """A graph or a function whose large tensors are references."""
    values = {} if isinstance(graph, ir.Function) else graph.initializers
    stored = {
        name: _Seen(value, const_value=_reference(value.const_value, name, held)) for name, value in values.items()
    }
    return _Seen(graph, lambda: (_node(node, held) for node in graph), initializers=stored)


def _node(node: ir.Node, held: HeldTensors) -> Any:
    """A node whose large tensors are references."""
    changed = {}
    for name, attribute in node.attributes.items():
        kind, value = attribute.type, attribute.value
        if attribute.is_ref() or kind not in _HOLDERS:
            continue
        see = partial(_reference, name=None, held=held) if "TENSOR" in kind.name else partial(_graph, held=held)
        seen: Any = [see(one) for one in value] if kind.name.endswith("S") else see(value)
        changed[name] = ir.Attr(attribute.name, kind, seen, attribute.doc_string)
    return _Seen(node, attributes={**node.attributes, **changed}) if changed else node


def _reference(tensor: Any, name: str | None, held: HeldTensors) -> Any:
    """A tensor in its place; a large one, and one whose data are computed or in a file, as a reference to it."""
    is_outside = isinstance(tensor, ir.ExternalTensor)
    if tensor is None or tensor.dtype == ir.DataType.STRING:
        return tensor
    if not is_outside and not isinstance(tensor, ir.LazyTensor) and tensor.nbytes <= SMALL:
        return tensor if name is None else _Seen(tensor, name=name)
    proto = onnx.TensorProto(data_type=tensor.dtype.value, dims=tensor.shape.numpy())
    file = (_path(tensor), tensor.offset or 0) if is_outside and tensor.nbytes else None
    held.refer(proto, tensor, tensor.numpy, file)
    entries = {entry.key: int(entry.value) for entry in proto.external_data if entry.key != "location"}
    return ir.ExternalTensor(
        LOCATION, entries["offset"], entries["length"], dtype=tensor.dtype, shape=ir.Shape(proto.dims),
        name=tensor.name if name is None else name, doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )  # fmt: skip


def _path(tensor: ir.ExternalTensor) -> Path:
    """The file of a tensor.  Raises ModelFileError for one that onnx_ir does not read, because it may belong elsewhere.
    """
    path, location = Path(tensor.path), os.fspath(tensor.location)
    if tensor.base_dir:  # else a program chose the path, not a model
        path = locations.resolve(Path(tensor.base_dir), location)
        if path.exists():
            locations.check_extent(path, locations.Extent(location, 0, 0), tensor.name)
    return path.resolve()


def _cause(error: BaseException) -> BaseException:
    """The first error of a chain."""
    return error if error.__cause__ is None else _cause(error.__cause__)
