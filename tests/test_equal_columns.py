"""Columns that are known to be equal, compared with what ONNX Runtime computes."""

import numpy as np
import pytest

from surgeon.shapes.op_rules.values.equal_columns import EqualColumns
from surgeon.testing import parse
from tests.shaping_run import feeds, free_sizes, run_all, shapes_of

CONSTANTS = (
    "<int64[1] nil = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] last = {-1}, "
    "int64[1] far = {9223372036854775807}, int64[2] parts = {4, 4}, int64[2] twice = {1, 2}, "
    "int64[3] each = {1, 1, 2}, int64[3] rows = {1, 2, 1}, int64[2] eights = {-1, 8}, "
    "int64[2] down = {-1, 1}, int64[2] fours = {-1, 4}, int64[2] twos = {-1, 2}, "
    "int64[3] doubled = {1, 2, 1}, int64[1] back = {-9223372036854775000}, "
    "int64[3] pairs = {0, 4, 2}, int64[2] flat = {0, 8}, int64[3] halves = {0, 2, 4}, int64[2] places = {1, 0}, "
    "int64[2] others = {0, 1}, int64[4] order = {-2, 1, 2, 5}, int64 second = {1}, int64 half = {4}, "
    "int64[3] three = {3, 3, 4}, int64 first = {0}, float unit = {1.5}, "
    "float[1, 8] signs = {1, -1, 1, -1, 1, -1, 1, -1}, "
    "float[2, 6] table = {0, 0, -2, -0.0, -0.0, 2, 3, 0, 1, -3, 0, -1}, "
    "float[2, 4] fixed = {1, 2, 1, 2, 3, 4, 3, 4}>"
)
BOTH = "b = Concat<axis = -1>(f, f)"


