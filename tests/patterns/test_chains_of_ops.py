"""Chains in one node: what is merged, what does not match, and what stays where others read the first node too."""

import numpy as np
import onnxruntime
import pytest
from surgeon.patterns.cleanup.consecutive_casts import consecutive_casts
from surgeon.patterns.cleanup.consecutive_clips import (
    consecutive_clips,
    consecutive_extremes,
    consecutive_relus,
    consecutive_signs,
)
from surgeon.patterns.layout.consecutive_ops import consecutive_slices, consecutive_transposes, consecutive_unsqueezes
from surgeon.patterns.layout.consecutive_reshapes import cancelling_reshapes, consecutive_flattens, consecutive_reshapes

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.models import ops

TYPES = {1: "float", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "double", 16: "bfloat16"}


def model(body, shape="n, 4, 6", made="p, q, r", opset=17, constants="", dtype="float", more=""):
    """One input x and one output y, of three axes unless told."""
    header = f'<ir_version: 9, opset_import: ["" : {opset}]> agraph '
    return parse(f"{header}({dtype}[{shape}] x) => ({dtype}[{made}] y{more}) <{constants}> {{ {body} }}")


def casts(start, middle, end):
    """x cast twice, from and to these types."""
    header = '<ir_version: 9, opset_import: ["" : 17]> agraph '
    ends = f"({TYPES[start]}[n, 4] x) => ({TYPES[end]}[n, 4] y)"
    return parse(f"{header}{ends} {{ a = Cast<to = {middle}>(x) b = Cast<to = {end}>(a) y = Identity(b) }}")


def limits(body, opset=17, dtype="float"):
    """x between constants."""
    numbers = {"float": "-1, 6.5, 0.3, 7", "int32": "-1, 6, 0, 7"}[dtype].split(", ")
    constants = ", ".join(f"{dtype} {name} = {{{value}}}" for name, value in zip("abcd", numbers, strict=True))
    return model(f"{body} y = Neg(q)", "n, 4", "n, 4", opset, constants if opset > 10 else "", dtype)


