"""Nodes that change nothing: what goes, and what only looks as if it might."""

import onnx
import pytest
from surgeon.patterns.cleanup.no_op_shapes import no_op_expand, no_op_reshape, no_op_transpose
from surgeon.patterns.cleanup.no_op_slices import no_op_pad, no_op_slice
from surgeon.patterns.cleanup.no_ops import (
    identity,
    named_output,
    no_op_arithmetic,
    no_op_cast,
    no_op_concat,
    no_op_dropout,
    no_op_tensors,
)
from surgeon.patterns.norms.layer_norm import layer_norm

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse


def model(body, shape="n, 4", opset=17, dtype="float", made="", constants="", more=""):
    """One input x, one output y of a dtype, and a second output whose name is given."""
    imports = f'"" : {opset}' + (', "custom" : 1' if "custom." in body else "")
    header = f"<ir_version: 9, opset_import: [{imports}]> agraph "
    second = f", {dtype}[p, q] {more}" if more else ""
    ends = f"({dtype}[{shape}] x) => ({dtype}[{made or shape}] y{second})"
    return parse(f"{header}{ends} <{constants}> {{ {body} }}")


ENDS = "int64[1] zero = {0}, int64[1] last = {9223372036854775807}, int64[1] one = {1}, int64[1] back = {-1}"
AXIS = "int64 i0 = {0}, int64[1] a0 = {0}"
BATCH = (
    f"s = Shape(x) d = Gather(s, i0) u = Unsqueeze(d, a0) t = Concat<axis = 0>(u, four)|{AXIS}, int64[1] four = {{4}}"
)


def batch(body):
    """A model that has computed [batch, 4] as t."""
    made, constants = BATCH.split("|")
    return model(f"{made} {body}", constants=constants)


