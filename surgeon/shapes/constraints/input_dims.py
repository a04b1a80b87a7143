"""Sizes for the dynamic dims of graph inputs, in several sets.

The key of a dynamic dim is its `dim_param`, or `input[axis]` without one.  A key that is an arithmetic expression of
other keys (`past_len + seq_len`, `2*s0`) is computed from them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral

import onnx

from surgeon.errors import UsageError
from surgeon.shapes.algebra.size_expressions import SizeError, is_total, parse_size, symbol, symbols
from surgeon.shapes.algebra.size_expressions import evaluate as value_of
from surgeon.text import close_matches, join_all

_FLOATS = frozenset(
    (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16)
)

# Sizes by kind of dim, in the usual and in the small set.
SIZES = {
    "batch": (2, 1),
    "sequence": (5, 2),
    "past": (3, 2),
    "image": (32, 64),
    "audio": (1600, 800),
    "frames": (48, 32),
    "other": (3, 2),
}
# Sizes by kind in the long sets, tried in turn; other kinds are as in the small set.
LONG = ({"sequence": 300, "past": 290, "other": 129}, {"sequence": 60, "past": 50, "other": 33})
# Tried in turn for all dynamic dims at once, when the model rejects the sizes above.
FALLBACK_SIZES = (4, 1, 8, 2, 16, 32, 64, 224)

_MAY_BE_EMPTY = frozenset(("past", "other"))

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(expression, re.IGNORECASE))
    for kind, expression in (
        ("batch", r"batch|bsz|(^|_)bs$"),
        ("past", r"past|cache|kv"),
        ("audio", r"audio|sample|wave"),
        ("frames", r"frame|mel"),
        ("image", r"height|width|image|pixel|^[hw]$"),
        ("sequence", r"seq|len|token|text|time|^[lst]$"),
    )
)


@dataclass(frozen=True, slots=True)
class DynamicDim:
    """A dynamic dim, described by its first occurrence in the inputs."""

    key: str
    """`dim_param`, or `input[axis]` without one."""
    axis: int
    """Its axis."""
    rank: int
    """The rank of the input."""
    elem_type: int
    """The dtype of the input."""
    owner: str = ""
    """The name of the input."""

    def kind(self) -> str:
        """The quantity that the dim counts: by its name, else by its axis, and for audio by the name of the input."""
        if (kind := dim_kind(self.key)) != "other":
            return kind
        if self.axis == 0:
            return "batch"
        if self.axis == self.rank - 1 and dim_kind(self.owner) == "audio":
            return "audio"
        if self.elem_type in _FLOATS:
            return "image" if self.rank == 4 and self.axis >= 2 else "other"
        return "sequence"


def dim_kind(key: str) -> str:
    """The quantity that a dim of this name counts; "other" if unknown."""
    known = (kind for kind, expression in _KINDS if expression.search(key))
    return next(known, "other") if "[" not in key else "other"


def input_dims(value: onnx.ValueInfoProto) -> list[int | str]:
    """Return the shape of a tensor input: per axis a size, or the key of a dynamic dim."""
    dims: list[int | str] = []
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            dims.append(dim.dim_value)
        else:
            dims.append(dim.dim_param.strip() or f"{value.name}[{axis}]")
    return dims


def required_inputs(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """Return the required inputs of a graph, by name: those without a dense or sparse initializer."""
    given = {tensor.name for tensor in graph.initializer}
    given.update(sparse.values.name for sparse in graph.sparse_initializer)
    return {value.name: value for value in graph.input if value.name not in given}


def dynamic_dims(inputs: Sequence[onnx.ValueInfoProto]) -> dict[str, DynamicDim]:
    """Return the dynamic dims of all inputs by key, in the order of their first use."""
    found: dict[str, DynamicDim] = {}
    for value in inputs:
        dims = input_dims(value)
        for axis, key in enumerate(dims):
            if isinstance(key, str) and key not in found:
                found[key] = DynamicDim(
                    key, axis, len(dims), elem_type=value.type.tensor_type.elem_type, owner=value.name
                )
    return found


def check_dim_names(free: Mapping[str, DynamicDim], chosen: Mapping[str, int]) -> None:
    """Raise UsageError if a chosen dim is neither a dim of the inputs nor part of an expression in one."""
    known = known_dims(free)
    for name in chosen:
        if name not in known:
            near = close_matches(name, known)
            listed = ", ".join(f"'{key}'" for key in free) or "none"
            how = f"did you mean {join_all([*map(repr, near)], 'or')}?" if near else f"there are {listed}."
            raise UsageError(f"No input has a dynamic dimension '{name}'; {how}")
        require_size(name, chosen[name], free)


def require_size(name: str, size: int, free: Mapping[str, DynamicDim]) -> None:
    """Raise UsageError for 0 samples, tokens or pixels: a model computes nothing from them.  A cache may be empty."""
    kind = free[name].kind() if name in free else dim_kind(name)
    if size == 0 and kind not in _MAY_BE_EMPTY:
        raise UsageError(f"Dimension '{name}' has the size 0, so the model computes nothing. Give at least 1.")


def known_dims(free: Mapping[str, DynamicDim]) -> set[str]:
    """The valid names of sizes: keys of dynamic dims, and names in their expressions."""
    return {*free, *(name for key in free for name in symbols(parse_size(key)))}


def require_sizes(chosen: Mapping[str, int]) -> None:
    """Raise UsageError for anything but integers of at least 0; an empty cache has size 0."""
    if not isinstance(chosen, Mapping) or not all(isinstance(size, Integral) for size in chosen.values()):
        raise UsageError(f"Invalid dims={chosen!r}. Map names to integers, for example {{'batch': 2}}.")
    for name, size in chosen.items():
        if size < 0:
            raise UsageError(f"The dim '{name}' has the size {size}. Give an integer of at least 0.")


def require_dims(graph: onnx.GraphProto, chosen: Mapping[str, int]) -> None:
    """Raise UsageError for a negative size, or for a dim that no input has."""
    require_sizes(chosen)
    check_dim_names(dynamic_dims(list(required_inputs(graph).values())), chosen)


def size_sets(free: Mapping[str, DynamicDim], chosen: Mapping[str, int]) -> list[dict[str, int]]:
    """Return sets of sizes to use: usual, small, all ones; without repeats, `chosen` sizes kept in each."""
    usual = {key: SIZES[dim.kind()][0] for key, dim in free.items()}
    small = {key: SIZES[dim.kind()][1] for key, dim in free.items()}
    return _distinct([_settle(free, sizes, chosen) for sizes in (usual, small, dict.fromkeys(free, 1))])


def long_sets(free: Mapping[str, DynamicDim], chosen: Mapping[str, int]) -> list[dict[str, int]]:
    """Return sets with long sequences, the longest first; empty if no sequence length is dynamic."""
    kinds = {key: dim.kind() for key, dim in free.items() if key not in chosen}
    if not LONG[0].keys() & kinds.values():
        return []
    small = {key: SIZES[dim.kind()][1] for key, dim in free.items()}
    longer = ({key: sizes[kind] for key, kind in kinds.items() if kind in sizes} for sizes in LONG)
    return _distinct([_settle(free, small | sizes, chosen) for sizes in longer])


def fallback_sets(free: Mapping[str, DynamicDim], chosen: Mapping[str, int]) -> list[dict[str, int]]:
    """Return further sets, for a model that rejects all of `size_sets`.

    Kinds that a network does not accept as small as others (images, audio) keep their size at first, then shrink too.
    """
    sets = []
    for size in FALLBACK_SIZES:
        large = {key: SIZES[dim.kind()][0] for key, dim in free.items() if dim.kind() in ("image", "audio", "frames")}
        if large:
            sets.append(_settle(free, dict.fromkeys(free, size) | large, chosen))
        batch_kept = {key: 2 if dim.kind() == "batch" else size for key, dim in free.items()}
        sets.append(_settle(free, dict.fromkeys(free, size), chosen))
        sets.append(_settle(free, batch_kept, chosen))
    return _distinct(sets)


def _distinct(sets: Sequence[dict[str, int]]) -> list[dict[str, int]]:
    """Drop repeated sets, keeping order."""
    kept: list[dict[str, int]] = []
    for sizes in sets:
        if sizes not in kept:
            kept.append(sizes)
    return kept


def _settle(free: Mapping[str, DynamicDim], sizes: Mapping[str, int], chosen: Mapping[str, int]) -> dict[str, int]:
    """Apply the caller's sizes, then those that follow from others: expressions, and totals of past and new."""
    settled = {**sizes, **chosen}
    for key in free:
        if key in chosen:
            continue
        value = evaluate(key, settled)
        value = total_size(key, free, settled) if value is None else value
        if value is not None and value >= 0:
            settled[key] = value
    return settled


