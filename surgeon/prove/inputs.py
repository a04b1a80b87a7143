"""Random inputs that a model can run on: shape, dtype and range as the graph needs them."""

import enum
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto

from surgeon.errors import SurgeonError
from surgeon.prove.dims import FreeDim, fallback_sets, free_dims, input_dims, require_known, size_sets
from surgeon.prove.roles import Role, decides, named_role, read_role
from surgeon.prove.scopes import Scopes

_MOST_ELEMENTS = 1 << 28
_WORDS = ("a", "b", "one", "two words", "", "Zoë", "0.5")
_INDEX_WITHOUT_TABLE = 2  # an index into a table of unknown size: 0 or 1
_PLAIN_INTEGERS = 10
# Binary exponents of wide-ranging values: of all magnitudes; of a tail of each sign in every tensor, past the 6 at
# which activations are cut off; of a large value of each sign.  The second row is for models that hold float16: sums
# of squares must not overflow inside, for a fused operator sums in float32 and does not.
_WIDE = ((-10.0, 6.0), (3.0, 6.0), (8.0, 13.0))
_WIDE_HALF = ((-10.0, 4.0), (3.0, 4.0), (5.0, 6.5))
_WIDE_INTEGERS = 10.0
_ZEROS = 1 / 16  # the part of wide-ranging values that are exactly zero
_MOST_CONDITIONS = 3  # that take all combinations of their values; further ones follow the first


class Values(enum.Enum):
    """What values to make, within what each input's role allows.

    USUAL: floats normal(0, 1), integers of both signs.  UNSIGNED: the same, no integer negative.
    WIDE: floats of 2**-10 to 2**6 (beside float16: 2**4), integers to 2**10, exact zeros, both signs.  LARGE: the same
    and a few of up to 2**13 (2**6.5).  WIDE_POSITIVE: WIDE, but floats above zero and integers not below.  Inputs that
    an index or a size hangs on stay as in USUAL.  TAME: as small as can be, for models that refuse the others or
    answer NaN: ones, floats in (0.1, 1).
    """

    USUAL = enum.auto()
    UNSIGNED = enum.auto()
    WIDE = enum.auto()
    LARGE = enum.auto()
    WIDE_POSITIVE = enum.auto()
    TAME = enum.auto()


_WIDE_KINDS = frozenset((Values.WIDE, Values.LARGE, Values.WIDE_POSITIVE))
_POSITIVE_KINDS = frozenset((Values.UNSIGNED, Values.WIDE_POSITIVE, Values.TAME))


class InputsUnknown(SurgeonError):
    """No inputs can be made for a model; `reason` says why in one sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Want:
    """One input to make: its name, numpy dtype, dims (sizes or keys of free dimensions) and role in the graph."""

    name: str
    dtype: np.dtype
    dims: tuple[int | str, ...]
    role: Role
    turn: int  # place among the inputs that are conditions
    kind: str  # which values it takes: plain, compared, mask, indices, ...
    free: bool  # no index and no size hangs on the values
    half: bool  # the model holds float16

    @property
    def signed(self) -> bool:
        """Whether integers are made of both signs."""
        return self.free and self.kind in ("plain", "compared") and _is_signed(self.dtype)

    @property
    def widens(self) -> bool:
        """Whether wide-ranging values differ from the usual ones."""
        return self.free and self.kind in ("plain", "compared") and named_role(self.name) is None

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape under these sizes."""
        return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in self.dims)


