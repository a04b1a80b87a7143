"""Random inputs that a model can run on: shape, dtype and range as the graph needs them."""

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto

from surgeon.errors import SurgeonError
from surgeon.prove.dims import FreeDim, fallback_sets, free_dims, input_dims, require_known, size_sets
from surgeon.prove.roles import Role, named_role, read_role
from surgeon.prove.scopes import Scopes

_MOST_ELEMENTS = 1 << 28
_WORDS = ("a", "b", "one", "two words", "", "Zoë", "0.5")
_INDEX_WITHOUT_TABLE = 2  # an index into a table of unknown size: 0 or 1
_PLAIN_INTEGERS = 10
_MOST_CONDITIONS = 3  # that take all combinations of their values; further ones follow the first


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
        for entry in inputs:
            role = read_role(scopes, entry.name)
            wants.append(Want(entry.name, _numpy_dtype(entry), tuple(input_dims(entry)), role, self._conditions))
            self._conditions += "condition" in role.flags
        self.wants = tuple(wants)

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

    def make(self, seed: int, sizes: Mapping[str, int], *, tame: bool = False) -> dict[str, np.ndarray]:
        """Return one array per input, the same for the same arguments.

        `tame` is for models that refuse the usual values or answer NaN: integers as small as can be, masks of ones,
        floats in (0.1, 1).
        """
        return {want.name: _Filler(want, seed, sizes, tame).fill() for want in self.wants}


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


class _Filler:
    """Makes the values of one input."""

    def __init__(self, want: Want, seed: int, sizes: Mapping[str, int], tame: bool) -> None:
        self.want, self.seed, self.sizes, self.tame = want, seed, sizes, tame
        self.shape = want.shape(sizes)
        self.random = np.random.default_rng([seed, zlib.crc32(want.name.encode())])
        if math.prod(self.shape) >= _MOST_ELEMENTS:
            raise InputsUnknown(f"input '{want.name}' of shape {list(self.shape)} is too large to make")

    def fill(self) -> np.ndarray:
        """Return the array, in the input's dtype and shape."""
        want = self.want
        if want.dtype.kind in "OUS":
            words = np.array(want.role.words or _WORDS, dtype=object)
            return np.asarray(self.random.choice(words, self.shape), dtype=object)
        if want.dtype == np.bool_:
            return np.asarray(self._booleans()).astype(np.bool_).reshape(self.shape)
        return np.asarray(self._numbers()).astype(want.dtype).reshape(self.shape)

    def _booleans(self) -> np.ndarray:
        if "condition" in self.want.role.flags:
            return self._condition()
        if "mask" in self.want.role.flags or named_role(self.want.name) == "mask" or len(self.shape) > 1:
            return self._mask()
        return self.random.integers(0, 2, self.shape)

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

    def _numbers(self) -> np.ndarray:
        role, named = self.want.role, named_role(self.want.name)
        flags = role.flags
        if role.limits:
            return self._indices(named == "position")
        if shaped := flags & {"target", "trip", "count", "zero"}:
            return self._counts(shaped)
        if "mask" in flags or named == "mask":
            return self._mask()
        integral = self.want.dtype.kind in "iu"
        if "condition" in flags and integral:
            return self._condition()
        if integral and (named == "length" or "length" in flags):
            return self._lengths()
        if named == "position" and integral:
            return self._positions(None)
        if "compared" in flags and integral:
            return self.random.integers(0, 2, self.shape)
        return self._plain()

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

    def _plain(self) -> np.ndarray:
        """Values of no known role: floats normal(0, 1), bytes over their whole range, integers small."""
        dtype = self.want.dtype
        if dtype.kind in "iu":
            if self.tame:
                return np.ones(self.shape, dtype=np.int64)
            if dtype.itemsize == 1:
                limits = np.iinfo(dtype)
                return self.random.integers(limits.min, int(limits.max) + 1, self.shape)
            return self.random.integers(0, _PLAIN_INTEGERS, self.shape)
        if dtype.kind == "V" and "int" in dtype.name:
            return self.random.integers(0, 2, self.shape)
        if self.tame:
            return self.random.uniform(0.1, 1.0, self.shape)
        if dtype.kind == "c":
            return self.random.standard_normal(self.shape) + 1j * self.random.standard_normal(self.shape)
        return np.asarray(self.random.standard_normal(self.shape))
