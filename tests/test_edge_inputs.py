"""Values at the edges of a float dtype: each kind is what it says, in every dtype and in the smallest of shapes."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from surgeon.runtime.inputs.input_generator import InputGenerator, ValueKind
from surgeon.runtime.inputs.input_spec import EDGES
from tests.test_inputs import TABLE, read

pytestmark = pytest.mark.filterwarnings("error")

# ONNX's name of the type -> numpy's
TYPES = {
    "float16": "float16",
    "float": "float32",
    "double": "float64",
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e5m2": "float8_e5m2",
    "float8e4m3fnuz": "float8_e4m3fnuz",
}
SHAPES = ((), (1,), (0,), (2,), (7,), (1, 1), (2, 1), (1, 5), (2, 5), (0, 3), (3, 0), (2, 3, 8), (2, 4, 1, 4))


def make(kind: str, shape: tuple[int, ...], values: ValueKind, seed: int) -> np.ndarray:
    """One input of this type and shape, as float64."""
    dims = f"[{', '.join(map(str, shape))}]" if shape else ""
    made = InputGenerator(read(f"g ({kind}{dims} x) => ({kind}{dims} y) {{ y = Identity(x) }}")).generate(
        seed, {}, values
    )["x"]
    assert made.dtype == np.dtype(TYPES[kind])
    assert made.shape == shape
    return made.astype(np.float64)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("values", EDGES)
def test_every_shape_is_made_and_the_same_each_time(kind: str, values: ValueKind) -> None:
    """Rank 0, empty and lone elements too."""
    for shape, seed in itertools.product(SHAPES, range(3)):
        made = make(kind, shape, values, seed)
        assert np.array_equal(made, make(kind, shape, values, seed), equal_nan=True)
        if values not in (ValueKind.NON_FINITE, ValueKind.INFINITE):
            assert np.isfinite(made).all()


@pytest.mark.parametrize("kind", TYPES)
def test_zeros_have_both_signs(kind: str) -> None:
    """Where the format has a negative zero; a lone one takes turns."""
    signed = not kind.endswith("fnuz")
    for shape in SHAPES:
        made = [make(kind, shape, ValueKind.ZEROS, seed) for seed in range(2)]
        assert not any(array.any() for array in made)
        if math.prod(shape):
            signs = {bool(sign) for array in made for sign in np.signbit(array).ravel()}
            assert signs == ({False, True} if signed else {False})
        if signed and math.prod(shape) > 1:
            assert np.signbit(made[0]).any()
            assert not np.signbit(made[0]).all()


@pytest.mark.parametrize("kind", TYPES)
def test_rows_are_in_some_order(kind: str) -> None:
    """Of each form one, in the next seed each the next."""
    rows = make(kind, (7, 5), ValueKind.ORDERED, 0).astype(np.float64)
    steps = np.diff(rows)
    assert (steps[[0, 4]] >= 0).all()
    assert steps[0].any()
    assert (rows[0] == np.round(rows[0])).all()
    assert (rows[1] > 0).all()
    assert sorted(rows[2]) == [0, 0, 0, 0, 1]
    assert (steps[3] <= 0).all()
    assert (rows[5] == 1).all()
    assert (rows[6, :4:2] == rows[6, 1:4:2]).all()
    assert (make(kind, (1, 5), ValueKind.ORDERED, 5) == 1).all()


@pytest.mark.parametrize("kind", TYPES)
def test_denormals_are_below_the_least_normal_number(kind: str) -> None:
    """Of both signs, and some zeros, but never those alone."""
    least = 2.0 ** int(ml_dtypes.finfo(np.dtype(TYPES[kind])).minexp)
    for shape, seed in itertools.product(SHAPES, range(4)):
        made = make(kind, shape, ValueKind.DENORMALS, seed)
        assert (np.abs(made) < least).all()
        assert made.any() == (made.size > 0)
    large = make(kind, (2, 3, 8), ValueKind.DENORMALS, 0)
    assert {-1, 0, 1} == set(np.sign(large).ravel())
    assert {np.sign(make(kind, (), ValueKind.DENORMALS, seed)) for seed in range(2)} == {-1, 1}


@pytest.mark.parametrize("kind", TYPES)
def test_squares_of_extreme_values_overflow(kind: str) -> None:
    """In every tensor that has an element, of both signs, beside usual values."""
    most = float(ml_dtypes.finfo(np.dtype(TYPES[kind])).max)
    for shape, seed in itertools.product(SHAPES, range(4)):
        made = make(kind, shape, ValueKind.EXTREME, seed)
        huge = np.abs(made) > math.sqrt(most)
        assert huge.any() == (made.size > 0)
        assert (np.abs(made) <= most / 2).all()
    assert make(kind, (2, 3, 8), ValueKind.EXTREME, 0).min() < -math.sqrt(most)
    assert np.median(np.abs(make(kind, (2, 3, 8), ValueKind.EXTREME, 0))) < 4


@pytest.mark.parametrize("kind", TYPES)
def test_infinity_and_nan_spare_a_slice_along_every_axis(kind: str) -> None:
    """All three in a tensor that has room, one after the other in a lone element; what is spared is spared in all."""
    infinite = kind not in ("float8e4m3fn", "float8e4m3fnuz")
    many = [seed for seed in range(6) if seed % 3 != 2]  # of which there are lone ones
    for shape, seed in itertools.product(SHAPES, many):
        made = make(kind, shape, ValueKind.NON_FINITE, seed)
        assert (~np.isfinite(made)).any() == (made.size > 0)
        has_room = made.size < 3 or np.prod([max(size - 1, 1) for size in shape]) >= 3
        for axis, size in enumerate(shape if has_room else ()):
            if size > 1:
                assert np.isfinite(np.take(made, 0 if seed % 2 == 0 else -1, axis)).all()
    for shape in ((), (1,), (2,), (2, 1), (2, 3, 8)):
        found = np.concatenate([make(kind, shape, ValueKind.NON_FINITE, seed).ravel() for seed in range(3)])
        assert {str(value) for value in found if not np.isfinite(value)} == (
            {"inf", "-inf", "nan"} if infinite else {"nan"}
        )
    for seed in many:
        assert (~np.isfinite(make(kind, (7,), ValueKind.NON_FINITE, seed))).sum() >= 3
        rows = ~np.isfinite(make(kind, (4, 3, 8), ValueKind.NON_FINITE, seed)).all(axis=-1)
        assert rows.sum() == 6, "one at least in every row that is not spared"
    if infinite:
        mixed = make(kind, (2, 3, 8), ValueKind.NON_FINITE, 0)
        assert np.isnan(mixed).any()
        assert {-np.inf, np.inf} <= set(mixed.ravel())


def test_in_odd_seeds_a_row_has_one_kind_alone() -> None:
    """A row of -inf among usual values, as a mask makes it, is not hidden by NaN."""
    made = make("float", (4, 3, 8), ValueKind.NON_FINITE, 1).reshape(-1, 8)
    kinds = [{str(value) for value in row if not np.isfinite(value)} for row in made]
    assert all(len(kind) <= 1 for kind in kinds)
    assert {"-inf"} in kinds
    assert {"inf"} in kinds
    assert {"nan"} in kinds


def test_infinity_without_nan_takes_turns() -> None:
    """Both signs in one row, NaN throughout, and rows with one sign alone: what -inf leaves of a row, +inf hides."""
    mixed, nan, rows = (make("float", (4, 3, 8), ValueKind.INFINITE, seed).reshape(-1, 8) for seed in range(3))
    assert np.isnan(nan).all()
    assert any({-np.inf, np.inf} <= set(row) for row in mixed)
    ends = [set(row[np.isinf(row)]) for row in rows]
    assert all(len(found) <= 1 for found in ends)
    assert {-np.inf} in ends
    assert {np.inf} in ends
    assert not np.isnan(mixed).any()
    assert not np.isnan(rows).any()


def test_faint_numbers_are_normal_ones_of_two_magnitudes() -> None:
    """Those of one place along the first axis have one: products of two of the larger are still normal numbers."""
    for seed in range(2):
        made = np.abs(make("float", (4, 3, 8), ValueKind.TINY, seed))
        large, tiny = (made[at::2] for at in ((0, 1) if seed == 0 else (1, 0)))
        assert 1e-17 < np.median(large) < 1e-15
        assert 1e-33 < np.median(tiny) < 1e-31
        assert np.median(large) ** 2 > 1e3 * np.finfo(np.float32).tiny
    assert np.median(np.abs(make("double", (8,), ValueKind.TINY, 0))) < 1e-100
    assert np.abs(make("float16", (7,), ValueKind.TINY, 0)).max() < 0.1


@pytest.mark.parametrize(("kind", "least", "most"), [("float", 2e5, 2.0**18), ("float16", 2e4, 2.0**14.5)])
def test_means_of_loud_numbers_are_loud(kind: str, least: float, most: float) -> None:
    """Every column has a sign, in all tensors the same, and the next seed the other."""
    first, other = (make(kind, shape, ValueKind.UNIFORM_LARGE, 0) for shape in ((2, 3, 8), (5, 8)))
    assert least < np.abs(first.mean(axis=(0, 1))).min()
    assert np.abs(first).max() <= most
    assert np.array_equal(np.sign(first[0, 0]), np.sign(other[0]))
    assert set(np.sign(first[0, 0])) == {-1, 1}
    assert np.array_equal(np.sign(make(kind, (5, 8), ValueKind.UNIFORM_LARGE, 1)), -np.sign(other))


@pytest.mark.parametrize("kind", TYPES)
def test_constant_rows(kind: str) -> None:
    """The same along the last axis, not the same in all rows; in odd seeds the same along all axes but the first."""
    for shape, seed in itertools.product(SHAPES, range(2)):
        made = make(kind, shape, ValueKind.CONSTANT_ROWS, seed)
        if made.size and shape:
            assert (made == made[..., :1]).all()
    even, odd = (make(kind, (8, 4, 1, 4), ValueKind.CONSTANT_ROWS, seed) for seed in (0, 1))
    assert len(np.unique(even)) > 8
    assert (odd == odd[:, :1, :1, :1]).all()
    assert 1 < len(np.unique(odd)) <= 8


@pytest.mark.parametrize(("kind", "mean"), [("float16", 16), ("float", 1e4), ("double", 1e4), ("bfloat16", 8)])
def test_offset_values_share_a_mean(kind: str, mean: float) -> None:
    """Far from zero in what the dtype resolves, negative in every other seed, and not all alike."""
    for seed in range(2):
        made = make(kind, (4, 64), ValueKind.OFFSET, seed)
        assert abs(made.mean() - (mean if seed == 0 else -mean)) < 0.5
        assert 0.5 < made.std() < 1.5


def test_beside_float16_huge_values_keep_to_its_range_in_odd_seeds() -> None:
    """A float32 input of 2**100 says little of what is computed in float16."""
    model = read("g (float[4, 64] x) => (float16[4, 64] y) { y = Cast<to = 10>(x) }")
    even, odd = (InputGenerator(model).generate(seed, {}, ValueKind.EXTREME)["x"] for seed in (0, 1))
    assert np.abs(even).max() > 2.0**64
    assert 256 < np.abs(odd).max() < 65504
    assert 15 < InputGenerator(model).generate(0, {}, ValueKind.OFFSET)["x"].mean() < 17


def test_only_floats_that_go_into_arithmetic_have_edges() -> None:
    """Indices, masks, conditions, counts and integers are as usual; so are floats that a size hangs on."""
    model = read(
        f"""g (int64[b, 4] ids, float[b, 4] attention_mask, int32[b, 4] sums, float[1] far, float[b, 4] x,
        bool[b, 4] where, complex64[b] c)
        => (float[b, 4, 2] y, float[b, 4] z, int32[b, 4] w, float[k] t, float[b, 4] v, complex64[b] d) {TABLE} {{
        y = Gather(table, ids) z = Mul(x, attention_mask) w = Add(sums, sums) i = Cast<to = 7>(far)
        t = ConstantOfShape(i) v = Where(where, x, z) d = Identity(c) }}"""
    )
    plan = InputGenerator(model)
    assert plan.edged == {"x"}
    sizes = plan.size_sets({})[0]
    usual = plan.generate(1, sizes)
    for values in EDGES:
        for name, array in plan.generate(1, sizes, values).items():
            assert np.array_equal(array, usual[name], equal_nan=True) == (name != "x")


def test_hints_may_be_left_aside() -> None:
    """Inside of a model a tensor's name is its maker's, and what is subtracted from one need be no mask."""
    model = read("g (float[2, 8] mask_head_Add_output, int64[2] position_id) => (float[2, 8] y, int64[2] z) "
                 "{ y = Exp(mask_head_Add_output) z = Neg(position_id) }")  # fmt: skip
    believed, plain = InputGenerator(model), InputGenerator(model, names=False)
    assert believed.edged == frozenset()
    assert plain.edged == {"mask_head_Add_output"}
    assert set(believed.generate(0, {})["mask_head_Add_output"].ravel()) == {0.0, 1.0}
    assert len(np.unique(plain.generate(0, {})["mask_head_Add_output"])) == 16
    minus = read("g (float[2, 8] x) => (float[2, 8] y) <float[1] one = {1}> { y = Sub(one, x) }")
    assert set(InputGenerator(minus).generate(0, {})["x"].ravel()) == {0.0, 1.0}
    assert InputGenerator(minus, names=False).edged == {"x"}


def binades(made: np.ndarray) -> np.ndarray:
    """The binary exponent of the largest magnitude of each row."""
    return np.frexp(np.abs(made).max(axis=-1))[1]


def test_magnitudes_are_all_over_the_exponents_and_of_both_signs() -> None:
    """Each stretch of them in one seed positive, in the next negative; the largest within half a binade of the end."""
    made = [make("float", (2, 3, 8), ValueKind.MAGNITUDES, seed) for seed in range(2)]
    for array in made:
        exponents = np.sort(np.frexp(array.ravel())[1])
        assert np.diff(exponents).max() <= 2 * 254 / array.size + 1
        assert exponents[-1] == 127
    positive = [
        {int(place) for place in np.argsort(np.abs(array.ravel())).argsort()[array.ravel() > 0]} for array in made
    ]
    assert positive[0].isdisjoint(positive[1])
    assert positive[0] | positive[1] == set(range(48))


def test_rows_have_a_magnitude_each() -> None:
    """Along the last axis, or in odd seeds along all but the first; of a third of the exponents in factors."""
    made = make("float", (4, 5, 6), ValueKind.ROW_MAGNITUDES, 0)
    assert np.ptp(binades(made)) > 150
    assert all(np.ptp(np.frexp(row[row != 0])[1]) < 16 for row in made.reshape(-1, 6))
    odd = make("float", (4, 5, 6), ValueKind.ROW_MAGNITUDES, 1)
    assert all(np.ptp(np.frexp(part[part != 0])[1]) < 16 for part in odd.reshape(4, 30))
    assert np.abs(binades(make("float", (4, 5, 6), ValueKind.SAFE_ROW_MAGNITUDES, 0))).max() <= 128 / 3 + 2


def test_rows_of_factors_take_turns_with_inputs() -> None:
    """What one input makes huge, another is not multiplied by."""
    plan = InputGenerator(read("g (float[4,6] a, float[4,6] b) => (float[4,6] y) { y = Add(a, b) }"))
    for seed, huge, usual in ((0, "a", "b"), (1, "b", "a")):
        made = plan.generate(seed, {}, ValueKind.SAFE_ROW_MAGNITUDES)
        assert np.ptp(binades(made[huge])) > 30
        assert np.ptp(binades(made[usual])) < 5


def test_endless_values_hold_nan_throughout_or_nowhere() -> None:
    """In even seeds infinity of both signs beside numbers."""
    made = make("float", (3, 5, 6), ValueKind.INFINITE, 0)
    assert set(made[~np.isfinite(made)]) == {np.inf, -np.inf}
    assert np.isfinite(made).any()
    assert np.isnan(make("float", (3, 5, 6), ValueKind.INFINITE, 1)).all()


@pytest.mark.parametrize("dtype", ["uint64", "int64", "uint32", "uint8", "int16"])
@pytest.mark.parametrize("dims", ["", "[1]", "[n]", "[0]"])
def test_integers_near_the_limits_are_made_of_any_shape(dtype: str, dims: str) -> None:
    """Of no axes too, of which numpy makes a number: the largest uint64 is no int64."""
    model = read(f"g ({dtype}{dims} x) => ({dtype}{dims} y) {{ y = Add(x, x) }}")
    made = [
        InputGenerator(model, names=False).generate(seed, {"n": 6}, ValueKind.INTEGER_LIMITS)["x"] for seed in range(3)
    ]
    assert all(array.dtype == dtype for array in made)
    largest = np.iinfo(dtype).max
    assert dims == "[0]" or any(int(number) > largest - 4 for array in made for number in array.ravel())
