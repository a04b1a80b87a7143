"""Values at the edges of a float dtype: each kind is what it says, in every dtype and in the smallest of shapes."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from surgeon.runtime.inputs import float_fills as floats
from surgeon.runtime.inputs import role_fills as roles
from surgeon.runtime.inputs.fill import DECLARABLE, Fill
from surgeon.runtime.inputs.input_generator import InputGenerator
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


FILLS = (
    *(item for item in vars(floats).values() if isinstance(item, Fill)),
    *(floats.offset(sign, is_small=is_small) for sign in (1, -1) for is_small in (False, True)),
    *(floats.magnitudes(part, flip) for part in (1.0, floats.THIRD) for flip in (0, 1)),
    *(floats.row_magnitudes(part, many=many) for part in (1.0, floats.THIRD) for many in (False, True)),
    *(floats.ordered(0), floats.positive(floats.LARGE)),
)


def make(kind: str, shape: tuple[int, ...], fill: Fill, seed: int = 0) -> np.ndarray:
    """One input of this type and shape, as float64."""
    dims = f"[{', '.join(map(str, shape))}]" if shape else ""
    plan = InputGenerator(read(f"g ({kind}{dims} x) => ({kind}{dims} y) {{ y = Identity(x) }}"))
    made = plan.generate(seed, {}, {"x": fill})["x"]
    assert made.dtype == np.dtype(TYPES[kind])
    assert made.shape == shape
    return made.astype(np.float64)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("fill", FILLS, ids=lambda fill: fill.name)
def test_every_shape_is_made_and_the_same_each_time(kind: str, fill: Fill) -> None:
    """Rank 0, empty and lone elements too."""
    for shape, seed in itertools.product(SHAPES, range(3)):
        made = make(kind, shape, fill, seed)
        assert np.array_equal(made, make(kind, shape, fill, seed), equal_nan=True)
        if "non_finite" not in fill.kinds:
            assert np.isfinite(made).all()


def test_fills_belong_to_kinds_that_rules_may_declare() -> None:
    """And each of these kinds has one."""
    others = (*(item for item in vars(roles).values() if isinstance(item, Fill)), roles.mask("holes"))
    assert {kind for fill in (*FILLS, *others) for kind in fill.kinds} == {*DECLARABLE}


@pytest.mark.parametrize("kind", TYPES)
def test_zeros_have_both_signs(kind: str) -> None:
    """Where the format has a negative zero and there are two."""
    signed = not kind.endswith("fnuz")
    for shape in SHAPES:
        made = make(kind, shape, floats.ZEROS)
        assert not made.any()
        if math.prod(shape) > 1:
            assert {*np.signbit(made).ravel().tolist()} == ({False, True} if signed else {False})


@pytest.mark.parametrize("kind", TYPES)
def test_rows_are_in_some_order(kind: str) -> None:
    """Of each form one, from any of them on."""
    rows = make(kind, (7, 5), floats.ordered(0))
    steps = np.diff(rows)
    assert (steps[[0, 4]] >= 0).all()
    assert steps[0].any()
    assert (rows[0] == np.round(rows[0])).all()
    assert (rows[1] > 0).all()
    assert sorted(rows[2]) == [0, 0, 0, 0, 1]
    assert (steps[3] <= 0).all()
    assert (rows[5] == 1).all()
    assert (rows[6, :4:2] == rows[6, 1:4:2]).all()
    assert (make(kind, (1, 5), floats.ordered(5)) == 1).all()


@pytest.mark.parametrize("kind", TYPES)
def test_denormals_are_below_the_least_normal_number(kind: str) -> None:
    """Of both signs, and some zeros, but never those alone."""
    least = 2.0 ** int(ml_dtypes.finfo(np.dtype(TYPES[kind])).minexp)
    for shape, seed in itertools.product(SHAPES, range(4)):
        made = make(kind, shape, floats.DENORMALS, seed)
        assert (np.abs(made) < least).all()
        assert made.any() == (made.size > 0)
    large = make(kind, (2, 3, 8), floats.DENORMALS)
    assert {-1, 0, 1} == set(np.sign(large).ravel())


@pytest.mark.parametrize("kind", TYPES)
def test_squares_of_extreme_values_overflow(kind: str) -> None:
    """In every tensor that has an element, of both signs, beside usual values."""
    most = float(ml_dtypes.finfo(np.dtype(TYPES[kind])).max)
    for shape, seed in itertools.product(SHAPES, range(4)):
        made = make(kind, shape, floats.EXTREME, seed)
        huge = np.abs(made) > math.sqrt(most)
        assert huge.any() == (made.size > 0)
        assert (np.abs(made) <= most / 2).all()
    assert make(kind, (2, 3, 8), floats.EXTREME).min() < -math.sqrt(most)
    assert np.median(np.abs(make(kind, (2, 3, 8), floats.EXTREME))) < 4


@pytest.mark.parametrize("kind", TYPES)
def test_infinity_and_nan_leave_out_a_slice_along_every_axis(kind: str) -> None:
    """All three in a tensor that has room; what is left out is left out in all."""
    infinite = kind not in ("float8e4m3fn", "float8e4m3fnuz")
    for shape, fill in itertools.product(SHAPES, (floats.NON_FINITE, floats.NON_FINITE_ROWS)):
        made = make(kind, shape, fill)
        assert (~np.isfinite(made)).any() == (made.size > 0)
        has_room = made.size < 3 or np.prod([max(size - 1, 1) for size in shape]) >= 3
        for axis, size in enumerate(shape if has_room else ()):
            if size > 1:
                assert np.isfinite(np.take(made, 0, axis)).all()
    for fill in (floats.NON_FINITE, floats.NON_FINITE_ROWS):
        assert (~np.isfinite(make(kind, (7,), fill))).sum() >= 3
        rows = ~np.isfinite(make(kind, (4, 3, 8), fill)).all(axis=-1)
        assert rows.sum() == 6, "one at least in every row that is not left out"
    mixed = make(kind, (2, 3, 8), floats.NON_FINITE)
    assert np.isnan(mixed).any()
    assert not infinite or {-np.inf, np.inf} <= set(mixed.ravel())


def test_a_row_may_have_one_kind_only() -> None:
    """A row of -inf among usual values, as a mask makes it, is not hidden by NaN."""
    made = make("float", (4, 3, 8), floats.NON_FINITE_ROWS).reshape(-1, 8)
    kinds = [{str(value) for value in row if not np.isfinite(value)} for row in made]
    assert all(len(kind) <= 1 for kind in kinds)
    assert [{"-inf"} in kinds, {"inf"} in kinds, {"nan"} in kinds] == [True] * 3


def test_a_slice_may_have_one_element_only() -> None:
    """Infinity of both signs adds up to NaN."""
    made = make("float", (4, 3, 8), floats.NON_FINITE_SLICES).reshape(4, -1)
    assert (~np.isfinite(made)).sum(axis=1).tolist() == [1, 1, 1, 0]


def test_infinity_comes_without_nan() -> None:
    """Both signs in one row."""
    mixed = make("float", (4, 3, 8), floats.INFINITE).reshape(-1, 8)
    assert any({-np.inf, np.inf} <= set(row) for row in mixed)
    assert not np.isnan(mixed).any()


def test_faint_numbers_are_normal_ones_of_two_magnitudes() -> None:
    """Those of one slice along the first axis have one: products of two of the larger are still normal numbers."""
    made = np.abs(make("float", (4, 3, 8), floats.TINY))
    large, tiny = made[::2], made[1::2]
    assert 1e-17 < np.median(large) < 1e-15
    assert 1e-33 < np.median(tiny) < 1e-31
    assert np.median(large) ** 2 > 1e3 * np.finfo(np.float32).tiny
    assert np.median(np.abs(make("double", (8,), floats.TINY))) < 1e-100
    assert np.abs(make("float16", (7,), floats.TINY)).max() < 0.1


@pytest.mark.parametrize("kind", ["float", "float16", "bfloat16"])
def test_small_rows_stand_between_zeros_and_usual_ones(kind: str) -> None:
    """In turn, so that an epsilon that is added to squares shows in every third row."""
    rows = np.abs(make(kind, (2, 3, 8), floats.SMALL_ROWS)).max(axis=-1)
    assert not rows[:, 0].any()
    assert (rows[:, 1] > 0).all()
    assert (rows[:, 1] < 0.02).all()
    assert (rows[:, 2] > 0.1).all()


@pytest.mark.parametrize(("kind", "least", "most"), [("float", 2e5, 2.0**18), ("float16", 2e4, 2.0**14.5)])
def test_means_of_loud_numbers_are_loud(kind: str, least: float, most: float) -> None:
    """Every column has a sign, in all tensors the same."""
    first, other = (make(kind, shape, floats.UNIFORM_LARGE) for shape in ((2, 3, 8), (5, 8)))
    assert least < np.abs(first.mean(axis=(0, 1))).min()
    assert np.abs(first).max() <= most
    assert np.array_equal(np.sign(first[0, 0]), np.sign(other[0]))
    assert set(np.sign(first[0, 0])) == {-1, 1}


@pytest.mark.parametrize("kind", TYPES)
def test_constant_rows(kind: str) -> None:
    """The same along the last axis, not the same in all rows; or the same along all axes but the first."""
    for shape, fill in itertools.product(SHAPES, (floats.CONSTANT, floats.CONSTANT_MORE)):
        made = make(kind, shape, fill)
        if made.size and shape:
            assert (made == made[..., :1]).all()
    few, many = (make(kind, (8, 4, 1, 4), fill) for fill in (floats.CONSTANT, floats.CONSTANT_MORE))
    assert len(np.unique(few)) > 8
    assert (many == many[:, :1, :1, :1]).all()
    assert 1 < len(np.unique(many)) <= 8


@pytest.mark.parametrize(("kind", "mean"), [("float16", 16), ("float", 1e4), ("double", 1e4), ("bfloat16", 8)])
def test_offset_values_share_a_mean(kind: str, mean: float) -> None:
    """Far from zero in what the dtype resolves, of either sign, and not all alike."""
    for sign in (1, -1):
        made = make(kind, (4, 64), floats.offset(sign, is_small=False))
        assert abs(made.mean() - sign * mean) < 0.5
        assert 0.5 < made.std() < 1.5


def test_beside_float16_huge_values_may_keep_to_its_range() -> None:
    """A float32 input of 2**100 says little of what is computed in float16."""
    model = read("g (float[4, 64] x) => (float16[4, 64] y) { y = Cast<to = 10>(x) }")
    ways = floats.EXTREME, floats.EXTREME_HALF, floats.offset(1, is_small=False)
    huge, narrow, offset = (InputGenerator(model).generate(0, {}, {"x": fill})["x"] for fill in ways)
    assert np.abs(huge).max() > 2.0**64
    assert 256 < np.abs(narrow).max() < 65504
    assert 15 < offset.mean() < 17


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
    """Each stretch of them once positive, once negative; the largest within half a binade of the end."""
    made = [make("float", (2, 3, 8), floats.magnitudes(1.0, flip)) for flip in range(2)]
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
    """Along the last axis, or along all but the first; of a third of the exponents in factors."""
    made = make("float", (4, 5, 6), floats.row_magnitudes(1.0))
    assert np.ptp(binades(made)) > 150
    assert all(np.ptp(np.frexp(row[row != 0])[1]) < 16 for row in made.reshape(-1, 6))
    many = make("float", (4, 5, 6), floats.row_magnitudes(1.0, many=True))
    assert all(np.ptp(np.frexp(part[part != 0])[1]) < 16 for part in many.reshape(4, 30))
    assert np.abs(binades(make("float", (4, 5, 6), floats.row_magnitudes(floats.THIRD)))).max() <= 128 / 3 + 2


@pytest.mark.parametrize("dtype", ["uint64", "int64", "uint32", "uint8", "int16"])
@pytest.mark.parametrize("dims", ["", "[1]", "[n]", "[0]"])
def test_integers_near_the_limits_are_made_of_any_shape(dtype: str, dims: str) -> None:
    """Of no axes too, of which numpy makes a number: the largest uint64 is no int64."""
    model = read(f"g ({dtype}{dims} x) => ({dtype}{dims} y) {{ y = Add(x, x) }}")
    fill = roles.integers_of_every_length(can_sum=False)
    made = InputGenerator(model, names=False).generate(0, {"n": 6}, {"x": fill})["x"]
    assert made.dtype == dtype
    assert dims == "[0]" or np.iinfo(dtype).max in made.ravel().tolist()
