"""Exports placeholders with the TorchScript exporter of torch (`torch.onnx.export(dynamo=False)`)."""

import contextlib
import importlib
import pkgutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import torch

from surgeon.errors import UsageError
from surgeon.ops.torch_schema import SCALAR_TYPES, Argument, TorchSchema
from surgeon.torch.exporters.fake_outputs import set_output_types
from surgeon.torch.placeholders.call_binding import CALL_ID_ATTRIBUTE, TEMPORARY_DOMAIN, bind, sort_arguments
from surgeon.torch.placeholders.example_inputs import ExampleInputs
from surgeon.torch.placeholders.export_plan import ExportState
from surgeon.torch.placeholders.placeholder import mutation_message
from surgeon.torch.tensor_conversion import ONNX_TYPES

LOWEST, NEWEST, USUAL = 7, 23, 20
SUFFIX = {"INT": "i", "FLOAT": "f", "STRING": "s"}


def opsets() -> tuple[int, int]:
    """The lowest and the highest opset that the exporter writes."""
    return LOWEST, NEWEST


def export(
    module: torch.nn.Module, plan: ExportState, opset: int | None, options: Mapping[str, Any]
) -> onnx.ModelProto:
    """Export with a symbolic for every operator of the plan.  options: as `torch.onnx.export` takes them."""
    opset = opset or USUAL
    with (
        tempfile.TemporaryDirectory() as folder,
        _called_with_tensors(module, plan.inputs) as args,
        _symbolics(plan, opset),
        _without_merging(plan),
        _without_log(),
        _mutation_check(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        torch.onnx.export(module, args, str(path), dynamo=False, opset_version=opset, **options)
        return onnx.load(str(path))


@contextlib.contextmanager
def _called_with_tensors(module: torch.nn.Module, inputs: ExampleInputs) -> Iterator[tuple[Any, ...]]:
    """Let the module take its tensors as positional arguments, and yield them: the exporter supports little else.

    A TorchScript module has no Python `forward`, so its arguments stay unchanged.
    """
    if isinstance(module, torch.jit.ScriptModule):
        yield (*inputs.args, *inputs.kwargs.values())
        return
    own = module.forward

    def forward(*tensors: Any) -> Any:
        args, kwargs = inputs.with_tensors(tensors)
        return own(*args, **kwargs)

    had = "forward" in vars(module)
    object.__setattr__(module, "forward", forward)
    try:
        yield tuple(tensor for _, tensor in inputs.tensors)
    finally:
        if had:
            object.__setattr__(module, "forward", own)
        else:
            object.__delattr__(module, "forward")


@cache
def symbolics() -> Any:
    """The complete registry of the exporter, which torch itself fills only during an export."""
    for module in pkgutil.iter_modules(torch.onnx.__path__):
        if module.name.startswith("symbolic_opset"):
            importlib.import_module(f"torch.onnx.{module.name}")
    from torch.onnx._internal.torchscript_exporter.registration import registry

    return registry


def traced_operators(module: torch.nn.Module, inputs: ExampleInputs) -> set[str]:
    """The operators in a trace, which decomposes some further than a program of torch.export."""
    with _called_with_tensors(module, inputs) as args, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = torch.jit._get_trace_graph(module, args)[0]
    torch._C._jit_pass_inline(graph)
    return {node.kind() for node in graph.nodes() if not node.kind().startswith("prim::")}


@contextlib.contextmanager
def _symbolics(plan: ExportState, opset: int) -> Iterator[None]:
    """Register the symbolic functions at the opset of the export, and restore the previous ones afterwards."""
    registry = symbolics()
    by_name: dict[str, list[Any]] = {}
    for op in plan.schemas:
        by_name.setdefault(op._schema.name, []).append(op)
    before: dict[str, Any] = {}
    try:
        for name, ops in by_name.items():
            group = registry.get_function_group(name)
            if group is not None and group._functions.overridden(opset):
                before[name] = group._functions[opset]
            mapped = None if group is None else group.get(opset)
            torch.onnx.register_custom_op_symbolic(name, _symbolic(plan, ops, mapped), opset)
        yield
    finally:
        for name in by_name:
            group = registry.get_function_group(name)
            if name in before:
                torch.onnx.register_custom_op_symbolic(name, before[name], opset)
            elif group is not None:
                torch.onnx.unregister_custom_op_symbolic(name, opset)
                if not group._functions:  # torch treats an empty group as a registered name
                    del registry._registry[name]


@contextlib.contextmanager
def _without_merging(plan: ExportState) -> Iterator[None]:
    """Disable the merging of equal calls, unless all operators are deterministic."""
    if plan.merges_calls:
        yield
        return
    merge = torch._C._jit_pass_cse
    torch._C._jit_pass_cse = lambda graph: False
    try:
        yield
    finally:
        torch._C._jit_pass_cse = merge


@contextlib.contextmanager
def _without_log() -> Iterator[None]:
    """Keep an exporter that fails from printing its graph (quirks.TORCHSCRIPT_LOG)."""
    switch, was_on = torch._C._jit_set_onnx_log_enabled, torch._C._jit_is_onnx_log_enabled()
    switch(False)
    torch._C._jit_set_onnx_log_enabled = lambda enabled: None
    try:
        yield
    finally:
        torch._C._jit_set_onnx_log_enabled = switch
        switch(was_on)


@contextlib.contextmanager
def _mutation_check() -> Iterator[None]:
    """Raise UsageError for custom operators that write into their arguments, once the module is traced.

    The exporter keeps only their results, not their writes.
    """
    trace = torch.jit._get_trace_graph

    def traced(*args: Any, **kwargs: Any) -> Any:
        found = trace(*args, **kwargs)
        for kind in sorted({node.kind() for node in found[0].nodes()}):
            is_own = not kind.startswith(("aten::", "prim::", "onnx::", "quantized::"))
            if is_own and any(schema.is_mutable for schema in torch._C._jit_get_schemas_for_operator(kind)):
                raise UsageError(f"{mutation_message(kind)}.")
        return found

    torch.jit._get_trace_graph = traced
    try:
        yield
    finally:
        torch.jit._get_trace_graph = trace


def _symbolic(plan: ExportState, ops: list[Any], mapped: Callable[..., Any] | None) -> Callable[..., Any]:
    """The symbolic function for all overloads of an operator.

    mapped: the symbolic function of the exporter, for overloads that are not placeholders.
    """

    def symbolic(g: Any, *args: Any, **kwargs: Any) -> Any:
        op = _overload(plan, ops, args)
        if op is None and mapped is not None:
            return mapped(g, *args, **kwargs)
        if op is None:
            name = ops[0]._schema.name
            raise UsageError(
                f"No overload of {name} that is a placeholder accepts these {len(args)} arguments. Give the operator "
                f"without an overload: {name!r}"
            )
        one, schema = plan.schemas[op]
        values = bind(schema, args, kwargs)
        read = {item.name: _read(item, values[item.name], schema) for item in schema.arguments}
        promoted = [name for name in read if name in plan.promoted_arguments(op)]
        common = _common_dtype([read[name] for name in promoted])
        call = sort_arguments(
            schema,
            {**read, **{name: _promoted(g, read[name], common) for name in promoted}},
            lambda value: isinstance(value, torch._C.Value),
        )
        outputs = max(len(op._schema.returns), 1)
        mark = plan.record_call(op, call)
        inputs = [_input(g, value) for value in call.inputs]
        attributes = {
            f"{name}_{SUFFIX[kind.removesuffix('S')]}": value for name, (kind, value) in call.attributes.items()
        }
        attributes[f"{CALL_ID_ATTRIBUTE}_i"] = mark
        made = g.op(f"{TEMPORARY_DOMAIN}::{one.op}", *inputs, outputs=outputs, **attributes)
        results = made if outputs > 1 else (made,)
        plan.calls[mark].shapes.extend(
            set_output_types(g, op, schema, values=read, outputs=results, examples=plan.inputs)
        )
        return made

    return symbolic


def _overload(plan: ExportState, ops: list[Any], args: tuple[Any, ...]) -> Any:
    """The overload of a call, by the number and kinds of its arguments: the exporter only passes the name.

    None if no placeholder takes them.
    """
    fitting = [op for op in ops if len(op._schema.arguments) == len(args)]
    for op in fitting:
        schema = plan.schemas[op][1]
        if all(_fits(item, value) for item, value in zip(schema.arguments, args, strict=True)):
            return op
    return None


def _fits(item: Argument, value: Any) -> bool:
    if not isinstance(value, torch._C.Value):
        return True
    if value.node().mustBeNone():
        return item.is_optional or item.is_left_out
    is_list = bool(value.node().kind() == "prim::ListConstruct")
    if item.is_tensor:
        return item.is_list == is_list
    if is_list:
        return item.is_list
    constant = _constant(value)
    if constant is None:
        return item.attribute is None
    if isinstance(constant, torch.Tensor):
        return constant.dim() == 0 or item.is_list
    return isinstance(constant, str) is bool(item.base == "str")


def _constant(value: Any) -> Any:
    """The value of a constant; None for other values."""
    node = value.node()
    if node.kind() not in ("onnx::Constant", "prim::Constant") or not node.hasAttribute("value"):
        return None
    return getattr(node, node.kindOf("value"))("value")


def _read(item: Argument, value: Any, schema: TorchSchema) -> Any:
    """An argument as a Python value; tensors stay values of the graph; None for an absent one."""
    if not isinstance(value, torch._C.Value):
        return value
    if value.node().mustBeNone():
        return None
    elements = list(value.node().inputs()) if value.node().kind() == "prim::ListConstruct" else None
    if item.is_tensor:
        return value if elements is None else [_read_tensor(one) for one in elements]
    if item.attribute is None:
        return None if item.is_left_out else value
    plain = [_plain(one) for one in elements] if elements is not None else _plain(value)
    if item.is_list and not isinstance(plain, list) and not isinstance(plain, torch._C.Value):
        plain = [plain]
    if item.base == "ScalarType" and isinstance(plain, int):
        return SCALAR_TYPES.get(plain)
    return plain


def _read_tensor(value: Any) -> Any:
    return None if value.node().mustBeNone() else value


def _plain(value: Any) -> Any:
    """The Python value of a constant; other values unchanged."""
    constant = _constant(value)
    if constant is None:
        return value
    return constant.tolist() if isinstance(constant, torch.Tensor) else constant


def _common_dtype(inputs: Sequence[Any]) -> Any:
    """The dtype to which torch promotes the inputs; None if the dtype of an input is unknown."""
    found: Any = None
    for value in inputs:
        constant = _constant(value) if isinstance(value, torch._C.Value) else value
        number = isinstance(constant, torch.Tensor) and constant.dim() == 0
        if value is None:
            continue
        if isinstance(value, torch._C.Value) and not number:
            kind = value.type()
            if not isinstance(kind, torch._C.TensorType) or kind.dtype() is None:
                return None
            one = torch.empty((1,) * (1 if kind.dim() is None else kind.dim()), dtype=kind.dtype(), device="meta")
        else:
            one = constant.item() if isinstance(constant, torch.Tensor) else constant
        found = one if found is None else torch.empty_like(_meta(found), dtype=torch.result_type(found, one))
    return found.dtype if isinstance(found, torch.Tensor) else None


def _meta(one: Any) -> Any:
    return one if isinstance(one, torch.Tensor) else torch.tensor(one, device="meta")


def _promoted(g: Any, value: Any, common: Any) -> Any:
    """A tensor cast to the common dtype; a number as a constant in that dtype."""
    if value is None or common is None:
        return value
    constant = _constant(value) if isinstance(value, torch._C.Value) else torch.tensor(value)
    if isinstance(constant, torch.Tensor):
        return g.op("Constant", value_t=constant.to(common))
    if value.type().dtype() == common:
        return value
    cast = g.op("Cast", value, to_i=ONNX_TYPES[common])
    return cast.setType(value.type().with_dtype(common))


def _input(g: Any, value: Any) -> Any:
    """An input of a node: a tensor of the graph, a number as a constant, or an empty input."""
    if value is None:
        return g.op("prim::Constant").setType(torch._C.OptionalType.ofTensor())
    return value if isinstance(value, torch._C.Value) else g.op("Constant", value_t=torch.tensor(value))