SIDE = ", float[n, 6, 4] z"
SLICES = (
    "int64[1] s = {2}, int64[1] e = {5}, int64[1] k = {2}, int64[1] a0 = {0}, int64[1] a1 = {1}, int64[1] a2 = {-1}"
)
FIRES = [
    Case(
        consecutive_transposes,
        "there and back",
        model("a = Transpose<perm = [0, 2, 1]>(x) b = Transpose<perm = [0, 2, 1]>(a) y = Relu(b)", made="n, 4, 6"),
    ),
    Case(
        consecutive_transposes,
        "three in a row",
        model("a = Transpose(x) b = Transpose<perm = [1, 0, 2]>(a) c = Transpose<perm = [2, 1, 0]>(b) y = Relu(c)"),
    ),
    Case(
        consecutive_transposes, "reversed twice", model("a = Transpose(x) b = Transpose(a) y = Relu(b)", made="n, 4, 6")
    ),
    Case(
        consecutive_transposes,
        "read elsewhere too",
        model(
            "a = Transpose<perm = [0, 2, 1]>(x) b = Transpose<perm = [0, 2, 1]>(a) y = Relu(b) z = Exp(a)",
            made="n, 4, 6",
            more=SIDE,
        ),
    ),
    Case(
        consecutive_transposes,
        "an output too",
        model(
            "z = Transpose<perm = [0, 2, 1]>(x) b = Transpose<perm = [0, 2, 1]>(z) y = Relu(b)",
            made="n, 4, 6",
            more=SIDE,
        ),
    ),
    Case(
        consecutive_transposes,
        "two readers",
        model(
            "a = Transpose<perm = [0, 2, 1]>(x) b = Transpose<perm = [0, 2, 1]>(a) "
            "c = Transpose<perm = [0, 2, 1]>(a) y = Add(b, c)",
            made="n, 4, 6",
        ),
        sites=2,
    ),
    Case(
        consecutive_unsqueezes,
        "axes of one and more",
        model(
            "a = Unsqueeze(x, i) b = Unsqueeze(a, j) y = Relu(b)",
            "n, 4",
            "p, q, r, s",
            constants="int64[1] i = {0}, int64[1] j = {3}",
        ),
    ),
    Case(
        consecutive_unsqueezes,
        "by no axes behind one of a scalar",
        parse(
            "(float x) => (float[1] y) <int64[1] i = {0}, int64[0] j = {}> "
            "{ a = Unsqueeze(x, i) b = Unsqueeze(a, j) y = Relu(b) }"
        ),
    ),
    Case(
        consecutive_unsqueezes,
        "from the back",
        model(
            "a = Unsqueeze(x, i) b = Unsqueeze(a, j) y = Relu(b)",
            "n, 4",
            "p, q, r, s, t",
            constants="int64[1] i = {-2}, int64[2] j = {-1, 0}",
        ),
    ),
    Case(
        consecutive_unsqueezes,
        "before opset 13",
        model("a = Unsqueeze<axes = [1]>(x) b = Unsqueeze<axes = [0, 1]>(a) y = Relu(b)", "n, 4", "p, q, r, s, t", 11),
    ),
    Case(
        consecutive_slices,
        "two axes, one stepped",
        model("a = Slice(x, s, e, a1, k) b = Slice(a, s, e, a2) y = Relu(b)", "n, 8, 9", constants=SLICES),
    ),
    Case(
        consecutive_slices,
        "before opset 10",
        model(
            "a = Slice<axes = [1], starts = [1], ends = [4]>(x) "
            "b = Slice<axes = [2], starts = [1], ends = [4]>(a) y = Relu(b)",
            "n, 8, 9",
            opset=9,
        ),
    ),
    Case(consecutive_casts, "half up and down", casts(10, 1, 10)),
    Case(consecutive_casts, "bfloat16 up and down", casts(16, 1, 16)),
    Case(consecutive_casts, "half up and further up", casts(10, 1, 11)),
    Case(consecutive_casts, "integers up and down", casts(6, 7, 6)),
    Case(consecutive_casts, "integers up and further down", casts(6, 7, 5)),
    Case(consecutive_casts, "integers up, then a float", casts(6, 7, 1)),
    Case(consecutive_casts, "a truth as a number", casts(9, 7, 1)),
    Case(consecutive_clips, "two Clips", limits("p = Clip(x, a, b) q = Clip(p, c, d)")),
    Case(consecutive_clips, "one limit each", limits("p = Clip(x, a) q = Clip(p, , d)")),
    Case(consecutive_clips, "Relu first", limits("p = Relu(x) q = Clip(p, a, d)")),
    Case(consecutive_clips, "Relu last", limits("p = Clip(x, a, d) q = Relu(p)")),
    Case(consecutive_clips, "attributes", limits("p = Clip<min = -1.0>(x) q = Clip<max = 3.0>(p)", 10)),
    Case(consecutive_clips, "integers", limits("p = Clip(x, a, b) q = Clip(p, c, d)", dtype="int32")),
    Case(consecutive_clips, "a Max behind", limits("p = Clip(x, a, b) q = Max(c, p)")),
    Case(consecutive_clips, "a Min before, with two readers", limits("p = Min(x, b) r = Clip(p, c, d) q = Add(r, p)")),
    Case(consecutive_extremes, "numbers", limits("p = Min(x, a) q = Min(c, p)")),
    Case(consecutive_extremes, "integers", limits("p = Max(a, x) q = Max(p, c)", dtype="int32")),
    Case(
        consecutive_extremes,
        "several tensors and constants",
        model(
            "p = Max(u, x, a) q = Max(b, p) r = Max(q, z, x, row) y = Neg(r)",
            "n, 3",
            "n, 3",
            constants="float[1, 3] u = {1, -2, 3}, float[3] row = {-1, 2, 5}, float a = {0.5}, float[1] b = {1}, "
            "float[1, 3] z = {1, -2, 3}",
        ),
    ),
    Case(
        consecutive_extremes,
        "constants of which neither broadcasts to the other",
        model(
            "p = Min(x, a) q = Min(p, b) y = Neg(q)",
            "2, 3",
            "2, 3",
            constants="float[1, 3] a = {1, -2, 3}, float[2, 1] b = {-1, 2}",
        ),
    ),
    Case(
        consecutive_extremes,
        "no constants, before opset 8",
        parse(
            '<ir_version: 6, opset_import: ["" : 7]> agraph (float[n, 3] x, float[n, 3] z) => (float[n, 3] y) '
            "{ p = Min(x, z) q = Min(z, p) y = Neg(q) }"
        ),
    ),
    Case(consecutive_relus, "twice", limits("p = Relu(x) q = Relu(p)")),
    Case(consecutive_signs, "signs of signs", limits("p = Sign(x) q = Sign(p)")),
    Case(
        consecutive_reshapes,
        "there and back",
        model(
            "p = Reshape(x, a) q = Reshape(p, b) y = Relu(q)",
            "n, 6",
            "n, 6",
            constants="int64[2] a = {-1, 3}, int64[2] b = {-1, 6}",
        ),
    ),
    Case(
        consecutive_reshapes,
        "to another shape",
        model(
            "p = Reshape(x, a) q = Reshape(p, b) y = Relu(q)",
            "n, m, 6",
            "p, q",
            constants="int64[2] a = {-1, 6}, int64[2] b = {-1, 3}",
        ),
    ),
    Case(
        consecutive_reshapes,
        "sizes copied from both",
        model(
            "p = Reshape(x, a) q = Reshape(p, b) y = Relu(q)",
            "n, m, 6",
            constants="int64[4] a = {0, -1, 6, 1}, int64[3] b = {0, -1, 2}",
        ),
    ),
    Case(
        consecutive_reshapes,
        "a size copied from the first",
        model(
            "p = Reshape(x, a) q = Reshape(p, b) y = Relu(q)",
            "n, m, 6",
            constants="int64[2] a = {-1, 6}, int64[3] b = {0, 3, 2}",
        ),
    ),
    Case(
        consecutive_reshapes,
        "back to a computed shape",
        model(
            "s = Shape(x) p = Reshape(x, a) q = Reshape(p, s) y = Relu(q)", "n, m, 6", constants="int64[2] a = {-1, 6}"
        ),
    ),
    Case(
        consecutive_reshapes,
        "flattened first",
        model(
            "p = Flatten<axis = 2>(x) q = Reshape(p, b) y = Relu(q)",
            "n, m, 6",
            "p, q",
            constants="int64[2] b = {-1, 3}",
        ),
    ),
    Case(
        consecutive_reshapes,
        "squeezed first",
        model(
            "p = Squeeze(x, a) q = Reshape(p, b) y = Relu(q)",
            "n, 1, 6",
            "p, q",
            constants="int64[1] a = {1}, int64[2] b = {-1, 3}",
        ),
    ),
    Case(
        consecutive_reshapes,
        "read elsewhere too",
        model(
            "p = Reshape(x, a) q = Reshape(p, b) y = Relu(q) z = Exp(p)",
            "n, 6",
            "n, 6",
            constants="int64[2] a = {-1, 3}, int64[2] b = {-1, 6}",
            more=", float[k, 3] z",
        ),
    ),
    Case(
        consecutive_flattens,
        "an axis put in and taken out",
        model("p = Unsqueeze(x, a) q = Squeeze(p, a) y = Relu(q)", "n, m, 6", constants="int64[1] a = {1}"),
    ),
    Case(
        consecutive_flattens,
        "before opset 13",
        model("p = Unsqueeze<axes = [1]>(x) q = Squeeze<axes = [1]>(p) y = Relu(q)", "n, m, 6", opset=11),
    ),
    Case(
        consecutive_flattens,
        "one free size",
        model(
            "p = Reshape(x, a) q = Flatten<axis = 1>(p) y = Relu(q)",
            "n, m, 6",
            "p, q",
            constants="int64[3] a = {-1, 2, 3}",
        ),
    ),
]
UNDONE = "int64[4] parted = {-1, 2, 4, 6}, int64[3] again = {-1, 4, 6}, int64[3] others = {-1, 6, 4}"
FIRES += [
    Case(cancelling_reshapes, "heads that are parted and joined again", model(
        "w = Softmax(x) a = Reshape(w, parted) b = Reshape(a, again) y = Neg(b)", shape="8, 4, 6", constants=UNDONE)),
    Case(cancelling_reshapes, "where the weights are handed out too", model(
        "w = Softmax(x) a = Reshape(w, parted) b = Reshape(a, again) y = Neg(b) z = Relu(a)", shape="8, 4, 6",
        constants=UNDONE, more=", float[4, 2, 4, 6] z")),
]
NEGATIVES = [
    Case(
        cancelling_reshapes,
        "another shape behind it",
        why="the result must have the shape of the weights",
        model=model(
            "w = Softmax(x) a = Reshape(w, parted) b = Reshape(a, others) y = Neg(b)", shape="8, 4, 6", constants=UNDONE
        ),
    ),
    Case(
        cancelling_reshapes,
        "no weights",
        why="expected Softmax",
        model=model(
            "w = Relu(x) a = Reshape(w, parted) b = Reshape(a, again) y = Neg(b) z = Softmax(x)",
            shape="8, 4, 6",
            constants=UNDONE,
            more=", float[8, 4, 6] z",
        ),
    ),
    Case(consecutive_transposes, "only one", model("a = Transpose(x) y = Relu(a)"), why="expected Transpose"),
    Case(
        consecutive_unsqueezes,
        "axes at run time",
        parse(
            "(float[n] x, int64[1] i) => (float[1, 1, n] y) <int64[1] j = {0}> "
            "{ a = Unsqueeze(x, i) y = Unsqueeze(a, j) }"
        ),
        why="expected Unsqueeze",
    ),
    Case(
        consecutive_slices,
        "along one axis",
        model("a = Slice(x, s, e, a1) b = Slice(a, s, e, a1) y = Relu(b)", "n, 8, 9", constants=SLICES),
        why="along the same axis",
    ),
    Case(
        consecutive_casts, "float to half and back", casts(1, 10, 1), why="not represent every value of float32"
    ),
    Case(
        consecutive_casts, "float to integer and back", casts(1, 7, 1), why="not represent every value of float32"
    ),
    Case(
        consecutive_casts, "integer to float and back", casts(6, 1, 6), why="not represent every value of int32"
    ),
    Case(
        consecutive_casts, "long to double and back", casts(7, 11, 7), why="not represent every value of int64"
    ),
    Case(consecutive_casts, "half to float to integer", casts(10, 1, 6), why="depending on the runtime"),
    Case(
        consecutive_clips,
        "limits out of order",
        limits("p = Clip(x, d, a) q = Clip(p, a, d)"),
        why="replaces NaN too",
    ),
    Case(
        consecutive_clips,
        "a scalar, and a bound that adds an axis",
        parse(
            "(float x) => (float[1] y) <float a = {-1}, float b = {2}, float[1] c = {0}> "
            "{ p = Clip(x, a, b) q = Max(p, c) y = Neg(q) }"
        ),
        why="expected Clip",
    ),
    Case(consecutive_extremes, "a Min of a Max", limits("p = Max(x, a) q = Min(p, b)"), why="expected Max"),
    Case(
        consecutive_extremes,
        "read elsewhere too",
        limits("p = Max(x, a) r = Max(p, b) q = Add(r, p)"),
        why="is also read by",
    ),
    Case(consecutive_signs, "one and another", limits("p = Sign(x) q = Abs(p)"), why="expected Sign"),
    Case(consecutive_signs, "twice something else", limits("p = Neg(x) q = Neg(p)"), why="the model has no Sign"),
    Case(consecutive_relus, "one and another", limits("p = Relu(x) q = Abs(p)"), why="expected Relu"),
    Case(
        consecutive_reshapes,
        "two free sizes, one copied",
        model(
            "p = Reshape(x, a) q = Reshape(p, b) y = Relu(q)",
            "n, m, 6",
            constants="int64[3] a = {0, 6, -1}, int64[3] b = {0, 2, 0}",
            made="n, 2, m",
        ),
        why="two sizes of the result are dynamic",
    ),
    Case(
        consecutive_flattens,
        "two free sizes",
        model(
            "p = Unsqueeze(x, a) q = Flatten<axis = 1>(p) y = Relu(q)", "n, m, 6", "p, q", constants="int64[1] a = {1}"
        ),
        why="two sizes of the result are dynamic",
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_the_first_node_stays_as_long_as_it_is_read():
    """The second reader's rewrite takes it along."""
    body = "a = Transpose<perm = [0, 2, 1]>(x) b = Transpose<perm = [0, 2, 1]>(a) y = Relu(b)"
    made, _ = surgeon.rewrite(model(f"{body} z = Exp(a)", made="n, 4, 6", more=SIDE), consecutive_transposes)
    assert ops(made.graph) == ["Transpose", "Relu", "Exp"]
    two = model(
        body.replace("y = ", "c = Transpose<perm = [0, 2, 1]>(a) y = Sum(c, ").replace("Relu(b)", "b)"), made="n, 4, 6"
    )
    assert ops(surgeon.rewrite(two, consecutive_transposes)[0].graph) == ["Sum"]


@pytest.mark.parametrize(
    "body",
    [
        "p = Clip(x, a, b) q = Clip(p, d, c)",
        "p = Clip(x, a, c) q = Max(p, b)",
        "p = Max(x, b) q = Clip(p, a, c)",
        "p = Min(x, a) q = Clip(p, c, d)",
        "z = Sub(b, b) i = Div(b, z) p = Clip(x, a, b) q = Clip(p, i)",
    ],
)
def test_limits_that_leave_one_number(body):
    """A proof sees no difference in an output that is constant, so all values, also NaN, are compared here."""
    before = limits(body)
    after, report = surgeon.rewrite(before, consecutive_clips, check="none")
    assert ops(after.graph) == ["Clip", "Neg"]
    assert len(report.sites) == 1
    x = np.array([[-np.inf, -9, -1, 0], [0.3, 6.5, 7, np.inf], [np.nan, np.nan, np.nan, -0.0]], np.float32)
    made = [
        onnxruntime.InferenceSession(item.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
        for item in (before, after)
    ]
    np.testing.assert_array_equal(*made)


def test_axes_that_are_not_integers():
    """An invalid node, which must not keep other rules from running."""
    head = "(float[n] x) => (float[1, 1, n] y) <int64[1] i = {0}, float[1] j = {0}>"
    broken = parse(f"{head} {{ a = Unsqueeze(x, i) y = Unsqueeze(a, j) }}")
    assert surgeon.rewrite(broken, consecutive_unsqueezes, check="none")[1].count("consecutive_unsqueezes") == 0
    (miss,) = surgeon.explain(broken, consecutive_unsqueezes, node="y")
    assert miss.reason == "expected constant integers for 'second', found constant 0 ('j')"
