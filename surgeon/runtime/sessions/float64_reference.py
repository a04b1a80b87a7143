"""A region's computation in float64, the reference for both the original and the rewrite."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, numpy_helper

from surgeon.errors import GraphError
from surgeon.ops.traits.dtype_traits import DTYPE_ATTRIBUTES, INTERMEDIATE_DTYPE_ATTRIBUTES, QUANTIZING
from surgeon.ops.traits.trait_lookup import CAST_OPS, is_random, op_of, shape_only_inputs
from surgeon.ops.traversal import all_nodes, subgraphs
from surgeon.runtime.function_inlining import attach_function_bodies, inline_functions
from surgeon.runtime.kernels.kernel_registry import REFERENCE_KERNELS
from surgeon.runtime.numerics.array_comparison import name_of_dtype
from surgeon.runtime.quirks import WRONG_FLOAT64_BODIES
from surgeon.runtime.sessions.node_by_node import ImplementationSet, used_implementations
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession

ModelTransform = Callable[[ModelProto, ModelProto], ModelProto | None]

_DOUBLE = TensorProto.DOUBLE
_EIGHT_BITS = frozenset(number for name, number in TensorProto.DataType.items() if name.startswith("FLOAT8"))
_FLOATS = frozenset((TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, *_EIGHT_BITS))

_DTYPE_ATTRIBUTES: Mapping[str, tuple[str, int | None]] = {
    **{op: item for op, item in DTYPE_ATTRIBUTES.items() if item[0] != "value"},
    **INTERMEDIATE_DTYPE_ATTRIBUTES,
    "SequenceEmpty": ("dtype", TensorProto.FLOAT),
}

# Ops with a formula here for which ONNX Runtime has float64 kernels.  For the others it uses function bodies, some with
# float32 constants.
_EXACT_KERNELS = frozenset(
    (
        *(("", "Softmax"), ("", "LogSoftmax"), ("", "LayerNormalization"), ("", "RMSNormalization")),
        *(("", "SimplifiedLayerNormalization"), ("com.microsoft", "FusedMatMul"), ("", "MaxPool")),
    )
)
_LARGE = 1 << 14  # number of elements that makes keeping a widened input worthwhile


def to_float64(mini: ModelProto) -> ModelProto | None:
    """Return the same computation in float64, with local functions inlined.

    Tensors of float16, bfloat16, float32 and float8 become float64 with the same values.  Casts between floats become
    no-ops, so steps that only round disappear.  Integers, and casts to them, stay.  None if an operator rounds by
    design (quantisation, a cast to float8), is random, or belongs to ai.onnx.ml, which computes only in float32.
    """
    try:
        source = inline_functions(mini)
    except GraphError:
        return None
    if any(_stays_narrow(node) for node in all_nodes(source.graph.node)) or source.functions:
        return None
    wide = ModelProto()
    wide.CopyFrom(source)
    _widen_graph(wide.graph)
    return wide


def _stays_narrow(node: NodeProto) -> bool:
    """Whether a node has no equivalent in float64."""
    if node.domain == "ai.onnx.ml" or op_of(node) in QUANTIZING or is_random(node):
        return True
    if node.domain == "com.microsoft" and node.op_type.startswith(("QLinear", "QOrdered")):
        return True
    targets = [one.i for one in node.attribute if one.name == "to"] if op_of(node) in CAST_OPS else []
    return any(number in _EIGHT_BITS or number == TensorProto.STRING for number in targets)


def _widen_graph(graph: GraphProto) -> None:
    for port in (*graph.input, *graph.output, *graph.value_info):
        _widen_type(port.type)
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for sparse in graph.sparse_initializer:
        _widen_tensor(sparse.values)
    for node in graph.node:
        _widen_node(node)
        for body in subgraphs(node):
            _widen_graph(body)


def _widen_type(kind: TypeProto) -> None:
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        inner = getattr(kind, which)
        inner.elem_type = _DOUBLE if inner.elem_type in _FLOATS else inner.elem_type
    elif which in ("sequence_type", "optional_type"):
        _widen_type(getattr(kind, which).elem_type)
    elif which == "map_type":
        _widen_type(kind.map_type.value_type)


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in _FLOATS:
        values, name, dims = np.asarray(numpy_helper.to_array(tensor)), tensor.name, list(tensor.dims)
        tensor.Clear()
        tensor.name, tensor.data_type = name, _DOUBLE
        tensor.dims.extend(dims)
        tensor.raw_data = values.astype("<f8").tobytes()  # without another tensor, so weights are copied once


def _widen_node(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            _widen_tensor(attribute.t)
        elif attribute.type == AttributeProto.TENSORS:
            for tensor in attribute.tensors:
                _widen_tensor(tensor)
        elif attribute.type == AttributeProto.SPARSE_TENSOR:
            _widen_tensor(attribute.sparse_tensor.values)
        elif attribute.type == AttributeProto.TYPE_PROTO:
            _widen_type(attribute.tp)
    if node.op_type == "Constant":
        _widen_constant(node)
    elif node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(onnx.helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
    if node.domain:
        return
    for name, default in (_DTYPE_ATTRIBUTES[node.op_type],) if node.op_type in _DTYPE_ATTRIBUTES else ():
        _widen_dtype(node, name, default)


def _widen_constant(node: NodeProto) -> None:
    """Replace the float32 `value_float` or `value_floats` of a Constant by a float64 tensor."""
    for attribute in node.attribute:
        if attribute.name in ("value_float", "value_floats"):
            values = np.asarray(onnx.helper.get_attribute_value(attribute), dtype=np.float64)
            attribute.CopyFrom(onnx.helper.make_attribute("value", numpy_helper.from_array(values)))


def _widen_dtype(node: NodeProto, name: str, default: int | None) -> None:
    for attribute in node.attribute:
        if attribute.name == name:
            attribute.i = _DOUBLE if attribute.i in _FLOATS else attribute.i
            return
    if default in _FLOATS:
        node.attribute.append(onnx.helper.make_attribute(name, _DOUBLE))


class Float64Reference:
    """A mini-model's computation in float64.  A context manager.

    ONNX Runtime runs it if it has float64 kernels for all operators.  Otherwise onnx's ReferenceEvaluator does, with
    Python implementations of operators if necessary.  `name` is the engine.

    bodies: by node name, the reference pattern of operations that no engine computes.  custom_ops: only files of Python
    implementations (`.py`) count.  limit: seconds for one call of an implementation.  change: returns another model,
    given the original and its float64 form, as `perturb_rounding` does; None if it cannot.  Raises SessionError with
    `is_unsupported` if no engine runs it.
    """

    def __init__(
        self,
        mini: ModelProto,
        bodies: Mapping[str, FunctionProto] | None = None,
        *,
        custom_ops: Sequence[Path | str] = (),
        limit: float | None = None,
        change: ModelTransform | None = None,
    ) -> None:
        refusals: list[str] = []
        # By the name of an input: its last array, and the same in float64.
        self._widened: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        outputs = {port.name for port in mini.graph.output}
        self._unread = shape_only_inputs(mini) - outputs  # their numbers do not matter
        self._others = _wide_models(mini, bodies or {}, custom_ops, limit=limit, refusals=refusals, change=change)
        self._engine = next(self._others, None)
        if self._engine is None:
            why = "; ".join(dict.fromkeys(refusals))
            raise SessionError(f"The site cannot run in float64 ({why}).", is_unsupported=True)

    @property
    def name(self) -> str:
        """The engine that runs it, for messages."""
        return "" if self._engine is None else self._engine.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._engine is not None:
            self._engine.close()
        self._engine = None
        self._widened.clear()

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run on feeds of the original's dtypes; return the outputs, floats as float64.  Raises SessionError."""
        if self._engine is None:
            raise SessionError("The float64 reference is closed. Open it again.")
        wide = {name: self._wide(name, array) for name, array in feeds.items()}
        try:
            results = self._engine.run(wide)
        except SessionError:
            # quirks.FLOAT64_RECURRENT
            found = self._run_otherwise(wide)
            if found is None:
                raise
            results = found
        return {name: _wide(array) for name, array in results.items()}

    def _wide(self, name: str, array: np.ndarray) -> np.ndarray:
        """An input in float64; large arrays are kept if the next run has the same object, like weights."""
        if array.size < _LARGE:
            return _wide(array)
        if name in self._unread:
            return np.zeros(array.shape) if _is_float(array) else array
        known = self._widened.get(name)
        if known is None or known[0] is not array:
            known = self._widened[name] = (array, _wide(array))
        return known[1]

    def _run_otherwise(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Run on the first of the other engines that succeeds, and keep that engine."""
        for other in self._others:
            try:
                results = other.run(feeds)
            except SessionError:
                other.close()
                continue
            if self._engine is not None:
                self._engine.close()
            self._engine = other
            return results
        return None


class _WideModel:
    """A float64 model in a session."""

    def __init__(self, name: str, runner: OrtSession | EvaluatorSession, own: ImplementationSet | None = None) -> None:
        self.name, self._runner, self._own = name, runner, own
        self.run = runner.run

    def close(self) -> None:
        self._runner.__exit__(None, None, None)
        if self._own is not None:
            self._own.__exit__(None, None, None)


def _wide_models(
    mini: ModelProto,
    bodies: Mapping[str, FunctionProto],
    custom_ops: Sequence[Path | str],
    limit: float | None,
    refusals: list[str],
    change: ModelTransform | None,
) -> Iterator[_WideModel]:
    """Open in turn each engine that supports the model in float64; append the reasons of the others to `refusals`."""
    for model in (mini, attach_function_bodies(mini, bodies)) if bodies else (mini,):
        wide = to_float64(model)
        if wide is not None and change is not None:
            wide = change(model, wide)
        if wide is None:
            refusals.append("it rounds by design, is random, or has no float64 version")
            continue
        keys = {(node.domain, node.op_type) for node in all_nodes(wide.graph.node)}
        # quirks.MASKED_ATTENTION_ROW
        if not keys & ((REFERENCE_KERNELS.keys() - _EXACT_KERNELS) | WRONG_FLOAT64_BODIES):
            try:
                yield _WideModel("float64 under ONNX Runtime", OrtSession(wide))
            except SessionError as refused:
                refusals.append(f"ONNX Runtime: {refused.message.rstrip('.')}")
        try:
            yield _evaluated(wide, custom_ops, limit)
        except SessionError as refused:
            refusals.append(refused.message.rstrip("."))


def _evaluated(wide: ModelProto, custom_ops: Sequence[Path | str], limit: float | None) -> _WideModel:
    found = used_implementations(wide, custom_ops)
    if not found:
        return _WideModel("float64 under onnx's ReferenceEvaluator", EvaluatorSession(wide))
    own = ImplementationSet(wide, found, limit)
    return _WideModel(f"float64 by the Python implementation of {own.names}", EvaluatorSession(wide, own.table()), own)


def _wide(array: np.ndarray) -> np.ndarray:
    """Return floats (also those of ml_dtypes) as float64, any other array unchanged."""
    return array.astype(np.float64) if _is_float(array) else array


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or name_of_dtype(array.dtype).startswith(("bfloat", "float"))
