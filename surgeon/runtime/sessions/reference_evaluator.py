"""onnx's ReferenceEvaluator for proofs: quiet, with one kind of error, and with the dtypes that operators declare.

onnx.reference is imported when the first session opens.

Threads gain little on the small matrices of a proof, and cost much if other processes run: threads of OpenBLAS wait
busily for each other.  With all cores busy, a product took nine times the CPU seconds of one thread.
"""

import ctypes
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto

from surgeon.errors import GraphError
from surgeon.file.tensors.decoding import decode_tensor
from surgeon.ops.schemas.op_schema import Schema, handles_lists, schema
from surgeon.ops.traits.trait_lookup import ops_with
from surgeon.ops.traversal import node_label, subgraphs
from surgeon.runtime.function_inlining import inline_functions
from surgeon.runtime.kernels.arithmetic import BASIC_KERNELS
from surgeon.runtime.kernels.data_movement import MOVING
from surgeon.runtime.kernels.kernel_registry import REFERENCE_KERNELS
from surgeon.runtime.sessions.ort_session import OUT_OF_MEMORY, SessionError, flatten_result

Implementation = Callable[[NodeProto, list[Any]], tuple[Any, ...]]
"""A function that computes the outputs of an unknown node from the node and its inputs."""
_LONGEST_LINE = 400
# Sets, because `None in` a tuple of dtypes is true: to numpy, None is another name of float64.
_NARROW = frozenset(np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16))
_FLOATS = _NARROW | frozenset(np.dtype(kind) for kind in (np.float32, np.float64))
# Ops whose second input has the dtype of the result.
_KEPT = ops_with("is_cast") | ops_with("quantization") | {"BitCast"}
# Exceptions that the evaluator raises for a model or its inputs; it documents none.
_REFUSALS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_")


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit the OpenBLAS of numpy's wheels to one thread inside a `with`; any other BLAS does not change."""
    found = _switches()
    if found is None:
        yield
        return
    current, tell = found
    before = current()
    tell(1)
    try:
        yield
    finally:
        tell(before)


@cache
def _switches() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """Functions that get and set the number of threads; None if numpy does not include OpenBLAS."""
    home = Path(np.__file__).parent
    for folder in (home.parent / "numpy.libs", home / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            library = ctypes.CDLL(str(path))
            for name in _NAMES:
                if hasattr(library, name.format("get")):
                    return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


class EvaluatorSession:
    """One model under onnx's ReferenceEvaluator.  A context manager like `OrtSession`.

    implementations: functions by domain and name of their operators, which replace onnx's.  Local functions are
    inlined.  Raises SessionError if the evaluator does not support the model, with `is_unsupported` if it lacks an
    operator or memory.

    In float16 and bfloat16, each operator computes in float32 and rounds its outputs, as ONNX Runtime's kernels do.
    numpy would round after every step inside the operator, and its sums of bfloat16 stop at 256.
    """

    name = "onnx's ReferenceEvaluator"
    is_independent = True

    def __init__(
        self, model: ModelProto, implementations: Mapping[tuple[str, str], Implementation] | None = None
    ) -> None:
        try:
            model = inline_functions(model)
        except GraphError as error:
            raise SessionError(str(error)) from error
        self.inputs: tuple[str, ...] = tuple(port.name for port in model.graph.input)
        self.outputs: tuple[str, ...] = tuple(port.name for port in model.graph.output)
        self._declared = {port.name: _declared(port) for port in model.graph.output}
        engine = _engine()
        try:
            with _Quiet():
                self._engine: Any = engine(model, new_ops=_own_ops(implementations or {}))
        except SessionError:
            raise
        except _REFUSALS as error:
            raise _refused(error, model) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._engine is not None:  # break the cycle with its nodes: weights would wait for the garbage collector
            for held in (*self._engine.rt_nodes_, self._engine):
                vars(held).clear()
        self._engine = None

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once.  Sequences come back as `name[i]`, with their length as `len(name)`.  Raises SessionError."""
        absent = [name for name in self._engine.input_names if name not in feeds and name not in self._engine.rt_inits_]
        if absent:
            raise SessionError(f"No value was given for input '{absent[0]}'.")
        try:
            with _Quiet(), single_threaded_blas():
                results = self._engine.run(None, dict(feeds))
        except SessionError:
            raise
        except _REFUSALS as error:
            raise _refused(error) from error
        flat: dict[str, np.ndarray] = {}
        for name, result in zip(self.outputs, results, strict=True):
            flatten_result(name, result, flat)
            if name in flat:
                flat[name] = _narrowed(flat[name], self._declared[name])
        return flat


class _Quiet:
    """Suppress numpy's warnings about arithmetic and its API inside a `with`."""

    def __enter__(self) -> None:
        self._arithmetic = np.errstate(all="ignore")
        self._warnings = warnings.catch_warnings()
        self._arithmetic.__enter__()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *_: object) -> None:
        self._warnings.__exit__(None, None, None)
        self._arithmetic.__exit__(None, None, None)


