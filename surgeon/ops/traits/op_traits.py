"""What can be said of an operator: the form of a record.

`standard_table` holds the records of ONNX's own operators, `contrib_table` those of others; `records` looks them up.
What a schema says (inputs, outputs, types, attributes) is not here but in `schema_tables`, and a function that
computes, infers or checks stays where it is used, in a registry by the name of the operator.  Slots are places among a
node's inputs.  Records are named tuples: some hundreds of them are made whenever surgeon starts.
"""

from collections.abc import Collection
from typing import Any, Literal, NamedTuple

EVERY = range(2**31 - 1)
"""The slots of an operator whose inputs all are alike, however many there are."""
Slots = Collection[int]


class Axes(NamedTuple):
    """Where an operator says which axes it works on.

    slot: the input that holds them from opset `since` on, an attribute of this name before; 0 where they were never
    one.  of_result: they are counted in the result (Unsqueeze).  in_order: other inputs run along with them (Slice).
    """

    slot: int
    since: int = 0
    of_result: bool = False
    in_order: bool = False


class IndexedTable(NamedTuple):
    """An input of indices into a table that is another input.

    axis: the attribute that says along which axis; without one, or where it is left out, it is axis `usual`.
    by_tuples: the last axis of the indices goes over axes of the table, those from `batch_dims` on.
    """

    indices: int
    table: int
    axis: str = ""
    usual: int = 0
    by_tuples: bool = False


class AttentionInputs(NamedTuple):
    """The inputs of attention with queries at slot 0; None for what the operator does not take."""

    key: int
    value: int
    past_key: int | None = None
    past_value: int | None = None


