"""Facts of an operator that its schema does not have: a record of traits in groups.

`trait_table` has the records, `trait_lookup` finds them.  Functions that compute, infer or check are in the modules
that use them, in tables by operator.  Slots are positions among a node's inputs.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

EVERY = range(2**31 - 1)
"""The slots of an operator whose inputs are all alike, for any number of inputs."""
NO_TABLE = EVERY.stop
"""The slot of a table that is not an input."""
Slots = Collection[int]


class Axes(NamedTuple):
    """The source of an operator's axes."""

    slot: int
    """The input with the axes from opset `since` on; before, an attribute of this name has them."""
    since: int = 0
    """0 if the axes were always an input."""
    of_result: bool = False
    """The axes refer to dims of the output (Unsqueeze)."""
    in_order: bool = False
    """Other inputs have one element per axis (Slice)."""


class IndexedTable(NamedTuple):
    """An input of indices into another input."""

    indices: int
    """The slot of the indices."""
    table: int
    """The slot of the tensor that they index."""
    axis_attribute: str = ""
    """The attribute that holds the indexed axis."""
    default_axis: int = 0
    """The indexed axis without that attribute."""
    by_tuples: bool = False
    """The last axis of the indices runs over axes of the table, from `batch_dims` on (GatherND)."""
    by_element: bool = False
    """The indices have the rank of the table: each is for one element of the output (GatherElements)."""


class AttentionInputs(NamedTuple):
    """The slots of an attention op whose queries are slot 0; None if the op has no such input."""

    key: int
    """[batch, ..., key length, head size], or heads and head size in one axis."""
    value: int
    """Like the keys, with a head size that may differ."""
    past_key: int | None = None
    """Cached keys."""
    past_value: int | None = None
    """Cached values."""


class ShapeTraits(NamedTuple):
    """How the shapes of inputs and outputs relate."""

    broadcasts: bool = False
    """The inputs broadcast to one another, or one to the other (PRelu)."""
    same_type_as_input: bool = False
    """The first output has the dtype and the shape of the first input."""
    same_shape_as_input: bool = False
    """The first output has the shape, but not always the dtype, of the first input."""
    returns_sizes: bool = False
    """The output holds sizes of the first input (Shape, Size)."""
    reads_only_shape: bool = False
    """The values of the first input do not matter."""
    is_reshape: bool = False
    """The output has the elements of the first input in the same order."""
    expands: bool = False
    """A value determines the size of the output, which can be much larger than the inputs."""
    axes: Axes | None = None
    """The source of the axes."""
    output_count_attribute: str = ""
    """The attribute that holds the number of outputs (Split)."""


class DtypeTraits(NamedTuple):
    """How the dtypes of inputs and outputs relate."""

    one_type: bool = False
    """All inputs and the output share one dtype."""
    is_cast: bool = False
    """The output is the first input in another dtype."""
    returns_bool: bool = False
    """The output is boolean, and has the shape of the input unless the op broadcasts."""
    returns_indices: bool = False
    """The output holds indices or counts, which are small for any input."""
    later_outputs_are_indices: bool = False
    """All outputs but the first hold indices."""
    quantization: Literal["", "to integers", "to floats"] = ""
    """It quantizes floats, or dequantizes integers."""

    @property
    def is_qdq(self) -> bool:
        """Whether it quantizes or dequantizes: each consumer keeps its own node, because runtimes fuse the two."""
        return bool(self.quantization)


class AlgebraTraits(NamedTuple):
    """Algebraic laws of the operator."""

    commutes: bool = False
    """The order of the inputs does not matter."""
    family: Literal["", "sum", "product"] = ""
    """The associative chains that it can be part of."""
    signs: tuple[int, ...] = ()
    """By input, 1 or -1; -1 for an input that is subtracted, or that it divides by."""
    neutral: int | None = None
    """The constant that has no effect as second input; if the op commutes, also as first."""
    divisors: Slots = ()
    """Inputs that it divides by."""
    for_two: str = ""
    """The op that computes the same for two inputs (Sum: Add)."""
    comparison: Literal["", "=", "<", "<=", ">", ">="] = ""
    """How it compares its two inputs."""

    @property
    def compares(self) -> bool:
        """Whether it compares two inputs by order or equality."""
        return bool(self.comparison)