FIRES = [
    Case(identity, "before a node", model("a = Identity(x) y = Relu(a)")),
    Case(identity, "two in a row", model("a = Identity(x) b = Identity(a) y = Relu(b)")),
    Case(identity, "of a constant", model("a = Identity(w) y = Add(x, a)", constants="float[4] w = {1, 2, 3, 4}")),
    Case(named_output, "behind a node", model("a = Relu(x) y = Identity(a)")),
    Case(named_output, "two in a row", model("a = Relu(x) b = Identity(a) y = Identity(b)")),
    Case(named_output, "what others read too", model("a = Relu(x) b = Neg(a) y = Identity(a) z = Add(a, b)", more="z")),
    Case(named_output, "one part of two", model("a, z = Split<axis = 0>(x) y = Identity(a)", more="z")),
    Case(named_output, "a cast", model("b = Cast<to = 10>(x) a = Cast<to = 1>(b) y = Identity(a)")),
    Case(named_output, "random numbers", model("a = RandomNormalLike(x) y = Identity(a)"), check=False),
    Case(named_output, "of a custom op with attributes", check=False, model=model(
        'a = custom.op<k = [1, 2], name = "b">(x, , x) y = Identity(a)')),
    Case([named_output, no_op_arithmetic], "a sum without effect", model(
        "a = Relu(x) y = Add(a, k)", constants="float k = {0}")),
    Case(no_op_cast, "to the type it has", model("a = Cast<to = 1>(x) y = Relu(a)")),
    Case(no_op_cast, "at an output an Identity is left", model("a = Relu(x) y = Cast<to = 1>(a)")),
    Case(no_op_cast, "half", model("a = Cast<to = 10>(x) y = Relu(a)", dtype="float16")),
    Case(no_op_cast, "like a weight", model("a = CastLike(x, w) y = Add(a, w)", constants="float[4] w = {1, 2, 3, 4}")),
    Case(no_op_dropout, "with nothing said", model("a = Dropout(x) y = Relu(a)")),
    Case(no_op_dropout, "whose mask nobody reads", model("a, m = Dropout(x) y = Relu(a)")),
    Case(
        no_op_dropout,
        "told not to train",
        model("a = Dropout<seed = 3>(x, r, t) y = Relu(a)", constants="float r = {0.5}, bool t = {0}"),
    ),
    Case(no_op_dropout, "a ratio before opset 12", model("a = Dropout<ratio = 0.3>(x) y = Relu(a)", opset=11)),
    Case(
        no_op_dropout,
        "a test before opset 7",
        model("a = Dropout<is_test = 1>(x) y = Relu(a)", opset=6),
        check=False,
    ),
    Case(no_op_dropout, "a ratio of 0 in training",
         model("a = Dropout(x, r, t) y = Relu(a)", constants="float r = {0}, bool t = {1}")),
    Case(no_op_dropout, "a ratio of 0, and a computed mode",
         model("s = ReduceSum<keepdims = 0>(x) t = Cast<to = 9>(s) a = Dropout(x, r, t) y = Relu(a)",
               constants="float r = {0}")),
    Case(no_op_dropout, "a ratio of 0 before opset 7", check=False, model=model(
        "a = Dropout<ratio = 0.0>(x) y = Relu(a)", opset=6)),
    Case(no_op_dropout, "whose mask is read", model("a, m = Dropout(x) b = Where(m, a, x) y = Relu(b)")),
    Case(no_op_dropout, "whose mask is read in training", model=model(
        "a, m = Dropout(x, r, t) b = Where(m, a, x) y = Relu(b)", constants="float r = {0}, bool t = {1}")),
    Case(no_op_tensors, "times ones", model("a = Mul(k, x) y = Relu(a)", "n, 2", constants="float[2] k = {1, 1}")),
    Case(no_op_tensors, "over a matrix of ones",
         model("a = Div(x, k) y = Relu(a)", "2, 2", constants="float[2, 2] k = {1, 1, 1, 1}")),
    Case(no_op_tensors, "plus and minus zeros", model=model(
        "a = Add(x, k) b = Sub(a, k) y = Relu(b)", "n, 2", constants="float[2] k = {0, 0}")),
    Case(no_op_tensors, "times integers", model=model(
        "a = Mul(x, k) y = Neg(a)", "n, 2", dtype="int64", constants="int64[1, 2] k = {1, 1}")),
    Case([no_op_tensors, layer_norm], "behind rules that take weights and biases", model=model(
        "m = ReduceMean<axes = [-1]>(x) c = Sub(x, m) p = Pow(c, two) v = ReduceMean<axes = [-1]>(p) e = Add(v, eps) "
        "s = Sqrt(e) d = Div(c, s) f = Mul(d, k) a = Add(f, z) y = Relu(a)", constants="float two = {2}, "
        "float eps = {1e-5}, float[4] k = {1, 1, 1, 1}, float[4] z = {0, 0, 0, 0}")),
    Case(no_op_concat, "of one tensor", model("a = Concat<axis = 1>(x) y = Relu(a)")),
    Case(no_op_concat, "the largest of one", model("a = Max(x) b = Sum(a) y = Relu(b)"), sites=2),
    Case(no_op_concat, "one part", sites=2, model=model(
        "a = Split<axis = 1>(x, k) b = Mean(a) y = Relu(b)", constants="int64[1] k = {4}")),
    Case(no_op_concat, "one part, counted", model("a = Split<axis = 1, num_outputs = 1>(x) y = Relu(a)", opset=18)),
    Case(no_op_arithmetic, "times 1", model("a = Mul(k, x) y = Relu(a)", constants="float k = {1}")),
    Case(no_op_arithmetic, "plus 0, to be divided",
         model("n = Abs(x) a = Add(x, k) y = Div(a, n)", constants="float k = {0}")),
    Case(no_op_arithmetic, "plus 0, whole, to divide by",
         model("q = Mul(x, x) a = Add(x, k) y = Div(q, a)", dtype="int64", constants="int64 k = {0}")),
    Case(no_op_arithmetic, "over 1", model("a = Div(x, k) y = Relu(a)", constants="float[1] k = {1}")),
    Case(no_op_arithmetic, "plus 0", model("a = Add(k, x) y = Relu(a)", constants="float[1, 1] k = {0}")),
    Case(
        no_op_arithmetic, "minus 0, whole", model("a = Sub(x, k) y = Neg(a)", dtype="int64", constants="int64 k = {0}")
    ),
    Case(no_op_reshape, "to the batch and 4", batch("a = Reshape(x, t) y = Relu(a)")),
    Case(no_op_reshape, "a matrix, flattened", model("a = Flatten(x) y = Relu(a)")),
    Case(no_op_reshape, "copied sizes", model("a = Reshape(x, t) y = Relu(a)", constants="int64[2] t = {0, -1}")),
    Case(no_op_transpose, "in order", model("a = Transpose<perm = [0, 1]>(x) y = Relu(a)")),
    Case(no_op_transpose, "axes of one element", model("a = Transpose<perm = [1, 0, 2]>(x) y = Relu(a)", "1, 1, 4")),
    Case(no_op_expand, "to its own shape", model("s = Shape(x) a = Expand(x, s) y = Relu(a)")),
    Case(no_op_expand, "by ones", model("a = Expand(x, t) y = Relu(a)", constants="int64[2] t = {1, 1}")),
    Case(no_op_expand, "tiled once", model("a = Tile(x, t) y = Relu(a)", constants="int64[2] t = {1, 1}")),
    Case(no_op_slice, "to the end", model("a = Slice(x, zero, last, one) y = Relu(a)", constants=ENDS)),
    Case(
        no_op_slice,
        "to a computed end",
        model("s = Shape(x) e = Slice(s, zero, one) a = Slice(x, zero, e, zero) y = Relu(a)", constants=ENDS),
    ),
    Case(
        no_op_slice, "before opset 10", model("a = Slice<starts = [0], ends = [9], axes = [1]>(x) y = Relu(a)", opset=9)
    ),
    Case(no_op_pad, "by nothing", model("a = Pad(x, p) y = Relu(a)", constants="int64[4] p = {0, 0, 0, 0}")),
    Case(
        no_op_pad,
        "reflected, before opset 11",
        model('a = Pad<mode = "reflect", pads = [0, 0, 0, 0]>(x) y = Relu(a)', opset=10),
    ),
    Case(
        no_op_pad,
        "along one axis",
        model("a = Pad(x, p, , zero) y = Relu(a)", opset=18, constants=f"int64[2] p = {{0, 0}}, {ENDS}"),
    ),
    Case(
        [identity, no_op_cast, no_op_arithmetic],
        "all in a row",
        model("a = Cast<to = 1>(x) b = Mul(a, k) c = Identity(b) y = Relu(c)", constants="float k = {1}"),
        sites=2,
    ),
    Case(no_op_cast, "for any target", model("a = Cast<to = 1>(x) y = Relu(a)"), target="contrib"),
]
NEGATIVES = [
    Case(identity, "it names an output", model("y = Identity(x)"), why="must keep its name"),
    Case(named_output, "of an input", model("y = Identity(x)"), why="no Identity gives the result of a node a name"),
    Case(named_output, "of a weight", why="no Identity gives", model=model(
        "z = Relu(x) y = Identity(w)", constants="float[2, 4] w = {1, 2, 3, 4, 5, 6, 7, 8}", more="z")),
    Case(named_output, "of another output", model("z = Relu(x) y = Identity(z)", more="z"), why="no Identity gives"),
    Case(named_output, "in front of a node", model("a = Identity(x) y = Relu(a)"), why="no Identity gives"),
    Case(named_output, "of a node with bodies", why="no Identity gives", model=model(
        "a = If(c) <then_branch = t () => (float[n, 4] u) { u = Neg(x) }, "
        "else_branch = e () => (float[n, 4] v) { v = Exp(x) }> y = Identity(a)", constants="bool c = {1}")),
    Case(named_output, "a branch has another tensor of the name", why="no Identity gives", model=model(
        "a = Relu(x) z = If(c) <then_branch = t () => (float[n, 4] u) { u = Neg(a) }, else_branch = e () => "
        "(float[n, 4] v) { y = Exp(x) v = Add(a, y) }> y = Identity(a)", more="z", constants="bool c = {1}")),
    Case(identity, "so none can be decomposed", model("y = Identity(x)"), target="decomposed", why="writes no op"),
    Case(
        no_op_cast, "it rounds", model("a = Cast<to = 10>(x) b = Relu(a) y = Cast<to = 1>(b)"), why="casts from float32"
    ),
    Case(no_op_dropout, "its mask is used before opset 12", why="kernels differ in the mask", model=model(
        "a, m = Dropout(x) b = Where(m, a, x) y = Relu(b)", opset=11)),
    Case(no_op_dropout, "it trains", why="training_mode may be set", model=model(
        "a = Dropout(x, r, t) y = Relu(a)", constants="float r = {0.5}, bool t = {1}")),
    Case(no_op_dropout, "it may train", why="training_mode may be set", model=model(
        "s = ReduceSum<keepdims = 0>(x) t = Cast<to = 9>(s) a = Dropout(x, r, t) y = Relu(a)",
        constants="float r = {0.5}")),
    Case(no_op_dropout, "its ratio is computed", why="", model=model(
        "r = ReduceMean<keepdims = 0>(x) a = Dropout(x, r, t) y = Relu(a)", constants="bool t = {1}")),
    Case(no_op_tensors, "ones and another number", why="no tensor of ones", model=model(
        "y = Mul(k, x)", "n, 2", constants="float[2] k = {1, 2}")),
    Case(no_op_tensors, "ones over x", why="no tensor of ones", model=model(
        "y = Div(k, x)", "n, 2", constants="float[2] k = {1, 1}")),
    Case(no_op_tensors, "zeros that spread x", why="more axes or elements", model=model(
        "a = Add(x, k) y = Relu(a)", "n, 1", made="n, 2", constants="float[2] k = {0, 0}")),
    Case(no_op_tensors, "zeros for each row", why="more axes or elements", model=model(
        "a = Add(x, k) y = Relu(a)", "n, 4", made="2, 4", constants="float[2, 1] k = {0, 0}")),
    Case(no_op_tensors, "plus zeros, what others divide by", why="no tensor of ones", model=model(
        "a = Add(x, k) y = Div(a, x)", "n, 2", constants="float[2] k = {0, 0}")),
    Case(
        no_op_dropout,
        "it trains before opset 7",
        model("a = Dropout(x) y = Relu(a)", opset=6),
        why="is_test is not set",
    ),
    Case(no_op_concat, "two parts", model("a, b = Split<axis = 1>(x) y = Concat<axis = 1>(b, a)"), why="2 at"),
    Case(no_op_concat, "two tensors", model("a = Concat<axis = 1>(x, x) y = Relu(a)", made="n, 8"), why="2 inputs"),
    Case(no_op_arithmetic, "plus 1e-8 in half precision, to divide by", why="nothing is multiplied or divided by 1",
         model=model("s = Neg(x) a = Add(s, k) b = Unsqueeze(a, z) y = Div(x, b)", dtype="float16", made="1, n, 4",
                     constants="float16 k = {0}, int64[1] z = {0}")),
    Case(no_op_arithmetic, "plus 0, what others divide by", why="nothing is multiplied or divided by 1",
         model=model("a = Add(x, k) y = Div(a, x)", constants="float k = {0}")),
    Case(no_op_arithmetic, "nearly 1", model("y = Mul(k, x)", constants="float k = {1.0000001}"), why="nothing is"),
    Case(no_op_arithmetic, "nearly 0", model("y = Add(k, x)", constants="float k = {1e-12}"), why="nothing is"),
    Case(no_op_arithmetic, "1 over x", model("y = Div(k, x)", constants="float k = {1}"), why="nothing is multiplied"),
    Case(
        no_op_arithmetic,
        "a weight of ones",
        model("y = Mul(k, x)", constants="float[2] k = {1, 1}", shape="n, 2"),
        why="nothing is multiplied",
    ),
    Case(
        no_op_arithmetic,
        "one more axis",
        model("y = Mul(k, x)", constants="float[1, 1, 1] k = {1}", made="1, n, 4"),
        why="more axes",
    ),
    Case(
        no_op_reshape,
        "other sizes",
        model("a = Reshape(x, t) y = Relu(a)", made="m, 2", constants="int64[2] t = {-1, 2}"),
        why="may have another shape",
    ),
    Case(
        no_op_reshape,
        "the same by accident",
        model("a = Reshape(x, t) y = Relu(a)", "n, m", made="p, q", constants="int64[2] t = {-1, 4}"),
        why="may have another shape",
    ),
    Case(
        no_op_arithmetic,
        "one more axis than is stated of the result",
        model("a = Relu(x) y = Mul(k, a)", constants="float[1, 1, 1] k = {1}"),
        why="more axes",
    ),
    Case(
        no_op_reshape,
        "two rows, whatever is stated of the result",
        model("a = Relu(x) y = Reshape(a, t)", "n, m", constants="int64[2] t = {2, -1}"),
        why="may have another shape",
    ),
    Case(
        no_op_expand,
        "three rows, whatever is stated of the result",
        model("a = Relu(x) y = Expand(a, t)", constants="int64[2] t = {3, 1}"),
        why="may have another shape",
    ),
    Case(no_op_transpose, "a square", model("a = Transpose(x) y = Relu(a)", "4, 4"), why="the order of axes"),
    Case(no_op_transpose, "two sizes", model("a = Transpose(x) y = Relu(a)", "n, m", made="m, n"), why="another shape"),
    Case(
        no_op_expand,
        "along an axis",
        model("a = Expand(x, t) y = Relu(a)", "1, 4", made="3, 4", constants="int64[2] t = {3, 1}"),
        why="may have another shape",
    ),
    Case(
        no_op_slice,
        "backwards",
        model("a = Slice(x, back, far, one, back) y = Relu(a)", constants=f"{ENDS}, int64[1] far = {{-9}}"),
        why="may be negative",
    ),
    Case(
        no_op_slice,
        "a batch cut at 9",
        model("a = Slice<starts = [0], ends = [9], axes = [0]>(x) y = Relu(a)", opset=9, made="m, 4"),
        why="may have another shape",
    ),
    Case(
        no_op_pad,
        "cropped here, padded there",
        model("a = Pad(x, p) y = Relu(a)", constants="int64[4] p = {0, -1, 0, 1}"),
        why="pads or crops",
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_in_bodies():
    """A body's own nodes go; one that names its output stays."""
    loop = """<ir_version: 9, opset_import: ["" : 17]> agraph (float[4] x, int64 count) => (float[4] y)
        <bool on = {1}> { y = Loop<body = inner (int64 i, bool go, float[4] s) => (bool still, float[4] out) {
            a = Identity(s) b = Cast<to = 1>(a) c = Add(b, x) still = Identity(go)
            out = Identity(c) }>(count, on, x) }"""
    made, report = surgeon.rewrite(onnx.parser.parse_model(loop), [identity, no_op_cast], check="both")
    assert report.outcome == "proved"
    assert [node.op_type for node in made.graph.node[0].attribute[0].g.node] == ["Add", "Identity", "Identity"]


def test_named_output_in_bodies():
    """An output of a body and of a function gets its name from the node that makes it; other names and records stay."""
    text = """<ir_version: 9, opset_import: ["" : 17, "f" : 1]> agraph (float[4] x, int64 count) => (float[4] y)
        <bool on = {1}> { z = Loop<body = inner (int64 i, bool go, float[4] s) => (bool still, float[4] out) {
            still = Identity(go) [sum] c = Add(s, x) out = Identity(c) }>(count, on, x) y = f.call(z) }
        <domain: "f", opset_import: ["" : 17]> call (x) => (y) { [soft] a = Softmax<axis = 0>(x) y = Identity(a) }"""
    made, report = surgeon.rewrite(onnx.parser.parse_model(text), [named_output], check="both")
    assert report.outcome == "proved"
    body, function = made.graph.node[0].attribute[0].g, made.functions[0]
    assert [(node.name, node.op_type, list(node.output)) for node in (*body.node, *function.node)] == [
        ("", "Identity", ["still"]),
        ("sum", "Add", ["out"]),
        ("soft", "Softmax", ["y"]),
    ]
    assert not body.node[1].metadata_props
    assert not function.node[0].metadata_props


def test_named_output_of_a_tensor_that_branches_read():
    """They read the output then."""
    made, report = surgeon.rewrite(
        model(
            "a = Relu(x) y = Identity(a) z = If(c) <then_branch = t () => (float[n, 4] u) { u = Neg(a) }, "
            "else_branch = e () => (float[n, 4] v) { v = Exp(a) }>",
            more="z",
            constants="bool c = {1}",
        ),
        [named_output],
        check="both",
    )
    assert report.outcome == "proved"
    relu, branches = made.graph.node
    assert (relu.op_type, relu.output) == ("Relu", ["y"])
    assert [list(branch.g.node[0].input) for branch in branches.attribute] == [["y"], ["y"]]


def test_named_output_keeps_annotated_tensors():
    """A tensor that a quantization annotation names keeps its name, and so does the Identity behind it."""
    plain = model("a = Relu(x) y = Identity(a)")
    plain.graph.quantization_annotation.add(tensor_name="a")
    made, _ = surgeon.rewrite(plain, [named_output])
    assert made == plain


def test_named_output_leaves_sites_of_other_rules_apart():
    """Sites that wrote the node and a consumer of its tensor are not proved as one."""
    text = "a = Mul(x, k) b = Relu(a) y = Identity(b) c = Mul(b, k) d = Relu(c) z = Identity(d)"
    made, report = surgeon.rewrite(
        model(text, constants="float k = {1}", more="z"), [no_op_arithmetic, named_output], check="both"
    )
    assert report.outcome == "proved"
    assert [(node.op_type, list(node.output)) for node in made.graph.node] == [("Relu", ["y"]), ("Relu", ["z"])]
    assert len(report.sites) == 3
