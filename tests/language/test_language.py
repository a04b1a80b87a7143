"""Ten operations that the built-in rules do not know, as a user writes them: where each fires, and where not."""

from pathlib import Path

import numpy as np
import pytest
from surgeon.patterns.linear_algebra.einsum import einsum

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.language.rules.depth_to_space import depth_to_space, depth_to_space_of_blocks
from tests.language.rules.drop_path import drop_path
from tests.language.rules.first_of_largest import first_of_largest
from tests.language.rules.glu import glu
from tests.language.rules.layer_scale import layer_scale
from tests.language.rules.linear_attention import linear_attention
from tests.language.rules.pointwise_conv1d import pointwise_conv1d
from tests.language.rules.reglu import reglu
from tests.language.rules.squeeze_and_excitation import squeeze_and_excitation

RULES = Path(__file__).parent / "rules"
LONGEST = 40


def graph(head, body, constants="", opset=18, **domains):
    """A model from ONNX text."""
    imports = "".join(f', "{name}": {number}' for name, number in domains.items())
    text = f'<ir_version: 10, opset_import: ["": {opset}{imports}]> g {head}'
    return parse(f"{text} <{constants}> {{ {body} }}" if constants else f"{text} {{ {body} }}")


def numbers(kind, name, *shape):
    """A constant of ONNX text, of numbers that are all different."""
    values = ", ".join(str(place % 7 / 4) for place in range(np.prod(shape)))
    return f"{kind}[{', '.join(map(str, shape))}] {name} = {{{values}}}"


ROWS = "(float[n, 6] x) => (float[n, 3] y)"
TWO = "(float[n, 4] x) => (float[n, 3] y)"
W, V = numbers("float", "w", 4, 3), numbers("float", "v", 4, 3)
B, GAMMA = numbers("float", "b", 3), numbers("float", "gamma", 3)
BOTH = "p = MatMul(x, w) q = MatMul(x, v) r = Relu(p) y = Mul(r, q)"
IMAGE = "(float[n, 4, 5, 6] x) => (float[n, 4, 5, 6] y)"
KEPT = "h = Shape(x) s = Slice(h, zero, one) m = Concat<axis = 0>(s, ones) z = ConstantOfShape(m)"
FLOORED = f"{KEPT} u = RandomUniformLike(z) a = Add(u, keep) f = Floor(a)"
SHAPES = "int64[1] zero = {0}, int64[1] one = {1}, int64[3] ones = {1, 1, 1}, float keep = {0.5}"
SIGNAL = "(float[n, 4, t] x) => (float[n, 3, t] y)"
KERNEL = numbers("float", "w", 3, 4, 1)
DEEP = "(float[n, 12, 3, 5] x) => (float[n, 3, 6, 10] y)"
QKV = "(float[b, 2, s, 4] q, float[b, 2, t, 4] k, float[b, 2, t, 5] v) => (float[b, 2, s, 5] y)"
LINEAR = "float one = {1}, int64[1] keys = {-2}, int64[1] last = {-1}, float e = {1e-6}"
FEATURES = "eq = Elu(q) fq = Add(eq, one) ek = Elu(k) fk = Add(ek, one) t = Transpose<perm = [0, 1, 3, 2]>(fk) "
PRODUCTS = FEATURES + "kv = MatMul(t, v) a = MatMul(fq, kv) "
SUMMED = PRODUCTS + "sk = ReduceSum(fk, keys) m = Mul(fq, sk) n = ReduceSum(m, last) "
SIZES = {"w": (2, 4, 1, 1), "b": (2,), "v": (4, 2, 1, 1), "c": (4,)}
SE = ", ".join(numbers("float", name, *shape) for name, shape in SIZES.items())
EXCITED = "l = Conv(p, w, b) r = Relu(l) e = Conv(r, v, c) s = Sigmoid(e) y = Mul(x, s)"
PLACE = "(float[n, 4] x) => (int64[n, 1] y)"

