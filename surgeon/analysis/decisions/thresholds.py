"""The numbers at which a region decides: literals in it, and input values at which comparisons change."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.analysis.decisions.threshold_solver import ArithmeticStep, Threshold
from surgeon.file.tensors.decoding import decode_tensor
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, qualified_name
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.ops.traversal import graphs_and_functions, nodes_of
from surgeon.shapes.tensor_types import FLOATS

MAX_EDGES = 128  # maximum number of edges
_MAX_ELEMENTS = 1 << 12  # maximum number of elements of a compared constant, or of an attribute
_LARGEST = 1 << 32  # largest literal of bodies and attributes; larger integers mean "to the end"
_MAX_DECIDERS = 1 << 9  # maximum number of nodes of one kind in a graph: the first are nearest to its inputs
_MAX_COLUMNS = 16  # maximum number of elements of a constant in arithmetic before a comparison
_FURTHEST = 6  # maximum number of nodes between an input and a comparison
_HALVES = [number / 2 for number in range(-6, 7)]
_LISTS = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
_BETWEEN_NODES = 2  # maximum number of inputs that are followed from one node


def region_literals(model: ModelProto) -> dict[str, np.ndarray]:
    """The literals of a model, as float64, by names: those of constants of the main graph have their names.

    They are constants of one element, in bodies and functions too, and literals in attributes: tensors of one element,
    the numbers of elementwise operators, and the lists of ai.onnx.ml.
    """
    found = {tensor.name: _scalar_number(tensor) for tensor in model.graph.initializer}
    _, *inside = graphs_and_functions(model)
    inner = [_scalar_number(tensor) for holder in inside for tensor in _stored(holder)]
    inner += [
        numbers for node in nodes_of(model) for item in node.attribute for numbers in _attribute_literals(node, item)
    ]
    found |= {f"/{place}": numbers[np.abs(numbers) <= _LARGEST] for place, numbers in enumerate(inner)}
    return {name: numbers for name, numbers in found.items() if numbers.size}


def _stored(holder: GraphProto | FunctionProto) -> Iterable[TensorProto]:
    """The initializers of a graph; a function has none."""
    return holder.initializer if isinstance(holder, GraphProto) else ()


def input_dtypes(scope: Scope) -> dict[str, int]:
    """The dtypes of a model's inputs, by name; empty for bodies and functions, whose inputs come from nodes."""
    inputs = scope.proto.input if scope.parent is None and not scope.is_function else ()
    return {entry.name: entry.type.tensor_type.elem_type for entry in inputs}


def constant_source(scope: Scope, name: str) -> TensorProto | None:
    """The stored tensor with the elements of a tensor, in any dtype or order; None if it is not a constant."""
    home = scope.defining_scope(name)
    while home is not None and name not in home.initializers:
        node = home.producers.get(name)
        if node is None or len(node.outputs) != 1:
            return None
        for tensor in _constant_outputs(node):
            return tensor
        if not node.inputs or not _copies(node):
            return None
        name = node.inputs[0]
        home = home.defining_scope(name)
    return None if home is None else home.initializers[name]


def unknown_inputs(node: Node) -> list[int]:
    """The places of the inputs of a node that are not constants."""
    return [slot for slot, name in enumerate(node.inputs) if constant_source(node.scope, name) is None]


def columns(node: Node, slot: int) -> np.ndarray:
    """The numbers of a constant input, one if all are equal; empty if it has many or is not constant."""
    found = numbers(node.scope, node.inputs[slot], _MAX_ELEMENTS) if slot < len(node.inputs) else np.empty(0)
    if found.size and (found == found[0]).all():
        return found[:1]
    return found if found.size <= _MAX_COLUMNS else np.empty(0)


def numbers(scope: Scope, name: str, most: int) -> np.ndarray:
    """The numbers of a constant; empty if it has more elements than `most`, or is not a constant."""
    tensor = constant_source(scope, name)
    return np.empty(0) if tensor is None or int(np.prod(tensor.dims)) > most else _numbers(tensor)


def _trace_back(
    scope: Scope, tensor: str, steps: tuple[ArithmeticStep, ...] = (), left: int = _FURTHEST
) -> Iterator[tuple[str, tuple[ArithmeticStep, ...], bool]]:
    """A tensor and those that it is computed from with constants, with the steps, and whether it is the last."""
    node = scope.producers.get(tensor)
    found = list(_before(node)) if node is not None and left else []
    yield tensor, steps, not found
    for name, step in found:
        yield from _trace_back(scope, name, steps if step is None else (step, *steps), left - 1)


