"""Random inputs that a model can run on, with the shapes, dtypes and ranges that the graph needs."""

import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto

from surgeon.analysis.assumptions.assumption import Assumption
from surgeon.analysis.assumptions.model_assumptions import assumptions_of
from surgeon.analysis.input_dependence import InputDependence
from surgeon.analysis.input_roles import InputRole, InputRoles, named_role
from surgeon.ir.index import Index
from surgeon.ops.traversal import uses_float16
from surgeon.runtime.inputs.fill import Blank, Fill, Fills, fill_array
from surgeon.runtime.inputs.input_spec import FLOATS, InputSpec, InputsUnknown
from surgeon.runtime.inputs.role_fills import SAMPLED
from surgeon.runtime.inputs.string_values import vocabulary
from surgeon.shapes.constraints.input_dims import (
    DynamicDim,
    check_dim_names,
    dynamic_dims,
    fallback_sets,
    input_dims,
    long_sets,
    required_inputs,
    size_sets,
)

_MAX_ELEMENTS = 1 << 28  # of an input: 1 GiB of float32
NO_FILLS: Fills = {}

__all__ = ["InputGenerator", "InputsUnknown", "generate_inputs"]


class InputGenerator:
    """The inputs of a model, analysed once; `generate` then returns sets of arrays.

    names: whether hints at a role count: a name (attention_mask, position_ids), or the subtraction of a float mask from
    one.  This is right for whole models.  An inner tensor has its producer's name, and 1 - x is only arithmetic.  bare:
    inputs of which only the shape is read; they get no values.  assumed: assumptions by input, by default those that
    the model carries.  Raises InputsUnknown for an input that is not a tensor, or whose rank or dtype is unknown or
    unsupported.
    """

    def __init__(
        self,
        skeleton: ModelProto,
        *,
        names: bool = True,
        bare: Collection[str] = (),
        assumed: Mapping[str, Assumption] | None = None,
    ) -> None:
        inputs = list(required_inputs(skeleton.graph).values())
        for entry in inputs:
            _require_tensor(entry)
        self.free: dict[str, DynamicDim] = dynamic_dims(inputs)
        index = Index.over(skeleton)
        wants: list[InputSpec] = []
        roles, dependence = InputRoles(index), InputDependence(index)
        half, assumed = uses_float16(skeleton), assumptions_of(skeleton) if assumed is None else assumed
        for entry in inputs:
            role = roles.of_input(entry.name)
            dtype, dims = _numpy_dtype(entry), tuple(input_dims(entry))
            named = named_role(entry.name) if names else None
            kind = _kind(role, named, dtype, dims)
            if kind == "mask" and not names and dtype.name in FLOATS:
                kind = "plain"
            is_measured = kind == "lengths" and named is None and "length" not in role.flags
            free = (kind in ("plain", "compared") or is_measured) and not dependence.decides(entry.name)
            keeps_role = names or (not free and dependence.allocates(entry.name))
            wants.append(
                InputSpec(
                    entry.name,
                    dtype,
                    dims,
                    role=role,
                    named=named,
                    kind=kind,
                    is_unconstrained=free,
                    half=half,
                    keeps_role=keeps_role,
                    assumption=assumed.get(entry.name),
                )
            )
        if any(want.kind == "words" for want in wants):
            wants = [_with_words(want, vocabulary(skeleton)) for want in wants]
        self._bare = [want for want in wants if want.name in bare]
        wants = [want for want in wants if want.name not in bare]
        self.wants = tuple(wants)
        self.edged = frozenset(want.name for want in wants if want.takes_edge_values)  # floats only for arithmetic

    def speak(self, words: Collection[str]) -> None:
        """Add strings that string inputs may hold."""
        self.wants = tuple(_with_words(want, words) for want in self.wants)

    def size_sets(self, dims: Mapping[str, int]) -> list[dict[str, int]]:
        """Return the sets of sizes to try first; one empty set if no dim is dynamic.

        Raises UsageError if `dims` contains a dim that no input has.
        """
        check_dim_names(self.free, dims)
        return size_sets(self.free, dims)

    def sizes_of(self, feeds: Mapping[str, np.ndarray]) -> dict[str, int]:
        """Sizes of the dynamic dims in a set of inputs."""
        pairs = [pair for want in self.wants for pair in zip(want.dims, feeds[want.name].shape, strict=True)]
        return {dim: size for dim, size in pairs if isinstance(dim, str)}

    def long_sets(self, dims: Mapping[str, int]) -> list[dict[str, int]]:
        """Return sets with long sequences, the longest first."""
        return long_sets(self.free, dims)

    def has_room(self, sizes: Mapping[str, int]) -> bool:
        """Whether position tables have a row for each position of a sequence; otherwise some positions repeat."""
        for want in self.wants:
            tables = [limit.table for limit in want.role.limits if isinstance(limit.table, int)]
            if want.named == "position" and tables and want.dims and want.shape(sizes)[-1] > min(tables):
                return False
        return True

    def fallback_sets(self, dims: Mapping[str, int]) -> list[dict[str, int]]:
        """Return further sets, for a model that rejects all of `size_sets`."""
        return fallback_sets(self.free, dims)

    def generate(
        self,
        seed: int,
        sizes: Mapping[str, int],
        fills: Fills = NO_FILLS,
        usual: Fill = SAMPLED,
        *,
        drawn_by: Sequence[int] = (),
    ) -> dict[str, np.ndarray]:
        """Return one array per input, from its fill or the usual one.  Equal arguments give equal arrays.

        drawn_by: further numbers for the random seed.  Raises InputsUnknown for an array that is too large.
        """
        made: dict[str, np.ndarray] = {}
        for want in self.wants:
            shape = want.shape(sizes)
            if math.prod(shape) >= _MAX_ELEMENTS:
                raise InputsUnknown(f"input '{want.name}' of shape {list(shape)} is too large to generate")
            random = np.random.default_rng([seed, zlib.crc32(want.name.encode()), *drawn_by])
            made[want.name] = want.obeying(fill_array(fills.get(want.name, usual), Blank(want, shape, sizes, random)))
        return made | self.shape_only(sizes)

    def obeying(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inputs, with elements that violate an assumption replaced."""
        return {**feeds, **{want.name: want.obeying(feeds[want.name]) for want in self.wants if want.name in feeds}}

    def shape_only(self, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
        """Zeros for the inputs of which only the shape is read."""
        return {
            want.name: np.zeros(want.shape(sizes), str if want.dtype == object else want.dtype) for want in self._bare
        }


def _with_words(want: InputSpec, words: Collection[str]) -> InputSpec:
    """The input with these strings in its vocabulary, unless the vocabulary is fixed or it holds no strings."""
    is_open = want.kind == "words" and "closed" not in want.role.flags
    return replace(want, role=want.role.with_words(words)) if is_open else want


def generate_inputs(skeleton: ModelProto, *, seed: int, dims: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Generate random inputs for a model: one array per graph input that is not an initializer.

    skeleton: may lack large payloads.  dims: sizes of dynamic dims by name; others get a usual size (batch 2, sequence
    5, images 32, else 3).  Raises InputsUnknown, and UsageError if `dims` contains a dim that no input has.
    """
    plan = InputGenerator(skeleton)
    return plan.generate(seed, plan.size_sets(dims)[0])


def _require_tensor(entry: ValueInfoProto) -> None:
    """Raise InputsUnknown unless the input is a tensor of known rank and dtype."""
    kind = entry.type.WhichOneof("value")
    if kind != "tensor_type":
        what = {
            "sequence_type": "a sequence",
            "map_type": "a map",
            "optional_type": "an optional",
            "sparse_tensor_type": "a sparse tensor",
        }.get(kind or "", "of unknown type")
        raise InputsUnknown(f"input '{entry.name}' is {what}, and surgeon generates only tensors")
    if not entry.type.tensor_type.HasField("shape"):
        raise InputsUnknown(f"the rank of input '{entry.name}' is unknown")
    if entry.type.tensor_type.elem_type == TensorProto.UNDEFINED:
        raise InputsUnknown(f"the dtype of input '{entry.name}' is unknown")


def _numpy_dtype(entry: ValueInfoProto) -> np.dtype:
    """Return the numpy dtype of an input (ml_dtypes' for bfloat16 and float8)."""
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type))
    except KeyError as error:
        raise InputsUnknown(f"input '{entry.name}' has an unsupported dtype") from error


def _kind(role: InputRole, named: str | None, dtype: np.dtype, dims: Collection[int | str]) -> str:
    """The kind of an input, by which `role_fills` chooses its usual values."""
    flags, rank = role.flags, len(dims)
    mask = "mask" in flags or named == "mask"
    if dtype.kind in "OUS":
        return "words"
    if dtype == np.bool_:
        is_lone = all(dim == 1 for dim in dims)
        return "condition" if "condition" in flags or is_lone else "mask" if mask or rank > 1 else "coins"
    if flags & {"boxes", "overlap"} and dtype.name in FLOATS and rank >= 2:
        return "boxes"
    if role.limits:
        return "indices"
    if role.keys:
        return "keys"
    if flags & {"target", "trip", "count", "zero"}:
        return "counts"
    if mask:
        return "mask"
    if dtype.kind in "iu":
        if "condition" in flags:
            return "condition"
        if named == "length" or flags & {"length", "measured"}:
            return "lengths"
        if named == "position":
            return "positions"
        if "compared" in flags:
            return "compared"
    return "plain"
