"""The form of an experiment: all of it but how large its large fixed dims are and which numbers its weights hold.

Experiments of one form compute the same but for widths: convolutions of 32 and of 48 channels, each with its own
weights, layers of 768 and of 1,024.  A number that is no dim, as where a cut ends, is told as it is.  Where nodes move
windows, the sizes of those and of what they move over are widths too, however small: of a kernel it counts whether it
is one element, of strides and padding whether there are any.  Numbers that inputs are compared with are told too:
usual inputs seldom come near them.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from hashlib import blake2b
from math import prod

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto

from surgeon.analysis.decisions.thresholds import edges_of, scopes_of
from surgeon.file.tensors.decoding import decode_tensor
from surgeon.ops.schemas.attribute_values import AT_REST
from surgeon.ops.traits.trait_lookup import guess_node_traits, guess_traits
from surgeon.ops.traversal import GRAPHS
from surgeon.proof.proof_case import CaseInput, ProofCase
from surgeon.proof.region.literals import MAX_UNREDUCED_DIM
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.tensor_types import FLOATS

ProofClass = bytes
MOST_TOLD = 4  # elements of a tensor of floats up to which it says what is computed, and not only how wide that is
# Significant digits that a person writes, as in 1e-05, 0.044715 and 1.702; and the powers of two within which a number
# of more digits is one that was learned, as the scale of a layer is.
_WRITTEN, _LEARNED = 5, range(-24, 11)
# Attributes that say how large a window is and how it moves, each with the number that says nothing.
_OF_WINDOWS = {"kernel_shape": 1, "group": 1, **AT_REST}
_INTS = frozenset({AttributeProto.INT, AttributeProto.INTS})


def proof_class_of(experiment: ProofCase) -> ProofClass:
    """The form of an experiment: equal for equal ones, whatever their names and widths."""
    form = _Form(experiment.ops, experiment.position_literals)
    minis = experiment.models
    content = (
        tuple(form.input(item) for item in experiment.inputs),
        tuple(port.type.tensor_type.elem_type for port in minis.before.graph.input),
        form.nodes(minis.before.graph.node),
        form.nodes(minis.after.graph.node),
        tuple(form.number(name) for name in experiment.outputs),
        tuple(
            sorted(
                (form.number(tensor.name), form.tensor(tensor), name_of_side)
                for name_of_side, model in enumerate((minis.before, minis.after))
                for tensor in model.graph.initializer
            )
        ),
        tuple(edges_of(scopes_of(minis.before))),
        _of_all((*minis.before.functions, *minis.after.functions)),
        _of_all((*experiment.bodies_before.values(), *experiment.bodies_after.values())),
        tuple(sorted((item.domain, item.version) for item in minis.before.opset_import)),
        tuple(sorted((item.domain, item.version) for item in minis.after.opset_import)),
        tuple(sorted(form.number(name) for name in experiment.always_empty)),
        tuple(sorted(form.number(name) for name in experiment.sign_sensitive)),
        (experiment.slack, tuple(sorted(experiment.intended_differences)), experiment.picks_by_products),
    )
    return blake2b(repr(content).encode(), digest_size=32).digest()


class _Form:
    """Names, free sizes and large numbers of one experiment, by the order of their first use.

    places: numbers that constants and attributes hold and that are more than widths, as where a cut ends and what is
    divided by; None where each of them may be.
    """

    def __init__(self, ops: Collection[str], places: Collection[int] | None) -> None:
        self._moves_windows = any(guess_traits(op).products.slides_window for op in ops)
        self._telling = places
        self._names: dict[str, int] = {}
        self._widths: dict[int, str] = {}
        self._sizes: dict[Size, str] = {}

    def number(self, name: str) -> int:
        """A tensor by the order of its first use; -1 for none."""
        return self._names.setdefault(name, len(self._names)) if name else -1

    def input(self, item: CaseInput) -> Hashable:
        """An input: its dims, and the sizes that it holds."""
        value = () if item.value is None else (item.value.shape, *map(self._size, item.value.flat))
        shape = self._kernel(item.shape) if item.weight else self._places(item.shape)
        return (self.number(item.name), shape, value, item.weight)

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
        """A constant: floats that are many by their dims and what they may hide, anything else by its numbers."""
        dims = self._kernel(tuple(tensor.dims))
        array = decode_tensor(tensor)
        if tensor.data_type in FLOATS and prod(tensor.dims) > MOST_TOLD:
            return repr((tensor.data_type, dims, *_kinds(array)))
        if tensor.data_type in FLOATS:
            return repr((tensor.data_type, dims, *map(_told, array.ravel())))
        if array.dtype.kind in "iu" and array.size <= MAX_UNREDUCED_DIM:
            return repr((tensor.data_type, dims, *map(self._said, array.ravel().tolist())))
        return repr((tensor.data_type, dims, _digest(np.ascontiguousarray(array))))

    def _kernel(self, dims: Sequence[Size]) -> tuple[str, ...]:
        """The dims of a constant: where windows are moved, of those a kernel has behind its channels only whether."""
        return self._dims(dims, range(2, len(dims)))

    def _places(self, dims: Sequence[Size]) -> tuple[str, ...]:
        """The dims of an input: of those that windows are moved over it counts whether there is more than one place."""
        return self._dims(dims, [at for at in range(2, len(dims)) if isinstance(dims[at], int)])

    def _dims(self, dims: Sequence[Size], of_windows: Collection[int]) -> tuple[str, ...]:
        """Dims, those at the places of windows as whether they are 1, where windows are moved."""
        places = of_windows if self._moves_windows else ()
        return tuple(str(size == 1) if at in places else self._size(size) for at, size in enumerate(dims))

    def _attributes(self, node: NodeProto) -> Hashable:
        moves_windows = guess_node_traits(node).products.slides_window
        return tuple(sorted((item.name, self._attribute(item, moves_windows)) for item in node.attribute))

    def _attribute(self, item: AttributeProto, moves_windows: bool) -> str:
        if moves_windows and item.name in _OF_WINDOWS:
            usual = _OF_WINDOWS[item.name]
            return repr((len(item.ints), any(number != usual for number in (*item.ints, *[item.i] * (not item.ints)))))
        if item.type in _INTS:
            numbers = (item.i,) if item.type == AttributeProto.INT else item.ints
            return repr(tuple(map(self._said, numbers)))
        if item.type == AttributeProto.TENSOR:
            return self.tensor(item.t)
        copy = AttributeProto()
        copy.CopyFrom(item)
        return repr((item.type in GRAPHS, copy.SerializeToString(deterministic=True)))

    def _said(self, number: int) -> str:
        """A number that a constant or an attribute holds: as a size, and as it is where it is more than that."""
        is_width = self._telling is not None and abs(number) not in self._telling
        return self._size(number) if is_width else f"{self._size(number)}={number}"

    def _size(self, size: Size) -> str:
        """A small number as it is; a large one, and one that is free, by the order of its first use."""
        if isinstance(size, int):
            return (
                str(size) if abs(size) <= MAX_UNREDUCED_DIM else self._widths.setdefault(size, f"w{len(self._widths)}")
            )
        return self._sizes.setdefault(size, f"s{len(self._sizes)}")


def _told(number: np.floating) -> str:
    """A number by itself; of one that was learned it counts its sign and that it was, as of many only their dims do.

    Each site is run with its own on inputs of usual size, which show whether what is computed from it is right.
    """
    digits = np.format_float_scientific(number).partition("e")[0].strip("-").replace(".", "")
    is_learned = len(digits) > _WRITTEN and int(np.frexp(number)[1]) in _LEARNED
    return f"{'-' * bool(number < 0)}learned" if is_learned else repr(number)


def _kinds(array: np.ndarray) -> Sequence[float | str]:
    """What kinds of numbers there are among many; the number itself where all are one, as zeros and ones.

    What is wrong with other than usual inputs may not be seen behind a weight that is zero, infinite or far from one.
    """
    numbers = array.ravel()
    if (numbers == numbers[0]).all():
        return [float(numbers[0])]
    sizes = np.abs(numbers if numbers.dtype.itemsize > 2 else numbers.astype(np.float32))
    least, most = 2.0 ** (_LEARNED.start - 1), 2.0 ** (_LEARNED.stop - 1)  # a mantissa is a half and more
    found = {
        "zero": (sizes == 0).any(),
        "nan": np.isnan(sizes).any(),
        "infinite": np.isinf(sizes).any(),
        "huge": ((sizes >= most) & (sizes < np.inf)).any(),
        "learned": ((sizes >= least) & (sizes < most)).any(),  # of many a few are tiny by chance
    }
    return [kind for kind, is_there in found.items() if is_there]


def _of_all(functions: Iterable[FunctionProto]) -> Hashable:
    """Functions by all that they hold."""
    return tuple(sorted(_digest(item.SerializeToString(deterministic=True)) for item in functions))


def _digest(data: "bytes | np.ndarray") -> bytes:
    if isinstance(data, np.ndarray):
        data = repr(data.tolist()).encode() if data.dtype == object else data.tobytes()
    return blake2b(data, digest_size=16).digest()
