"""A size that is fixed decides Ifs: the branch that is taken comes into the graph, whatever it holds."""

import numpy as np
import onnx
import onnxruntime
import pytest

import surgeon
from surgeon.testing import parse

CONSTANTS = "int64 one = {1}, int64 three = {3}, float two = {2}, int64[1] last = {-1}"
DECIDES = "s = Shape(x) d = Gather(s, one) c = Equal(d, three)"


def model(then, other="q = Identity(x)", outputs="z", nodes="y = Neg(z)", before=DECIDES):
    """A model whose If is decided by the size n, with one output y."""
    return parse(
        f'<ir_version: 9, opset_import: ["" : 17]> g (float[batch, n] x) => (float[] y) <{CONSTANTS}> '
        f"{{ {before} {outputs} = If(c) <then_branch = yes () => {then}, else_branch = no () => {other}> {nodes} }}"
    )


def one(nodes, name="p", stored=""):
    """A branch of one output."""
    return f"(float[] {name}) {f'<{stored}>' if stored else ''} {{ {nodes} }}"


OTHER = one("q = Identity(x)", "q")
MANY = ", ".join(str(place % 7) for place in range(600))
INNER = f"i = If(c) <then_branch = k () => {one('u = Exp(z)', 'u')}, else_branch = l () => {one('v = Neg(z)', 'v')}>"
MODELS = {
    "a chain": model(one("a = Abs(x) b = Exp(a) p = Neg(b)"), OTHER),
    "names of both branches": model(one("a = Abs(x) p = Exp(a)"), one("a = Neg(x) p = Sqrt(a)")),
    "a name of the graph behind": model(one("a = Abs(x) p = Exp(a)"), OTHER, nodes="a_1 = Neg(z) y = Abs(a_1)"),
    "weights in the branch": model(one("p = Add(x, w)", stored="float[1] w = {3}"), OTHER),
    "many weights in the branch": model(
        one("r = ReduceSum<keepdims = 0>(w) p = Add(x, r)", stored=f"float[600] w = {{{MANY}}}"), OTHER
    ),
    "a tensor from outside": model(one("p = Identity(m)"), OTHER, before=f"m = Abs(x) {DECIDES}"),
    "two outputs": model(
        "(float[] p, float[] r) { p = Abs(x) r = Exp(x) }", "(float[] q, float[] t) { q = Neg(x) t = Neg(x) }", "z, v",
        "y = Add(z, v)",
    ),
    "a stored tensor": model("(float[] p) <float[1] p = {3}> {}", OTHER, nodes="y = Add(z, x)"),
    "the output of the model": model(one("a = Abs(x) p = Exp(a)"), OTHER, "y", ""),
    "an If in the branch": model(
        one(f"i = If(c) <then_branch = a () => {one('r = Abs(x)', 'r')}, "
            f"else_branch = b () => {one('t = Exp(x)', 't')}> p = Neg(i)"), OTHER
    ),
    "an If that a first one decides": model(
        one("p = ReduceSum<keepdims = 0>(x, last)"), OTHER,
        nodes="f = Shape(z) k = Size(f) e = Equal(k, one) "
        f"y = If(e) <then_branch = a () => {one('r = Abs(z)', 'r')}, else_branch = b () => {one('t = Exp(z)', 't')}>",
    ),
    "in the body of an If": model(
        one("p = Abs(x)"), OTHER, nodes="m = ReduceMax<keepdims = 0>(x) e = Greater(m, two) y = If(e) <then_branch = a "
        f"() => {one(f'{INNER} r = Abs(i)', 'r')}, "
        f"else_branch = b () => {one('t = Neg(z)', 't')}>",
    ),
}  # fmt: skip


def answers(made: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """What ONNX Runtime computes."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("title", MODELS)
def test_the_branch_that_is_taken_takes_the_place_of_its_if(title, size):
    source = MODELS[title]
    made, report = surgeon.edit(source, surgeon.edits.Dim("n", size))
    assert report.outcome == "proved"
    left = [node.op_type for node in made.graph.node].count("If")
    assert left == (title == "in the body of an If")  # of which the data decide the outer one
    assert "If" not in [
        node.op_type for outer in made.graph.node for item in outer.attribute for node in item.g.node
    ]
    x = np.linspace(-2, 3, 2 * size, dtype=np.float32).reshape(2, size)
    np.testing.assert_array_equal(answers(made, x), answers(source, x))


def test_the_branch_that_is_not_taken_need_not_suit_the_size():
    """A Squeeze of an axis of another size, as in nets of speech."""
    source = model(one("p = Squeeze(x, last)"), OTHER, before=DECIDES.replace("three", "one"))
    made, report = surgeon.edit(source, surgeon.edits.Dim("n", 5))
    assert report.outcome == "proved"
    assert [node.op_type for node in made.graph.node if node.op_type != "Shape"] == ["Identity", "Neg"]
    assert report.edits[0].said[1] == "1 If replaced with the branch that the sizes select"


def test_an_if_that_was_constant_before_stays():
    """Nobody asked for it."""
    source = model(one("p = Abs(x)"), OTHER, before="c = Equal(one, three)")
    constant = parse(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[batch, n] x) => (float[] y) <bool c = {1}> '
        f"{{ y = If(c) <then_branch = yes () => {one('p = Abs(x)')}, else_branch = no () => {OTHER}> }}"
    )
    for one_model in (source, constant):
        made, _ = surgeon.edit(one_model, surgeon.edits.Dim("n", 3))
        assert "If" in [node.op_type for node in made.graph.node]