class InputPlan:
    """What inputs a model wants, read once; `make` then yields as many sets of arrays as asked for.

    Raises InputsUnknown for inputs that are no tensors, have no rank, or a dtype that numpy cannot hold.
    """

    def __init__(self, skeleton: ModelProto, value: Callable[[TensorProto], np.ndarray] | None = None) -> None:
        given = {tensor.name for tensor in skeleton.graph.initializer}
        given.update(sparse.values.name for sparse in skeleton.graph.sparse_initializer)
        inputs = [entry for entry in skeleton.graph.input if entry.name not in given]
        for entry in inputs:
            _require_tensor(entry)
        self.free: dict[str, FreeDim] = free_dims(inputs)
        scopes = Scopes(skeleton, value)
        wants: list[Want] = []
        self._conditions = 0
        harmless: set[tuple[int, str, bool]] = set()
        half = _holds_half(skeleton)
        for entry in inputs:
            role = read_role(scopes, entry.name)
            dtype, dims = _numpy_dtype(entry), tuple(input_dims(entry))
            kind = _kind(role, entry.name, dtype, len(dims))
            free = kind in ("plain", "compared") and not decides(scopes, entry.name, harmless)
            wants.append(Want(entry.name, dtype, dims, role, self._conditions, kind, free, half))
            self._conditions += "condition" in role.flags
        self.wants = tuple(wants)
        self.signed = any(want.signed for want in wants)
        self.widens = any(want.widens for want in wants)

    def seeds(self) -> int:
        """Return how many consecutive seeds show most of a model: two, or enough for all values of its conditions."""
        if not self.wants:
            return 1
        return 1 << max(1, min(self._conditions, _MOST_CONDITIONS))

    def size_sets(self, dims: Mapping[str, int]) -> list[dict[str, int]]:
        """Return the sets of sizes to try first; one empty set when all is fixed.

        Raises UsageError when `dims` names a dimension that no input has.
        """
        require_known(self.free, dims)
        return size_sets(self.free, dims)

    def fallback_sets(self, dims: Mapping[str, int]) -> list[dict[str, int]]:
        """Return further sets, for a model that refuses all of `size_sets`."""
        return fallback_sets(self.free, dims)

    def make(self, seed: int, sizes: Mapping[str, int], values: Values = Values.USUAL) -> dict[str, np.ndarray]:
        """Return one array per input, the same for the same arguments."""
        return {want.name: _Filler(want, seed, sizes, values).fill() for want in self.wants}


