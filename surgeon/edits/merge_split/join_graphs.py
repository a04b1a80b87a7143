"""Joins a second graph to a model under edit: renames conflicts and unifies dim names."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from onnx import FunctionProto, GraphProto, ModelProto, TensorShapeProto, TypeProto

from surgeon.analysis.assumptions.model_assumptions import KEY, assumptions_of, declare, rename_assumptions
from surgeon.errors import UsageError
from surgeon.ops.schemas import schema
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traversal import (
    FunctionKey,
    all_nodes,
    called_function_key,
    function_key,
    imports_of,
    nested_graphs,
    nodes_of,
    unique_name,
)
from surgeon.pipeline.editing.declared_dims import dims_in
from surgeon.pipeline.editing.draft import ModelDraft, names_in, no_such_message
from surgeon.pipeline.editing.prune import filter_repeated
from surgeon.pipeline.editing.tensor_renaming import rename_in_graph, rename_training
from surgeon.printed_commands import command
from surgeon.shapes.algebra.size_expressions import Size, parse_size, substitute, symbol, symbols
from surgeon.shapes.constraints.input_dims import required_inputs

Dim = TensorShapeProto.Dimension


@dataclass(slots=True)
class JoinResult:
    """The changes from joining two models."""

    first_renames: dict[str, str] = field(default_factory=dict)
    """By old name, the new name of renamed tensors of the first model."""
    second_renames: dict[str, str] = field(default_factory=dict)
    """By old name, the new name of renamed tensors of the second model."""
    messages: list[str] = field(default_factory=list)
    """The changes, one sentence each."""


def join(draft: ModelDraft, other: ModelProto, connect: Mapping[str, str], prefix: tuple[str, str]) -> JoinResult:
    """Append a second model to the model under edit, which feeds it.

    other: copy from `draft.adopt`.  connect: by input of the second model, the output of the first that feeds it, or an
    input that both share.  prefix: of all names of (first, second).  Raises UsageError for unknown names or tensors
    that do not fit.
    """
    joined = JoinResult()
    ends = [value.name for value in (*draft.graph.output, *draft.inputs)]
    starts = {value.name: value for value in other.graph.input}
    for name, source in connect.items():
        if source not in ends:
            raise UsageError(f"In the first model: {no_such_message('output', source, ends)}")
        if name not in starts:
            raise UsageError(f"In the second model: {no_such_message('input', name, starts)}")
    types = {name: draft.facts(source).type for name, source in connect.items()}
    sizes = _Sizes(draft, other, joined)
    for name, source in connect.items():
        sizes.meet(source, types[name], name, starts[name].type)
    sizes.settle()
    _rename_conflicts(draft, other, connect, prefix=prefix, joined=joined)
    _add_functions(draft, other, joined)
    _put(draft, other, connect, joined)
    draft.claim.by_structure = False
    draft.changed()
    return joined


def _put(draft: ModelDraft, other: ModelProto, connect: Mapping[str, str], joined: JoinResult) -> None:
    """Add the contents of the other model, and remove the outputs that feed it."""
    graph, added = draft.graph, other.graph
    fed = {joined.second_renames[name] for name in connect}
    ends = {value.name for value in added.output}
    inner = [value for value in graph.output if value.name in fed and value.name not in ends]
    given = {value.name for value in graph.input}
    graph.value_info.extend(value for value in inner if value.name not in given)
    filter_repeated(graph.output, lambda _, value: value.name not in fed)
    graph.input.extend(value for value in added.input if value.name not in fed)
    graph.output.extend(added.output)
    graph.initializer.extend(tensor for tensor in added.initializer if tensor.name not in fed)
    graph.sparse_initializer.extend(item for item in added.sparse_initializer if item.values.name not in fed)
    graph.node.extend(added.node)
    graph.value_info.extend(value for value in added.value_info if value.name not in fed)
    graph.quantization_annotation.extend(added.quantization_annotation)
    _put_notes(draft.skeleton, other, joined)
    imported = imports_of(draft.skeleton.opset_import)
    added_imports = (item for item in other.opset_import if normalize_domain(item.domain) not in imported)
    draft.skeleton.opset_import.extend(added_imports)
    draft.skeleton.ir_version = max(draft.skeleton.ir_version, other.ir_version)


def _put_notes(model: ModelProto, other: ModelProto, joined: JoinResult) -> None:
    """Add the metadata of another model; a conflicting entry gets another key, and assumptions on one input are joined.

    Raises UsageError if these contradict each other.
    """
    inputs = required_inputs(model.graph)
    declare(model, [f"{name}: {words}" for name, words in assumptions_of(other).items() if name in inputs])
    known = {entry.key: entry.value for entry in model.metadata_props}
    for entry in other.metadata_props:
        if known.get(entry.key) != entry.value and not entry.key.startswith(KEY):
            key = unique_name(entry.key, known)
            if key != entry.key:
                joined.messages.append(f"the metadata {entry.key!r} of the second model is renamed to {key!r}")
            known[key] = entry.value
            model.metadata_props.add(key=key, value=entry.value)
    if other.training_info:
        joined.messages.append("the training information of the second model is left out")


def _rename_conflicts(
    draft: ModelDraft, other: ModelProto, connect: Mapping[str, str], prefix: tuple[str, str], joined: JoinResult
) -> None:
    """Rename tensors and nodes so that no name occurs in both models."""
    if prefix[0]:
        joined.first_renames = {name: f"{prefix[0]}{name}" for name in dict.fromkeys(_tensors(draft.graph)) if name}
        rename_in_graph(draft.graph, joined.first_renames)
        rename_training(draft.skeleton, joined.first_renames)
        rename_assumptions(draft.skeleton, joined.first_renames)
        for node in all_nodes(draft.graph.node):
            node.name = f"{prefix[0]}{node.name}" if node.name else ""
    taken = set(_tensors(draft.graph))
    for name in dict.fromkeys(_tensors(other.graph)):
        if name in connect:
            joined.second_renames[name] = joined.first_renames.get(connect[name], connect[name])
        elif name:
            joined.second_renames[name] = unique_name(f"{prefix[1]}{name}", taken)
            taken.add(joined.second_renames[name])
    for side, values in (("input", other.graph.input), ("output", other.graph.output)):
        for value in values:
            new = joined.second_renames[value.name]
            if value.name not in connect and new != f"{prefix[1]}{value.name}":
                joined.messages.append(f"the {side} {value.name!r} of the second model is renamed to {new!r}")
    rename_in_graph(other.graph, joined.second_renames)
    rename_assumptions(other, joined.second_renames)
    held = {node.name for node in all_nodes(draft.graph.node)}
    for node in all_nodes(other.graph.node):
        if node.name:
            node.name = unique_name(f"{prefix[1]}{node.name}", held)
            held.add(node.name)


def _add_functions(draft: ModelDraft, other: ModelProto, joined: JoinResult) -> None:
    """Add the local functions of another model; rename those that the first model defines differently."""
    known, own = ({function_key(item): item for item in model.functions} for model in (draft.skeleton, other))
    open_calls = _operators(draft.skeleton), _operators(other)
    _rename_functions(draft.skeleton, "first", known.keys() & open_calls[1], beside=other, joined=joined)
    known = {function_key(item): item for item in draft.skeleton.functions}
    apart = {key for key in own if key in open_calls[0] or (key in known and known[key] != own[key])}
    while more := {key for key in own.keys() & known.keys() - apart if _calls(own[key]) & apart}:
        apart |= more  # equal themselves, but they call different functions
    _rename_functions(other, "second", apart, beside=draft.skeleton, joined=joined)
    draft.skeleton.functions.extend(item for item in other.functions if function_key(item) not in known)


def _operators(model: ModelProto) -> set[FunctionKey]:
    """Called ops without a schema, except functions of the model."""
    imports = imports_of(model.opset_import)
    called = {called_function_key(node) for node in nodes_of(model)} - {function_key(item) for item in model.functions}
    return {key for key in called if schema(key[0], key[1], imports.get(normalize_domain(key[0]))) is None}


def _calls(function: FunctionProto) -> set[FunctionKey]:
    return {called_function_key(node) for node in all_nodes(function.node)}


def _rename_functions(
    model: ModelProto, which: str, keys: Collection[FunctionKey], beside: ModelProto, joined: JoinResult
) -> None:
    """Rename local functions of a model to names that neither model uses."""
    called = {called_function_key(node) for one in (model, beside) for node in nodes_of(one)}
    called.update(function_key(item) for one in (model, beside) for item in one.functions)
    names: dict[FunctionKey, str] = {}
    for function in model.functions:
        key = function_key(function)
        if key in keys:
            held = {name for domain, name, _ in called if domain == key[0]}
            names[key] = unique_name(function.name, held)
            called.add((key[0], names[key], key[2]))
            joined.messages.append(f"the function {function.name!r} of the {which} model is renamed to {names[key]!r}")
            function.name = names[key]
    for node in nodes_of(model):
        node.op_type = names.get(called_function_key(node), node.op_type)


class _Sizes:
    """Dim names in two models: unified where their tensors are connected, distinct elsewhere."""

    def __init__(self, draft: ModelDraft, other: ModelProto, joined: JoinResult) -> None:
        self._draft, self._other, self._joined = draft, other, joined
        self._met: dict[str, Size] = {}  # by dim of the second model, its size in the first
        self._fixed: dict[str, int] = {}  # by dim of the first model, its fixed size in the second
        self._words = {word for graph in nested_graphs(draft.graph) for word in _words(graph)}

    def meet(self, source: str, given: TypeProto, name: str, wanted: TypeProto) -> None:
        """Connect an output to an input.  Raises UsageError if their types do not fit."""
        kinds = given.WhichOneof("value"), wanted.WhichOneof("value")
        if kinds[0] != kinds[1]:
            raise UsageError(f"{source!r} cannot feed {name!r}: one is a tensor and the other is not.")
        if kinds[0] != "tensor_type":
            return
        one, two = given.tensor_type, wanted.tensor_type
        if one.elem_type != two.elem_type:
            dtype = dtype_name(one.elem_type)
            how = command("edit", "IN", "OUT", "--retype", f"{name}={dtype}:cast")
            raise UsageError(
                f"{source!r} is {dtype}, but {name!r} is {dtype_name(two.elem_type)}. "
                f"Change the second model first: {how}"
            )
        if not one.HasField("shape") or not two.HasField("shape"):
            return
        ranks = len(one.shape.dim), len(two.shape.dim)
        if ranks[0] != ranks[1]:
            raise UsageError(
                f"{source!r} cannot feed {name!r}: one has {ranks[0]} dimensions, the other has {ranks[1]}."
            )
        for axis, (before, after) in enumerate(zip(one.shape.dim, two.shape.dim, strict=True)):
            self._meet(f"{source!r} cannot feed {name!r}: on axis {axis},", _size(before), _size(after))

    def _meet(self, where: str, before: Size | None, after: Size | None) -> None:
        word, own = _word(after), _word(before)
        if word is not None:
            if before is None and word not in self._words:
                return
            size = symbol(word) if before is None else before
            known = self._met.setdefault(word, size)
            if isinstance(known, int) and isinstance(size, int) and known != size:
                raise UsageError(f"{where} {word!r} would have to be both {known} and {size}.")
        elif own is not None and isinstance(after, int):
            fixed = self._fixed.setdefault(own, after)
            if fixed != after:
                raise UsageError(f"{where} {own!r} would have to be both {fixed} and {after}.")
        elif isinstance(before, int) and isinstance(after, int) and before != after:
            raise UsageError(f"{where} the sizes are {before} and {after}.")

    def settle(self) -> None:
        """Write the unified sizes into the declared shapes."""
        for word, number in self._fixed.items():
            self._joined.messages.append(f"the size {word!r} of the first model is fixed at {number}, as in the second")
        _state(self._draft.graph, self._fixed)
        taken = set(self._words)
        second: dict[str, Size] = {word: substitute(size, self._fixed) for word, size in self._met.items()}
        for word in dict.fromkeys(word for graph in nested_graphs(self._other.graph) for word in _words(graph)):
            if word not in second and word in taken:
                second[word] = symbol(unique_name(word, taken))
                taken.add(str(second[word]))
        _state(self._other.graph, second)


def _size(dim: Dim) -> Size | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return parse_size(dim.dim_param) if dim.dim_param else None


def _word(size: Size | None) -> str | None:
    """The name of a size; None for a number or an expression."""
    if size is None or isinstance(size, int):
        return None
    words = symbols(size)
    return next((word for word in words if size == symbol(word)), None)


def _dims(graph: GraphProto) -> Iterator[Dim]:
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield from dims_in(value.type)


def _words(graph: GraphProto) -> Iterator[str]:
    for dim in _dims(graph):
        size = _size(dim)
        if size is not None:
            yield from symbols(size)


def _state(graph: GraphProto, sizes: Mapping[str, Size]) -> None:
    """Replace dim names by sizes, in a graph and its bodies."""
    if not sizes:
        return
    for holder in nested_graphs(graph):
        for dim in _dims(holder):
            size = _size(dim)
            if size is not None and not isinstance(size, int) and symbols(size) & sizes.keys():
                found = substitute(size, sizes)
                if isinstance(found, int):
                    dim.dim_value = found
                else:
                    dim.dim_param = str(found)


def _tensors(graph: GraphProto) -> Iterator[str]:
    return (name for below in nested_graphs(graph) for name in names_in(below))
