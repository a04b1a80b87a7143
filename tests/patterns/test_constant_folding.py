"""Constant subgraphs: what is computed, and what stays as it would only grow."""

import re

import numpy as np
import onnx
import pytest
from surgeon.patterns.cleanup.constant_folding import constant_folding

import surgeon
from surgeon.errors import UsageError
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.command_line import run
from tests.models import ops

HEAD = "(float[n, 4] x) => (float[n, 4] y)"
W = "float[4] w = {1, 2, 3, 4}, int64[2] s = {1, 4}, int64 i = {1}, int64[1] big = {100000}, int64[1] one = {1}, "
W += "float[1, 3] m = {0.5, -1, 0.25}, float[3, 1] mt = {0.1, 0.2, -0.3}"


def model(body, head=HEAD, opset=17):
    """One input x and one output y."""
    return parse(f'<ir_version: 9, opset_import: ["" : {opset}]> agraph {head} <{W}> {{ {body} }}')


FIRES = [
    Case(constant_folding, "a reshaped weight", model("a = Reshape(w, s) y = Add(x, a)")),
    Case(constant_folding, "a formula", model("a = Sqrt(w) b = Mul(a, w) c = Exp(b) y = Add(x, c)")),
    Case(constant_folding, "of a Constant node", model("c = Constant<value = float {2}>() a = Sqrt(c) y = Add(x, a)")),
    Case(
        constant_folding,
        "in the middle, used twice",
        model("a = Sqrt(w) b = Add(x, a) c = Mul(a, a) y = Mul(b, c)"),
        sites=2,
    ),
    Case(constant_folding, "a fixed size", model("t = Shape(x) d = Gather(t, i) c = Cast<to = 1>(d) y = Div(x, c)")),
    Case(constant_folding, "parts of a weight", model("a, b = Split(w) c = Concat<axis = 0>(b, a) y = Add(x, c)")),
    Case(constant_folding, "a net over a table of distances, as Swin V2 computes its bias", model(
        "c = Unsqueeze(w, one) h = MatMul(c, m) r = Relu(h) k = MatMul(r, mt) f = Squeeze(k, one) b = Sigmoid(f) "
        "y = Add(x, b)")),
    Case(constant_folding, "a weight over its length, as weight norm has it", model(
        "l = ReduceL2<axes = [1]>(m) k = Div(m, l) r = ReduceSum(k, one) u = ReduceMean(r) y = Add(x, u)")),
    Case(constant_folding, "each number once", model("u, p, q, c = Unique(w) y = Add(x, u)")),
    Case(constant_folding, "a small mask", model("a = ConstantOfShape<value = float[1] {2}>(s) y = Add(x, a)")),
    Case(
        constant_folding,
        "halves",
        model("a = Sqrt(w) h = Cast<to = 10>(a) y = Add(x, h)", HEAD.replace("float", "float16")),
    ),
]
NEGATIVES = [
    Case(constant_folding, "a product of halves, which each runtime rounds otherwise", why="in its dtype differently",
         model=parse(
             "(float16[n, 2] x) => (float16[n, 2] y) <float16[2, 2] a = {1, 2, 3, 4}, float16[2, 2] b = {5, 6, 7, 8}> "
             "{ m = MatMul(a, b) y = MatMul(x, m) }")),
    Case(constant_folding, "a sum of halves", why="in its dtype differently",
         model=parse("(float16[n, 2] x) => (float16[n, 2] y) <float16[2, 2] a = {1, 2, 3, 4}> "
                     "{ m = ReduceSum(a) y = Add(x, m) }")),
    Case(
        constant_folding, "nothing fixed", model("a = Exp(x) y = Add(a, w)"), why="no node computes only from constants"
    ),
    Case(
        constant_folding,
        "free sizes",
        model("t = Shape(x) c = Cast<to = 1>(t) d = ReduceMax(c) y = Div(x, d)"),
        why="no node computes only",
    ),
    Case(
        constant_folding,
        "a large mask",
        model("a = ConstantOfShape(big) b = Bernoulli(a) c = Add(a, b) d = ReduceMax(c) y = Add(x, d)"),
        why="computed only from constants, but the stored result would add 39",
    ),
    Case(
        constant_folding,
        "a mask of what is computed",
        model("a = ConstantOfShape(big) d = Slice(a, one, s0) y = Add(x, d)".replace("s0", "big")),
        check=False,
        why="computed only from constants, but the stored result would add 400,000",
    ),
    Case(constant_folding, "random numbers", model("a = RandomNormalLike(w) y = Add(x, a)"), why="it is random"),
    Case(constant_folding, "a copy of a weight", model("a = Identity(w) y = Add(x, a)"), why="folding copies"),
    Case(
        constant_folding,
        "an initializer that a caller may give",
        parse(
            "(float[n, 4] x, float[4] w) => (float[n, 4] y) <float[4] w = {1, 2, 3, 4}> { a = Sqrt(w) y = Add(x, a) }"
        ),
        why="no node computes only",
    ),
    Case(
        constant_folding,
        "none can be decomposed",
        model("a = Sqrt(w) y = Add(x, a)"),
        target="decomposed",
        why="writes no op",
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def transposed(rows, columns, also=""):
    """A weight that is transposed before it is used."""
    text = f"(float[n, {columns}] x) => (float[n, {rows}] y) {{ t = Transpose(w) y0 = MatMul(x, t) {also} }}"
    made = parse(text if also else text.replace("y0", "y"))
    weight = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) / 7
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return made


def test_a_weight_is_transposed_up_to_a_limit():
    """512 KiB are; 4 MiB stay."""
    small, report = surgeon.rewrite(transposed(256, 512), constant_folding, check="both")
    assert report.outcome == "proved"
    assert ops(small.graph) == ["Constant", "MatMul"]
    assert not small.graph.initializer
    large = transposed(1024, 1024)
    assert surgeon.rewrite(large, constant_folding)[0] == large


def test_the_limit_can_be_stated():
    """In bytes: a result of that size is stored, a larger one is not, and the message says how to raise the limit."""
    model, size = transposed(1024, 1024), 4 << 20
    made, report = surgeon.rewrite(model, "cleanup,constant_folding", fold_limit=size, check="both")
    assert (report.outcome, ops(made.graph)) == ("proved", ["Constant", "MatMul"])
    assert surgeon.rewrite(model, constant_folding, fold_limit=size - 1)[0] == model
    assert surgeon.rewrite(transposed(4, 4), constant_folding, fold_limit=63)[0].graph.node[0].op_type == "Transpose"


def test_a_stated_limit_is_that_of_growth_too():
    """A mask of one number is stored if the limit says so."""
    mask = model("a = ConstantOfShape(big) y = Add(x, a)", HEAD.replace("4", "100000"))
    assert ops(surgeon.rewrite(mask, constant_folding)[0].graph) == ["ConstantOfShape", "Add"]
    made, report = surgeon.rewrite(mask, constant_folding, fold_limit=400_000)
    assert (report.outcome, ops(made.graph)) == ("proved", ["Constant", "Add"])


@pytest.mark.parametrize(
    ("rules", "limit", "why"),
    [
        ("cleanup", -1, "Invalid fold_limit=-1. Give a number of bytes"),
        ("cleanup", True, "Invalid fold_limit=True"),
        ("cleanup", "4MiB", "Invalid fold_limit='4MiB'"),
        ("gelu", 1024, "No rule folds constants, so fold_limit has no effect. Add the rule constant_folding."),
    ],
)
def test_limits_that_are_refused(rules, limit, why):
    with pytest.raises(UsageError, match=re.escape(why)):
        surgeon.rewrite(transposed(4, 4), rules, fold_limit=limit)


def test_the_command_takes_units_and_records_the_limit(tmp_path):
    """A step of a recipe has the limit in bytes, and runs with it; a missed node says how to raise the limit."""
    source, recipe, out = tmp_path / "in.onnx", tmp_path / "fold.toml", tmp_path / "out.onnx"
    onnx.save(transposed(1024, 1024), source)
    options = ("--rules", "constant_folding", "--fold-limit")
    assert "constant_folding 1" in run("rewrite", source, out, *options, "4MiB").output
    missed = " ".join(run("rewrite", source, out, *options, "4MB").output.split())
    assert "its result may have more than 4,000,000 bytes (--fold-limit raises this limit)" in missed
    assert run("rewrite", source, out, *options, "huge").exit_code == 2
    assert run("record", recipe, "rewrite", "in.onnx", "out.onnx", *options, "4MiB").exit_code == 0
    assert surgeon.load_recipe(recipe).steps == (surgeon.Rules("constant_folding", fold_limit=4 << 20),)
    _, report = surgeon.run(recipe, source, out, check="none")
    assert report.counts == {"constant_folding": 1}


def test_a_weight_that_stays_is_not_there_twice():
    """Read untransposed too, it would be."""
    model = transposed(256, 256, "z = MatMul(y0, w) y = Relu(z)")
    assert surgeon.rewrite(model, constant_folding)[0] == model


def test_in_a_body():
    """What a body computes from constants of the graph around it."""
    text = """(float[4] x, bool c) => (float[4] y) <float[4] w = {1, 2, 3, 4}>
        { y = If<then_branch = g () => (float[4] p) {
        a = Sqrt(w) p = Add(x, a) }, else_branch = h () => (float[4] q) { q = Neg(x) }>(c) }"""
    made, report = surgeon.rewrite(parse(text), constant_folding, check="both")
    assert report.outcome == "proved"
    assert "Sqrt" not in ops(made.graph)


class Product(surgeon.Captures):
    """A product of numbers and a constant."""

    x: surgeon.Tensor
    by: surgeon.Constant


def product(g, m: Product):
    """x · by."""
    return g.mul(m.x, m.by)


@surgeon.rule(patterns=[product])
def by_one_number(g, m: Product):
    """Multiply with one number in place of equal ones.

    Numerics: none.
    """
    values = m.by.values
    surgeon.require(values.size > 1 and bool(np.all(values == values[0])), "the numbers differ")
    return g.mul(m.x, values[0])


def test_another_rule_may_rest_on_what_sizes_alone_make():
    """What is computed from a fixed size is as fixed where the proof of another rule begins."""
    longer = "t0 = Neg(p) " + " ".join(f"t{at + 1} = Neg(t{at})" for at in range(9))
    text = f"""l = Shape(x) d = Gather(l, i) f = Cast<to = 1>(d) zero = Constant<value_float = 0.0>()
        step = Constant<value_float = 1.0>() r = Range(zero, f, step) o = Cos(r) p = Sub(o, o) {longer} q = Add(t9, f)
        a = Mul(x, q) b = Exp(a) y = Mul(b, q)"""
    made, report = surgeon.rewrite(model(text), [constant_folding, by_one_number], check="both")
    assert report.outcome == "proved"
    assert ops(made.graph) == ["Mul", "Exp", "Mul"]


SMALL = (
    "float[4] w = {1, 2, 3, 4}, int64[1] one = {1}, int64[4] places = {0, 1, 1, 0}, int64 four = {4}, "
    "float[2] off_on = {0, 1}, float[1, 1, 2, 2] p = {1, 2, 3, 4}, int64[4] sizes = {1, 1, 4, 4}, "
    "uint8[4] u = {1, 2, 3, 4}, float[1, 1, 1, 1] k = {2}, float scale = {0.5}, uint8 zero = {0}, "
    "float[1] half = {0.5}, bool[3] which = {1, 0, 1}, bool[2] one_of_two = {0, 1}, "
    "float[1, 2, 4] boxes = {0, 0, 1, 1, 2, 2, 3, 4}, float[1, 1, 2] scores = {1, 2}, "
    "float[2, 2] m = {2, 1, 1, 3}, float16[4] h = {15360, 15361, 15362, 15363}"
)


def of_constants(body):
    """A model that adds the largest number of `c`, which is computed from constants."""
    return parse(f"{HEAD} <{SMALL}> {{ {body} f = Cast<to = 1>(c) g = ReduceMax<keepdims = 0>(f) y = Add(x, g) }}")


@pytest.mark.parametrize(
    "op",
    [
        *("Softmax(w)", "OneHot(places, four, off_on)", "Round(w)", "Tan(w)", "Atan(w)", "CastLike(u, w)", "Sum(w, w)"),
        *("Mean(w, w)", "ArgMax(w)", "IsNaN(w)", "IsInf(w)", "DepthToSpace<blocksize = 1>(p)", "HannWindow(four)"),
        *('Resize<mode = "cubic">(p, , , sizes)', "Conv(p, k)", 'Einsum<equation = "ij,jk->ik">(m, m)', "Det(m)"),
        *("ScatterElements(w, one, half)", "LayerNormalization(w, w)", 'BitShift<direction = "LEFT">(u, u)'),
        *("TopK(w, one)", "Hardmax(m)", "AveragePool<kernel_shape = [2, 2]>(p)", "Cosh(w)", "BlackmanWindow(four)"),
        *("Compress(w, which)", "NonMaxSuppression(boxes, scores, four)", "TfIdfVectorizer<mode = \"TF\", "
        "min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, ngram_counts = [0], ngram_indexes = [0, 1], "
        "pool_int64s = [0, 1]>(places)", "Compress<axis = 0>(m, one_of_two)"),
    ],
)
def test_any_op_of_small_constants_is_computed(op):
    """By ONNX Runtime, as the op is run with the rest of the model."""
    body = f"c, i = {op}" if op.startswith("TopK") else f"c = {op}"
    made, report = surgeon.rewrite(of_constants(body), constant_folding)
    assert report.outcome == "proved"
    assert [op for op in ops(made.graph) if op != "Constant"] == ["Add"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("c = RandomUniformLike(w)", "'c' is computed only from constants, but not folded: it is random"),
        ("c = DequantizeLinear(u, scale, zero)", "'c' is computed only from constants, but not folded: its stored"),
        ("c = Softmax(h)", "'c' is computed only from constants, but not folded: runtimes round sums in its dtype"),
        ("c = com.microsoft.Gelu(w)", "'c' is computed only from constants, but not folded: its domain"),
        ("d = SequenceConstruct(w, w) c = SequenceAt(d, four)", "'d' is computed only from constants, but not folded"),
        ("d = Bernoulli(w) c = Exp(d)", "'d' is computed only from constants, but not folded: it is random"),
        (
            "c = Relu(x) d = Exp(w)",
            "'d' is computed only from constants, but no output depends on the result; to remove",
        ),
        ("c = Relu(x) d = Exp(w) e = Neg(d)", "'d' and 1 more are computed only from constants, but no output"),
        ("c = Relu(x) d, i = TopK(w, one)", "'d' is computed only from constants, but no output depends"),
        ("c = Relu(x)", "no node computes only from constants"),
    ],
)
def test_what_stays_of_constants_is_reported(body, why):
    """Nobody reads that no node computes only from constants where something is."""
    _, report = surgeon.rewrite(of_constants(body), constant_folding)
    assert [miss.reason[: len(why)] for miss in report.misses] == [why]


@pytest.mark.parametrize("copy", ["Identity(w)", "Identity(n)"])
def test_a_copy_of_a_weight_is_reported(copy):
    body = f"{{ n = Constant<value = float[4] {{4, 3, 2, 1}}>() c = {copy} y = Add(x, c) }}"
    text = f"(float[2, 4] x) => (float[2, 4] y, float[4] w) <float[4] w = {{1, 2, 3, 4}}> {body}"
    _, report = surgeon.rewrite(parse(text), constant_folding)
    assert [miss.reason for miss in report.misses] == [
        "folding copies of constants ('c') would store the constants twice"
    ]
