"""The class of a proof case: equal for cases that differ only in large fixed dims and in the values of weights.

Cases of one class compute the same at other widths: convolutions of 32 and of 48 channels, layers of 768 and of 1,024.
A number that is not a dim, such as the end of a Slice, is part of the class.  If nodes move windows, the sizes of the
windows and of their input are widths too: only whether a kernel has one element, and whether there are strides and
padding, is part of the class.  So are thresholds, because usual inputs seldom come near them.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from hashlib import blake2b
from math import prod

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto

from surgeon.analysis.decisions.thresholds import edges_of
from surgeon.file.tensors.decoding import decode_tensor
from surgeon.ir.index import Index
from surgeon.ops.schemas.attribute_values import AT_REST
from surgeon.ops.traits.trait_lookup import node_traits, traits_of
from surgeon.ops.traversal import GRAPHS
from surgeon.proof.proof_case import CaseInput, ProofCase
from surgeon.proof.region.literals import MAX_UNREDUCED_DIM
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.tensor_types import FLOATS

ProofClass = bytes
MAX_EXACT_ELEMENTS = 4  # elements of a float tensor up to which its values are part of the class
# Significant digits of a number that a person writes, as in 1e-05, 0.044715 and 1.702; and the exponents of a number
# with more digits that was learned, as the scale of a layer.
_WRITTEN, _LEARNED = 5, range(-24, 11)
# Attributes for the size and the movement of a window, each with its neutral value.
_OF_WINDOWS = {"kernel_shape": 1, "group": 1, **AT_REST}
_INTS = frozenset({AttributeProto.INT, AttributeProto.INTS})


def proof_class_of(case: ProofCase) -> ProofClass:
    """The class of a case: equal for cases that differ only in names and widths."""
    classifier = _Classifier(case.ops, case.position_literals)
    sides = case.models
    content = (
        tuple(classifier.input(item) for item in case.inputs),
        tuple(port.type.tensor_type.elem_type for port in sides.before.graph.input),
        classifier.nodes(sides.before.graph.node),
        classifier.nodes(sides.after.graph.node),
        tuple(classifier.number(name) for name in case.outputs),
        tuple(
            sorted(
                (classifier.number(tensor.name), classifier.tensor(tensor), name_of_side)
                for name_of_side, model in enumerate((sides.before, sides.after))
                for tensor in model.graph.initializer
            )
        ),
        tuple(edges_of(Index.over(sides.before))),
        _of_all((*sides.before.functions, *sides.after.functions)),
        _of_all((*case.bodies_before.values(), *case.bodies_after.values())),
        tuple(sorted((item.domain, item.version) for item in sides.before.opset_import)),
        tuple(sorted((item.domain, item.version) for item in sides.after.opset_import)),
        tuple(sorted(classifier.number(name) for name in case.always_empty)),
        tuple(sorted(classifier.number(name) for name in case.sign_sensitive)),
        (case.slack, tuple(sorted(case.intended_differences)), case.picks_by_products),
    )
    return blake2b(repr(content).encode(), digest_size=32).digest()


class _Classifier:
    """Numbers for names, dynamic sizes and large numbers of one case, by first use.

    places: numbers in constants and attributes that are more than widths, such as the end of a Slice or a divisor;
    None if each of them may be.
    """

    def __init__(self, ops: Collection[str], places: Collection[int] | None) -> None:
        self._moves_windows = any(traits_of(op).products.slides_window for op in ops)
        self._exact_numbers = places
        self._names: dict[str, int] = {}
        self._widths: dict[int, str] = {}
        self._sizes: dict[Size, str] = {}

    def number(self, name: str) -> int:
        """The number of a tensor, by first use; -1 for none."""
        return self._names.setdefault(name, len(self._names)) if name else -1

    def input(self, item: CaseInput) -> Hashable:
        """An input: its dims, and the sizes that it holds."""
        value = () if item.value is None else (item.value.shape, *map(self._size, item.value.flat))
        shape = self._kernel(item.shape) if item.weight else self._places(item.shape)
        return (self.number(item.name), shape, value, item.weight, str(item.assumption))

    def nodes(self, nodes: Iterable[NodeProto]) -> Hashable:
        """Nodes without their names."""
        return tuple(
            (
                node.domain,
                node.op_type,
                node.overload,
                tuple(map(self.number, node.input)),
                tuple(map(self.number, node.output)),
                self._attributes(node),
            )
            for node in nodes
        )

    def tensor(self, tensor: TensorProto) -> str:
        """A constant: long float tensors by dims and kinds of values, anything else by its values."""
        dims = self._kernel(tuple(tensor.dims))
        array = decode_tensor(tensor)
        if tensor.data_type in FLOATS and prod(tensor.dims) > MAX_EXACT_ELEMENTS:
            return repr((tensor.data_type, dims, *_kinds(array)))
        if tensor.data_type in FLOATS:
            return repr((tensor.data_type, dims, *map(_number_class, array.ravel())))
        if array.dtype.kind in "iu" and array.size <= MAX_UNREDUCED_DIM:
            return repr((tensor.data_type, dims, *map(self._number, array.ravel().tolist())))
        return repr((tensor.data_type, dims, _digest(np.ascontiguousarray(array))))

    def _kernel(self, dims: Sequence[Size]) -> tuple[str, ...]:
        """The dims of a constant; if windows move, only whether the dims after the channels are 1."""
        return self._dims(dims, range(2, len(dims)))

    def _places(self, dims: Sequence[Size]) -> tuple[str, ...]:
        """The dims of an input; where windows move over it, of spatial dims only whether they are 1."""
        return self._dims(dims, [at for at in range(2, len(dims)) if isinstance(dims[at], int)])

    def _dims(self, dims: Sequence[Size], of_windows: Collection[int]) -> tuple[str, ...]:
        """Dims, those of windows as whether they are 1, where windows are moved."""
        places = of_windows if self._moves_windows else ()
        return tuple(str(size == 1) if at in places else self._size(size) for at, size in enumerate(dims))

    def _attributes(self, node: NodeProto) -> Hashable:
        moves_windows = node_traits(node).products.slides_window
        return tuple(sorted((item.name, self._attribute(item, moves_windows)) for item in node.attribute))

    def _attribute(self, item: AttributeProto, moves_windows: bool) -> str:
        if moves_windows and item.name in _OF_WINDOWS:
            usual = _OF_WINDOWS[item.name]
            return repr((len(item.ints), any(number != usual for number in (*item.ints, *[item.i] * (not item.ints)))))
        if item.type in _INTS:
            numbers = (item.i,) if item.type == AttributeProto.INT else item.ints
            return repr(tuple(map(self._number, numbers)))
        if item.type == AttributeProto.TENSOR:
            return self.tensor(item.t)
        copy = AttributeProto()
        copy.CopyFrom(item)
        return repr((item.type in GRAPHS, copy.SerializeToString(deterministic=True)))

    def _number(self, number: int) -> str:
        """A number in a constant or an attribute: as a size, with its value if it is more than a width."""
        is_width = self._exact_numbers is not None and abs(number) not in self._exact_numbers
        return self._size(number) if is_width else f"{self._size(number)}={number}"

    def _size(self, size: Size) -> str:
        """A small number as it is; a large one, or a dynamic size, numbered by first use."""
        if isinstance(size, int):
            return (
                str(size) if abs(size) <= MAX_UNREDUCED_DIM else self._widths.setdefault(size, f"w{len(self._widths)}")
            )
        return self._sizes.setdefault(size, f"s{len(self._sizes)}")


def _number_class(number: np.floating) -> str:
    """A float by its value; of a learned one only its sign.

    Each site runs with its own values on usual inputs, which show whether what is computed from them is right.
    """
    digits = np.format_float_scientific(number).partition("e")[0].strip("-").replace(".", "")
    is_learned = len(digits) > _WRITTEN and int(np.frexp(number)[1]) in _LEARNED
    return f"{'-' * bool(number < 0)}learned" if is_learned else repr(number)


def _kinds(array: np.ndarray) -> Sequence[float | str]:
    """The kinds of numbers in a long tensor; the number itself if all are equal.

    A weight that is zero, infinite or far from one can hide a fault that other inputs show.
    """
    numbers = array.ravel()
    if (numbers == numbers[0]).all():
        return [float(numbers[0])]
    sizes = np.abs(numbers if numbers.dtype.itemsize > 2 else numbers.astype(np.float32))
    least, most = 2.0 ** (_LEARNED.start - 1), 2.0 ** (_LEARNED.stop - 1)  # frexp gives a mantissa of at least a half
    found = {
        "zero": (sizes == 0).any(),
        "nan": np.isnan(sizes).any(),
        "infinite": np.isinf(sizes).any(),
        "huge": ((sizes >= most) & (sizes < np.inf)).any(),
        "learned": ((sizes >= least) & (sizes < most)).any(),  # in a long tensor a few are tiny by chance
    }
    return [kind for kind, is_there in found.items() if is_there]


def _of_all(functions: Iterable[FunctionProto]) -> Hashable:
    """Functions by their serialized content."""
    return tuple(sorted(_digest(item.SerializeToString(deterministic=True)) for item in functions))


def _digest(data: "bytes | np.ndarray") -> bytes:
    if isinstance(data, np.ndarray):
        data = repr(data.tolist()).encode() if data.dtype == object else data.tobytes()
    return blake2b(data, digest_size=16).digest()
