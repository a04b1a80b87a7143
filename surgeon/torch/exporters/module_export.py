"""`surgeon.torch.export`: exports a module with placeholders, with either exporter of torch."""

import os
import re
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import onnx
import torch

from surgeon.errors import NO_TEMPORARY, ExportError, SurgeonError, UsageError, lacks_temporary
from surgeon.ops.schemas.op_schema import history
from surgeon.ops.traversal import nodes_of
from surgeon.text import close_matches, format_count
from surgeon.torch.exporters import dynamo, torchscript
from surgeon.torch.exporters.builtin_mappings import require_exporter, require_module
from surgeon.torch.exporters.finalize import finalize
from surgeon.torch.placeholders import registration
from surgeon.torch.placeholders.class_operators import classes_as_operators, restore_buffers
from surgeon.torch.placeholders.example_inputs import ExampleInputs, example_inputs
from surgeon.torch.placeholders.export_plan import ExportState
from surgeon.torch.placeholders.placeholder import OperatorLike, Placeholder, mutation_message, require_exportable
from surgeon.torch.placeholders.placeholder import placeholders as sorted_placeholders

Exporter = Literal["dynamo", "torchscript"]
LARGE = 1_900_000_000  # bytes; a protobuf ends at 2 GiB
lock = threading.RLock()  # the exporters of torch share state
_NO_FUNCTION = re.compile(
    r"No ONNX function found for <(?:OpOverload|HigherOrderOperator)\(op='([\w:.]+)'(?:, overload='(\w+)')?"
)
_WRITES = re.compile(r"auto_functionalized(?:_v2)?\]?\(args = \((\w+\.\w+)")
_NO_SYMBOLIC = re.compile(r"the operator '([\w:]+)' to ONNX opset version (\d+) is not supported")
_NO_INPUT = re.compile(r"unsupported input (?:list )?type")  # of an operator that TorchScript traces
_NO_NAMESPACE = re.compile(r"on an operator with unrecognized namespace ([\w:]+)")
_NO_FAKE = re.compile(
    r"no fake impl registered for <(?:OpOverload|CustomOpDef)\(op='([\w:.]+)'|fake impl[^']*'?([\w]+::[\w.]+)'?"
)
_NOISE = ("Failed to ", "Error when ", "Error calling ", "# ", "\x1b[96m[")


def export_error(error: BaseException, exporter: str, module: str) -> SurgeonError:
    """The error to raise for an error of an exporter; a SurgeonError in its chain is returned unchanged."""
    chain = list(_chain(error))
    own = next((one for one in chain if isinstance(one, SurgeonError)), None)
    if own is not None:
        return own
    if any(map(lacks_temporary, chain)):
        return UsageError(NO_TEMPORARY)
    text = "\n".join(str(one) for one in chain)
    if missing := _NO_FUNCTION.search(text):
        name = missing[1].replace(".", "::", 1) if "::" not in missing[1] else missing[1]
        return ExportError(_untranslated(exporter, module, name))
    if missing := _WRITES.search(text):
        return UsageError(f"{mutation_message(missing[1].replace('.', '::', 1))}.")
    if missing := _NO_SYMBOLIC.search(text):
        return ExportError(_untranslated(exporter, module, missing[1], f" at opset {missing[2]}"))
    if missing := _NO_NAMESPACE.search(text):
        return ExportError(_untranslated(exporter, module, missing[1]))
    if missing := _NO_FAKE.search(text):
        name = missing[1].replace(".", "::", 1)
        return ExportError(
            f"{name} has no fake kernel, so the exporter does not know the shapes after it. Register one with "
            f"torch.library.register_fake({name!r})."
        )
    cure = ". Use exporter='dynamo', which accepts it" if exporter == "torchscript" and _NO_INPUT.search(text) else ""
    return ExportError(f"The {exporter} exporter cannot export {module}: {_sentence(chain)}{cure}.")