class DataTraits(NamedTuple):
    """The sources of the elements of the outputs."""

    copies_elements: Slots = ()
    """Inputs whose elements are moved, repeated or dropped, but not changed; the outputs hold nothing else."""
    nearly_copies_elements: Slots = ()
    """Inputs that reach the output almost unchanged: clipped, rounded, cast, padded, or partly overwritten."""
    identity_when: Literal["", "always", "same dtype", "inference"] = ""
    """When the op is an identity; "same dtype" for casts to the dtype of their input."""
    foldable: bool = False
    """Constant folding may compute it, if the file does not grow too much."""
    overwritten: Slots = ()
    """Inputs that a kernel of ONNX Runtime overwrites with its results, even initializers."""

    @property
    def carried(self) -> Slots:
        """Inputs whose elements reach the outputs unchanged, or nearly so."""
        return self.nearly_copies_elements or self.copies_elements


class NumericsTraits(NamedTuple):
    """How the operator rounds."""

    exact: bool = False
    """It adds no rounding error.  Set only if `copies_elements` does not imply it."""
    rounding_scale_slot: int | None = None
    """It rounds the first input to integers, after a division by this input; 0 for no division."""
    reduces: Literal["", "sum", "product", "extremum"] = ""
    """It reduces axes: to a sum or a function of sums, a product, or a maximum or minimum."""
    norm_axis: str | int | None = None
    """The first axis that a normalization averages over, or the attribute that holds it."""
    accumulates: bool = False
    """It sums many numbers, so large terms can absorb small ones."""
    is_max_like: bool = False
    """Its outputs depend only on the largest elements."""
    is_argsort_like: bool = False
    """It selects by order; among equal elements it selects the first, or as an attribute says."""
    is_softmax: bool = False
    """It is a softmax."""
    squares: bool = False
    """It multiplies numbers by themselves."""
    never_negative: bool = False
    """Its first output has no negative numbers, for any inputs."""
    error_is_absolute: bool = False
    """The error of kernels is a fraction of 1, even if the results are small."""
    error_is_input_scaled: bool = False
    """Elementwise; the error of kernels is at most a fraction of 1, and near zero a fraction of the input."""


class ProductTraits(NamedTuple):
    """Operators that sum products."""

    kind: Literal["", "matmul", "einsum", "conv", "conv_transpose", "attention", "rnn"] = ""
    """The kind of product; "" for none."""
    factors: tuple[int, int] | None = None
    """The slots of the two multiplied matrices."""
    weight_slot: int | None = None
    """The slot of [M, C/group, ...] kernels; in recurrent layers the first of two weights."""
    weighted_axis: int | None = None
    """The axis of the first input with separate weights for each index, such as channels."""
    slides_window: bool = False
    """It slides a window over the first input, as convolutions and pooling do."""
    attention_inputs: AttentionInputs | None = None
    """The slots of keys, values and caches."""
    per_column: tuple[int, ...] = ()
    """Inputs with one number per column of the second factor, or one for all."""
    bias_slot: int | None = None
    """The slot of the bias, one number for each column."""


class IndexingTraits(NamedTuple):
    """Inputs that determine where to read or write."""

    lookups: tuple[IndexedTable, ...] = ()
    """Indices, and the tensors that they index."""
    bounded_indices: tuple[int, int] | None = None
    """The slots of indices and of their exclusive bound (OneHot)."""
    reads_coordinates: bool = False
    """It reads at float coordinates (GridSample)."""
    positions: Slots = ()
    """The inputs with such coordinates, which may be any numbers: kernels convert them to integers."""
    coordinates: Slots = ()
    """Inputs of other coordinates, such as the flat indices of MaxUnpool."""
    boxes: int | None = None
    """The slot of boxes in the first input, each [image,] x1, y1, x2, y2."""
    overlapping_boxes: Slots = ()
    """Inputs with boxes whose overlaps are measured (NonMaxSuppression)."""


