"""Models that differ only for unusual inputs: rows of zeros, ties, and sizes."""

from pathlib import Path

import onnx
import pytest

import surgeon
from surgeon.analysis.decisions.joint_inputs import has_exact_joint_decision
from surgeon.edits import Insert
from surgeon.ir.index import Index
from surgeon.proof.check_result import Outcome
from surgeon.proof.model.comparison_tally import BEYOND_ORIGINAL
from surgeon.testing import parse
from tests.command_line import run

FLOATS = "(float[n, 8] x) => (float[n, 8] y)"
TWO = "(float[n, 8] x, float[n, 8] u) => (bool[n, 8] y)"
NUMBERS = (
    "float z = {0}, float o = {1}, float ninf = {-inf}, float big = {-1e9}, float eps = {1e-12}, float small = {1e-6}, "
    "int64 i0 = {0}, int64 i1 = {1}, int64[1] a0 = {0}, int64[1] a1 = {1}, float[8, 2] w = {1, 2, -1, 0, 3, 1, -2, 1, "
    "0, 0, 1, -1, 2, 2, 1, 3}, float[3, 4] t = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, int64[1] ends = {1000000}"
)


def model(head: str, body: str) -> onnx.ModelProto:
    """A model from ONNX text."""
    return parse(f'<ir_version: 9, opset_import: ["": 18, "ai.onnx.ml": 3]> g {head} <{NUMBERS}> {{ {body} }}')