@cache
def _engine() -> Any:
    """The evaluator's class, extended: surgeon's formulas also in bodies of functions, and hooks around each node."""
    from onnx.reference import ReferenceEvaluator

    class Engine(ReferenceEvaluator):
        def __init__(self, proto: Any, *args: Any, **kwargs: Any) -> None:
            # onnx passes `new_ops` to the bodies of If, Loop and Scan, but not to functions.
            kwargs["new_ops"] = kwargs.get("new_ops") or _own_ops({})
            super().__init__(proto, *args, **kwargs)

        def _init(self) -> None:
            super()._init()
            for node in self.rt_nodes_:
                rule = _typing(node.onnx_node, self.opsets)
                if rule is not None:
                    node.run = partial(_run_typed, node.run, rule)
                node.run = partial(_run_named, node.run, node.onnx_node)

    return Engine


def _own_ops(implementations: Mapping[tuple[str, str], Implementation]) -> list[type]:
    """The evaluator's operators for implementations, and for formulas that they do not replace."""
    made = [_op(*key, partial(_by_implementation, compute)) for key, compute in implementations.items()]
    return made + [op for key, op in _formula_ops().items() if key not in implementations]


@cache
def _formula_ops() -> dict[tuple[str, str], type]:
    return {
        key: _op(*key, partial(_by_formula, formula))
        for key, formula in (BASIC_KERNELS | MOVING | REFERENCE_KERNELS).items()
    }


def _op(domain: str, name: str, prepared: Callable[[NodeProto, int], Callable[..., tuple[Any, ...]]]) -> type:
    """A class of the evaluator that computes one operator; `prepared` is called once with a node and its opset."""
    from onnx.reference.op_run import OpRun

    def run(self: Any, *inputs: Any, **_: Any) -> tuple[Any, ...]:
        if "prepared" not in vars(self):
            self.prepared = prepared(self.onnx_node, self.run_params["opsets"].get(domain, 1))
        results: tuple[Any, ...] = self.prepared(*inputs)
        return results

    # No schema: by the class name, onnx would find the schema of an operator in another domain.
    return type(name, (OpRun,), {"op_domain": domain, "op_schema": None, "_run": run})


def _by_implementation(compute: Implementation, node: NodeProto, opset: int) -> Callable[..., tuple[Any, ...]]:
    return lambda *inputs: compute(node, list(inputs))


