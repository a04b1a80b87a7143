"""Faults in front of loops are seen: only what the length or the condition depends on is held to tame values."""

import onnx
import pytest

import surgeon
from surgeon.proof.check_result import Outcome
from surgeon.runtime.inputs.input_generator import InputGenerator

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g'
ROUND, HALF_UP = "r = Round(x)", "q = Add(x, half) r = Floor(q)"
NUMBERS = "<float half = {0.5}, int64 m = {3}, float zero = {0}, int64 none = {0}, int64 one = {1}, bool t = {1}>"
PORTS = "(float[n] x) => (float[n] y)"
HALVED = "o = Identity(c) h = Constant<value_float = 0.5>() b = Mul(a, h)"
FRONTS = {
    "a Loop of three turns": f"y = Loop(m, , r) <body = b (int64 i, bool c, float[n] a) => (bool o, float[n] b) "
    f"{{ {HALVED} }}>",
    "a Loop that captures it": "y = Loop(m, , x) <body = b (int64 i, bool c, float[n] a) => (bool o, float[n] b) "
    "{ o = Identity(c) b = Sub(a, r) }>",
    "a Loop whose condition counts": "e, y = Loop(, t, none, r) "
    "<body = b (int64 i, bool c, int64 k, float[n] a) => (bool o, int64 l, float[n] b) "
    "{ l = Add(k, one) o = Less(l, m) h = Constant<value_float = 0.5>() b = Mul(a, h) }>",
    "a Loop in a Loop": "y = Loop(m, , r) <body = b (int64 i, bool c, float[n] a) => (bool o, float[n] b) "
    "{ o = Identity(c) b = Loop(m, , a) <body = d (int64 j, bool e, float[n] f) => (bool p, float[n] g) "
    "{ p = Identity(e) h = Constant<value_float = 0.5>() g = Mul(f, h) }> }>",
    "a Loop that lists its turns": "e, w = Loop(m, , r) "
    "<body = b (int64 i, bool c, float[n] a) => (bool o, float[n] b, float[n] v) "
    f"{{ {HALVED} v = Identity(b) }}> z = Constant<value_int = 1>() y = Gather(w, z)",
    "a Scan over it": "e, y = Scan<num_scan_inputs = 1, body = b (float s, float a) => (float u, float v) "
    "{ u = Add(s, a) v = Mul(s, a) }>(half, r)",
    "a Scan that begins with it": "e, y = Scan<num_scan_inputs = 1, body = b (float[n] s, float a) => "
    "(float[n] u, float v) { u = Add(s, a) v = Identity(a) }>(r, x) y = Add(e, zero)",
    "a branch beside a Loop": "w = Loop(m, , r) <body = b (int64 i, bool c, float[n] a) => (bool o, float[n] b) "
    f"{{ {HALVED} }}> y = If(t) <then_branch = d () => (float[n] p) {{ p = Neg(w) }}, "
    "else_branch = f () => (float[n] p) { p = Identity(w) }>",
}


def model(front: str, behind: str) -> onnx.ModelProto:
    behind = behind.replace("e, y = Scan", "e, w = Scan") if behind.endswith("zero)") else behind
    return onnx.parser.parse_model(f"{HEAD} {PORTS} {NUMBERS} {{ {front} {behind} }}")


@pytest.mark.parametrize("title", FRONTS)
def test_a_fault_in_front_of_a_loop_is_seen(title: str) -> None:
    """Halves are rounded to the even number; half up they are not."""
    original = model(ROUND, FRONTS[title])
    assert surgeon.compare(original, original).outcome is Outcome.PROVED
    assert surgeon.compare(original, model(HALF_UP, FRONTS[title])).outcome is Outcome.FAILED


DECIDING = {
    "the condition": "y = Loop(, t, x) <body = b (int64 i, bool c, float[n] a) => (bool o, float[n] b) "
    "{ h = Constant<value_float = 0.5>() b = Mul(a, h) w = ReduceMax<keepdims = 0>(b) o = Greater(w, h) }>",
    "the condition by a state that is handed on": "e, y = Loop(, t, zero, x) "
    "<body = b (int64 i, bool c, float s, float[n] a) => (bool o, float u, float[n] b) "
    "{ h = Constant<value_float = 0.5>() b = Mul(a, h) u = ReduceMax<keepdims = 0>(b) o = Greater(s, h) }>",
    "the trip count": "w = ReduceSum<keepdims = 0>(x) k = Cast<to = 7>(w) y = Loop(k, , x) "
    "<body = b (int64 i, bool c, float[n] a) => (bool o, float[n] b) { o = Identity(c) b = Neg(a) }>",
    "the trip count of a Loop behind a Loop": "w = Loop(m, , x) "
    "<body = b (int64 i, bool c, float[n] a) => (bool o, float[n] b) { o = Identity(c) b = Neg(a) }> "
    "s = ReduceSum<keepdims = 0>(w) k = Cast<to = 7>(s) y = Loop(k, , x) "
    "<body = d (int64 j, bool e, float[n] f) => (bool p, float[n] g) { p = Identity(e) g = Neg(f) }>",
}