MASKED = "(float[n, 8] x, bool[n, 8] mask) => (float[n, 8] y)"
NON_FINITE = "inputs that hold NaN or infinity"
# What is told apart, and no failure.
APART = {
    "NaN made zero": (FLOATS, "y = Identity(x)", "c = IsNaN(x) y = Where(c, z, x)", NON_FINITE),
    "infinity made zero": (FLOATS, "y = Identity(x)", "c = IsInf(x) y = Where(c, z, x)", NON_FINITE),
    "a larger one of NaN": (FLOATS, "y = Max(x, o)", "c = Greater(x, o) y = Where(c, x, o)", NON_FINITE),
    "no smaller one than NaN": ("(float[n, 8] x) => (bool[n, 8] y)", "y = GreaterOrEqual(x, o)",
                                "c = Less(x, o) y = Not(c)", NON_FINITE),
    "NaN behind a product": ("(float[n, 8] x) => (float[n, 2] y)", "y = MatMul(x, w)",
                             "p = MatMul(x, w) c = IsNaN(p) y = Where(c, z, p)", NON_FINITE),
    "NaN of one of two": ("(float[n] x, float[n] u) => (float[n] y)", "c = Less(x, u) d = Not(c) y = Where(d, x, u)",
                          "c = GreaterOrEqual(x, u) y = Where(c, x, u)", NON_FINITE),
    "NaN that is below a bound": ("(float[n] x, float[n] u) => (float[n] y)", "c = Greater(x, o) y = Where(c, u, x)",
                                  "c = LessOrEqual(x, o) y = Where(c, x, u)", NON_FINITE),
    "infinity of one sign beside another": (
        "(float[n] x, float[n] u) => (float[n] y)", "c = IsInf(x) y = Where(c, u, x)",
        "c = IsInf<detect_negative = 0>(x) y = Where(c, u, x)", NON_FINITE),
    "a row that is hidden whole": (MASKED, "s = Where(mask, x, ninf) y = Softmax(s)",
                                   "s = Where(mask, x, big) y = Softmax(s)", "masks that hide whole rows"),
    "an index that is held back": ("(int64[n, 5] ids) => (float[n, 5, 4] y)", "y = Gather(t, ids)",
                                   "p = Max(ids, i0) y = Gather(t, p)", "indices that count from the end"),
    "a row to begin at": ("(float[n, 8] x, int64[1] s) => (float[n, m] y)", "y = Slice(x, s, ends, a1)",
                          "p = Max(s, i0) y = Slice(x, p, ends, a1)", "counts and positions that count from the end"),
    "fewer bits": ("(int64[n, 8] x) => (int64[n, 8] y)", "y = Add(x, i1)",
                   "f = Cast<to = 6>(x) j = Cast<to = 6>(i1) s = Add(f, j) y = Cast<to = 7>(s)",
                   "integers that do not fit in half of their bits"),
    "a denominator that is guarded": (
        "(float[n, 8] x, float[n, 8] u) => (float[n, 8] y)", "d = Abs(u) y = Div(x, d)",
        "d = Abs(u) c = Equal(d, z) e = Where(c, o, d) y = Div(x, e)", BEYOND_ORIGINAL),
}  # fmt: skip
LONG = (
    "s = Shape<start = {0}, end = {1}>(x) l = Squeeze(s, a0) k = Constant<value_int = {2}>() c = {3}(l, k) "
    "y = If(c) <then_branch = one () => (float[b, seq, 8] u) {{ u = Add(x, o) }}, "
    "else_branch = other () => (float[b, seq, 8] v) {{ v = Neg(x) }}>"
)
ROWS = "(float[b, seq, 8] x) => (float[b, seq, 8] y)"
LABELS = '<keys_strings = ["cat", "dog"], values_int64s = [1, 2], default_int64 = {}>(x)'
# What is a failure.
FAILS = {
    "what is added to a variance": (FLOATS, *(
        f"s = Mul(x, x) m = ReduceMean(s, a1) e = Add(m, {name}) r = Sqrt(e) y = Div(x, r)"
        for name in ("eps", "small"))),
    "a norm of a row of zeros": (
        FLOATS, "s = Mul(x, x) m = ReduceSum(s, a1) r = Sqrt(m) c = Max(r, eps) y = Div(x, c)",
        "s = Mul(x, x) m = ReduceSum(s, a1) r = Sqrt(m) y = Div(x, r)"),
    "an edge behind a product of matrices": (
        "(float[n, 8] x) => (bool[n, 2] y)", *(f"p = MatMul(x, w) y = {op}(p, o)" for op in
                                               ("Greater", "GreaterOrEqual"))),
    "an edge behind a sum": ("(float[n, 8] x) => (bool[n] y)", *(
        f"p = ReduceSum<keepdims = 0>(x, a1) y = {op}(p, o)" for op in ("Greater", "GreaterOrEqual"))),
    "an edge behind a difference": (TWO, *(f"p = Sub(x, u) y = {op}(p, o)" for op in ("Less", "LessOrEqual"))),
    "ties behind a product of matrices": ("(float[n, 8] x) => (int64[n] y)", *(
        f"p = MatMul(x, w) y = ArgMax<axis = 1, keepdims = 0, select_last_index = {last}>(p)" for last in (0, 1))),
    "how much a mask shows": ("(int64[n, 8] mask) => (bool[n] y)", *(
        f"c = Cast<to = 9>(mask) d = Cast<to = 7>(c) p = ReduceSum<keepdims = 0>(d, a1) k = Add(i1, i1) y = {op}(p, k)"
        for op in ("Greater", "GreaterOrEqual"))),
    "a long sequence": (ROWS, LONG.format(1, 2, 700, "Greater"), "y = Neg(x)"),
    "one number of batches": (ROWS, LONG.format(0, 1, 17, "Equal"), "y = Neg(x)"),
    "a window": ("(float[b, seq, 8] x) => (float[b, m, 8] y)",
                 "s = Constant<value_ints = [-700]>() y = Slice(x, s, ends, a1)", "y = Identity(x)"),
    "words that are not known": ("(string[n] x) => (int64[n] y)", *(
        f"y = ai.onnx.ml.LabelEncoder{LABELS.format(other)}" for other in (-1, -2))),
}  # fmt: skip
# What is equal, and nothing is told apart.
EQUAL = {
    "NaN, said otherwise": (FLOATS, "c = IsNaN(x) y = Where(c, z, x)", "c = Equal(x, x) y = Where(c, x, z)"),
    "sums in another order, where they decide": (
        "(float[n, 8] x) => (bool[n] y)", "p = ReduceSum<keepdims = 0>(x, a1) y = Greater(p, o)",
        "a, b = Split<axis = 1, num_outputs = 2>(x) c = Add(b, a) p = ReduceSum<keepdims = 0>(c, a1) "
        "y = Greater(p, o)"),
    "a probability and what it is of": (
        "(float[n, 8] x) => (bool[n, 8] y)", "p = Sigmoid(x) q = Constant<value_float = 0.25>() y = Greater(p, q)",
        "q = Constant<value_float = -1.0986123>() y = Greater(x, q)"),
    "what a root rounds, where it decides": (
        "(float[n, 8] x) => (bool[n, 8] y)",
        "a = Abs(x) r = Sqrt(a) y = Greater(r, o)", "a = Abs(x) y = Greater(a, o)"),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_differences_on_what_few_models_are_fed_with_are_reported_apart(name: str) -> None:
    """The two are equal, and the report says on which inputs they are not; so it does the other way round."""
    head, one, other, words = APART[name]
    result = surgeon.compare(model(head, one), model(head, other))
    assert result.outcome is Outcome.PROVED, result
    assert words in result.differs_on
    assert result.reason.startswith("The models differ on ")
    assert f" on {words}: output 'y' " in result.reason
    assert list(result.differs_on) == result.to_dict()["differs_on"]


@pytest.mark.parametrize("name", FAILS)
def test_differences_on_what_any_model_is_fed_with_are_failures(name: str) -> None:
    """They are no matter of NaN, and of no inputs that nobody has."""
    head, one, other = FAILS[name]
    result = surgeon.compare(model(head, one), model(head, other))
    assert result.outcome is Outcome.FAILED, result
    assert not result.differs_on


@pytest.mark.parametrize("name", EQUAL)
def test_what_is_equal_everywhere_is_not_reported(name: str) -> None:
    """Equal ones stay so, the original against itself too."""
    head, *bodies = EQUAL[name]
    one, other = (model(head, body) for body in bodies)
    for result in (surgeon.compare(one, other), surgeon.compare(other, one), surgeon.compare(one, one)):
        assert result.outcome is Outcome.PROVED, result
        assert not result.differs_on


def test_what_the_other_model_refuses_there_is_reported_apart() -> None:
    """A fused operator takes no index that counts from the end, nor need it."""
    head = "(int64[n] i) => (float[n, 4] y)"
    guarded = "c = Less(i, i0) k = Cast<to = 7>(c) n = Neg(k) q = Where(c, n, i) r = ReduceMin<keepdims = 0>(q) " \
        "s = Unsqueeze(r, a0) u = Max(s, a0) e = Expand(o, s) y = Gather(t, i)"
    result = surgeon.compare(model(head, "y = Gather(t, i)"), model(head, guarded))
    assert result.outcome is Outcome.PROVED, result
    assert "on indices that count from the end: only the original runs (" in result.reason


def test_an_edit_says_what_differs_where_there_is_nan(tmp_path: Path) -> None:
    """A node that stands for others is held against them on NaN too."""
    made = model(FLOATS, "c = IsNaN(x) y = Where(c, z, x)")
    _, report = surgeon.edit(made, Insert(("x",), ("y",), "Identity"), check="model")
    assert report.check is not None
    assert report.check.differs_on == (NON_FINITE,)


def test_what_is_reported_apart_is_printed_and_leaves_with_0(tmp_path: Path) -> None:
    """The outcome's line has it."""
    paths = [tmp_path / "one.onnx", tmp_path / "other.onnx"]
    head, *bodies, _ = APART["NaN made zero"]
    for path, body in zip(paths, bodies, strict=True):
        onnx.save(model(head, body), path)
    done = run("compare", *paths)
    assert done.exit_code == 0, done.output
    assert "The models differ on inputs that hold NaN or infinity" in " ".join(done.output.split())


def test_a_loop_is_not_run_as_often_as_a_far_number_says() -> None:
    """What is a number to one model may be how often a loop of the other runs: then no far one is tried."""
    loop = (
        "b = Constant<value = bool {1}>() y = Loop(m, b, x) <body = body (int64 i, bool c, float[n, 8] p) => "
        "(bool d, float[n, 8] q) { d = Identity(c) q = Add(p, o) }>"
    )
    head = "(int64 m, float[n, 8] x) => (float[n, 8] y)"
    closed = model(head, "p = Max(m, i0) f = Cast<to = 1>(p) y = Add(x, f)")
    result = surgeon.compare(closed, model(head, loop), run_time=20)
    assert result.outcome is Outcome.PROVED, result
    assert not result.differs_on


def test_nothing_is_said_to_be_exact_that_is_rounded_or_not_looked_through() -> None:
    """Where some decision hangs on roundings, or stands in a body, sums that meet another are not tried."""
    exact = "p = ReduceSum<keepdims = 0>(x, a1) y = Greater(p, o)"
    head = "(float[n, 8] x) => (bool[n] y, float[n, 8] v)"
    rounded = "s = Sigmoid(x) f = Floor(s) v = Add(f, x)"
    for body, found in ((f"{exact} v = Neg(x)", True), (f"{exact} {rounded}", False), (f"{exact} v = Floor(x)", True)):
        assert has_exact_joint_decision(Index.over(model(head, body))) is found
    alone = model("(float[n, 8] x) => (bool[n, 8] y)", "y = Greater(x, o)")
    assert not has_exact_joint_decision(Index.over(alone))