def synthesise(
    skeleton: ModelProto,
    *,
    seed: int,
    dims: Mapping[str, int],
    value: Callable[[TensorProto], np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Make random inputs for a model: one array per graph input that is not an initializer.

    `skeleton` may lack large payloads; `value` reads one where the graph's use of an input depends on it.  `dims`
    gives sizes of free dimensions by name; others get a usual size (batch 2, sequence 5, pictures 32, else 3).
    Raises InputsUnknown, and UsageError when `dims` names a dimension that no input has.
    """
    plan = InputPlan(skeleton, value)
    return plan.make(seed, plan.size_sets(dims)[0])


def _require_tensor(entry: ValueInfoProto) -> None:
    """Raise InputsUnknown unless the input is a tensor of known rank and dtype."""
    kind = entry.type.WhichOneof("value")
    if kind != "tensor_type":
        what = {
            "sequence_type": "a sequence",
            "map_type": "a map",
            "optional_type": "an optional",
            "sparse_tensor_type": "a sparse tensor",
        }.get(kind or "", "of no known type")
        raise InputsUnknown(f"input '{entry.name}' is {what}, for which no values can be made")
    if not entry.type.tensor_type.HasField("shape"):
        raise InputsUnknown(f"input '{entry.name}' has no known rank")
    if entry.type.tensor_type.elem_type == TensorProto.UNDEFINED:
        raise InputsUnknown(f"input '{entry.name}' has no known dtype")


def _numpy_dtype(entry: ValueInfoProto) -> np.dtype:
    """Return the numpy dtype of an input (ml_dtypes' for bfloat16 and float8)."""
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type))
    except KeyError as error:
        raise InputsUnknown(f"input '{entry.name}' has a dtype that is not known here") from error


def _holds_half(skeleton: ModelProto) -> bool:
    """Whether some weight, input or Cast of the main graph is float16."""
    graph, half = skeleton.graph, TensorProto.FLOAT16
    return (
        any(tensor.data_type == half for tensor in graph.initializer)
        or any(entry.type.tensor_type.elem_type == half for entry in graph.input)
        or any(node.op_type == "Cast" and any(a.i == half for a in node.attribute) for node in graph.node)
    )


def _is_signed(dtype: np.dtype) -> bool:
    """Whether a dtype is an integer that can be negative."""
    return dtype.kind == "i" or (dtype.kind == "V" and dtype.name.startswith("int"))


def _kind(role: Role, name: str, dtype: np.dtype, rank: int) -> str:
    """Return which of the filler's methods makes an input's values."""
    named, flags = named_role(name), role.flags
    mask = "mask" in flags or named == "mask"
    if dtype.kind in "OUS":
        return "words"
    if dtype == np.bool_:
        return "condition" if "condition" in flags else "mask" if mask or rank > 1 else "coins"
    if role.limits:
        return "indices"
    if flags & {"target", "trip", "count", "zero"}:
        return "counts"
    if mask:
        return "mask"
    if dtype.kind in "iu":
        if "condition" in flags:
            return "condition"
        if named == "length" or "length" in flags:
            return "lengths"
        if named == "position":
            return "positions"
        if "compared" in flags:
            return "compared"
    return "plain"


class _Filler:
    """Makes the values of one input."""

    def __init__(self, want: Want, seed: int, sizes: Mapping[str, int], values: Values) -> None:
        self.want, self.seed, self.sizes = want, seed, sizes
        self.values = Values.USUAL if values in _WIDE_KINDS and not want.widens else values
        self.tame = values is Values.TAME
        self.shape = want.shape(sizes)
        self._key = zlib.crc32(want.name.encode())
        self.random = np.random.default_rng([seed, self._key])
        if math.prod(self.shape) >= _MOST_ELEMENTS:
            raise InputsUnknown(f"input '{want.name}' of shape {list(self.shape)} is too large to make")

    def fill(self) -> np.ndarray:
        """Return the array, in the input's dtype and shape."""
        makers: dict[str, Callable[[], np.ndarray]] = {
            "words": lambda: self.random.choice(np.array(self.want.role.words or _WORDS, dtype=object), self.shape),
            "coins": lambda: np.asarray(self.random.integers(0, 2, self.shape)),
            "condition": self._condition,
            "mask": self._mask,
            "indices": lambda: self._indices(named_role(self.want.name) == "position"),
            "counts": lambda: self._counts(self.want.role.flags),
            "lengths": self._lengths,
            "positions": lambda: self._positions(None),
            "compared": self._compared,
            "plain": self._plain,
        }
        dtype = np.dtype(object) if self.want.kind == "words" else self.want.dtype
        return np.asarray(makers[self.want.kind]()).astype(dtype).reshape(self.shape)

    def _condition(self) -> np.ndarray:
        """Both values in turn as the seed counts up; several conditions go through all their combinations."""
        return np.full(self.shape, (self.seed >> self.want.turn % _MOST_CONDITIONS) & 1)

    def _mask(self) -> np.ndarray:
        """Leading ones along the last axis: all of the first row, one at least of every other."""
        if self.tame or not self.shape or not math.prod(self.shape):
            return np.ones(self.shape, dtype=np.int64)
        length = self.shape[-1]
        ones = self.random.integers(1, length + 1, self.shape[:-1])
        if ones.ndim:
            ones.reshape(-1)[0] = length
        else:
            ones = np.asarray(length if self.seed % 2 == 0 else ones)
        return (np.arange(length) < ones[..., None]).astype(np.int64)

    def _indices(self, ascending: bool) -> np.ndarray:
        """Values that stay inside every table they index, what is added on the way included."""
        low, high = 0, None
        for size, shift in self.want.role.limits:
            table = size if isinstance(size, int) else self.sizes.get(size, 0) if size else 0
            if table:
                top = max(table - max(shift, 0), 1)
                high = top if high is None else min(high, top)
                low = max(low, -shift)
        if high is None:
            high = 1 if self.tame else _INDEX_WITHOUT_TABLE
        high = max(high, low + 1)
        if ascending and low == 0:
            return self._positions(high)
        return self.random.integers(low, low + 1 if self.tame else high, self.shape)

    def _positions(self, high: int | None) -> np.ndarray:
        """0, 1, 2, ... along the last axis, below `high`."""
        steps = np.arange(self.shape[-1] if self.shape else 1)
        if high is not None:
            steps = np.minimum(steps, high - 1)
        return np.broadcast_to(steps, self.shape) if self.shape else steps.reshape(())

    def _counts(self, flags: set[str]) -> np.ndarray:
        """Shapes, counts and steps: small and positive."""
        if "target" in flags:
            target = np.ones(self.shape, dtype=np.int64)
            target.reshape(-1)[:1] = -1
            return target
        if "trip" in flags:
            return np.full(self.shape, 1 if self.tame else 2 + self.seed % 2)
        if "zero" in flags:
            return np.zeros(self.shape, dtype=np.int64)
        return np.full(self.shape, 1 if self.tame else 2)

    def _lengths(self) -> np.ndarray:
        """Between 1 and the smallest free dimension that may be a sequence; the first takes all of it."""
        if self.tame:
            return np.ones(self.shape, dtype=np.int64)
        longest = min((size for key, size in self.sizes.items() if "batch" not in key.lower() and size > 0), default=3)
        lengths = np.asarray(self.random.integers(1, longest + 1, self.shape))
        lengths.reshape(-1)[:1] = longest
        return lengths

    def _compared(self) -> np.ndarray:
        """Around what integers are mostly compared with: 0 and 1, and in every other set some below and above."""
        if self.values in _WIDE_KINDS:
            return self._integers()
        below_too = self.want.signed and self.values is Values.USUAL and self.seed % 2 == 1
        return np.asarray(self.random.integers(-2 if below_too else 0, 3 if below_too else 2, self.shape))

    def _plain(self) -> np.ndarray:
        """Values of no known role: floats normal(0, 1), bytes over their whole range, integers small; or wide."""
        dtype = self.want.dtype
        if dtype.kind in "iu":
            return self._integers()
        if dtype.kind == "V" and "int" in dtype.name:
            low = -2 if self.want.signed and self.values not in _POSITIVE_KINDS else 0
            return np.asarray(self.random.integers(low, 2, self.shape))
        if self.tame:
            return np.asarray(self.random.uniform(0.1, 1.0, self.shape))
        make = self._wide if self.values in _WIDE_KINDS else lambda: self.random.standard_normal(self.shape)
        return np.asarray(make() + 1j * make() if dtype.kind == "c" else make())

    def _integers(self) -> np.ndarray:
        """Integers that flow into arithmetic: of both signs, unless something that hangs on them may refuse that."""
        dtype = self.want.dtype
        if self.tame:
            return np.ones(self.shape, dtype=np.int64)
        negative = self.want.signed and self.values not in _POSITIVE_KINDS
        if dtype.itemsize == 1:
            limits = np.iinfo(dtype)
            low = 0 if self.values in _POSITIVE_KINDS else limits.min
            made = self.random.integers(low, int(limits.max) + 1, self.shape)
        elif self.values in _WIDE_KINDS:
            made = np.exp2(self.random.uniform(0, _WIDE_INTEGERS, self.shape)).astype(np.int64)
            made = made * self.random.choice((-1, 1) if negative else (1,), self.shape)
            tail = int(self._power(_WIDE[1]))
            made = self._pinned(made, [tail, -tail if negative else 0, 0])
        else:
            made = self.random.integers(1 - _PLAIN_INTEGERS if negative else 0, _PLAIN_INTEGERS, self.shape)
        if negative and self.values is Values.USUAL:
            size = int(self.random.integers(1, _PLAIN_INTEGERS))
            made = self._pinned(made, [size, -size])
        return np.where(made == 0, 1, made) if "divisor" in self.want.role.flags else np.asarray(made)

    def _wide(self) -> np.ndarray:
        """Floats over many orders of magnitude, exact zeros among them, both tails in the smallest of tensors."""
        all_of_them, tail, far = _WIDE_HALF if self.want.half else _WIDE
        made = np.exp2(self.random.uniform(*all_of_them, self.shape)) * self.random.choice((-1.0, 1.0), self.shape)
        made = np.where(self.random.random(self.shape) < _ZEROS, 0.0, made)
        pins = [self._power(tail), -self._power(tail), 0.0]
        if self.values is Values.LARGE and self.want.dtype.itemsize > 1:
            pins = [self._power(far), -self._power(far), *pins]
        made = self._pinned(made, pins)
        return np.where(made == 0, 1.0, np.abs(made)) if self.values is Values.WIDE_POSITIVE else made

    def _power(self, exponents: tuple[float, float]) -> float:
        """Two to a random exponent, a little above the least."""
        return float(np.exp2(self.random.uniform(exponents[0] + 0.1, exponents[1])))

    def _pinned(self, made: np.ndarray, pins: list[float]) -> np.ndarray:
        """Put each pin at a random place.  Where there is room for one, it is the first or second as the seed goes."""
        if (self.seed + self._key) % 2:
            pins = [pins[1], pins[0], *pins[2:]]
        flat = np.asarray(made).reshape(-1).copy()
        for place, pin in zip(self.random.permutation(flat.size), pins, strict=False):
            flat[place] = pin
        return flat.reshape(self.shape)