def total_size(key: str, free: Mapping[str, DynamicDim], sizes: Mapping[str, int]) -> int | None:
    """The size of a dim that by its name counts past and new tokens together; None for others, and without sizes."""
    past = next((key for key in free if "past" in key.lower() and "+" not in key), None)
    sequence = next((key for key, dim in free.items() if dim.kind() == "sequence" and not is_total(key)), None)
    if not is_total(key) or past is None or not {past, sequence or past} <= sizes.keys():
        return None
    return sizes[past] + (1 if sequence is None else sizes[sequence])


def usual_size(name: str) -> int:
    """The usual size of a dim of this name."""
    return SIZES[DynamicDim(name, 1, 2, onnx.TensorProto.INT64).kind()][0]


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Sizes by name, as text."""
    return ", ".join(f"{name} {size}" for name, size in sorted(sizes.items()))


def known_size(size: int | str | None, sizes: Mapping[str, int]) -> int | None:
    """The value of a number or an expression of dynamic dims; None if one of them has no size."""
    if not isinstance(size, str) or size in sizes:
        return sizes[size] if isinstance(size, str) else size
    try:
        return value_of(parse_size(size), sizes)
    except SizeError:
        return None


def evaluate(key: str, sizes: Mapping[str, int]) -> int | None:
    """Return the value of a key that is an expression, as `size_expressions.parse_size` reads it; None for a name.

    A name in it without a size has the usual size of its kind.
    """
    size = parse_size(key)
    if size == symbol(key.strip()):
        return None
    usual = {name: usual_size(name) for name in symbols(size)}
    try:
        return value_of(size, {**usual, **sizes})
    except SizeError:
        return None  # a division by 0
