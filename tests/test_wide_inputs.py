"""Values of wide range and of both signs: what the tails of an activation hide, and what is not held against it."""

from itertools import product

import numpy as np
import pytest
from onnx import ModelProto, parser

from surgeon.proof.check_result import Outcome
from surgeon.runtime.inputs import float_fills as floats
from surgeon.runtime.inputs import role_fills as roles
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from tests import sampling
from tests.test_inputs import TABLE
from tests.test_model_check import body, check, read

USUALS = (roles.USUAL, roles.SAMPLED, roles.NOT_NEGATIVE, roles.CALM)
SEEDS = sampling.chosen(lambda: range(2), lambda: range(4))


def clip(dtype: str, shape: str, least: int | None, most: int) -> ModelProto:
    """A Clip at `most`, and at `least` if there is one."""
    elem_type = {"float": 1, "float16": 10, "double": 11}[dtype]
    low = "" if least is None else "low"
    return read(
        f"""g ({dtype}{shape} x) => ({dtype}{shape} y) {{
        l = Constant<value_float = {float(least or 0)}>() h = Constant<value_float = {float(most)}>()
        low = Cast<to = {elem_type}>(l) high = Cast<to = {elem_type}>(h) y = Clip(x, {low}, high) }}"""
    )


@pytest.mark.parametrize("dtype", ["float", "float16", "double"])
@pytest.mark.parametrize("shape", ["[1]", "[2]", "[4, 4]", "[batch, n]"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_change_in_the_tails_is_found(dtype: str, shape: str, seed: int) -> None:
    """A Clip at 6, or at -6, that is lost shows in the smallest of tensors, of any seed."""
    both = clip(dtype, shape, -6, 6)
    assert check(both, both, seed=seed).outcome is Outcome.PROVED
    assert check(both, clip(dtype, shape, None, 6), seed=seed).outcome is Outcome.FAILED
    assert check(both, clip(dtype, shape, -6, 9999), seed=seed).outcome is Outcome.FAILED


@pytest.mark.parametrize("dtype", ["int32", "int8"])
@pytest.mark.parametrize("shape", ["", "[1]", "[2]", "[batch, 4]"])
def test_integers_in_arithmetic_are_of_both_signs(dtype: str, shape: str) -> None:
    """Relu is not Abs, of any seed."""
    text = f"g ({dtype}{shape} x) => ({dtype}{shape} y) {{{{ y = {{op}}(x) }}}}"
    relu, absolute = read(text.format(op="Relu")), read(text.format(op="Abs"))
    for seed in SEEDS:
        assert check(relu, relu, seed=seed).outcome is Outcome.PROVED
        assert check(relu, absolute, seed=seed).outcome is Outcome.FAILED


COMPARED = """g (int64[batch, 4] x) => (int64[batch, 4] y) {{
    k = Constant<value = int64 {{{k}}}>() g = {op}(x, k) y = Where(g, x, k) }}"""


@pytest.mark.parametrize(("k", "op", "other"), [(0, "Greater", "Abs"), (6, "Less", "Identity")])
def test_integers_that_are_compared_are_of_both_signs_and_large(k: int, op: str, other: str) -> None:
    """Where(x > 0, x, 0) is not Abs either, nor is Where(x < 6, x, 6) the identity."""
    original = read(COMPARED.format(k=k, op=op))
    wrong = read(f"g (int64[batch, 4] x) => (int64[batch, 4] y) {{ y = {other}(x) }}")
    for seed in SEEDS:
        assert check(original, original, seed=seed).outcome is Outcome.PROVED
        assert check(original, wrong, seed=seed).outcome is Outcome.FAILED


def test_a_model_that_refuses_negatives_gets_none() -> None:
    """An index that is not known as one: the sets without negatives still tell all, and the reason tells the rest."""
    text = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        g (int64[3] x) => (float[1, 3] y) <float[1, 10] t = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}> {
        y = ai.onnx.ml.ArrayFeatureExtractor(t, x) }"""
    model = parser.parse_model(text)
    with OrtSession(model) as session, pytest.raises(SessionError):
        session.run({"x": np.array([0, -1, 2])})
    result = check(model, model)
    assert result.outcome is Outcome.PROVED
    assert result.runs == 3
    assert result.reason.startswith("One set of wide-range inputs was left out: the original rejects it (")


NORM = """g ({io}[batch, 768] x) => ({io}[batch, 768] y) {{ {nodes} }}"""


def test_overflow_inside_float16_is_not_compared_with_a_rewrite() -> None:
    """A norm that sums its squares in float32 is right, also on values of wide range."""
    axes = "axes = Constant<value_ints = [-1]>()"
    half = f"{axes} q = Mul(x, x) m = ReduceSum(q, axes) r = Sqrt(m) y = Div(x, r)"
    root = "f = Cast<to = 1>(x) q = Mul(f, f) m = ReduceSum(q, axes) r = Sqrt(m)"
    single = f"{axes} {root} d = Div(f, r) y = Cast<to = 10>(d)"
    result = check(read(NORM.format(io="float16", nodes=half)), read(NORM.format(io="float16", nodes=single)))
    assert result.outcome is Outcome.PROVED, result.reason
    assert result.reason == ""


def test_infinity_of_the_original_on_wide_values_is_not_compared() -> None:
    """log(1 + exp(x)) overflows where Softplus does not; the other way round, the rewrite is at fault."""
    naive = body("e = Exp(x) o = Constant<value_float = 1.0>() a = Add(e, o) y = Log(a)")
    assert check(naive, body("y = Softplus(x)")).outcome is Outcome.PROVED
    wrong = check(body("y = Softplus(x)"), naive)
    assert wrong.outcome is Outcome.FAILED
    assert "is infinite at other indices" in wrong.reason


def test_wide_values_that_the_original_does_not_stand_are_left_out() -> None:
    """Sines of thousands are chaos: the proof on usual values stays one, and the reason tells what it lacks."""
    chaos = "a = Constant<value_float = {a}>() b = Constant<value_float = {b}>() s = Mul(x, a) t = Mul(s, b) y = Sin(t)"
    result = check(body(chaos.format(a=100.0, b=10.0)), body(chaos.format(a=1000.0, b=1.0)))
    assert result.outcome is Outcome.PROVED
    assert result.reason == (
        "One set of wide-range inputs was left out: rounding by itself changes output 'y' of the original as much."
    )


@pytest.mark.parametrize("kind", ["float", "float16", "double", "bfloat16"])
@pytest.mark.parametrize("seed", range(3))
def test_wide_values_hold_both_tails_and_zero(kind: str, seed: int) -> None:
    """Large ones are larger still, in tensors of two elements too, and positive ones positive."""
    plan = InputGenerator(read(f"g ({kind}[8, 16] x) => ({kind}[8, 16] y) {{ y = Relu(x) }}"))
    wide, large, positive = (
        plan.generate(seed, {}, {"x": fill})["x"].astype(np.float64)
        for fill in (floats.WIDE, floats.LARGE, floats.positive(floats.WIDE))
    )
    assert wide.min() < -6
    assert wide.max() > 6
    assert (wide == 0).any()
    assert 0 < np.abs(wide[wide != 0]).min() < 1
    edge = 30 if kind == "float16" else 200
    assert large.min() < -edge
    assert large.max() > edge
    assert (positive > 0).all()
    assert positive.max() > 6


@pytest.mark.parametrize(
    ("use", "free"),
    [
        ("y = Relu(x)", True),
        ("s = Shape(x) y = Reshape(x, s)", True),
        ("o, i = TopK(x, one) y = Gather(t, i)", True),
        ("i = ArgMax(x) y = Gather(t, i)", True),
        ("z = Sub(x, x) g = Greater(x, z) n = NonZero(g) y = Gather(t, n)", True),
        ("e = Exp(x) i = Cast<to = 7>(e) y = Tile(t, i)", False),
        ("e = Mul(x, x) i = Cast<to = 7>(e) y = Gather(t, i)", False),
        ("e = Exp(x) s = ReduceSum(e) i = Cast<to = 7>(s) y = Range(i, one, one)", False),
        ("e = Mul(x, x) y = l.look(t, e)", False),
        ("c = Constant<value = bool {1}>() y = Loop(, c, x) "
         "<body = b (int64 i, bool ci, float[1] s) => (bool co, float[1] so) "
         "{ so = Exp(s) co = Less(so, t) }>", False),
        ("c = Constant<value = bool {1}>() q = Loop(one, c, x) "
         "<body = b (int64 i, bool ci, float[1] s) => (bool co, float[1] so) "
         "{ so = Exp(s) co = Identity(ci) }> i = Cast<to = 7>(q) y = Gather(t, i)", False),
        ("c = Constant<value = bool {1}>() q = If (c) <then_branch = a () => (float[1] p) { p = Exp(x) }, "
         "else_branch = b () => (float[1] r) { r = Neg(x) }> i = Cast<to = 7>(q) y = Gather(t, i)", False),
    ],
)  # fmt: skip
def test_what_an_index_or_a_size_depends_on_stays_usual(use: str, free: bool) -> None:
    """However far away, in functions and bodies too; a shape, a rank or a comparison ends it."""
    text = f"""<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[1] x) => (float[k] y) <float[1] t = {{1}}, int64[1] one = {{1}}> {{ {use} }}
        <domain: "l", opset_import: ["" : 17]> look (w, i) => (o) {{ k = Cast<to = 7>(i) o = Gather(w, k) }}"""
    plan = InputGenerator(parser.parse_model(text))
    (want,) = plan.wants
    assert want.takes_wide_values == free
    assert (plan.edged == {"x"}) == free


def test_inputs_of_a_proof_leave_their_roles() -> None:
    """But where the memory of the model hangs on them."""
    model = read(
        f"""g (int64[b, s] ids, int64[1] until, int64[2] far) => (float[b, s, 2] y, float[n] z, float[k] w, float[8] v)
        {TABLE} {{ near = Abs(ids) y = Gather(table, near) c = Constant<value = float[8] {{1, 2, 3, 4, 5, 6, 7, 8}}>()
        o = Constant<value_ints = [0]>() z = Slice(c, o, until) w = ConstantOfShape(far) v = Neg(c) }}"""
    )
    plan = InputGenerator(model, names=False)
    sizes = dict.fromkeys(plan.free, 5)
    names = [want.name for want in plan.wants if want.may_ignore_role]
    ways = [roles.any_number(way) for way in ("few", "many", "not negative")]
    made = [plan.generate(seed, sizes, dict.fromkeys(names, fill)) for seed in range(4) for fill in ways]
    assert min(feeds["ids"].min() for feeds in made) < 0
    assert max(feeds["ids"].max() for feeds in made) > 100
    assert {int(np.sign(feeds["until"][0])) for feeds in made} == {-1, 1}
    assert all(0 <= size <= 9 for feeds in made for size in feeds["far"])


def test_integers_of_a_role_are_never_negative() -> None:
    """Ids, masks, shapes and lengths keep their range whatever values are asked for; what goes into sums does not."""
    model = read(
        f"""g (int64[b, s] ids, int64[b, s] attention_mask, int64[b] lengths, int64[2] far, int64[b, s] sums)
        => (float[b, s, 2] y, int64[b, s] z, int64[b] n, float[k] w) {TABLE} {{
        y = Gather(table, ids) z = Mul(sums, attention_mask) n = Identity(lengths)
        two = Constant<value_ints = [2]>() f = Mul(far, two) w = ConstantOfShape(f) }}"""
    )
    plan = InputGenerator(model)
    sizes = plan.size_sets({})[0]
    wide = {want.name: roles.WIDE_INTEGERS for want in plan.wants if want.takes_wide_values}
    assert wide.keys() == {"sums"}
    for seed, (fills, usual) in product(SEEDS, ((wide, roles.USUAL), *(({}, usual) for usual in USUALS))):
        feeds = plan.generate(seed, sizes, fills, usual)
        assert min(feeds[name].min() for name in feeds.keys() - {"sums"}) >= 0
        assert feeds["ids"].max() < 7
        signs = {int(sign) for sign in np.sign(feeds["sums"]).ravel()}
        assert (-1 in signs) == (usual not in (roles.NOT_NEGATIVE, roles.CALM))
    assert plan.generate(0, sizes, {"ids": roles.BACKWARDS})["ids"].min() == -7


def test_a_divisor_is_never_zero() -> None:
    """ONNX Runtime refuses to divide integers by zero: what divides must not bring every set to fall."""
    model = read("g (int32[64] x, int32[64] z) => (int32[64] y) { y = Div(x, z) }")
    spread = (roles.WIDE_INTEGERS, roles.BEYOND_HALF, roles.EQUAL_INTEGERS, roles.mixed_integers(can_sum=True))
    for fill in (*USUALS, *spread):
        feeds = InputGenerator(model).generate(0, {}, usual=fill)
        assert (feeds["z"] != 0).all()
        with OrtSession(model) as session:
            session.run(feeds)