@pytest.mark.parametrize("title", DECIDING)
def test_what_the_length_of_a_loop_depends_on_stays_tame(title: str) -> None:
    (want,) = InputGenerator(model("", DECIDING[title])).wants
    assert not want.is_unconstrained


COUNTED = "<body = b (int64 i, bool c, float[n] a) => (bool o, float[n] b) { o = Identity(c) b = Add(a, a) }>"
TRIPS = {
    "at most 20": "l = Constant<value_int = 20>() t = Min(k, l)",
    "one less from 12 on": "l = Constant<value_int = 12>() g = Less(l, k) d = Cast<to = 7>(g) t = Sub(k, d)",
    "never none": "l = Constant<value_int = 1>() t = Max(k, l)",
}


@pytest.mark.parametrize("title", TRIPS)
def test_loops_run_as_often_as_either_model_speaks_of(title: str) -> None:
    text = f"{HEAD} (float[n] x, int64 k) => (float[n] y) {{{{ {{front}} y = Loop({{trips}}, , x) {COUNTED} }}}}"
    text = text.replace("{{", "{").replace("}}", "}")
    one, other = (
        onnx.parser.parse_model(text.replace("{front}", front).replace("{trips}", trips))
        for front, trips in (("", "k"), (TRIPS[title], "t"))
    )
    assert surgeon.compare(one, other).outcome is Outcome.FAILED


def test_a_loop_may_be_asked_to_run_less_than_never() -> None:
    """Few models are: that two differ there is said, and fails nothing."""
    text = f"{HEAD} (float[n] x, int64 k) => (float[n] y) {{ w = Loop(k, , x) {COUNTED} LAST }}"
    one = onnx.parser.parse_model(text.replace("LAST", "y = Identity(w)"))
    last = "z = Constant<value_int = -1>() g = Less(k, z) f = Cast<to = 1>(g) y = Add(w, f)"
    other = onnx.parser.parse_model(text.replace("LAST", last))
    assert list(surgeon.compare(one, other).differs_on) == ["counts and positions that count from the end"]


LIMITED = {
    "a condition goes": ("s = ReduceMax<keepdims = 0>(b) o = Less(s, far)", "o = Identity(c)"),
    "a condition is of the least": (
        "s = ReduceMax<keepdims = 0>(b) o = Less(s, far)",
        "s = ReduceMin<keepdims = 0>(b) o = Less(s, far)",
    ),
    "a condition ends it a turn late": (
        "s = ReduceMax<keepdims = 0>(b) o = Less(s, far)",
        "s = ReduceMax<keepdims = 0>(a) o = Less(s, far)",
    ),
    "a bound is another": (
        "s = ReduceMax<keepdims = 0>(b) o = Less(s, far)",
        "s = ReduceMax<keepdims = 0>(b) o = Less(s, near)",
    ),
    "a condition by a state": ("s = ReduceMax<keepdims = 0>(a) o = Less(s, far)", "o = Identity(c)"),
}


@pytest.mark.parametrize("title", LIMITED)
def test_what_ends_a_loop_of_few_turns_early_is_tried(title: str) -> None:
    """The trip count limits it, so that the condition may be anything."""
    text = f"{HEAD} {PORTS} <int64 m = {{3}}, float far = {{40}}, float near = {{30}}, float one = {{1}}> " \
        "{ y = Loop(m, , x) <body = b (int64 i, bool c, float[n] a) => (bool o, float[n] b) { b = Add(a, one) ENDS }> }"
    one, other = (onnx.parser.parse_model(text.replace("ENDS", ends)) for ends in LIMITED[title])
    assert surgeon.compare(one, one).outcome is Outcome.PROVED
    assert surgeon.compare(one, other).outcome is Outcome.FAILED