def known(body):
    """The numbers of the columns of y, held against which are equal, or each other's negative, in runs."""
    header = '<ir_version: 10, opset_import: ["" : 18]> g'
    model = parse(f"{header} (float[n, 4] f, float[n, 4] h, float[n, 1] w) => (float[n, 8] f0) {CONSTANTS} "
                  f"{{ f0 = Concat<axis = -1>(f, h) {body} }}")
    shapes, scope = shapes_of(model)
    numbers = EqualColumns(shapes).of(scope, "y")
    for size in (3, 5):
        given = {name: np.random.default_rng(size).normal(size=(size, wide)).astype(np.float32)
                 for name, wide in (("f", 4), ("h", 4), ("w", 1))}
        real = run_all(model, feeds(model, free_sizes(model, size, size), given))["y"]
        if numbers is not None:
            assert len(numbers) == real.shape[-1]
            for at, own in enumerate(numbers):
                for to, other in enumerate(numbers):
                    assert own != other or np.array_equal(real[..., at], real[..., to])
                    assert own != -other or np.array_equal(real[..., at], -real[..., to])
    return numbers


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("y = Concat<axis = -1>(f, f)", "01230123"),
        ("y = Tile(f, twice)", "01230123"),
        ("a = Unsqueeze(f, last) c = Tile(a, each) y = Reshape(c, flat)", "00112233"),
        ("a = Unsqueeze(f, last) c = Expand(a, each) y = Reshape(c, flat)", "00112233"),
        ("a = Unsqueeze(f, last) c = Concat<axis = -1>(a, a) y = Reshape(c, flat)", "00112233"),
        ("a = Unsqueeze(f, one) c = Expand(a, rows) y = Reshape(c, flat)", "01230123"),
        ("a = Unsqueeze(f, one) c = Tile(a, doubled) y = Reshape(c, flat)", "01230123"),
        ("a = Unsqueeze(f, nil) c = Tile(a, doubled) y = Reshape(c, eights)", "01234567"),
        (f"{BOTH} c = Cos(b) d = Cast<to = 10>(c) e = Cast<to = 1>(d) y = Mul(e, unit)", "01230123"),
        (f"{BOTH} y = Mul(b, w)", "01230123"),
        ("c = Cos(f) d = Cos(f) y = Concat<axis = -1>(c, d)", "01230123"),
        ("c = Cos(f) d = Sin(f) y = Concat<axis = -1>(c, d)", "01234567"),
        ("y = Concat<axis = -1>(f, h)", "01234567"),
        ("c = Add(f0, f0) y = Neg(c)", "01234567"),
        (f"{BOTH} y = Add(b, f0)", "01234567"),
        (f"{BOTH} y = Concat<axis = 0>(b, b)", "01230123"),
        (f"{BOTH} c = Concat<axis = -1>(h, h) y = Concat<axis = 0>(b, c)", "01230123"),
        (f"{BOTH} y = Concat<axis = 0>(b, f0)", "01234567"),
        (f"{BOTH} y = Gather<axis = 0>(b, places)", "01230123"),
        (f"{BOTH} a = Unsqueeze(places, last) y = GatherND(b, a)", "01230123"),
        ("c = Unsqueeze(places, last) d = GatherND(f, c) e = Concat<axis = 1>(f, f) g = GatherND(e, c) "
         "h2 = GatherND(h, c) y = Concat<axis = 1>(d, h2)", "01234567"),
        (f"{BOTH} y = Gather<axis = 1>(b, order)", "0101"),
        (f"{BOTH} a = Unsqueeze(b, nil) y = Gather<axis = -1>(a, order)", "0101"),
        (f"{BOTH} a = Reshape(b, pairs) y = Gather<axis = -1>(a, first)", "0101"),
        (f"{BOTH} y = Slice(b, one, far, nil)", "01230123"),
        (f"{BOTH} y = Slice(b, two, far, last)", "012301"),
        (f"{BOTH} y = Slice(b, nil, far, last, two)", "0101"),
        (f"{BOTH} c, d = Split<axis = -1>(b, parts) y = Concat<axis = 1>(d, c)", "01230123"),
        ("a = Unsqueeze(f, last) d = Unsqueeze(f, last) c = Concat<axis = 2>(a, d) y = Reshape(c, flat)", "00112233"),
        (f"{BOTH} y = Slice(b, last, back, nil, last)", "01230123"),
        ("a = Reshape(f, down) c = Concat<axis = 1>(a, a) y = Reshape(c, eights)", "00112233"),
        ("a = Reshape(f, down) d = Reshape(h, down) c = Concat<axis = 1>(a, d) y = Reshape(c, eights)", "01234567"),
        ("a = Reshape(f, down) d = Reshape(f, down) y = Concat<axis = 1>(a, d)", "00"),
        ("a = Reshape(f, down) t = Transpose(f) d = Reshape(t, down) y = Concat<axis = 1>(a, d)", "01"),
        ("a = Unsqueeze(f, one) d = Unsqueeze(f, one) y = Concat<axis = -1>(a, d)", "01230123"),
        ("a = Reshape(f, down) c = Concat<axis = 1>(a, a) y = Reshape(c, fours)", "0011"),
        ("a = Unsqueeze(f, last) c = Concat<axis = -1>(a, a) d = Reshape(c, flat) y = Reshape(d, twos)", "00"),
        (f"{BOTH} y = Reshape(b, twos)", "01"),
        ("c = Slice(f, last, back, nil, last) y = Concat<axis = 1>(f, c)", "01234567"),
        ("c = Gather<axis = 0>(f, places) d = Gather<axis = 0>(f, others) y = Concat<axis = 1>(c, d)", "01234567"),
        ("c = Gather<axis = 0>(f, places) d = Gather<axis = 0>(f, places) y = Concat<axis = 1>(c, d)", "01230123"),
        (f"{BOTH} c, d = Split<axis = -1>(b, parts) e = Gather<axis = 0>(c, second) a = Gather<axis = 0>(d, second) "
         "y = Concat<axis = 0>(e, a)", "01230123"),
        (f"{BOTH} c, d = Split<axis = -1>(b, parts) e = Gather<axis = 0>(c, first) a = Gather<axis = 0>(d, second) "
         "y = Concat<axis = 0>(e, a)", "01234567"),
        (f"{BOTH} a = Unsqueeze(b, nil) y = Transpose<perm = [1, 0, 2]>(a)", "01230123"),
        (f"{BOTH} y = Transpose(b)", None),
        (f"{BOTH} y = Reshape(b, halves)", "0123"),
        (f"{BOTH} s = SplitToSequence<axis = -1>(b, half) c = SequenceAt(s, first) d = SequenceAt(s, second) "
         "y = Concat<axis = -1>(c, d)", "01230123"),
        (f"{BOTH} s = SplitToSequence<axis = -1>(b, parts) y = SequenceAt(s, second)", "0123"),
        (f"{BOTH} s = SplitToSequence<axis = 0>(b, second) y = SequenceAt(s, first)", "01230123"),
        (f"{BOTH} s = SequenceConstruct(f0, b) y = SequenceAt(s, second)", "01230123"),
        ("y = Identity(fixed)", "0101"),
        ("row = Constant<value_ints = [1, 8]>() y = Reshape(fixed, row)", "01012323"),
        ("y = Softmax(f)", "0123"),
        ("s = Slice(f, nil, two, nil) a = Slice(f, nil, one, nil) y = Concat<axis = 0>(s, a)", "0123"),
    ],
)
def test_equal_columns_are_known(body, wanted):
    """As many numbers as columns, the first of each kind in order."""
    numbers = known(body)
    order = {number: place for place, number in enumerate(dict.fromkeys(numbers or ()))}
    assert (None if numbers is None else "".join(str(order[number]) for number in numbers)) == wanted


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("a = Neg(f) y = Concat<axis = -1>(a, f)", "abcdABCD"),
        ("a = Neg(f) b = Neg(a) y = Concat<axis = -1>(f, b)", "ABCDABCD"),
        ("a = Neg(f) b = Concat<axis = -1>(f, a) c = Cast<to = 10>(b) d = Cast<to = 1>(c) y = Mul(d, unit)",
         "ABCDabcd"),
        ("a = Neg(f) b = Concat<axis = -1>(f, a) y = Cos(b)", "ABCDEFGH"),
        ("a = Neg(f) b = Concat<axis = -1>(f, a) c = Cast<to = 7>(b) y = Cast<to = 1>(c)", "ABCDEFGH"),
        ("a = Neg(f) b = Concat<axis = -1>(f, a) y = Mul(b, b)", "ABCDABCD"),
        ("a = Neg(f) b = Concat<axis = -1>(f, a) y = Gather<axis = 0>(b, places)", "ABCDabcd"),
        ("a = Neg(f) b = Concat<axis = -1>(f, a) y = Add(b, unit)", "ABCDEFGH"),
        ("a = Neg(f) b = Unsqueeze(f, last) c = Unsqueeze(a, last) d = Concat<axis = -1>(c, b) y = Reshape(d, flat)",
         "aAbBcCdD"),
        ("a = Neg(f) b = Concat<axis = 0>(a, f) c = Concat<axis = 0>(f, a) y = Concat<axis = -1>(b, c)", "abcdABCD"),
        ("a = Neg(f) b = Concat<axis = 0>(f, f) c = Concat<axis = 0>(f, a) y = Concat<axis = -1>(b, c)", "ABCDEFGH"),
        ("a = Neg(f) b = Concat<axis = -1>(f, a) y = Mul(b, signs)", "AbCdaBcD"),
        ("y = Identity(signs)", "AaAaAaAa"),
        ("c = Neg(signs) y = Slice(c, nil, two, last)", "Aa"),
        ("y = Identity(table)", "A0ba0B"),
        ("t = Slice(table, nil, one, nil) y = Mul(w, t)", "AAbAAB"),
    ],
)
def test_negative_columns_are_known(body, wanted):
    """A letter for each kind in order, small where it is the negative of the large one; 0 where all is zero."""
    order, reported = {}, ""
    for number in known(body):
        letter = order.setdefault(abs(number), chr(ord("A") + len(order))) if number else "0"
        reported += letter if number >= 0 else letter.lower()
    assert reported in {wanted, wanted.swapcase()}