def _by_formula(formula: Callable[..., Any], node: NodeProto, opset: int) -> Callable[..., tuple[Any, ...]]:
    """A node's formula; the evaluator drops results beyond the node's outputs."""
    settings = attributes_of(node)
    asked = getattr(formula, "__kwdefaults__", None) or {}  # numpy's own functions have none
    context = {"opset": opset, "outputs": len(node.output)}
    settings.update((name, value) for name, value in context.items() if name in asked)

    def compute(*inputs: Any) -> tuple[Any, ...]:
        result = formula(*inputs, **settings)
        return result if isinstance(result, tuple) else (result,)

    return compute


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """A node's attributes as Python values, without attribute references: strings as `str`, tensors as arrays."""
    values = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute if not one.ref_attr_name}
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, TensorProto):
        return decode_tensor(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _typing(node: NodeProto, opsets: Mapping[str, int]) -> Schema | None:
    """The schema that determines a node's dtypes; None if they do not follow its type variables."""
    is_of_lists = handles_lists(node.domain, node.op_type)
    if node.op_type in _KEPT or is_of_lists or subgraphs(node):
        return None
    return schema(node.domain, node.op_type, opsets.get(node.domain))


def _run_named(run: Callable[..., tuple[Any, ...]], node: NodeProto, *inputs: Any, **settings: Any) -> tuple[Any, ...]:
    """Run a node; an exception contains its name, because a failure of the evaluator says nothing about the model."""
    try:
        return run(*inputs, **settings)
    except SessionError:
        raise
    except _REFUSALS as error:
        refused = _refused(error)
        if refused.message == OUT_OF_MEMORY:
            raise refused from error
        line = f"{EvaluatorSession.name} cannot compute {node.op_type} {node_label(node)!r}: {refused.message}"
        raise SessionError(line[:_LONGEST_LINE], is_unsupported=refused.is_unsupported) from error


def _run_typed(run: Callable[..., tuple[Any, ...]], rule: Schema, *inputs: Any, **settings: Any) -> tuple[Any, ...]:
    """Run a node with narrow floats widened; outputs get the dtype of inputs of the same type variable."""
    bound: dict[str, np.dtype[Any]] = {}
    given = []
    for place, value in enumerate(inputs):
        dtype = getattr(value, "dtype", None)
        formal = rule.input_at(place)
        if formal is not None and dtype in _FLOATS:
            bound.setdefault(formal.type, dtype)
        given.append(value.astype(np.float32) if dtype in _NARROW else value)
    outputs = run(*given, **settings)
    return tuple(_bound_to(bound, rule, place, value) for place, value in enumerate(outputs))


def _bound_to(bound: Mapping[str, np.dtype[Any]], rule: Schema, place: int, value: Any) -> Any:
    formal = rule.output_at(place)
    dtype = None if formal is None else bound.get(formal.type)
    if dtype is None or getattr(value, "dtype", None) not in _FLOATS or value.dtype == dtype:
        return value
    return np.asarray(value.astype(dtype))  # numpy often turns a 0-d array into a scalar


def _declared(port: onnx.ValueInfoProto) -> np.dtype[Any] | None:
    """The declared dtype of an output; None without one, or if it is not a tensor."""
    number = port.type.tensor_type.elem_type if port.type.HasField("tensor_type") else 0
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number)) if number else None


def _narrowed(array: np.ndarray, declared: np.dtype[Any] | None) -> np.ndarray:
    """The output in its declared dtype, if it became a wider float."""
    if declared in _FLOATS and array.dtype in _FLOATS and array.dtype.itemsize > declared.itemsize:
        return array.astype(declared)
    return array


def _refused(error: Exception, model: ModelProto | None = None) -> SessionError:
    """An exception of the evaluator as a SessionError with one line, that of the cause if onnx wraps it."""
    wrapped = str(error).startswith(("Issues with types", "Unable to instantiate"))
    cause = error.__cause__ if wrapped and isinstance(error.__cause__, Exception) else error
    if isinstance(cause, MemoryError):
        return SessionError(OUT_OF_MEMORY, is_unsupported=True)
    text = str(cause).strip()
    line = text.splitlines()[0] if text else type(cause).__name__
    unknown = isinstance(cause, NotImplementedError | ImportError) or type(cause).__name__ == "RuntimeContextError"
    if unknown and model is not None:
        line = f"onnx's ReferenceEvaluator does not have this operator: {line}"
    return SessionError(line[:_LONGEST_LINE], is_unsupported=unknown)