FIRES = [
    Case(
        glu,
        "torch's exporters: a Split",
        graph(ROWS, "a, b = Split<axis = -1, num_outputs = 2>(x) s = Sigmoid(b) y = Mul(a, s)"),
    ),
    Case(
        glu,
        "a Split of an older opset",
        graph(ROWS, "a, b = Split<axis = 1>(x) s = Sigmoid(b) y = Mul(a, s)", opset=13),
    ),
    Case(
        glu,
        "over the channels of a convolution, by sizes",
        graph(
            "(float[n, 6, t] x) => (float[n, 3, t] y)",
            "a, b = Split<axis = 1>(x, k) s = Sigmoid(b) y = Mul(s, a)",
            "int64[2] k = {3, 3}",
        ),
    ),
    Case(
        glu,
        "by Slices",
        graph(
            ROWS,
            "a = Slice(x, o, h, l) b = Slice(x, h, e, l) s = Sigmoid(b) y = Mul(a, s)",
            "int64[1] o = {0}, int64[1] h = {3}, int64[1] e = {99}, int64[1] l = {-1}",
        ),
    ),
    Case(reglu, "two products", graph(TWO, BOTH, f"{W}, {V}")),
    Case(
        reglu,
        "max(x, 0), and three axes",
        graph(
            "(float[n, s, 4] x) => (float[n, s, 3] y)",
            "p = MatMul(x, w) q = MatMul(x, v) r = Max(p, zero) y = Mul(q, r)",
            f"{W}, {V}, float zero = {{0}}",
        ),
    ),
    Case(
        layer_scale, "with a bias", graph(TWO, "p = MatMul(x, w) q = Add(b, p) y = Mul(q, gamma)", f"{W}, {B}, {GAMMA}")
    ),
    Case(layer_scale, "without one", graph(TWO, "p = MatMul(x, w) y = Mul(gamma, p)", f"{W}, {GAMMA}")),
    Case(
        drop_path,
        "timm's of old: floor(keep + u)",
        check=False,
        model=graph(IMAGE, f"{FLOORED} d = Div(x, keep) y = Mul(d, f)", SHAPES),
    ),
    Case(
        drop_path,
        "a Bernoulli number",
        check=False,
        model=graph(IMAGE, f"{KEPT} p = Expand(keep, m) u = Bernoulli(p) f = Div(u, keep) y = Mul(x, f)", SHAPES),
    ),
    Case(pointwise_conv1d, "with a bias", graph(SIGNAL, "y = Conv<kernel_shape = [1]>(x, w, b)", f"{KERNEL}, {B}")),
    Case(
        pointwise_conv1d, "without one, its padding written out", graph(SIGNAL, "y = Conv<pads = [0, 0]>(x, w)", KERNEL)
    ),
    Case(
        depth_to_space,
        "torch's pixel shuffle",
        graph(
            DEEP,
            "a = Reshape(x, s) b = Transpose<perm = [0, 1, 4, 2, 5, 3]>(a) y = Reshape(b, t)",
            "int64[6] s = {-1, 3, 2, 2, 3, 5}, int64[4] t = {-1, 3, 6, 10}",
        ),
    ),
    Case(
        depth_to_space_of_blocks,
        "TensorFlow's",
        graph(
            DEEP,
            "a = Reshape(x, s) b = Transpose<perm = [0, 3, 4, 1, 5, 2]>(a) y = Reshape(b, t)",
            "int64[6] s = {0, 2, 2, 3, 3, 5}, int64[4] t = {0, 3, 6, 10}",
        ),
    ),
    Case(linear_attention, "divided", graph(QKV, SUMMED + "y = Div(a, n)", LINEAR)),
    Case(
        linear_attention,
        "with an epsilon, times the reciprocal",
        graph(QKV, SUMMED + "f = Add(n, e) r = Reciprocal(f) y = Mul(a, r)", LINEAR),
    ),
    Case(
        [einsum, linear_attention],
        "in Einsum",
        graph(
            QKV,
            FEATURES.partition("t = ")[0] + 'kv = Einsum<equation = "bhtc,bhtw->bhcw">(fk, v) '
            'a = Einsum<equation = "bhsc,bhcw->bhsw">(fq, kv) sk = ReduceSum(fk, keys) m = Mul(fq, sk) '
            "n = ReduceSum(m, last) y = Div(a, n)",
            LINEAR,
        ),
    ),
    Case(squeeze_and_excitation, "a global average", graph(IMAGE, "p = GlobalAveragePool(x) " + EXCITED, SE)),
    Case(
        squeeze_and_excitation, "a mean", graph(IMAGE, "p = ReduceMean(x, a) " + EXCITED, SE + ", int64[2] a = {2, 3}")
    ),
    Case(first_of_largest, "greedy decoding", graph(PLACE, "v, y = TopK(x, one)", "int64[1] one = {1}")),
    Case(first_of_largest, "unsorted", graph(PLACE, "v, y = TopK<axis = 1, sorted = 0>(x, one)", "int64[1] one = {1}")),
]
NEGATIVES = [
    Case(
        glu,
        "SiLU: both factors are one half",
        why="expected",
        model=graph(ROWS, "a, b = Split<axis = -1, num_outputs = 2>(x) s = Sigmoid(b) y = Mul(b, s)"),
    ),
    Case(
        glu,
        "unequal parts",
        why="must have 2 equal parts",
        model=graph(
            "(float[n, 6] x) => (float[n, k] y)",
            "a, b = Split<axis = 1>(x, k) s = Sigmoid(b) y = Mul(a, s)",
            "int64[2] k = {5, 1}",
        ),
    ),
    Case(
        glu,
        "halves that overlap",
        why="must begin at part 2 of 2",
        model=graph(
            ROWS,
            "a = Slice(x, o, h, l) b = Slice(x, o, h, l) s = Sigmoid(b) y = Mul(a, s)",
            "int64[1] o = {0}, int64[1] h = {3}, int64[1] l = {-1}",
        ),
    ),
    Case(
        reglu,
        "another tensor is gated",
        why="'x' must be the same tensor",
        model=graph(
            "(float[n, 4] x, float[n, 4] z) => (float[n, 3] y)",
            BOTH.replace("MatMul(x, v)", "MatMul(z, v)"),
            f"{W}, {V}",
        ),
    ),
    Case(
        reglu,
        "one column for all",
        why="the columns of value is 1, but that of gate is 3",
        model=graph(TWO, BOTH, f"{W}, {numbers('float', 'v', 4, 1)}"),
    ),
    Case(
        layer_scale,
        "a number for each row",
        why="gamma has 2 axes, expected columns",
        model=graph(
            "(float[3, 4] x) => (float[3, 3] y)",
            "p = MatMul(x, w) y = Mul(p, k)",
            f"{W}, {numbers('float', 'k', 3, 1)}",
        ),
    ),
    Case(
        layer_scale,
        "the product is read, too",
        why="is also read by",
        model=graph(
            "(float[n, 4] x) => (float[n, 3] y, float[n, 3] z)",
            "p = MatMul(x, w) y = Mul(p, gamma) z = Neg(p)",
            f"{W}, {GAMMA}",
        ),
    ),
    Case(
        drop_path,
        "Dropout: each number by itself",
        why="not whole samples",
        model=graph(
            IMAGE,
            "u = RandomUniformLike(x) a = Add(u, keep) f = Floor(a) d = Div(x, keep) y = Mul(d, f)",
            "float keep = {0.5}",
        ),
    ),
    Case(
        drop_path,
        "another number is divided by",
        why="'keep' must be the same number",
        model=graph(IMAGE, f"{FLOORED} d = Div(x, k) y = Mul(d, f)", SHAPES + ", float k = {0.25}"),
    ),
    Case(
        pointwise_conv1d,
        "kernels of three places",
        why="w has an axis of size 3, expected 1",
        model=graph("(float[n, 4, 8] x) => (float[n, 3, 6] y)", "y = Conv(x, w)", numbers("float", "w", 3, 4, 3)),
    ),
    Case(
        pointwise_conv1d,
        "two groups",
        why="group",
        model=graph(SIGNAL.replace("3", "4"), "y = Conv<group = 2>(x, w)", numbers("float", "w", 4, 2, 1)),
    ),
    Case(
        depth_to_space,
        "blocks that are no squares",
        why="the block of six is 2, but elsewhere it is 3",
        model=graph(
            DEEP.replace("6, 10", "9, 10").replace("12", "18"),
            "a = Reshape(x, s) b = Transpose<perm = [0, 1, 4, 2, 5, 3]>(a) y = Reshape(b, t)",
            "int64[6] s = {-1, 3, 3, 2, 3, 5}, int64[4] t = {-1, 3, 9, 10}",
        ),
    ),
    Case(
        depth_to_space,
        "rows and columns joined otherwise",
        why="of y is",
        model=graph(
            DEEP.replace("6, 10", "10, 6"),
            "a = Reshape(x, s) b = Transpose<perm = [0, 1, 4, 2, 5, 3]>(a) y = Reshape(b, t)",
            "int64[6] s = {-1, 3, 2, 2, 3, 5}, int64[4] t = {-1, 3, 10, 6}",
        ),
    ),
    Case(
        linear_attention,
        "divided by the rows' own sums",
        why="expected",
        model=graph(QKV, SUMMED.replace("Mul(fq, sk)", "Mul(fq, fq)") + "y = Div(a, n)", LINEAR),
    ),
    Case(
        linear_attention,
        "features of another kind",
        why="expected Elu, found Relu",
        model=graph(QKV, SUMMED.replace("Elu(k)", "Relu(k)") + "y = Div(a, n)", LINEAR),
    ),
    Case(
        squeeze_and_excitation,
        "the mean of the rows alone",
        why="",
        model=graph(IMAGE, "p = ReduceMean(x, a) " + EXCITED, SE + ", int64[1] a = {2}"),
    ),
    Case(
        squeeze_and_excitation,
        "another gate",
        why="no Sigmoid",
        model=graph(IMAGE, "p = GlobalAveragePool(x) " + EXCITED.replace("Sigmoid", "HardSigmoid"), SE),
    ),
    Case(
        first_of_largest,
        "a routing of experts",
        why="is also read by",
        model=graph(
            "(float[n, 4] x) => (float[n, 1] w, int64[n, 1] y)",
            "p = Softmax(x) v, y = TopK(p, one) w = Identity(v)",
            "int64[1] one = {1}",
        ),
    ),
    Case(
        first_of_largest,
        "the two best experts",
        why="expected",
        model=graph(PLACE.replace("1", "2"), "v, y = TopK(x, two)", "int64[1] two = {2}"),
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_what_is_random_is_never_called_proved():
    """The rule is right for inference, and other numbers come out than in training: run again, or rolled back."""
    model = next(case.model for case in FIRES if case.rules is drop_path)
    try:
        _, report = surgeon.rewrite(model, drop_path)
    except surgeon.CheckFailed:
        return
    assert report.outcome == "unproved"
    assert report.sites[0].reason.startswith("the original nodes are not deterministic: 'y' differs between two runs (")


def test_every_rule_has_two_tables_and_is_short():
    """A rule that needs more is a sign that the language lacks a word."""
    files = [path for path in RULES.glob("*.py") if path.name != "__init__.py"]
    assert len(files) == 9
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= LONGEST