def _untranslated(exporter: str, module: str, name: str, where: str = "") -> str:
    return (
        f"The {exporter} exporter cannot translate {name}, which {module} uses{where}. Make it a placeholder, or the "
        f"operator that decomposes into it: placeholders=[{name!r}]"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes, the original one last."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _sentence(chain: list[BaseException]) -> str:
    """The first informative line of the innermost error."""
    for one in reversed(chain):
        lines = [line.strip() for line in str(one).splitlines() if line.strip()]
        informative = [line for line in lines if not line.startswith(_NOISE)]
        if informative:
            first, *rest = informative
            text = f"{first} {rest[0].lstrip('- ')}" if first.endswith(":") and rest else first
            return f"{type(one).__name__}: {text.rstrip('.:;')}"
    return type(chain[-1]).__name__


def require_effect(asked: Sequence[Placeholder], plan: ExportState, module: torch.nn.Module, exporter: str) -> None:
    """Raise ExportError for a requested placeholder without a node."""
    called = {id(written.placeholder) for written in plan.calls}
    there = {id(written.placeholder) for written in plan.calls_by_output.values()}
    for one in asked:
        if id(one) in there:
            continue
        name = type(module).__name__
        if id(one) in called:
            raise ExportError(_unused(one, name))
        if one.cls is not None:
            others = [other.label for other in asked if other.cls is not None and other is not one]
            within = f", or only inside of {' or '.join(others)}" if others else ""
            raise ExportError(
                f"{name} does not call {one.label}{within}, so it cannot be a placeholder. Leave it out."
            )
        raise ExportError(_unused_reason(one, name, module, inputs=plan.inputs, exporter=exporter))


def _unused(one: Placeholder, name: str) -> str:
    return (
        f"{name} calls {one.label}, but nothing uses the result, so the exporter leaves it out. Return the result "
        "from forward."
    )


def _unused_reason(one: Placeholder, name: str, module: torch.nn.Module, inputs: ExampleInputs, exporter: str) -> str:
    calls = _calls(module, inputs)
    mine = {op._schema.name for op in one.ops}
    if outer := mine.intersection(calls):
        if exporter == "torchscript":
            pieces = torchscript.traced_operators(module, inputs) - set(calls)
        else:
            pieces = calls[outer.pop()] - mine
        if not pieces:
            return _unused(one, name)
        return (
            f"{name} calls {one.label}, but the {exporter} exporter decomposes it into {', '.join(sorted(pieces))} "
            "before it looks for placeholders. Use one of these, or a module class that calls it."
        )
    inside = [whole for whole, pieces in calls.items() if mine & pieces]
    if inside:
        return (
            f"{one.label} is only a part of {inside[0]}, which is decomposed after the exporter has looked for "
            f"placeholders. Use {inside[0]} instead."
        )
    near = close_matches(one.label.partition(".")[0], calls) or sorted(calls)[:6]
    called = f". It calls {', '.join(near)}" if near else ""
    return f"{name} does not call {one.label}, so it cannot be a placeholder{called}."


def _calls(module: torch.nn.Module, inputs: ExampleInputs) -> dict[str, set[str]]:
    """The operators that a module calls, each with its decomposition; empty if torch.export fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = torch.export.export(module, inputs.args, dict(inputs.kwargs), strict=False)
            whole = program.run_decompositions()
        except (
            RuntimeError,
            TypeError,
            ValueError,
            AttributeError,
            KeyError,
        ):  # only the other exporter takes this module
            return {}
    outer = {node.name: node.target._schema.name for node in program.graph.nodes if _is_op(node)}
    calls: dict[str, set[str]] = {op: set() for op in outer.values()}
    for node in whole.graph.nodes:
        for source in (node.meta.get("from_node") or ()) if _is_op(node) else ():
            if source.name in outer:
                calls[outer[source.name]].add(node.target._schema.name)
    return calls


def _is_op(node: Any) -> bool:
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)


@dataclass(frozen=True)
class Exported:
    """The result of `export`.

    Examples:
        >>> import torch, surgeon.torch
        >>> surgeon.torch.export(torch.nn.ReLU(), (torch.randn(2, 3),), exporter="torchscript", opset=17)
        <exported in memory: opset 17 by torchscript, placeholders: none>
    """

    path: Path | None
    """The path of the model file; None if none is written."""
    model: onnx.ModelProto = field(repr=False)
    """The exported model."""
    placeholders: Mapping[str, int]
    """The number of nodes by `domain::Name`, without those that a registered symbolic function has replaced."""
    exporter: str
    """"dynamo" or "torchscript"."""
    opset: int
    """The version of ai.onnx."""

    def __repr__(self) -> str:
        """The path, opset, exporter and placeholders in one line."""
        nodes = ", ".join(f"{name} ×{count}" for name, count in self.placeholders.items()) or "none"
        where = str(self.path) if self.path else "in memory"
        return f"<exported {where}: opset {self.opset} by {self.exporter}, placeholders: {nodes}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def export(
    module: torch.nn.Module,
    args: Sequence[Any] | torch.Tensor = (),
    path: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    placeholders: Iterable[OperatorLike] | Mapping[OperatorLike, str] = (),
    exporter: Exporter = "dynamo",
    opset: int | None = None,
    version: int = 1,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Exported:
    """Export a module, with operators of your choice as single nodes.

    The module stays unchanged, even if the export fails.  Exports run one at a time.

    Args:
        module: the module.  dynamo exports it in its current mode, torchscript in evaluation mode, so call its `eval()`
            first.  Only torchscript accepts a TorchScript module.
        args: example arguments of `forward`, in order; a single tensor needs no tuple.
        path: the file to write; None writes no file.
        kwargs: further arguments of `forward`, by name.
        placeholders: operators that become one node each: "ns::name", with or without overload, a torch.ops operator,
            an autograd.Function or an nn.Module class.  A mapping gives the nodes names `domain::Name`; in a list they
            keep the operators' names.  Tensors become inputs in the order of the operator's schema, and all other
            arguments become attributes by name.  A call of a module class becomes one node, with the parameters and
            buffers of the module as inputs after the arguments.  Settings of the module, such as a stride, are not in
            the node; if calls differ in them, pass them to `forward` as arguments.  Operators of `register` are
            placeholders too, and are replaced with the nodes of their registered function.
        exporter: "dynamo" (torch.export) or "torchscript".
        opset: of ai.onnx; None for the exporter's default.
        version: of the placeholders' domains.
        dynamic_shapes: dynamic sizes, by argument of `forward` or by input name, {"x": {0: "batch"}}, or in the order
            of the arguments, ({0: "batch"},).  If an argument contains several tensors, give one entry for all of them,
            or a tree like the argument.
        input_names: names of the model's inputs, in order; by default those in `forward`.
        output_names: names of the model's outputs, in order.

    Returns:
        The Exported: the model, its path, and the number of nodes of each placeholder.

    Raises:
        UsageError: the arguments do not fit.
        ExportError: the exporter cannot write the model, or a placeholder has no node.

    Examples:
        >>> import torch, surgeon.torch
        >>> x = torch.randn(2, 3)
        >>> surgeon.torch.export(torch.nn.GELU(), (x,), "out.onnx", placeholders=["aten::gelu"], exporter="torchscript")
        <exported out.onnx: opset 20 by torchscript, placeholders: aten::gelu ×1>
    """
    _require(module, exporter, opset, version)
    _require_path(path)
    _require_names("input_names", input_names)
    _require_names("output_names", output_names)
    args = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    asked = sorted_placeholders(placeholders)
    registered = registration.registrations(asked)
    inputs = example_inputs(module, args, kwargs or {}, free=dynamic_shapes, input_names=input_names)
    everything = [*asked, *(one.placeholder for one in registered)]
    for one in asked:
        require_exportable(one)
    plan = ExportState(everything, version, inputs)
    with lock:
        try:
            with restore_buffers(module), classes_as_operators(plan, module, args, kwargs or {}):
                model = _write(module, plan, exporter, opset=opset, input_names=input_names, output_names=output_names)
        except Exception as error:  # exporters may raise anything
            to_raise = export_error(error, exporter, type(module).__name__)
            if to_raise is error:
                raise
            raise to_raise from error
        counts = finalize(model, plan)
        written = next(item.version for item in model.opset_import if item.domain in ("", "ai.onnx"))
        _require_opset(opset, written, exporter)
        _require_ops(model, written, exporter)
        if len(output_names or ()) > len(model.graph.output):
            raise UsageError(
                f"There are {len(output_names or ())} output names, but {type(module).__name__} returns "
                f"{format_count(len(model.graph.output), 'tensor')}. Give one name for each."
            )
        require_effect(asked, plan, module, exporter)
    model, left = registration.replace(model, registered, plan, counts=counts, opset=written)
    model, saved = _saved(model, path)
    return Exported(saved, model, dict(_in_order(everything, left)), exporter=exporter, opset=written)


def _write(
    module: torch.nn.Module,
    plan: ExportState,
    exporter: Exporter,
    opset: int | None,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> onnx.ModelProto:
    inputs = plan.inputs
    options: dict[str, Any] = {"output_names": list(output_names) if output_names else None}
    if exporter == "dynamo":
        options |= {
            "input_names": list(input_names) if input_names else None,
            "dynamic_shapes": inputs.as_dynamic_shapes(),
        }
        return dynamo.export(module, plan, opset, options)
    options |= {"input_names": list(inputs.names), "dynamic_axes": inputs.as_dynamic_axes() or None}
    return torchscript.export(module, plan, opset, options)


def _require(module: Any, exporter: str, opset: int | None, version: int) -> None:
    """Raise UsageError for invalid arguments."""
    require_module(module)
    require_exporter(exporter, opset)
    if exporter == "dynamo" and isinstance(module, torch.jit.ScriptModule):
        raise UsageError(
            f"{type(module).__name__} is a TorchScript module, which the dynamo exporter does not accept. Use "
            "exporter='torchscript', or export the original module."
        )
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UsageError(f"version must be an integer of at least 1, not {version!r}.")


def _require_path(path: Any) -> None:
    """Raise UsageError for a path that cannot be written."""
    if path is None:
        return
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"path must be a path or None, not {path!r}.")
    where = Path(os.fspath(path))
    if where.is_dir():
        raise UsageError(f"{where} is a directory. Give the path of a file in it.")
    if not where.parent.is_dir():
        raise UsageError(f"Directory not found: {where.parent}")


def _require_names(which: str, names: Any) -> None:
    """Raise UsageError unless names are a list of distinct strings."""
    if names is None:
        return
    is_listed = isinstance(names, Iterable) and not isinstance(names, str)
    if not is_listed or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"{which} must be a list of names, for example ['x', 'y'], not {names!r}.")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"{which} has {twice!r} more than once. Give each tensor its own name.")


def _require_opset(asked: int | None, written: int, exporter: str) -> None:
    """Raise ExportError if the exporter wrote another opset than the requested one."""
    if asked is not None and written != asked:
        raise ExportError(
            f"The {exporter} exporter wrote opset {written} instead of {asked}, because it could not convert this "
            f"model. Use opset={written}" + (" or exporter='torchscript'." if exporter == "dynamo" else ".")
        )


def _require_ops(model: onnx.ModelProto, opset: int, exporter: str) -> None:
    """Raise ExportError for an op that ONNX lacks at the opset, which the TorchScript exporter does not check."""
    for node in nodes_of(model):
        versions = history("", node.op_type) if node.domain in ("", "ai.onnx") else ()
        since = min((one.since_version for one in versions), default=0)
        if since > opset:
            raise ExportError(
                f"The {exporter} exporter wrote {node.op_type} at opset {opset}, but ONNX has it only from opset "
                f"{since} on. Use opset={since} or later."
            )


def _in_order(everything: Sequence[Placeholder], counts: Counter[str]) -> Iterable[tuple[str, int]]:
    names = dict.fromkeys(one.name for one in everything)
    return ((name, counts[name]) for name in names if counts[name])


def _saved(model: onnx.ModelProto, path: str | os.PathLike[str] | None) -> tuple[onnx.ModelProto, Path | None]:
    """Write the model; return it and its path."""
    if path is None:
        return model, None
    where = Path(os.fspath(path))
    if model.ByteSize() <= LARGE:
        onnx.save_model(model, str(where))
        return model, where
    onnx.save_model(model, str(where), save_as_external_data=True, location=f"{where.name}.data")
    return onnx.load(where), where  # saving empties the weights in memory
