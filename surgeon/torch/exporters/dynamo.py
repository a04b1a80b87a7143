"""Placeholders through torch's exporter of exported programs (`torch.onnx.export(dynamo=True)`)."""

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import onnx
import onnx.version_converter
import onnx_ir
import onnxscript
import torch

from surgeon.errors import ExportError
from surgeon.torch.placeholders.call_binding import CALL_ID_ATTRIBUTE, TEMPORARY_DOMAIN, BoundCall
from surgeon.torch.placeholders.export_plan import ExportState, promote_scalar
from surgeon.torch.tensor_conversion import TORCH_TYPES

LOWEST, NEWEST = 17, 25
LOWEST_NATIVE = 18  # the lowest opset with functions of the exporter, which it writes for lower ones without a warning
_LOGGERS_OF_ERRORS = ("torch._subclasses.fake_tensor", "torch.export._trace")
_ALL_TYPES = [
    f"tensor({one})"
    for one in (
        *("float16", "float", "double", "bfloat16", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "bool", "string", "complex64", "complex128"),
    )
]


def opsets() -> tuple[int, int]:
    """The lowest and the highest opset that the exporter writes."""
    return LOWEST, min(NEWEST, onnx.defs.onnx_opset_version())


def export(module: Any, plan: ExportState, opset: int | None, options: Mapping[str, Any]) -> onnx.ModelProto:
    """Export with a translation for every overload of the plan.  options: as `torch.onnx.export` takes them."""
    args, kwargs = plan.inputs.args, dict(plan.inputs.kwargs)
    if args and isinstance(args[-1], dict) and not kwargs:
        args = (*args, {})  # the exporter takes a trailing dict for keywords
    table = {op: _translation(plan, op) for op in plan.schemas}
    # The exporter logs its progress, and warns about parameters of translations.
    with (
        silence_loggers("torch.onnx", "onnxscript", "onnx_ir"),
        silence_loggers(*_LOGGERS_OF_ERRORS, level=logging.CRITICAL),
    ):
        program = torch.onnx.export(
            module,
            args,
            kwargs=kwargs or None,
            dynamo=True,
            opset_version=None if opset is None else max(opset, LOWEST_NATIVE),
            custom_translation_table=table,
            verbose=False,
            **options,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned nothing")
    model: onnx.ModelProto = program.model_proto
    return model if opset is None or opset >= LOWEST_NATIVE else _downgraded(model, opset)


def _downgraded(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model at a lower opset, by the version converter of onnx.  Raises ExportError if it fails."""
    try:
        downgraded = onnx.version_converter.convert_version(model, opset)
    except (RuntimeError, ValueError) as error:
        raise ExportError(
            f"The dynamo exporter writes opset {LOWEST_NATIVE}, and onnx cannot convert this model to {opset}. Use "
            f"opset={LOWEST_NATIVE} or later, or exporter='torchscript'."
        ) from error
    metadata = {node.name: node.metadata_props for node in model.graph.node if node.name}
    for node in downgraded.graph.node:  # the converter drops metadata
        if not node.metadata_props:
            node.metadata_props.extend(metadata.get(node.name, ()))
    return downgraded


@contextlib.contextmanager
def silence_loggers(*names: str, level: int = logging.ERROR) -> Iterator[None]:
    """Suppress warnings, and messages of loggers of torch below a level, such as the missing torchvision."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(level)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, before in zip(loggers, levels, strict=True):
            one.setLevel(before)


def _translation(plan: ExportState, op: Any) -> Callable[..., Any]:
    """The translation function that the exporter calls for each call of the overload."""
    outputs = max(len(op._schema.returns), 1)

    def translate(*args: Any, **kwargs: Any) -> Any:
        one, call = plan.bind_call(op, args, kwargs, lambda value: isinstance(value, onnx_ir.Value))
        mark = plan.record_call(op, call)
        beside = next((value for value in call.inputs if isinstance(value, onnx_ir.Value)), None)
        inputs = [_input(value, beside) for value in call.inputs]
        schema = _op_schema(one.op, call, outputs)
        node = onnxscript.values.Op(onnxscript.values.Opset(TEMPORARY_DOMAIN, 1), one.op, schema)
        return node(*inputs, **_attributes(call, mark))

    return translate


def _input(value: Any, beside: Any) -> Any:
    """A tensor of the graph unchanged; a number as a constant in the dtype of another input."""
    if value is None or isinstance(value, onnx_ir.Value):
        return value
    known = None if beside is None or beside.dtype is None else onnx.TensorProto.DataType.ValueType(int(beside.dtype))
    return onnx_ir.tensor(promote_scalar(value, None if known is None else TORCH_TYPES.get(known)))


def _attributes(call: BoundCall, mark: int) -> dict[str, Any]:
    attributes = {**call.attributes, CALL_ID_ATTRIBUTE: ("INT", mark)}
    return {name: onnx_ir.Attr(name, onnx_ir.AttributeType[kind], value) for name, (kind, value) in attributes.items()}


def _op_schema(op: str, call: BoundCall, outputs: int) -> onnx.defs.OpSchema:
    """An unregistered schema of exactly this call, with a separate type variable for each tensor."""
    schema = onnx.defs.OpSchema
    ins = [f"i{place}" for place in range(len(call.inputs))]
    outs = [f"o{place}" for place in range(outputs)]
    optional = schema.FormalParameterOption.Optional
    single = schema.FormalParameterOption.Single
    kinds = {name: kind for name, (kind, _) in call.attributes.items()} | {CALL_ID_ATTRIBUTE: "INT"}
    return schema(
        op,
        TEMPORARY_DOMAIN,
        1,
        inputs=[
            schema.FormalParameter(name, f"T{name}", param_option=optional if value is None else single)
            for name, value in zip(ins, call.inputs, strict=True)
        ],
        outputs=[schema.FormalParameter(name, f"T{name}") for name in outs],
        type_constraints=[(f"T{name}", _ALL_TYPES, "") for name in (*ins, *outs)],
        attributes=[schema.Attribute(name, getattr(schema.AttrType, kind)) for name, kind in kinds.items()],
    )