class ControlTraits(NamedTuple):
    """Subgraphs, branches and randomness."""

    has_bodies: bool = False
    """It holds subgraphs."""
    scans: bool = False
    """It runs its body for each slice of its last inputs, as many as the attribute num_scan_inputs says."""
    trip_counts: Slots = ()
    """Inputs with the number of runs."""
    conditions: Slots = ()
    """Inputs that decide whether to run."""
    selectors: Slots = ()
    """Inputs that choose between others (Where, If)."""
    random: Literal["", "always", "training"] = ""
    """When it draws random numbers."""
    training_slot: int | None = None
    """The input that enables training mode."""


class OperandTraits(NamedTuple):
    """Meanings and usual shapes of other inputs."""

    masks: Slots = ()
    """Masks."""
    logits: tuple[int, ...] = ()
    """Attention scores or logits, and tensors that are added to them."""
    counts: Slots = ()
    """Counts, steps and sizes."""
    target_shape: Slots = ()
    """The shape of the output."""
    offsets: Slots = ()
    """Starts and other integers for which 0 is a valid choice."""
    sequence_lengths: Slots = ()
    """Lengths of sequences."""
    key_counts: tuple[int, int] | None = None
    """The slots of the last key's index per sequence, and of the length of the longest sequence."""
    last_axis_vectors: Slots = ()
    """Usually a vector over the last axis of the first input."""
    channel_vectors: Slots = ()
    """Usually a vector over its channels."""
    square_matrices: Slots = ()
    """Usually a square matrix."""
    scalars: Slots = ()
    """Usually one number."""
    conv_kernels: Slots = ()
    """Usually a convolution kernel."""


class StringTraits(NamedTuple):
    """Attributes with strings."""

    string_attributes: tuple[str, ...] = ()
    """Attributes with the strings that it knows."""
    regex_attributes: tuple[str, ...] = ()
    """Those of them that are regular expressions."""


class OpTraits(NamedTuple):
    """All traits of one operator."""

    name: str
    """As `Node.op`: `Relu` in ONNX's own domain, `com.microsoft::Gelu` in others."""
    shape: ShapeTraits = ShapeTraits()
    """How shapes relate."""
    dtype: DtypeTraits = DtypeTraits()
    """How dtypes relate."""
    algebra: AlgebraTraits = AlgebraTraits()
    """Laws that it obeys."""
    data: DataTraits = DataTraits()
    """Where output elements come from."""
    numerics: NumericsTraits = NumericsTraits()
    """How it rounds."""
    products: ProductTraits = ProductTraits()
    """Its products and sums."""
    indexing: IndexingTraits = IndexingTraits()
    """Inputs that are indices or coordinates."""
    control: ControlTraits = ControlTraits()
    """Subgraphs, branches and randomness."""
    operands: OperandTraits = OperandTraits()
    """Meanings of other inputs."""
    strings: StringTraits = StringTraits()
    """Attributes that hold strings."""

    @property
    def keeps_shape(self) -> bool:
        """Whether the first output has the shape of the first input."""
        shape = self.shape
        is_test = self.dtype.returns_bool and not shape.broadcasts
        return shape.same_type_as_input or shape.same_shape_as_input or is_test

    def having(self, **fields: Any) -> "OpTraits":
        """A copy with these fields set, each in its group; an unknown name is a KeyError."""
        groups: dict[str, Any] = {}
        for name, value in fields.items():
            groups.setdefault(GROUP_OF[name], {})[name] = value
        for name, part in groups.items():
            groups[name] = getattr(self, name)._replace(**part)
        return self._replace(**groups)


NO_TRAITS = OpTraits("")
"""The traits of an operator that has no record."""
GROUP_OF: Mapping[str, str] = MappingProxyType(
    {field: group for group in OpTraits._fields[1:] for field in getattr(NO_TRAITS, group)._fields}
)
"""The group of each field; no two groups share a field's name."""


def one(name: str, **fields: Any) -> OpTraits:
    """The record of an operator, from fields of all groups; an unknown field is a KeyError."""
    return NO_TRAITS.having(**fields)._replace(name=name)


def each(names: str, **fields: Any) -> tuple[OpTraits, ...]:
    """Records of several operators that share these fields."""
    shared = NO_TRAITS.having(**fields)
    return tuple([shared._replace(name=name) for name in names.split()])
