"""The origin of a node: the user's line in the exporter's notes, else the module, and torch's name of the op."""

import ast
import re
from functools import lru_cache

import onnx

from surgeon.file.protobuf.node_encoder import FROM
from surgeon.ops.schemas.node_check import target_of_op
from surgeon.ops.torch_fallbacks import operator_of
from surgeon.ops.traversal import all_nodes

STACK, NAME_SCOPES_KEY = "pkg.torch.onnx.stack_trace", "pkg.torch.onnx.name_scopes"
CALL = "pkg.torch.onnx.fx_node"
NOTES, ATEN = "pkg.torch.", ("aten", "prim")  # what it calls its notes, and the domains that do not say torch
_CALLED = re.compile(r"call_function\[target=torch\.ops\.(?P<space>\w+)\.(?P<name>\w+)")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)(?:\n[ \t]+(?P<code>[^\n]+))?')
_SHORT_FRAME = re.compile(r"^(?P<file>\S[^\n]*?)\((?P<line>\d+)\): (?P<name>\S+)", re.MULTILINE)
# torch's own files, and installed packages: what calls the user's modules, or stands under them.
_FOREIGN = re.compile(r"[/\\](?:torch|site-packages|dist-packages|_pytest)[/\\]|^<|[/\\]runpy\.py")


def is_torch_export(model: onnx.ModelProto) -> bool:
    """Whether an exporter of torch wrote the model: by its name, its notes on nodes, or its domains."""
    if "torch" in model.producer_name.lower():
        return True
    domains = {one.domain for one in model.opset_import}
    if any("torch" in domain or domain in ATEN for domain in domains):
        return True
    return any(entry.key.startswith(NOTES) for node in all_nodes(model.graph.node) for entry in node.metadata_props)


def source_location(node: onnx.NodeProto) -> str | None:
    """`model.py:12 in forward: y = op(x)`, else the module's name in the program; None if unknown."""
    notes = {entry.key: entry.value for entry in node.metadata_props}
    frame = _last_frame(notes.get(STACK, "")) or _first_short_frame(node.doc_string)
    modules = modules_in(notes.get(NAME_SCOPES_KEY, ""))
    return frame or (f"module {modules[-1]}" if modules else None)


def source_frames(node: onnx.NodeProto) -> list[tuple[str, int]]:
    """The lines (path, number) of the user's program that led to a node, innermost first; without torch's own."""
    notes = {entry.key: entry.value for entry in node.metadata_props}
    frames = [*reversed(list(_FRAME.finditer(notes.get(STACK, "")))), *_SHORT_FRAME.finditer(node.doc_string)]
    return [(frame["file"], int(frame["line"])) for frame in frames if not _FOREIGN.search(frame["file"])]


def torch_op(node: onnx.NodeProto) -> str | None:
    """The operator of torch that a node comes from, `aten::gelu`; None if unknown.

    A node that a rule wrote for several has the notes of one of them, and no operator of torch.
    """
    if any(entry.key == FROM and ", " in entry.value for entry in node.metadata_props):
        return None
    called = _CALLED.search(next((entry.value for entry in node.metadata_props if entry.key == CALL), ""))
    if called is not None:
        return f"{called['space']}::{called['name']}"
    operator = operator_of(node) if target_of_op(node.domain, node.op_type) is None else None
    return None if operator is None else f"{operator[0]}::{operator[1]}"


def _last_frame(stack: str) -> str:
    """The innermost line of the user's code in a Python stack, which ends with the innermost."""
    frames = list(_FRAME.finditer(stack))
    own = [frame for frame in frames if not _FOREIGN.search(frame["file"])]
    return _text((own or frames)[-1]) if frames else ""


def _first_short_frame(note: str) -> str:
    """The same in a note of the TorchScript exporter, `file.py(12): forward` line by line, the innermost first."""
    frames = list(_SHORT_FRAME.finditer(note))
    own = [frame for frame in frames if not _FOREIGN.search(frame["file"])]
    return _text((own or frames)[0]) if frames else ""


def _text(frame: re.Match[str]) -> str:
    name = re.split(r"[/\\]", frame["file"])[-1]
    code = frame.groupdict().get("code")
    return f"{name}:{frame['line']} in {frame['name']}{': ' + code.strip() if code else ''}"


def modules_in(scopes: str) -> list[str]:
    """The names in torch's list of the modules around a node, outermost first, without the node's own."""
    try:
        names = ast.literal_eval(scopes) if scopes else ()
    except (ValueError, SyntaxError):
        return []
    return [str(name) for name in names[:-1] if name] if isinstance(names, (list, tuple)) else []


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
