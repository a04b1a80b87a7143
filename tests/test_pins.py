"""Numbers that the constants of a region speak of, put into its inputs."""

import itertools
from types import SimpleNamespace

import numpy as np
from onnx import numpy_helper, parser

from surgeon.inputs.inputs import InputPlan
from surgeon.inputs.roles import counts
from surgeon.sites.pins import sprinkle

LOWEST = float(np.finfo(np.float32).min)


def sprinkled(small=(), half=False, **settings):
    """The numbers in an input of zeros, where the constants are 20 and the least float32."""
    constants = {
        "limit": numpy_helper.from_array(np.array(20, np.float32)),
        "lowest": numpy_helper.from_array(np.array([LOWEST], np.float32)),
        "weights": numpy_helper.from_array(np.array([7, 8], np.float32)),
    }
    want = SimpleNamespace(name="x", kind="plain", free=False, dtype=np.dtype(np.float32), half=half)
    feeds = {"x": np.zeros((8, 8), np.float32)}
    plan = SimpleNamespace(wants=[want], edged={"x"})
    sprinkle(feeds, plan, constants, 0, small=small, **settings)
    return set(feeds["x"].reshape(-1).tolist())


def test_scalars_and_halves_are_put_and_others_are_not():
    assert {20.0, LOWEST, 0.5, 2.5} < sprinkled()
    assert not {7.0, 8.0} & sprinkled()


def test_numbers_above_the_largest_are_left_out():
    assert LOWEST not in sprinkled(most=1e4)
    assert 20.0 in sprinkled(most=1e4)


def test_large_numbers_of_some_constants_are_left_out():
    found = sprinkled(small={"lowest", "limit"})
    assert LOWEST not in found
    assert 20.0 in found


def test_how_large_hangs_on_whether_a_region_holds_half_precision():
    constants = {"bound": numpy_helper.from_array(np.array(12345, np.float32))}
    for half in (False, True):
        want = SimpleNamespace(name="x", kind="plain", free=True, dtype=np.dtype(np.float32), half=half)
        feeds = {"x": np.zeros((8, 8), np.float32)}
        sprinkle(feeds, SimpleNamespace(wants=[want], edged={"x"}), constants, 0, small={"bound"})
        assert (12345 in feeds["x"]) != half


def test_several_inputs_meet_what_they_are_compared_with_at_once():
    """Among ties all inputs count through the numbers that are spoken of, and hold numbers of few digits beside."""
    constants = {str(number): numpy_helper.from_array(np.array(number, np.float32)) for number in (3.25, 5, 7)}
    wants = [
        SimpleNamespace(name=name, kind="plain", free=True, dtype=np.dtype(np.float32), half=False) for name in "xyz"
    ]
    feeds = {name: np.zeros(64, np.float32) for name in "xyz"}
    sprinkle(feeds, SimpleNamespace(wants=wants, edged=set("xyz")), constants, 0, ties=True)
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
    plan, constants = InputPlan(model, names=False), {tensor.name: tensor for tensor in model.graph.initializer}
    assert counts(model) == {"start", "all"}  # `axis` is a number too
    for ties in (False, True):
        feeds = plan.make(0, {})
        sprinkle(feeds, plan, constants, 0, small=counts(model), ties=ties)
        large = {number for array in feeds.values() for number in np.abs(array).ravel().tolist() if number > 4}
        assert large == {float(np.float32(5e19 if ties else 1e20))}


def test_what_integers_are_compared_with_is_put_however_large_and_whoever_reads_it():
    """As the number of the token that pictures stand behind."""
    constants = {"token": numpy_helper.from_array(np.array(262144, np.int64))}

    def put(kind):
        want = SimpleNamespace(name="x", kind=kind, free=True, dtype=np.dtype(np.int64), half=False)
        feeds = {"x": np.zeros((8, 8), np.int64)}
        sprinkle(feeds, SimpleNamespace(wants=[want], edged=set()), constants, 0, small={"token"})
        return 262144 in feeds["x"]

    assert (put("compared"), put("plain")) == (True, False)
