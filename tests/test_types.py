"""Dtypes that nothing states: found by the ops that tie them to a weight or an input."""

import pytest
from onnx import TensorProto

from surgeon.shapes.dtype_inference import Dtypes
from surgeon.shapes.index_shapes import shapes_of
from surgeon.testing import parse
from tests.models import index_of

LAYERS = 100


def deep(layer: str):
    """Layers that each read the last one; no inner tensor is stated."""
    header = f"(float16[n, 2] s0) => (float16[n, 2] s{LAYERS}) <float16[2, 2] w = {{1, 1, 1, 1}}>"
    return parse(header + "{" + "".join(layer.format(i=i, next=i + 1) for i in range(LAYERS)) + "}")


def test_a_dtype_comes_down_a_row_of_ops_that_keep_it():
    index = index_of(deep("s{next} = Tanh(s{i}) "))
    assert shapes_of(index).dtype(index.main, f"s{LAYERS - 1}") == TensorProto.FLOAT16
    assert shapes_of(index).is_float(index.main, f"s{LAYERS - 1}")


def test_the_dtype_of_a_branch_is_found_behind_the_other_inputs():
    """Neither input of the sum is stored; the first one leads nowhere."""
    index = index_of(
        parse(
            """<ir_version: 9, opset_import: ["" : 17, "my" : 1]> agraph (float16[n] x) => (float16[n] y)
            { a = my.Odd(x) t = Neg(a) e = Neg(x) s = Add(t, e) y = Relu(s) }"""
        )
    )
    assert shapes_of(index).dtype(index.main, "s") == TensorProto.FLOAT16


@pytest.mark.parametrize("question", ["dtype", "is_float"])
def test_a_weight_reports_a_dtype_without_a_walk_over_the_data(question, monkeypatch):
    looks, own = [], Dtypes._own
    monkeypatch.setattr(Dtypes, "_own", lambda self, *place: looks.append(place[1]) or own(self, *place))
    index = index_of(deep("m{next} = MatMul(s{i}, w) t{next} = Neg(m{next}) s{next} = Relu(t{next}) "))
    assert getattr(shapes_of(index), question)(index.main, f"t{LAYERS - 1}")
    assert len(looks) <= 6, looks


def test_what_a_caller_may_override_reports_no_sizes():
    """The target of the Reshape is an input with a default value: from version 4 of the IR on, another may be given."""
    text = "(float[6] x{}) => (float[p, q] y) <int64[2] to = {{2, 3}}> {{ z = Reshape(x, to) y = Relu(z) }}"
    for inputs, ir_version, fixed in ((", int64[2] to", 8, []), (", int64[2] to", 3, [2, 3]), ("", 8, [2, 3])):
        index = index_of(parse(text.format(inputs), ir_version=ir_version))
        shape = shapes_of(index).shape(index.main, "z") or ()
        assert [size for size in shape if isinstance(size, int)] == fixed


LOOP = """l0, l1, l2, l3 = Loop <body = step (int64 i, bool go, int32 c0, float16 c1, int32 c2)
    => (bool on, int32 d0, float16 d1, int32 d2, double s)
    { on = Identity(go) d0 = Neg(c0) d1 = Neg(c1) d2 = Neg(c2) s = Cast<to = 11>(c1) }> (ten, yes, whole, x, whole)"""
SCAN = """c0, c1, c2, c3 = Scan <num_scan_inputs = 1, body = step (int32 s0, float16 s1, int64 e)
    => (int32 t0, float16 t1, double u0, int64 u1)
    { t0 = Neg(s0) t1 = Neg(s1) u0 = Cast<to = 11>(s1) u1 = Neg(e) }> (whole, x, list)"""
IF = """i0, i1 = If <then_branch = one () => (int32 a, float16 b) { a = Neg(whole) b = Neg(x) },
    else_branch = two () => (int32 c, float16 d) { c = Abs(whole) d = Abs(x) }> (yes)"""
MIXED = {
    "a Loop": (LOOP, {"l0": TensorProto.INT32, "l1": TensorProto.FLOAT16, "l2": TensorProto.INT32}),
    "what a Loop collects": (LOOP, {"l3": TensorProto.DOUBLE}),
    "a Scan": (SCAN, {"c0": TensorProto.INT32, "c1": TensorProto.FLOAT16, "c2": TensorProto.DOUBLE}),
    "what a Scan hands on": (SCAN, {"c3": TensorProto.INT64}),
    "an If": (IF, {"i0": TensorProto.INT32, "i1": TensorProto.FLOAT16}),
}


@pytest.mark.parametrize("title", MIXED)
@pytest.mark.parametrize("behind", ["", "Neg"])
def test_tensors_that_a_body_makes_have_each_their_dtype(title, behind):
    """Each may be of a dtype different from the others', though their schema gives them one type variable."""
    body, dtypes = MIXED[title]
    more = " ".join(f"{behind}_{name} = {behind}({name})" for name in dtypes) if behind else ""
    head = '<ir_version: 9, opset_import: ["" : 17]> g (float16[n] x, int32 whole, int64[m] list) => (float16[n] y)'
    index = index_of(parse(f"{head} <int64 ten = {{10}}, bool yes = {{1}}> {{ {body} {more} y = Neg(x) }}"))
    for name, dtype in dtypes.items():
        assert shapes_of(index).dtype(index.main, f"{behind}_{name}" if behind else name) == dtype