class OpTraits(NamedTuple):
    """One operator.  name: with its domain, `com.microsoft::Gelu`, but for ONNX's own, as `Node.op` says it.

    Shapes and dtypes
        broadcasts: its inputs to one another (ONNX, Broadcasting), or, as PRelu's, one to the other.
        same_type_as_input: the first output has the dtype and shape of the first input.
        keeps_shape: it has the shape alone.
        one_type: all inputs and the output have one type.
        returns_bool: it makes booleans, of as many elements as it is given where it does not broadcast.
        compares: two inputs by order or equality.
        sizes: it tells the sizes of its input.
        reads_shape: nothing but the shape of its first input matters to it.
        has_bodies: it holds graphs.
        axes: where it is told its axes.
        outputs_in: the attribute that says how many outputs it has, which they say themselves.
    Algebra
        commutes: the order of its inputs does not matter.
        family: the chains that it is a link of, with `signs`: -1 for what is subtracted or divided by.
        neutral: the constant that as second input (and, where it commutes, as first) changes nothing.
        divisors: slots of what it divides by.
    Data
        copies_elements: slots of the tensors whose elements all of its results are made of: put elsewhere, repeated,
        left out.  nearly_copies_elements: the same for what hands on tensors nearly as they are: between bounds,
        rounded, beside other elements.  is_cast: it hands on the first input in another dtype.  is_reshape: the
        elements of the first input stay in their order.  exact: it rounds nothing that its inputs hold exactly; all
        that move data are so.  rounding_scale_slot: it rounds to whole numbers the first input, divided by that of this
        slot before; 0 for by nothing.  is_argsort_like: it picks by order, and of equal elements the first, or as it is
        told.  transparent: when it may be looked through: always, when it keeps the dtype, in inference.  random:
        whether it draws random numbers in every run, or where it is told that a model is in training.  training: the
        slot of the input that tells it so.  foldable: it is computed from constants where the file's size allows it.
        spreads: its result is as large as a value says.  returns_indices: it makes indices or counts, small ones
        whatever it is given.  further_places: all its outputs but the first are indices.
    Sums and products
        reduces: axes to one element: to their sum (or a function of sums), their product, or one of them.
        norm: the axis from which on it averages, or the attribute that says it.
        accumulates: its results are sums of many numbers, beside the large ones of which small ones are lost.
        is_max_like: its results show the large ones alone.
        squares: it multiplies numbers by themselves.
        product: its results are sums of products, and of what kind.
        factors: slots of the two matrices that it multiplies.
        weight: the slot of [M, C/group, ...] kernels; of recurrent layers of the first of two weights.
        moves_windows: over what it is given.
        reads_indices: floats say where it reads.
        softmax: it is one.
        attends: the inputs of attention.
        error_is_absolute: kernels err by a part of one, however small the results are.
        error_is_input_scaled: elementwise; they err by a part of one at most, and near zero by a part of what they are
        given.  unshared: whatever reads it wants one of its own: runtimes compute it, and what is around it, on
        integers then.
    What its inputs mean
        mask, scores, counts, sizes_at, zeros, lengths, trips, conditions, deciding: slots of masks; of scores and what
        is added to them; of counts, steps and sizes; of those among them that are the shape to make; of where to start
        and other numbers that 0 suits; of lengths; of how often to run; of whether to; of coordinates and the like.
        chooses: slots of what chooses between the others.
        boxes: the slot of boxes in what the first input holds, [image,] x1, y1, x2, y2 each.
        overlaps: slots of boxes of which it counts how far they overlap.
        overwrites: slots of what a kernel of ONNX Runtime writes its answer into, stored tensors too.
        lookups: indices, and what they go into.  below: slots of indices, and of the number that they stay below.
        key_counts: slots of the last key that counts of each sequence, and of how many the longest has.
        vectors, channels, squares_at, numbers, kernels: slots of operands that usually are a vector over the last
        axis of the first input, one over its channels, a square matrix, a number, a kernel.
        per_column, bias: slots of what a product has for each column of the second factor, or one number, and of what
        is added to them.
        words, patterns: attributes that hold the strings that it knows, and those of them that are regular expressions.
    """

    name: str
    broadcasts: bool = False
    same_type_as_input: bool = False
    keeps_shape: bool = False
    one_type: bool = False
    returns_bool: bool = False
    compares: bool = False
    sizes: bool = False
    reads_shape: bool = False
    has_bodies: bool = False
    axes: Axes | None = None
    outputs_in: str = ""
    commutes: bool = False
    family: Literal["", "sum", "product"] = ""
    signs: tuple[int, ...] = ()
    neutral: int | None = None
    divisors: Slots = ()
    copies_elements: Slots = ()
    nearly_copies_elements: Slots = ()
    is_cast: bool = False
    is_reshape: bool = False
    exact: bool = False
    rounding_scale_slot: int | None = None
    is_argsort_like: bool = False
    transparent: Literal["", "always", "same dtype", "inference"] = ""
    random: Literal["", "always", "training"] = ""
    training: int | None = None
    foldable: bool = False
    spreads: bool = False
    returns_indices: bool = False
    further_places: bool = False
    reduces: Literal["", "sum", "product", "pick"] = ""
    norm: str | int | None = None
    accumulates: bool = False
    is_max_like: bool = False
    squares: bool = False
    product: Literal["", "matrices", "equation", "windows", "turned windows", "attention", "steps"] = ""
    factors: tuple[int, int] | None = None
    weight: int | None = None
    moves_windows: bool = False
    reads_indices: bool = False
    softmax: bool = False
    attends: AttentionInputs | None = None
    error_is_absolute: bool = False
    error_is_input_scaled: bool = False
    unshared: bool = False
    mask: Slots = ()
    scores: tuple[int, ...] = ()
    counts: Slots = ()
    sizes_at: Slots = ()
    zeros: Slots = ()
    lengths: Slots = ()
    trips: Slots = ()
    conditions: Slots = ()
    deciding: Slots = ()
    chooses: Slots = ()
    boxes: int | None = None
    overwrites: Slots = ()
    overlaps: Slots = ()
    lookups: tuple[IndexedTable, ...] = ()
    below: tuple[int, int] | None = None
    key_counts: tuple[int, int] | None = None
    vectors: Slots = ()
    channels: Slots = ()
    squares_at: Slots = ()
    numbers: Slots = ()
    kernels: Slots = ()
    per_column: tuple[int, ...] = ()
    bias: int | None = None
    words: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    @property
    def carried(self) -> Slots:
        """The slots of what it hands on as it is, or nearly so."""
        return self.nearly_copies_elements or self.copies_elements

    @property
    def keeps(self) -> bool:
        """Whether the first output has the shape of the first input."""
        return self.same_type_as_input or self.keeps_shape or (self.returns_bool and not self.broadcasts)


def each(names: str, **facts: Any) -> tuple[OpTraits, ...]:
    """Records of several operators that are alike in all of this."""
    return tuple(OpTraits(name, **facts) for name in names.split())