def test_rows_that_stand_in_other_places_are_other_columns():
    """One tensor along two axes, its parts beside each other: they come from the same columns, and none are equal."""
    numbers = known(
        "i = Constant<value_ints = [3]>() g = Slice(f, nil, i, nil) a = Unsqueeze(g, nil) c = Expand(a, three) "
        "d = Unsqueeze(g, one) e = Expand(d, three) y = Concat<axis = -1>(c, e)"
    )
    assert len(set(numbers)) == 8


@pytest.mark.parametrize(
    ("body", "wanted", "rests"),
    [
        ("z = Identity(f) y = Neg(z)", True, ["y"]),
        ("z = Cos(f) a = Cos(f) y = Neg(a)", True, ["a", "y", "z"]),
        ("a = Neg(f) z = Unsqueeze(f, nil) y = Unsqueeze(a, nil)", True, ["a", "y", "z"]),
        ("a = Neg(f) z = Unsqueeze(f, nil) y = Unsqueeze(a, one)", False, None),
        ("z = Slice(signs, nil, one, last) y = Slice(signs, one, two, last)", True, ["y", "z"]),
        ("z = Slice(f, nil, two, nil) a = Slice(f, one, far, nil) y = Neg(a)", False, None),
        ("z = Identity(f) a = Neg(h) y = Identity(a)", False, None),
    ],
)
def test_negatives_of_other_tensors_are_known(body, wanted, rests):
    """Whether one is the negative of the other, and the tensors by whose nodes it is."""
    header = '<ir_version: 10, opset_import: ["" : 18]> g'
    model = parse(f"{header} (float[n, 4] f, float[n, 4] h) => (float[n, 8] f0) {CONSTANTS} "
                  f"{{ f0 = Concat<axis = -1>(f, h) {body} }}")
    shapes, scope = shapes_of(model)
    columns = EqualColumns(shapes)
    own, other = (columns.of(scope, name) for name in "yz")
    assert (own == tuple(-number for number in other)) is wanted
    assert not wanted or set(rests) <= set(columns.supporting_tensors(scope, "y", "z")) <= {*rests, "signs"}
