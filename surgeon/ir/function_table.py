"""The local functions of a model: those of its file, those that a rewrite adds, and those left without calls."""

from collections import Counter
from collections.abc import Iterable, Iterator

from onnx import FunctionProto

from surgeon.errors import GraphError
from surgeon.file.model import Model
from surgeon.ir.scope import Node, Scope, qualified_name
from surgeon.ops.traversal import FunctionKey, all_nodes, called_function_key, function_key
from surgeon.printed_commands import command

FIRST_IR, FIRST_IR_WITH_DEFAULTS = 8, 9
"""The first IR versions with local functions, and with default values of their attributes (onnx.proto)."""


class LocalFunctions:
    """The functions that nodes of a model may call.  added: those that rules added, by key."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._places = {function_key(function): place for place, function in enumerate(model.skeleton.functions)}
        self._read: dict[FunctionKey, FunctionProto] = {}
        self.added: dict[FunctionKey, FunctionProto] = {}

    def __iter__(self) -> Iterator[FunctionKey]:
        yield from self._places
        yield from self.added

    def is_in_source(self, key: FunctionKey) -> bool:
        """Whether the file has it."""
        return key in self._places

    def is_called(self, op: str) -> bool:
        """Whether nodes of an op call a function of the model."""
        return any(qualified_name(*key[:2]) == op for key in self)

    def get(self, key: FunctionKey) -> FunctionProto | None:
        """The function with all its data; None if there is none."""
        if key in self.added:
            return self.added[key]
        if key in self._places and key not in self._read:
            proto = self._model.skeleton.functions[self._places[key]]
            self._read[key] = FunctionProto.FromString(self._model.serialize(proto))
        return self._read.get(key)

    def require_free(self, function: FunctionProto) -> None:
        """Raise GraphError if the model has another function of this name."""
        there = self.get(function_key(function))
        if there is not None and _content(there) != _content(function):
            name = qualified_name(function.domain, function.name)
            raise GraphError(
                f"The model already has another local function {name}. Give yours another name, or inline the "
                f"existing one: {command('rewrite', 'IN', 'OUT', '--inline', name)}"
            )

    def add(self, function: FunctionProto) -> None:
        """Add a function to the model, unless it has it.  Raises as `require_free`."""
        self.require_free(function)
        if not self.is_in_source(function_key(function)):
            self.added.setdefault(function_key(function), function)


def calls(scopes: Iterable[Scope], keys: Iterable[FunctionKey]) -> "Counter[FunctionKey]":
    """How often live nodes call each of these functions, in scopes that still exist."""
    wanted = {key: qualified_name(*key[:2]) for key in keys}
    ops = set(wanted.values())
    found: Counter[FunctionKey] = Counter()
    for scope in scopes:
        if scope.is_gone:
            continue
        for op in ops.intersection(scope.by_op):
            found.update(called_function_key(node.proto) for node in scope.by_op[op] if node.alive)
        for node in scope.new_nodes():  # the index has no scopes for their bodies
            if node.alive:
                found.update(called_function_key(inner) for inner in list(all_nodes([node.proto]))[1:])
    return Counter({key: count for key, count in found.items() if key in wanted})


def accidental_calls(scopes: Iterable[Scope], local: LocalFunctions) -> dict[FunctionKey, Node]:
    """For each added function, a node of the file with its name, which would become a call by accident."""
    ops = {qualified_name(*key[:2]) for key in local.added}
    found: dict[FunctionKey, Node] = {}
    for scope in scopes:
        for op in ops.intersection(scope.by_op) if not scope.is_gone else ():
            for node in scope.by_op[op]:
                if node.alive and node.original and called_function_key(node.proto) in local.added:
                    found.setdefault(called_function_key(node.proto), node)
    return found


def _content(function: FunctionProto) -> bytes:
    """A function without doc strings, node names and metadata, for comparison."""
    copy = FunctionProto()
    copy.CopyFrom(function)
    for field in ("doc_string", "value_info", "metadata_props"):
        copy.ClearField(field)
    for node in copy.node:
        for field in ("name", "doc_string", "metadata_props"):
            node.ClearField(field)
    imports = sorted((item.domain, item.version) for item in copy.opset_import)
    del copy.opset_import[:]
    for domain, version in imports:
        copy.opset_import.add(domain=domain, version=version)
    data: bytes = copy.SerializeToString(deterministic=True)
    return data
