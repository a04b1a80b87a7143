"""Lists the operators that a module calls, as each exporter sees them, with their location and decomposition."""

import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from surgeon.errors import UsageError
from surgeon.torch.exporters.builtin_mappings import (
    DYNAMO,
    decompositions,
    mapped_opsets,
    registry_at,
    torchscript_opsets,
)
from surgeon.torch.exporters.dynamo import silence_loggers
from surgeon.torch.exporters.module_export import lock
from surgeon.torch.exporters.torchscript import symbolics
from surgeon.torch.placeholders.class_operators import restore_buffers

_TORCH = str(Path(torch.__file__).parent)
_RANGE = re.compile(r"(?P<file>\S[^\n]*)\((?P<line>\d+)\): ")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One call of an operator."""

    op: str
    """`ns::name` or `ns::name.overload`."""
    name: str
    """The Python name, such as `torch.i0`, if it is known."""
    module: str
    """The path of the calling module, empty for the root."""
    line: str
    """`file:line` of the call."""
    decomposition: Mapping[str, tuple[int, ...]]
    """The operators that the exporter decomposes it into, or only itself, with the opsets at which each is mapped."""


def calls_by_dynamo(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], opset: int) -> Iterator[OperatorCall]:
    """Yield the calls that torch.export records, in order.  Raises UsageError if it cannot capture the module."""
    try:
        with silence_loggers("torch._subclasses.fake_tensor", level=logging.CRITICAL):
            program = torch.export.export(module, tuple(args), dict(kwargs), strict=False)
            written = program.run_decompositions(decompositions(opset))
    except Exception as error:  # the module and torch may raise anything
        raise UsageError(_capture_problem(error)) from error
    graphs = dict(_graphs(written))
    for path, graph in _graphs(program):
        yield from _decomposed_calls(graph, graphs.get(path), opset)


def _graphs(program: Any) -> Iterator[tuple[str, Any]]:
    """The graph of a program and those of its branches, with their paths."""
    for path, module in program.graph_module.named_modules():
        if isinstance(module, torch.fx.GraphModule):
            yield path, module.graph


def _decomposed_calls(graph: Any, written: Any, opset: int) -> Iterator[OperatorCall]:
    """Yield the calls of a graph, each with its operators in the decomposed graph."""
    before = {node.name: node for node in graph.nodes if node.op == "call_function"}
    pieces: dict[str, dict[str, tuple[int, ...]]] = {name: {} for name in before}
    for node in written.nodes if written is not None else ():
        if node.op != "call_function" or node.target in _assertions():
            continue
        origin = next((name for name in _origins(node) if name in before), "")
        if not origin:  # added by torch, and reported under its own name
            origin = f"{node.name} of torch"
            before[origin], pieces[origin] = node, {}
        if isinstance(node.target, torch._ops.OpOverload):
            pieces[origin][_full_name(node.target)] = mapped_opsets(node.target, DYNAMO)
        elif not registry_at(opset).is_registered(node.target):  # a Python function: arithmetic on sizes
            pieces[origin][_full_name(node.target)] = ()
    for name, node in before.items():
        if isinstance(node.target, torch._ops.OpOverload):
            stack = node.meta.get("nn_module_stack") or {}
            module = ([where for where, _ in stack.values()] or [""])[-1]
            line = _line(_FRAME, str(node.meta.get("stack_trace") or ""), last=True)
            called = str((node.meta.get("torch_fn") or ("", ""))[1]).rpartition(".")[2]
            name_of_user = _user_name(called, node.target._schema.name)
            yield OperatorCall(_full_name(node.target), name_of_user, module, line=line, decomposition=pieces[name])


@cache
def _assertions() -> frozenset[Any]:
    """Operators that the exporter removes: assertions without a result."""
    aten = torch.ops.aten
    checks = (aten.sym_constrain_range_for_size, aten._assert_async, aten._assert_scalar, aten._assert_tensor_metadata)
    return frozenset(getattr(check, overload) for check in checks for overload in check.overloads())


def _capture_problem(error: BaseException) -> str:
    """Why torch.export cannot capture a module, and the remedy."""
    op = getattr(error, "func", None)
    if type(error).__name__ == "UnsupportedOperatorException" and isinstance(op, torch._ops.OpOverload):
        name = str(op._schema.name)
        return (
            f"{name} has no fake kernel, so torch does not know the shapes after it. Register one with "
            f"torch.library.register_fake({name!r})."
        )
    return f"torch cannot capture the module ({_first_line(error)}). Fix the module first."


def calls_by_torchscript(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], opset: int
) -> Iterator[OperatorCall]:
    """Yield the calls in a trace, in order.  Raises UsageError if the module cannot be traced."""
    from torch.onnx._internal.torchscript_exporter import utils

    symbolics()  # fills the registry, which torch reads before it fills it
    if kwargs:
        module, args = _Positional(module, args, kwargs), (*args, *kwargs.values())
    try:
        with lock, restore_buffers(module), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            utils._setup_trace_module_map(module, False)
            graph, _ = utils.unconvertible_ops(module, tuple(args), opset_version=opset)
            calls = list(_traced_calls(graph, "module" if kwargs else ""))
    except Exception as error:  # the module and torch may raise anything
        cause = error.__cause__ or error
        raise UsageError(f"torch cannot trace the module ({_first_line(cause)}). Fix the module first.") from error
    finally:
        utils._reset_trace_module_map()
    yield from calls


class _Positional(torch.nn.Module):
    """A module that takes its keyword arguments as further positional ones, as tracing requires."""

    def __init__(self, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        self.module, self.count, self.names = module, len(args), list(kwargs)
        self.train(module.training)

    def forward(self, *values: Any) -> Any:
        return self.module(*values[: self.count], **dict(zip(self.names, values[self.count :], strict=True)))


def _traced_calls(graph: Any, root: str) -> Iterator[OperatorCall]:
    torch._C._jit_pass_onnx_autograd_function_process(graph)  # as in an export: calls of a Function become a block
    for node in _nodes(graph):
        op = node.kind().rstrip("_")
        scopes = [scope.rpartition("::")[2] for scope in node.scopeName().split("/")]
        path = ".".join(scope for scope in scopes if scope).removeprefix(root).removeprefix(".")
        line = _line(_RANGE, node.sourceRange())
        yield OperatorCall(op, _user_name("", op), path, line=line, decomposition={op: torchscript_opsets(op)})


def _nodes(block: Any) -> Iterator[Any]:
    """The nodes that need a mapping, also in inner blocks, except in an autograd.Function with a symbolic."""
    for node in block.nodes():
        cls = getattr(node.pyobj(), "__self__", None) if node.kind() == "prim::PythonOp" else None
        if hasattr(cls, "symbolic"):
            continue
        for inner in node.blocks():
            yield from _nodes(inner)
        if not node.kind().startswith(("onnx::", "prim::")):
            yield node


def _origins(node: Any) -> Iterator[str]:
    """The names of the nodes from which a node originates, through all passes."""
    waiting = list(node.meta.get("from_node") or ())
    while waiting:
        source = waiting.pop(0)
        yield str(source.name)
        waiting += list(source.from_node or ())


def _full_name(target: Any) -> str:
    """`ns::name.overload`, or the name of a Python function."""
    return str(target.name()) if isinstance(target, torch._ops.OpOverload) else str(getattr(target, "__name__", target))


def _user_name(called: str, op: str) -> str:
    """The Python name of an operator, such as `torch.special.i0`; its own name if that is unknown.

    called: the name of the Python function that torch recorded, or empty.
    """
    namespace, _, base = op.partition("::")
    if namespace not in ("aten", "prims"):
        return op
    for name in dict.fromkeys((called, base)):
        prefix, _, rest = name.partition("_")
        if prefix in ("special", "linalg", "fft") and hasattr(getattr(torch, prefix), rest):
            return f"torch.{prefix}.{rest}"
        for home in (torch, torch.nn.functional, torch.Tensor):
            if name and hasattr(home, name):
                prefix = "torch.Tensor" if home is torch.Tensor else home.__name__
                return f"{prefix}.{name}"
    return op


def _line(pattern: re.Pattern[str], text: str, *, last: bool = False) -> str:
    """The first (or last) `file:line` of a stack outside torch; empty if there is none."""
    frames = [(found["file"], found["line"]) for found in pattern.finditer(text)]
    own = [frame for frame in frames if not frame[0].startswith((_TORCH, "<eval_with_key>"))]
    if not own:
        return ""
    file, line = own[-1 if last else 0]
    return f"{file}:{line}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].rstrip('.') if lines else 'no message'}"