def _before(node: Node) -> Iterator[tuple[str, ArithmeticStep | None]]:
    """The tensors that a node moves, or combines only with constants, and how."""
    op, reads, free = traits_of(node.op), node.inputs, unknown_inputs(node)
    if op.algebra.family and len(free) == 1 and len(reads) == len(op.algebra.signs):
        (slot,) = free
        others = [at for at in range(len(reads)) if at != slot]
        given = [columns(node, at) for at in others]
        if all(map(len, given)):
            other, sign = (given[0], op.algebra.signs[others[0]]) if others else (None, 1)
            yield reads[slot], ArithmeticStep(op.algebra.family, op.algebra.signs[slot], other, sign)
    elif op.data.copies_elements or op.data.nearly_copies_elements or op.shape.is_reshape:
        made = _cast_to(node) if op.dtype.is_cast else None
        moved = op.data.copies_elements or op.data.nearly_copies_elements or (0,)
        for slot in [slot for slot in free if slot in moved][:_BETWEEN_NODES]:
            yield reads[slot], None if made is None else ArithmeticStep(dtype=made)
    elif op.shape.same_type_as_input and op.numerics.exact and len(reads) == len(free) == 1:
        # An op such as Abs returns its input for one sign at least.
        yield from ((reads[0], step) for step in (None, ArithmeticStep("sum", -1)))


def edges_of(index: Index) -> list[float]:
    """The input values at which compared or clipped tensors equal the constant of the comparison or clipping.

    Also through sums and products with constants of one number: x for x/4 - 3 > 1 is 16.  At most `MAX_EDGES`.
    """
    found: dict[float, None] = {}
    for scope in index.scopes:
        for tensor, wanted in islice(_compared(scope), _MAX_DECIDERS):
            for _, steps, _ in _trace_back(scope, tensor):
                if all(step.other is None or step.other.size == 1 for step in steps):
                    values = Threshold(np.array(wanted, np.float64), steps).source_values.reshape(-1)
                    finite = values[np.isfinite(values)].tolist()
                    found.update(dict.fromkeys(finite[: MAX_EDGES - len(found)]))
    return list(found)


def sizes_of(index: Index) -> tuple[list[int], list[int]]:
    """Sizes at which a model decides: constants compared with sizes; then the reach of slices, from either end."""
    compared: dict[int, None] = {}
    reached: dict[int, None] = {}
    for scope in index.scopes:
        for tensor, wanted in islice(_compared(scope), _MAX_DECIDERS):
            for start, steps, _ in _trace_back(scope, tensor):
                if (maker := scope.producers.get(start)) is not None and traits_of(maker.op).shape.returns_sizes:
                    values = Threshold(np.array(wanted, np.float64), steps).source_values.reshape(-1)
                    compared.update((int(number), None) for number in values if number.is_integer())
        for node in scope.nodes:
            axes = traits_of(node.op).shape.axes
            for name in node.inputs[1:3] if axes is not None and axes.in_order else ():
                reached.update((abs(int(number)), None) for number in numbers(scope, name, _MAX_COLUMNS))
    return list(compared), list(reached)


def find_thresholds(index: Index) -> list[Threshold]:
    """The thresholds of a model: of comparisons with constants, of clipping, and of rounding to integers.

    Each is followed back to an input, or to a tensor from other operations, such as a matrix product.
    """
    found: dict[Hashable, Threshold] = {}
    for scope in index.scopes:
        fed = input_dtypes(scope)
        for tensor, wanted, first in _deciding(scope):
            for start, steps, is_end in _trace_back(scope, tensor):
                is_fed = start in fed
                dtype = _float_dtype(fed.get(start, TensorProto.FLOAT))
                if not is_end or dtype is None or not _is_followed((*steps, *first)):
                    continue
                whole = (*steps, *first)
                made = Threshold(np.array(wanted, np.float64), whole, dtype, is_fed, rounds=wanted is _HALVES)
                found.setdefault(made.key, made)
    return list(found.values())


