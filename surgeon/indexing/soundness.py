"""What makes a model no model, and would be copied into the result: refused before anything is done with it.

What ONNX Runtime loads all the same, such as an import that nothing uses, is no matter of these.
"""

from collections.abc import Iterable

from onnx import GraphProto, ModelProto, OperatorSetIdProto

from surgeon.errors import GraphError
from surgeon.ops.attributes import DTYPES
from surgeon.ops.schema_tables import plain_domain
from surgeon.ops.walking import all_nodes, called_by, circle, key_of

MOST_VERSION = (1 << 31) - 1  # onnx counts versions in 32 bits

_MEND = "mend the model or export it again."


def require_sound(model: ModelProto) -> None:
    """Raise GraphError for a model whose header, functions or stored tensors contradict themselves."""
    if not 0 <= model.ir_version <= MOST_VERSION:
        raise GraphError(f"The model says that its IR version is {model.ir_version}, and there is none such; {_MEND}")
    _require_imports("The model", model.opset_import)
    for value in model.graph.output:
        if not value.name:
            raise GraphError(f"An output of the graph has no name; {_MEND}")
    for tensor in model.graph.initializer:
        if tensor.data_type not in DTYPES:
            raise GraphError(f"The initializer {tensor.name!r} has dtype {tensor.data_type}, which is none; {_MEND}")
    _require_each_once("initializer", "the graph", (tensor.name for tensor in model.graph.initializer))
    if model.functions:
        _require_functions(model)


def require_types(graph: GraphProto, read: Iterable[str]) -> None:
    """Raise GraphError for an input of the main graph that is read and has no type, which nothing can run."""
    untyped = {value.name for value in graph.input if value.type.WhichOneof("value") is None}
    stored = {tensor.name for tensor in graph.initializer} if untyped else set[str]()
    for name in read if untyped else ():
        if name in untyped and name not in stored:
            raise GraphError(f"The input {name!r} of the graph has no type; state its dtype, or export it again.")


def _require_imports(who: str, imports: Iterable[OperatorSetIdProto]) -> None:
    known: dict[str, int] = {}
    for item in imports:
        domain, version = plain_domain(item.domain), item.version
        told = domain or "ai.onnx"
        if not 0 < version <= MOST_VERSION:
            raise GraphError(f"{who} imports opset {version} of {told}, and there is none such; {_MEND}")
        if known.setdefault(domain, version) != version:
            raise GraphError(f"{who} imports opset {known[domain]} of {told}, and opset {version} too; {_MEND}")


def _require_each_once(kind: str, where: str, names: Iterable[str]) -> None:
    known: set[str] = set()
    for name in names:
        if name in known:
            raise GraphError(f"The {kind} {name!r} is there twice in {where}; {_MEND}")
        known.add(name)


def _require_functions(model: ModelProto) -> None:
    functions = {key_of(function): function for function in model.functions}
    labels = [f"{function.domain}::{function.name}" for function in functions.values()]
    if len(functions) < len(model.functions):
        keys = [key_of(function) for function in model.functions]
        domain, name, _ = next(key for key in keys if keys.count(key) > 1)
        raise GraphError(f"The local function {domain}::{name} is there twice; {_MEND}")
    for label, function in zip(labels, functions.values(), strict=True):
        _require_imports(f"The local function {label}", function.opset_import)
    calls = {key: set(map(called_by, all_nodes(function.node))) for key, function in functions.items()}
    around = circle({key: called & functions.keys() for key, called in calls.items()})
    if around:
        domain, name, _ = around[0]
        raise GraphError(f"The local function {domain}::{name} calls itself, which ONNX forbids; {_MEND}")
