"""Literals of a region are used as values of its inputs."""

import itertools
from types import SimpleNamespace

import numpy as np
from onnx import parser

from surgeon.analysis.decisions.thresholds import edges_of, region_literals
from surgeon.analysis.input_dependence import counts
from surgeon.ir.index import Index
from surgeon.proof.cases.literal_injection import inject_into, literal_values
from surgeon.runtime.inputs.input_generator import InputGenerator

LOWEST = float(np.finfo(np.float32).min)


def wanted(name, kind="plain", dtype=np.float32, **settings):
    """What is asked of an input."""
    usual = {"is_unconstrained": True, "half": False, "is_compared_length": False}
    is_float = np.dtype(dtype).kind == "f"
    return SimpleNamespace(
        name=name, kind=kind, dtype=np.dtype(dtype), takes_edge_values=is_float, **(usual | settings)
    )


def inject(feeds, wants, constants, number=0, *, edges=(), small=(), most=np.inf, ties=False):
    """Put literals into inputs, as a case does for all of its inputs."""
    half = any(want.half for want in wants)
    values = literal_values(constants, edges, small=small, most=most, half=half, ties=ties)
    random = np.random.default_rng(0)
    for place, want in enumerate(wants):
        feeds[want.name] = inject_into(feeds[want.name], want, values, random, place=place, number=number, ties=ties)


def sprinkled(small=(), half=False, **settings):
    """The numbers in an input of zeros, where the constants are 20 and the least float32."""
    constants = {"limit": np.array([20.0]), "lowest": np.array([LOWEST])}
    want = wanted("x", is_unconstrained=False, half=half)
    feeds = {"x": np.zeros((8, 8), np.float32)}
    inject(feeds, [want], constants, small=small, **settings)
    return set(feeds["x"].reshape(-1).tolist())


def test_scalars_and_halves_are_put():
    assert {20.0, LOWEST, 0.5, 2.5} < sprinkled()


def test_numbers_above_the_largest_are_left_out():
    assert LOWEST not in sprinkled(most=1e4)
    assert 20.0 in sprinkled(most=1e4)


def test_large_numbers_of_some_constants_are_left_out():
    found = sprinkled(small={"lowest", "limit"})
    assert LOWEST not in found
    assert 20.0 in found


def test_how_large_depends_on_whether_a_region_holds_half_precision():
    constants = {"bound": np.array([12345.0])}
    for half in (False, True):
        want = wanted("x", half=half)
        feeds = {"x": np.zeros((8, 8), np.float32)}
        inject(feeds, [want], constants, small={"bound"})
        assert (12345 in feeds["x"]) != half


def test_several_inputs_meet_what_they_are_compared_with_at_once():
    """Among ties all inputs count through the numbers that are spoken of, and hold numbers of few digits beside."""
    constants = {str(number): np.array([float(number)]) for number in (3.25, 5, 7)}
    wants = [wanted(name) for name in "xyz"]
    feeds = {name: np.zeros(64, np.float32) for name in "xyz"}
    inject(feeds, wants, constants, ties=True)
    met = set(zip(*(feeds[name][1::2].tolist() for name in "xyz"), strict=True))
    assert met == set(itertools.product((3.25, 5, 7), repeat=3))
    assert {abs(number) for number in feeds["x"][::2].tolist()} & {0.25, 0.5, 1.5}


def test_the_end_of_a_slice_is_no_number_of_floats():
    """Put among scores, the largest int64 leaves it to rounding which of them a softmax picks."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
    g (float[4, 8] x, float[4, 8] y) => (float[4, 8] z)
    <int64[1] start = {2}, int64[1] all = {9223372036854775807}, int64[1] axis = {1}, float far = {1e20}> {
      tail = Slice(x, start, all, axis)  head = Slice(x, axis, start, axis)  rest = Slice(x, axis, axis, axis)
      low = Min(tail, far)  one = Cast<to = 1>(axis)  z = Sum(y, one)
    }""")
    plan, constants = InputGenerator(model, names=False), region_literals(model)
    assert counts(model) == {"start", "all"}  # `axis` is a number too
    for ties in (False, True):
        feeds = plan.generate(0, {})
        inject(feeds, plan.wants, constants, small=counts(model), ties=ties)
        large = {number for array in feeds.values() for number in np.abs(array).ravel().tolist() if number > 4}
        assert large == {float(np.float32(5e19 if ties else 1e20))}


def test_what_integers_are_compared_with_is_put_however_large_and_whoever_reads_it():
    """As the number of the token that pictures stand behind."""
    constants = {"token": np.array([262144.0])}

    def put(kind):
        want = wanted("x", kind, np.int64)
        feeds = {"x": np.zeros((8, 8), np.int64)}
        inject(feeds, [want], constants, small={"token"})
        return 262144 in feeds["x"]

    assert (put("compared"), put("plain")) == (True, False)


def test_what_something_is_compared_with_is_solved_for_the_inputs():
    """Through sums, products and what moves data, in bodies and functions too; each number of a list."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
    g (float[n, 4] x, int64[n] t) => (bool[n, 4] y, bool[n, 3] z, bool[n, 4] w) <float three = {3}, float four = {4},
      float half = {0.5}, int64[1] last = {-1}, int64[3] tokens = {50256, 50257, 50258}> {
      a = Sub(x, three)  b = Div(a, four)  c = Neg(b)  y = Greater(half, c)
      d = Unsqueeze(t, last)  z = Equal(d, tokens)
      w = own.above(x)
    }
    <opset_import: ["" : 18], domain: "own"> above (x) => (w) { k = Constant<value = float {77}>() w = Less(x, k) }""")
    assert {1.0, 50256.0, 50257.0, 50258.0, 77.0} <= set(edges_of(Index.over(model)))
    assert {3.0, 4.0, 0.5, 77.0} <= {number for numbers in region_literals(model).values() for number in numbers}


def test_edges_come_first_and_with_what_is_beside_them():
    """None lies beside itself in two inputs of one element each: nobody would see which of them was chosen."""
    met = []
    for number in range(3):
        feeds = {"x": np.zeros(1, np.float32), "u": np.zeros(1, np.float32)}
        inject(feeds, [wanted("x"), wanted("u")], {"k": np.array([0.5])}, number, edges=[0.5])
        met.append(float(feeds["x"][0]))
        assert abs(met[-1] - feeds["u"][0]) > 1e-3
    assert met == [0.5, 0.5 + 2.0**-17, 0.5 - 2.0**-17]
