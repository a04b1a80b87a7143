"""The scopes of a node according to its exporter: modules of torch, else parts of its name."""

from functools import lru_cache

import onnx

from surgeon.targets.inspection.provenance import NAME_SCOPES_KEY, modules_in

NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"  # torch's note for an unknown module


def module_path(node: onnx.NodeProto) -> tuple[str, ...]:
    """The names of the scopes of a node, outermost first; empty if unknown."""
    for entry in node.metadata_props:
        if entry.key == NAME_SCOPES_KEY:
            return _modules(entry.value)
    return _of_name(node.name)


@lru_cache(maxsize=4096)
def _modules(text: str) -> tuple[str, ...]:
    """torch's list of modules, outermost first, the node's own last; each without the name of the module around it."""
    found, around = list[str](), ""
    for name in modules_in(text):
        if name != around and name != NO_MODULE:
            found.append(name.removeprefix(f"{around}.") if around else name)
            around = name
    return tuple(found)


@lru_cache(maxsize=4096)
def _split(scope: str) -> tuple[str, ...]:
    return tuple(filter(None, scope.split("/")))


def _of_name(name: str) -> tuple[str, ...]:
    """/encoder/layer.0/MatMul is in encoder and there in layer.0."""
    return _split(name.rpartition("/")[0])
