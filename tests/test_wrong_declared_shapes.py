"""Declared shapes that contradict the nodes: rules and proofs go by what the nodes make."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import surgeon
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.tensor_types import size_text
from surgeon.testing import parse
from tests.models import index_of

LENGTHS = "h = Shape <start = 0, end = 1> (x) i = Shape <start = 0, end = 1> (z) d = Sub(h, i) y = Cast <to = 1> (d)"
CASES = {
    "a slice of what is stated": (
        "(float[n, 4] x) => (float[n, k] y) <float[n, 3] r, int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {1}>",
        "r = Relu(x) t = Slice(r, s, e, a) y = Tanh(t)",
    ),
    "one behind another": (
        "(float[n, 4] x) => (float[n, k] y) <float[n, 3] r, float[n, 3] q, int64[1] s = {0}, int64[1] e = {3}, "
        "int64[1] a = {1}>",
        "r = Relu(x) q = Sin(r) t = Slice(q, s, e, a) y = Tanh(t)",
    ),
    "an output": (
        "(float[n, 4] x) => (float[n, 3] r, float[n, k] y) <int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {1}>",
        "r = Relu(x) t = Slice(r, s, e, a) y = Tanh(t)",
    ),
    "a size of another name": (
        "(float[n, m] x) => (float[a, b] y) <float[n, n] r, int64[1] s = {0}, int64[1] c = {1}>",
        "r = Relu(x) h = Shape <start = 0, end = 1> (x) t = Slice(r, s, h, c) y = Tanh(t)",
    ),
    "in a body": (
        "(float[n, 4] x) => (float[n, b] y) <int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {1}, bool c = {1}>",
        """y = If(c) <then_branch = yes () => (float[n, 3] t) <float[n, 3] r> { r = Relu(x) t = Slice(r, s, e, a) },
            else_branch = no () => (float[n, 4] u) { u = Tanh(x) }>""",
    ),
    "a batch of before that is free now": (
        "(float[n, 4] x) => (float[m, 4] y) <float[2, 4] r, int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {0}>",
        "r = Relu(x) t = Slice(r, s, e, a) y = Tanh(t)",
    ),
    "a batch of before": (
        "(float[6, 4] x) => (float[m, 2] y) <float[2, 4] r, int64[2] t = {2, 4}, int64[2] e = {-1, 2}>",
        "r = Relu(x) q = Reshape(r, e) y = Tanh(q)",
    ),
    "a size that is computed from one": (
        "(float[n, 4] x) => (float[a] y) <float[n, 4] z>",
        f"z = Concat <axis = 0> (x, x) {LENGTHS}",
    ),
    "an output that is given the name of another size": (
        "(float[n, 4] x) => (float[n, 4] z, float[a] y) <int64[1] s = {1}, int64[1] e = {9999}, int64[1] c = {0}>",
        f"z = Slice(x, s, e, c) {LENGTHS}",
    ),
    "of an If": (
        "(float[n, 4] x) => (float[a] y) <float[n, 4] z, bool c = {1}>",
        """z = If(c) <then_branch = yes () => (float[p, 4] t) { t = Concat <axis = 0> (x, x) },
            else_branch = no () => (float[q, 4] u) { u = Concat <axis = 0> (x, x) }> """ + LENGTHS,
    ),
}


def model_of(case: str) -> onnx.ModelProto:
    head, body, *_ = (CASES | UNSEEN)[case]
    return parse(f'<ir_version: 9, opset_import: ["": 18]> g {head} {{ {body} }}')


def require_same_answer(model: onnx.ModelProto, made: onnx.ModelProto) -> None:
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    answers = [ort.InferenceSession(one.SerializeToString()).run(["y"], {"x": x})[0] for one in (model, made)]
    np.testing.assert_array_equal(*answers)


UNSEEN = {
    "of what depends on data": (
        "(float[n, 4] x) => (float[n, k] y) <float[2, 3] r, int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {1}, "
        "float m = {100}>",
        "b = Less(x, m) i = NonZero(b) w = Transpose(i) g = GatherND(x, w) h = Shape(x) r = Reshape(g, h) "
        "t = Slice(r, s, e, a) y = Tanh(t)",
    ),
    "of a rank": (
        "(float[n, 4] x) => (float[n, k] y) <float[4] r, int64[1] s = {0}, int64[1] e = {4}, int64[1] a = {0}>",
        "r = Relu(x) t = Slice(r, s, e, a) y = Tanh(t)",
    ),
    "of a size of one": (
        "(float[n, 4] x) => (float[k] y) <float[1, 4] r, int64[1] a = {0}>",
        "r = Relu(x) t = ReduceSum <keepdims = 1> (r, a) y = Tanh(t)",
    ),
    "of an input of a body": (
        "(float[n, 4] x) => (float[n, k] y) <int64 k = {2}, bool c = {1}, int64[1] s = {0}, int64[1] e = {3}, "
        "int64[1] a = {1}>",
        """y = Loop(k, c, x) <body = turn (int64 i, bool o, float[n, 3] q) => (bool p, float[n, d] u)
            { p = Identity(o) t = Slice(q, s, e, a) u = Tanh(t) }>""",
    ),
}


@pytest.mark.parametrize("check", ["sites", "none"])
@pytest.mark.parametrize("case", [*CASES, *UNSEEN])
def test_no_rule_goes_by_a_shape_that_is_stated_wrong(case: str, check: str) -> None:
    model = model_of(case)
    made, report = surgeon.rewrite(model, "cleanup", check=check)
    require_same_answer(model, made)
    assert not report.rolled_back


def test_shapes_that_nodes_make_are_known_where_nothing_is_proved() -> None:
    head = CASES["a slice of what is stated"][0].replace("float[n, 4] x", "float[n, 3] x")
    model = parse(f'<ir_version: 9, opset_import: ["": 18]> g {head} {{ {CASES["a slice of what is stated"][1]} }}')
    assert surgeon.rewrite(model, "cleanup", check="none")[1].count("no_op_slice") == 1


def test_a_slice_goes_where_what_is_stated_is_so() -> None:
    head = CASES["a slice of what is stated"][0].replace("float[n, 4] x", "float[n, 3] x")
    model = parse(f'<ir_version: 9, opset_import: ["": 18]> g {head} {{ {CASES["a slice of what is stated"][1]} }}')
    _, report = surgeon.rewrite(model, "cleanup")
    assert report.count("no_op_slice") == 1


def test_what_a_declaration_says_is_believed() -> None:
    """Of an op that nobody knows."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18, "acme": 1]>
        g (float[n, 4] x) => (float[n, k] y) <float[n, 3] r, int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {1}>
        { r = acme.Cut(x) t = Slice(r, s, e, a) y = Tanh(t) }""")
    _, report = surgeon.rewrite(model, "cleanup", check="none")
    assert report.count("no_op_slice") == 1


def test_no_rule_goes_by_what_is_stated_wrong_of_a_call() -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18, "own": 1]>
        g (float[n, 4] x) => (float[n, 4] z, float[a] y) {{ z = own.twice(x) {LENGTHS} }}
        <domain: "own", opset_import: ["": 18]> twice (v) => (w) {{ w = Concat <axis = 0> (v, v) }}""")
    made, _ = surgeon.rewrite(model, "cleanup", check="none")
    assert [node.op_type for node in made.graph.node] == [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(
    ("first", "stated", "turn"),
    [
        ("4", "1", "t = Neg(q)"),
        ("n", "1", "t = Neg(q)"),
        ("1", "1", "q2 = Neg(q) t = Concat <axis = 0> (s, q2)"),
    ],
)
def test_no_proof_goes_by_the_shape_that_is_stated_of_what_a_loop_hands_on(
    first: str, stated: str, turn: str
) -> None:
    """At first it has another, or after a turn: a sum over one element is the element, over several it is not."""

    def negated_sum(g: surgeon.Graph, x: surgeon.Tensor) -> Any:
        return g.neg(g.reduce_sum(x, [0]))

    @surgeon.rule(patterns=[negated_sum], target="any")
    def of_one(g: surgeon.Graph, x: surgeon.Tensor) -> Any:
        """Leave the sum out."""
        return g.neg(x)

    model = parse(f"""<ir_version: 9, opset_import: ["": 18]>
        g (int64 k, float[{first}] x) => (float[a] y) <bool c = {{1}}, int64[1] r = {{0}}>
        {{ y = Loop(k, c, x) <body = turn (int64 i, bool o, float[{stated}] s) => (bool p, float[u] t)
            {{ p = Identity(o) q = ReduceSum <keepdims = 1> (s, r) {turn} }}> }}""")
    _, report = surgeon.rewrite(model, of_one, keep_going=True)
    assert [site.outcome for site in report.rolled_back] == ["failed"]


def shapes_in_body(model: onnx.ModelProto) -> dict[str, str]:
    """The inferred shapes of the tensors that the first body of a model makes or takes."""
    index = index_of(model)
    scope = next(scope for scope in index.scopes if scope.owner is not None)
    return {name: shown(shapes_of(index).shape(scope, name)) for name in (*scope.inputs, *scope.producers)}


def shown(shape: Sequence[Any] | None) -> str:
    return "unknown" if shape is None else ", ".join(map(size_text, shape))


@pytest.mark.parametrize(
    ("turn", "made"),
    [
        ("t = Neg(s) u = Neg(v)", ("n, 4", "3, 4")),
        ("t = Neg(s) u = Concat <axis = 0> (v, s)", ("n, 4", "?, 4")),
        ("t = Concat <axis = 0> (s, s) u = Neg(s)", ("?, 4", "?, 4")),
        ("t = Neg(v) u = Neg(s)", ("?, 4", "?, 4")),
        ("t = ReduceSum <keepdims = 0> (s, r) u = Neg(v)", ("unknown", "3, 4")),
    ],
)
def test_what_a_loop_hands_on_is_found_by_induction(turn: str, made: tuple[str, str]) -> None:
    """A size stays what it is at first if an iteration changes neither it nor one that it follows from."""
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
        g (int64 k, float[n, 4] x, float[3, 4] z) => (float y, float w) <bool c = {{1}}, int64[1] r = {{0}}>
        {{ y, w = Loop(k, c, x, z) <body = turn (int64 i, bool o, float[9, 9] s, float[9, 9] v)
            => (bool p, float t, float u) {{ p = Identity(o) {turn} }}> }}""")
    found = shapes_in_body(model)
    assert (found["s"], found["v"]) == made


def test_loops_inside_loops_keep_what_they_carry() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
        g (int64 k, float[n, 4] x) => (float y) <bool c = {1}>
        { y = Loop(k, c, x) <body = turn (int64 i, bool o, float[1, 1] s) => (bool p, float t) {
            p = Identity(o)
            t = Loop(k, c, s) <body = inner (int64 j, bool q, float[1, 1] v) => (bool b, float u)
                { b = Identity(q) u = Relu(v) }> }> }""")
    index = index_of(model)
    inner = next(scope for scope in index.scopes if "v" in scope.inputs)
    assert shown(shapes_of(index).shape(inner, "v")) == shown(shapes_of(index).shape(index.main, "y")) == "n, 4"