def _float_dtype(dtype: int) -> np.dtype | None:
    """A floating-point dtype; None for others."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(dtype)) if dtype in FLOATS else None


def _cast_to(node: Node) -> np.dtype | None:
    """The target dtype of a Cast; None if it is not an attribute."""
    item = node.attribute("to")
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(0 if item is None or item.ref_attr_name else item.i))
    except KeyError:
        return None


def _is_followed(steps: Sequence[ArithmeticStep]) -> bool:
    """Whether numpy computes like runtimes: no integer division, which rounds towards zero; equal column counts."""
    is_whole = False
    if len({step.other.size for step in steps if step.other is not None} - {1}) > 1:
        return False
    for step in steps:
        if step.dtype is not None:
            is_whole = step.dtype.kind in "iub"
        elif is_whole and step.family == "product":
            return False
    return True


def _copies(node: Node) -> bool:
    """Whether a node returns the elements of its first input, in any dtype or order."""
    op = traits_of(node.op)
    return op.shape.is_reshape or (0,) in (op.data.nearly_copies_elements, op.data.copies_elements)


def _constant_outputs(node: Node) -> Iterator[TensorProto]:
    """The constant tensor that a node without inputs, or with only a shape input, returns."""
    if not node.inputs or traits_of(node.op).shape.expands:
        yield from (tensor for item in node.proto.attribute if (tensor := _attribute_tensor(item)) is not None)


def _attribute_tensor(item: AttributeProto) -> TensorProto | None:
    """The tensor of an attribute, or of the list in it, as a Constant may have (ONNX spec, Constant-12)."""
    if item.type == AttributeProto.TENSOR:
        return item.t
    dtype = None if item.ref_attr_name else _LISTS.get(item.name)
    return None if dtype is None else numpy_helper.from_array(np.array(helper.get_attribute_value(item), dtype))


def _deciding(scope: Scope) -> Iterator[tuple[str, list[float], Sequence[ArithmeticStep]]]:
    """Tensors on which nodes decide, their thresholds, and the arithmetic before: the first of each kind."""
    for found in (_compared(scope), _compared_attributes(scope)):
        yield from ((tensor, wanted, ()) for tensor, wanted in islice(found, _MAX_DECIDERS))
    yield from islice(_rounded(scope), _MAX_DECIDERS)


def _compared(scope: Scope) -> Iterator[tuple[str, list[float]]]:
    """Tensors that nodes compare or clip, with the numbers."""
    for node in scope.nodes:
        op = traits_of(node.op)
        is_bounded = op.shape.same_type_as_input and op.data.nearly_copies_elements == (0,) and len(node.inputs) > 1
        for slot, name in enumerate(node.inputs if op.algebra.compares or is_bounded else ()):
            tensor, other = constant_source(scope, name), node.inputs[1 - slot if op.algebra.compares else 0]
            if tensor is not None and constant_source(scope, other) is None:
                yield other, _distinct_numbers(tensor)


def _compared_attributes(scope: Scope) -> Iterator[tuple[str, list[float]]]:
    """Tensors that nodes compare with floats of their attributes, of either sign, as decision trees do."""
    for node in scope.nodes:
        for item in node.proto.attribute if node.inputs else ():
            is_float = item.type in (AttributeProto.FLOAT, AttributeProto.FLOATS)
            for values in _attribute_numbers(node.op, item) if is_float else ():
                both = (values, -values) if item.type == AttributeProto.FLOAT else (values,)
                yield node.inputs[0], np.unique(both).tolist()


def _rounded(scope: Scope) -> Iterator[tuple[str, list[float], Sequence[ArithmeticStep]]]:
    """Tensors that nodes round to integers, integers and halves near zero, and the arithmetic before."""
    for node in scope.nodes:
        op = traits_of(node.op)
        slot = op.numerics.rounding_scale_slot
        if slot is not None and (slot == 0 or len(columns(node, slot))):
            scale = ArithmeticStep("product", other=columns(node, slot), constant_sign=-1)
            yield node.inputs[0], _HALVES, (scale,) if slot else ()
        made = _cast_to(node) if op.dtype.is_cast else None
        if made is not None and made.kind in "iub":
            yield node.inputs[0], _HALVES if made.kind in "iu" else [0.0], ()


def _attribute_literals(node: NodeProto, item: AttributeProto) -> Iterator[np.ndarray]:
    """The literals of an attribute."""
    if (tensor := _attribute_tensor(item)) is not None:
        yield _scalar_number(tensor)
    else:
        yield from _attribute_numbers(qualified_name(node.domain, node.op_type), item)


def _attribute_numbers(name: str, item: AttributeProto) -> Iterator[np.ndarray]:
    """The numbers of an attribute that a node of an op may compare with."""
    op, is_of_trees = traits_of(name), name.startswith("ai.onnx.ml::")
    has_shape = op.shape.same_type_as_input or op.shape.same_shape_as_input
    is_elementwise = has_shape and op.numerics.norm_axis is None and not op.numerics.accumulates
    if item.type == AttributeProto.FLOAT and (is_elementwise or is_of_trees):
        yield np.array([item.f], np.float64)
    if item.type in (AttributeProto.FLOATS, AttributeProto.INTS) and is_of_trees:
        held = item.floats if item.type == AttributeProto.FLOATS else item.ints
        yield np.unique(np.array(held[:_MAX_ELEMENTS], np.float64))[:MAX_EDGES]


def _scalar_number(tensor: TensorProto) -> np.ndarray:
    """The number of a constant of one element, as an array; empty for others."""
    return _numbers(tensor) if int(np.prod(tensor.dims)) == 1 else np.empty(0)


def _distinct_numbers(tensor: TensorProto) -> list[float]:
    """The distinct numbers of a constant, unless it is long."""
    is_short = int(np.prod(tensor.dims)) <= _MAX_ELEMENTS
    return np.unique(_numbers(tensor)).tolist()[:MAX_EDGES] if is_short else []


def _numbers(tensor: TensorProto) -> np.ndarray:
    """All numbers of a constant; empty if its payload is missing, or it has no numbers."""
    is_none = tensor.data_type in (TensorProto.STRING, TensorProto.BOOL, TensorProto.UNDEFINED)
    if is_none or tensor.data_location == TensorProto.EXTERNAL:
        return np.empty(0)
    array = decode_tensor(tensor)
    return np.empty(0) if array.dtype.kind == "c" else array.reshape(-1).astype(np.float64)
