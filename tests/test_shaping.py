"""Evaluated shapes, dtypes and values are those that ONNX Runtime makes, op by op; and what is unknown stays so."""

from collections.abc import Callable

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Scope
from surgeon.shapes.algebra.size_expressions import symbol
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import TensorType
from tests.counting import growth
from tests.models import graph, index_of, opset
from tests.shaping_run import compare, shapes_of

SIZES = ({"n": 3, "s": 5}, {"n": 1, "s": 2}, {"n": 4, "s": 8})

ZERO, ONE = "int64 zero = {0}", "int64 one = {1}"
PARTS = "int64[2] parts = {4, 5}"
SLICES = """int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] m1 = {-1},
    int64[1] far = {9223372036854775807}, int64[1] low = {-9223372036854775807}"""
GATHERS = """int64 one = {1}, int64[1] k = {3}, int64 depth = {7}, float[2] onoff = {0.0, 1.0},
    int64[2, 2] nd = {0, 0, 0, 1}"""
PICTURES = f"float[4, 3, 3, 3] w = {{{', '.join(['1'] * 108)}}}, float[4] r = {{1, 1, 2, 2}}"
FUSED = ", ".join(
    f"float[{dims}] {name} = {{{', '.join(['0.1'] * count)}}}"
    for name, dims, count in (("w", "8, 24", 192), ("b", "24", 24), ("t", "9, 8", 72), ("g", "8", 8))
)

# (title, inputs, constants, body); each tensor must be known with every dimension.
ONE_HOT = (
    "int64[1] place = {1}, int64[1] four = {4}, int64 depth = {3}, int64[1] flat = {-1}, int64[2] back = {-1, -3}, "
    "int64[2] far = {3, -4}"
)
CASES = [
    ("elementwise", "float[n, s, 8] x, float[8] y, bool[n, 1, 8] m", "float c = {2.0}", """
        a = Add (x, y)  b = Mul (c, a)  d = Where (m, a, c)  e = Greater (b, y)  f = Not (e)  g = And (f, m)
        h = Pow (a, c)  i = Clip (h, c)  j = Cast <to = 10> (i)  k = CastLike (x, j)  l = Softmax (k)
        p = PRelu (x, y)  q = Sum (x, y, c)  r = Max (x, y)  t = IsNaN (x)  u0 = Sqrt (x)  u = Identity (u0)
        w = com.microsoft.Gelu (x)  v = com.microsoft.BiasGelu (x, y)  z, z1 = Dropout (x)"""),
    ("reshapes", "float[n, s, 64] x", "int64[4] t = {0, 0, 4, -1}, int64[2] u = {-1, 64}, int64[1] one = {1}", """
        a = Reshape (x, t)  b = Transpose <perm = [0, 2, 1, 3]> (a)  c = Reshape (x, u)  d = Flatten <axis = 2> (x)
        e = Unsqueeze (x, one)  f = Squeeze (e, one)  g = Transpose (x)  i = Flatten <axis = -1> (x)
        k = Constant <value_ints = [5]> ()  h = Squeeze (k)"""),
    ("shape arithmetic", "float[n, s, 64] x", f"{ZERO}, {ONE}, int64[1] heads = {{4}}, int64[1] ax = {{0}}", """
        sh = Shape (x)  b = Gather (sh, zero)  s = Gather (sh, one)  b1 = Unsqueeze (b, ax)  s1 = Unsqueeze (s, ax)
        w = Constant <value_int = 64> ()  w1 = Unsqueeze (w, ax)  hd = Div (w1, heads)
        t = Concat <axis = 0> (b1, s1, heads, hd)  y = Reshape (x, t)  z = Transpose <perm = [0, 2, 1, 3]> (y)
        bh = Mul (b1, heads)  t2 = Concat <axis = 0> (bh, s1, hd)  z2 = Reshape (z, t2)
        m1 = Constant <value_ints = [-1]> ()  t3 = Concat <axis = 0> (b1, m1, w1)  z3 = Reshape (z2, t3)
        sc = Shape <start = 1> (x)  sz = Size (x)  su = Sub (s, one)  mo = Mod (s, w)  mi = Min (s, w)
        ma = Max (s, one)
        ng = Neg (s)  rp = ReduceProd <keepdims = 0> (sh)  ci = Cast <to = 6> (s)  two = Constant <value_int = 2> ()
        hf = Div (s, two)  sq = Concat <axis = 0> (b1, s1)  sp1, sp2 = Split <axis = 0> (sq)"""),
    ("sizes as floats on the way", "float[n, 3, s, 32] x", f"{ZERO}, int64 two = {{2}}, int64[1] ax = {{0}}", """
        sh = Shape (x)  s = Gather (sh, two)  f = Cast <to = 1> (s)  half = Constant <value_float = 0.5> ()
        h = Mul (f, half)  h0 = Floor (h)  h1 = Cast <to = 7> (h0)  h2 = Unsqueeze (h1, ax)
        three = Constant <value_float = 3.0> ()  t = Div (f, three)  t0 = Ceil (t)  t1 = Cast <to = 7> (t0)
        u = Cast <to = 7> (t)  v = Add (t, h)  v1 = Cast <to = 6> (v)  w = Sub (t, three)  w1 = Ceil (w)
        t2 = Unsqueeze (t1, ax)  both = Concat <axis = 0> (h2, t2)  y = ConstantOfShape (both)"""),
    ("expand as exporters write it", "float[n, 1, s] x", "int64[3] t = {-1, 4, -1}, int64[1] three = {3}", """
        sh = Shape (x)  full = ConstantOfShape <value = int64[1] {1}> (three)
        minus = Constant <value = int64 {-1}> ()
        neg = Mul (full, minus)  is = Equal (t, minus)  target = Where (is, full, t)  y = Expand (x, target)
        t2 = Constant <value_ints = [2, 1, 3]> ()  z = Tile (x, t2)  o = ConstantOfShape (sh)"""),
    ("copies of heads as TorchScript writes them", "float[n, 2, s] x", ONE_HOT, """
        sh = Shape (x)  h = Gather (sh, place)  c = Div (four, h)  pair = Concat <axis = 0> (place, c)
        t = OneHot (place, depth, pair)  u = OneHot <axis = 0> (back, depth, pair)
        f = Reshape (t, flat)  y = Tile (x, f)  z = OneHot (far, depth, pair)"""),
    ("ranges and masks", "int64[n, s] ids", f"{ZERO}, {ONE}, int64[1] ax = {{0}}", """
        sh = Shape (ids)  s = Gather (sh, one)  r = Range (zero, s, one)  r1 = Unsqueeze (r, ax)  e = Expand (r1, sh)
        s1 = Unsqueeze (s, ax)  sq = Concat <axis = 0> (s1, s1)  m = ConstantOfShape <value = float[1] {1}> (sq)
        tri = Trilu <upper = 1> (m)  k = Less (r1, e)  two = Constant <value_int = 2> ()
        r2 = Range (one, s, two)"""),
    ("places of what is filled with one number", "float[n, s] x", "", """
        sh = Shape (x)  full = ConstantOfShape <value = int64[1] {1}> (sh)  every = NonZero (full)
        bare = ConstantOfShape (sh)  none = NonZero (bare)"""),
    ("ranges of floats up to sizes", "float[n, s] x", f"{ONE}, float half = {{0.5}}, float step = {{0.75}}", """
        sh = Shape (x)  s = Gather (sh, one)  f = Cast <to = 1> (s)  whole = Cast <to = 1> (one)
        a = Range (half, f, whole)  b = Range (half, f, step)  zero = Sub (f, f)  c = Range (zero, f, half)
        d = Range (f, half, step)"""),
    ("slices", "float[n, s, 64] x", SLICES, """
        a = Slice (x, zero, far, one)  b = Slice (x, one, far, two, two)  c = Slice (x, zero, m1, one)
        d = Slice (x, m1, far, one)
        e = Slice (x, m1, low, one, m1)  f = Slice (x, zero, four, one)  sh = Shape (x)  n1 = Slice (sh, zero, one)
        s1 = Slice (sh, one, two)  g = Slice (x, zero, s1, two)  h = Slice (x, one, s1, one, two)
        i = Slice (x, m1, far, zero)
        j = Slice (sh, m1, low, zero, m1)  ng = Neg (s1)  k = Slice (x, ng, far, two)"""),
    ("gathers", "float[n, s, 64] x, int64[n, 2] i, int64[n, s, 3] e", GATHERS, """
        a = Gather <axis = 1> (x, one)  b = Gather <axis = 2> (x, i)  c = GatherElements <axis = 2> (x, e)
        v, w = TopK (x, k)  o = OneHot (i, depth, onoff)  g = GatherND (x, nd)
        am = ArgMax <axis = 1, keepdims = 0> (x)
        cs = CumSum (x, one)  an = ArgMin <axis = -1> (x)"""),
    ("reductions and norms", "float[n, s, 8] x", "float[8] g = {1,1,1,1,1,1,1,1}, int64[1] ax = {1}", """
        a = ReduceMean <axes = [-1]> (x)  b = ReduceMax <axes = [1], keepdims = 0> (x)  c = ReduceSum (x, ax)
        d = ReduceSum <keepdims = 0> (x)  e = ReduceSum <noop_with_empty_axes = 1> (x)  f = ReduceL2 (x)
        y, m, v = LayerNormalization (x, g, g)  l = LogSoftmax <axis = 1> (x)  h = Hardmax (x)
        sl, q1, q2, sm = com.microsoft.SkipLayerNormalization (x, x, g, g)"""),
    ("products", "float[n, s, 8] x, float[n, 8, 5] y, float[8, 3] w, float[s, 8] z, float[8] v", "", """
        a = MatMul (x, y)  b = MatMul (x, w)  c = Gemm <transB = 0> (z, w)  d = MatMul (x, v)  e = MatMul (v, w)
        f = Einsum <equation = "bij,bjk->bik"> (x, y)  g = Einsum <equation = "...j,jk->...k"> (x, w)
        h = com.microsoft.FusedMatMul <transB = 1> (x, z)  i = Gemm <transA = 1> (z, z)
        j = Einsum <equation = "bij->jb"> (x)"""),
    ("quantised products and choices", "uint8[n, 3] x, uint8[s, 3] y, bool[n, 1] c",
     "uint8 zp = {3}, float sc = {0.1}, int32[4] bias = {1, 2, 3, 4}, uint8[3, 4] w = {1,2,3,4,5,6,7,8,9,10,11,12}", """
        a = com.microsoft.QGemm (x, sc, zp, w, sc, zp, bias, sc, zp)
        b = com.microsoft.QGemm <transB = 1> (x, sc, zp, y, sc, zp)
        d = com.microsoft.QLinearWhere (c, x, sc, zp, zp, sc, zp, sc, zp)"""),
    ("joins and splits", "float[n, s, 9] x, float[n, s, 3] y", f"{PARTS}, int64[6] pads = {{0, 1, 2, 0, 3, 4}}", """
        a = Concat <axis = -1> (x, y)  b = Concat <axis = 1> (x, x)  c, d = Split <axis = 2> (x, parts)
        e, f, g = Split <axis = -1> (x)  p = Pad (x, pads)  q = Concat <axis = 0> (y, y, y)"""),
    ("pictures", "float[n, 3, s, 32] x", PICTURES, """
        a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
        b = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        c = AveragePool <kernel_shape = [3, 3], auto_pad = "SAME_UPPER"> (x)  d = GlobalAveragePool (x)
        wt = Transpose <perm = [1, 0, 2, 3]> (w)
        e = ConvTranspose <strides = [2, 2], output_padding = [1, 1]> (x, wt)
        f = Resize (x, , r)  h = DepthToSpace <blocksize = 2> (a)  i = SpaceToDepth <blocksize = 1> (x)"""),
    ("fused attention", "float[n, s, 8] x, float[n, 7, 8] k, int32[n, s] ids", FUSED, """
        a, pr = com.microsoft.Attention <num_heads = 2> (x, w, b)
        o, pk, pv = com.microsoft.MultiHeadAttention <num_heads = 2> (x, k, k)
        o2, pk2, pv2 = com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x, , , , pk, pv)
        e, mi = com.microsoft.EmbedLayerNormalization (ids, , t, t, , g, g)"""),
    ("odds and ends", "float[n, s] x, int64[n, 1] i, float[n, 1] u", "uint8 zp = {3}, float sc = {0.1}", """
        q = QuantizeLinear (x, sc, zp)  d = DequantizeLinear (q, sc, zp)  e = EyeLike (x)  r = RandomNormalLike (x)
        s1 = ScatterElements <axis = 1> (x, i, u)  ei = EyeLike <dtype = 7> (x)
        dq, ds, dz = DynamicQuantizeLinear (x)"""),
]  # fmt: skip


def written(inputs: str, constants: str, body: str, version: int = 17) -> onnx.ModelProto:
    """A model from ONNX text; it has no outputs of its own."""
    return graph(body, f"({inputs}) => ()", constants, opset(version))


@pytest.mark.parametrize(
    ("title", "inputs", "constants", "body"), CASES, ids=lambda item: item if len(item) < 40 else ""
)
def test_every_tensor_is_what_runs(title: str, inputs: str, constants: str, body: str) -> None:
    """dtype, shape and value of every tensor at three sets of sizes; nothing stays unknown."""
    reported = compare(written(inputs, constants, body), SIZES)
    assert not reported.wrong
    assert not reported.unranked
    assert not reported.open


def facts_of(model: onnx.ModelProto, name: str) -> TensorType:
    """The facts of one tensor of the main graph."""
    shapes, scope = shapes_of(model)
    return shapes.facts(scope, name)


def text_of(model: onnx.ModelProto, name: str) -> str:
    """A shape as text, `none` where the rank is unknown."""
    shape = facts_of(model, name).shape
    return "none" if shape is None else ", ".join(map(str, shape))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("y = NonZero (x)", "2, ?y[1]"),
        ("i = NonZero (x)  y = Transpose (i)", "?i[1], 2"),
        ("i = NonZero (x)  j = Cast <to = 1> (i)  y = Add (j, j)", "2, ?i[1]"),
        ("i = NonZero (x)  s = Shape (i)  y = ConstantOfShape (s)", "2, ?i[1]"),
        ("a = Cast <to = 7> (x)  y = Reshape (x, a)", "none"),
        ("a = ReduceMax (x)  c = Constant <value_ints = [2]> ()  b = Reshape (a, one)  d = Cast <to = 7> (b)"
         "  t = Concat <axis = 0> (c, d)  y = ConstantOfShape (t)", "2, ?y[1]"),
        ("a = ReduceMax (x)  b = Reshape (a, one)  d = Cast <to = 7> (b)  m = Constant <value_ints = [2]> ()"
         "  t = Concat <axis = 0> (d, m)  y = Reshape (x, t)", "floor((n*s)/2), 2"),
        ("y = my.Unheard (x)", "none"),
        ("y = Add (x, w)", "none"),
        ("y = Reshape (x, nothing)", "none"),
        ("y = Concat <axis = 7> (x, x)", "none"),
        ("y = Transpose <perm = [5, 6]> (x)", "none"),
        ("y = Relu ()", "none"),
        ("y = Relu (y0)  y0 = Relu (y)", "none"),
    ],
)  # fmt: skip
def test_what_is_unknown_stays_so(body: str, text: str) -> None:
    """A dimension of its own flows on; an odd graph is unknown, and nothing raises."""
    model = graph(body, "(float[n, s] x, float w) => ()", "int64[1] one = {1}", opset(17))
    model.graph.input[1].type.tensor_type.ClearField("shape")
    shapes, scope = unchecked(model)
    shape = shapes.facts(scope, "y").shape
    assert ("none" if shape is None else ", ".join(map(str, shape))) == text


def unchecked(model: onnx.ModelProto) -> tuple[ShapeInference, Scope]:
    """As `shapes_of`, for a graph that the index would refuse."""
    index = Index(Model.open(model))
    return ShapeInference(OriginalModel(index)), index.main


def test_the_dtype_is_known_where_the_rank_is_not() -> None:
    """By the rule, or by the schema of an op that has none."""
    body = """
        a = Add (x, x)  b = Det (x)  c = Shape (x)  d = com.microsoft.NGramRepeatBlock (i, x)  e = Cast <to = 10> (x)"""
    model = graph(body, "(float x, int64 i) => ()", "", opset(17))
    for value in model.graph.input:
        value.type.tensor_type.ClearField("shape")
    shapes, scope = shapes_of(model)
    assert [shapes.facts(scope, name).dtype for name in "abcde"] == [1, 1, 7, 1, 10]
    assert shapes.facts(scope, "c").shape == (symbol("?c[0]"),)
    assert shapes.facts(scope, "b").shape is None


def test_inputs_without_names_of_dimensions() -> None:
    """A free dimension without a name is called by its input and axis, as everywhere else."""
    model = graph("y = Relu (x)", "(float[n, s] x) => (float y)")
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].Clear()
    dims[1].dim_param = "past + 2*seq"
    assert text_of(model, "y") == "x[0], past + 2*seq"


def test_what_the_file_states_is_believed_where_it_is_in_terms_of_the_inputs() -> None:
    """Without a look at the op; a stated name of an unknown dimension gives way to the rule."""
    model = graph("a = my.Unheard (x)  b = Relu (x)  c = my.Unheard (x)", "(float[n, s] x) => ()", "", opset(17))
    info = [("a", ["n", 7]), ("b", ["unk__1", 8]), ("c", ["unk__3", None])]
    model.graph.value_info.extend([helper.make_tensor_value_info(name, TensorProto.INT64, dims) for name, dims in info])
    assert facts_of(model, "a") == TensorType(TensorProto.INT64, (symbol("n"), 7))
    assert facts_of(model, "b") == TensorType(TensorProto.FLOAT, (symbol("n"), symbol("s")))
    assert text_of(model, "c") == "unk__3, ?c[1]"


def test_what_is_learned_goes_before_rules_and_what_is_stated() -> None:
    """And what follows from it is evaluated anew."""
    model = graph("a = my.Unheard (x)  b = Relu (a)  s = Shape (b)", "(float[n, s] x) => ()", "", opset(17))
    shapes, scope = shapes_of(model)
    assert shapes.facts(scope, "b") == TensorType(None, None)
    assert shapes.value(scope, "s") is None
    shapes.add_observed(scope, "a", TensorProto.FLOAT, (3, 4))
    assert shapes.facts(scope, "b") == TensorType(TensorProto.FLOAT, (3, 4))
    assert shapes.value(scope, "s").tolist() == [3, 4]
    shapes.add_observed(scope, "x", TensorProto.FLOAT, (9, 9))
    assert shapes.facts(scope, "x").shape == (symbol("n"), symbol("s"))


def test_values_are_copies_and_of_sizes_alone() -> None:
    """A float has no value, nor has a large tensor; what a caller does to a value is its own affair."""
    body = "s = Shape (x)  f = Constant <value_floats = [1.0]> ()  b = Equal (s, s)  r = Range (zero, many, one)"
    model = graph(body, "(float[n, s] x) => ()", "int64 zero = {0}, int64 one = {1}, int64 many = {65}", opset(17))
    shapes, scope = shapes_of(model)
    assert shapes.value(scope, "f") is None
    assert shapes.value(scope, "r") is None
    assert shapes.value(scope, "nobody") is None
    assert shapes.value(scope, "b").tolist() == [True, True]
    assert shapes.value(scope, "many").shape == ()
    shapes.value(scope, "s")[0] = 5
    assert shapes.value(scope, "s").tolist() == [symbol("n"), symbol("s")]


FUNCTION = """<ir_version: 9, opset_import: ["" : 18, "my" : 1]>
main (float[n, s, 8] x, float[n, 4] z) => (float y, float w) {
    h = Constant <value_ints = [0, 0, 2, -1]> ()
    y = my.Heads <axis = 1, to = 10> (x, h)
    t = Constant <value_ints = [-1]> ()
    w = my.Heads <axis = 0> (z, t)
}
<opset_import: ["" : 18, "my" : 1], domain: "my">
Heads <axis, to: int = 1> (x, shape) => (out) {
    r = Reshape (x, shape)
    a = my.Inner <k = @axis> (r)
    out = Cast <to: int = @to> (a)
}
<opset_import: ["" : 18], domain: "my">
Inner <k> (x) => (out) {
    s = Shape (x)
    n = NonZero (x)
    f = Flatten <axis: int = @k> (x)
    out = Softmax (f)
}"""


def test_functions_are_evaluated_for_each_call() -> None:
    """Inputs, values and attributes are those of the call, through calls in calls."""
    model = onnx.parser.parse_model(FUNCTION)
    index = index_of(model)
    shapes = ShapeInference(OriginalModel(index))
    n, s = symbol("n"), symbol("s")
    assert shapes.facts(index.main, "y") == TensorType(TensorProto.FLOAT16, (n, 8 * s))
    assert shapes.facts(index.main, "w") == TensorType(TensorProto.FLOAT, (1, 4 * n))
    heads, inner = index.functions
    calls = [node for node in index.main.nodes if node.op == "my::Heads"]
    first, second = (shapes.for_call(call) for call in calls)
    assert first.facts(heads, "r") == TensorType(TensorProto.FLOAT, (n, s, 2, 4))
    assert second.facts(heads, "r") == TensorType(TensorProto.FLOAT, (4 * n,))
    deep = first.for_call(heads.nodes[1])
    assert deep.value(inner, "s").tolist() == [n, s, 2, 4]
    assert deep.attribute(inner.nodes[2], "axis").i == 1
    assert second.attribute(heads.nodes[2], "to").i == 1
    assert shapes.for_call(heads.nodes[0]) is None
    assert shapes.facts(heads, "r") == TensorType(None, None)
    assert str(deep.facts(inner, "n").shape[1]).startswith("?")
    assert deep.facts(inner, "n") != second.for_call(heads.nodes[1]).facts(inner, "n")


def test_what_is_learned_inside_of_a_call_reaches_its_results() -> None:
    """Also after the evaluator of the call has been made anew."""
    model = onnx.parser.parse_model(FUNCTION)
    index = index_of(model)
    shapes = ShapeInference(OriginalModel(index))
    call = next(node for node in index.main.nodes if node.op == "my::Heads")
    shapes.facts(index.main, "y")
    shapes.for_call(call).add_observed(index.functions[0], "a", TensorProto.FLOAT, (5, 6))
    assert shapes.facts(index.main, "y") == TensorType(TensorProto.FLOAT16, (5, 6))


def test_functions_that_call_each_other_in_a_circle_are_unknown() -> None:
    """ONNX forbids it; it neither hangs nor raises."""
    text = FUNCTION.replace("out = Softmax (f)", "out = my.Heads <axis = 1> (f, s)")
    model = onnx.parser.parse_model(text)
    model.graph.output[1].type.tensor_type.ClearField("shape")
    shapes, scope = unchecked(model)
    assert shapes.facts(scope, "w") == TensorType(TensorProto.FLOAT, None)


def body_scope(index: Index, label: str) -> Scope:
    """The body whose label starts so."""
    return next(scope for scope in index.scopes if scope.label.startswith(label))


def test_branches() -> None:
    """An If has what its branches agree on, or what the branch has that is always taken."""
    text = """
    y = If (c) <then_branch = t () => (float a) { a = Relu (x) },
                else_branch = e () => (float b) { b = Concat <axis = 1> (x, x) }>
    s = Shape (x)  r = Size (s)  is = Equal (r, two)
    z = If (is) <then_branch = t2 () => (float a2) { a2 = Flatten <axis = 0> (x) },
                 else_branch = e2 () => (float b2) { b2 = Relu (x) }>
    """
    model = graph(text, "(float[n, s] x, bool c) => ()", "int64 two = {2}", opset(17))
    for node in (model.graph.node[0], model.graph.node[4]):
        for attribute in node.attribute:
            attribute.g.output[0].type.tensor_type.ClearField("shape")
    assert text_of(model, "y") == "n, ?y[1]"
    assert text_of(model, "z") == "1, n*s"
    index = index_of(model)
    assert ShapeInference(OriginalModel(index)).facts(body_scope(index, "else_branch"), "b").shape == (
        symbol("n"),
        2 * symbol("s"),
    )


def test_loops() -> None:
    """Inside: a count, a truth and what is carried; outside: what is carried and the turns side by side."""
    text = """
    y, all = Loop (m, , x) <body = b (int64 i, bool go, float[n, s] v) => (bool go2, float[n, s] w, float u) {
        go2 = Identity (go)  w = Add (v, x)  u = ReduceSum <keepdims = 0, axes = [0]> (w) }>
    """.replace("ReduceSum <keepdims = 0, axes = [0]>", "ReduceMax <keepdims = 0, axes = [0]>")
    model = graph(text, "(float[n, s] x, int64 m) => ()", "", opset(17))
    inner = model.graph.node[0].attribute[0].g
    for value in (inner.input[2], inner.output[1], inner.output[2]):
        value.type.tensor_type.ClearField("shape")
    index = index_of(model)
    shapes, body = ShapeInference(OriginalModel(index)), body_scope(index, "body")
    assert shapes.facts(body, "i") == TensorType(TensorProto.INT64, ())
    assert shapes.facts(body, "go2") == TensorType(TensorProto.BOOL, ())
    assert shapes.facts(body, "v").shape == shapes.facts(body, "w").shape == (symbol("n"), symbol("s"))
    assert text_of(model, "y") == "n, s"
    assert text_of(model, "all") == "?all[0], s"


def test_what_a_loop_lets_grow_reports_nothing_of_what_follows_it() -> None:
    """u keeps its shape beside x, w does not beside v, which grows."""
    text = """
    y, t, r = Loop (m, , x, x, x) <body = b (int64 i, bool go, float[n, s] v, float[n, s] u, float[n, s] w)
        => (bool go2, float[n, s] v2, float[n, s] u2, float[n, s] w2) {
        go2 = Identity (go)  v2 = Concat <axis = 0> (v, x)  u2 = Add (u, x)  w2 = Add (w, v) }>
    """
    model = graph(text, "(float[n, s] x, int64 m) => ()", "", opset(17))
    inner = model.graph.node[0].attribute[0].g
    for value in (*inner.input[2:], *inner.output[1:]):
        value.type.tensor_type.ClearField("shape")
    assert [text_of(model, name) for name in "ytr"] == ["?y[0], s", "n, s", "?r[0], s"]


COPY = "go2 = Identity (go)"
NAMED = {
    "a Loop that hands on its state": (f"""y, t = Loop (m, , x) <body = b (int64 i, bool go, float[k1, k2] v)
        => (bool go2, float[k3, k4] w, float[k5] u) {{ {COPY} w = Tanh (v) u = ReduceMax <keepdims = 0, axes = [0]> (w)
        }}>""", "n, s", "?t[0], s"),
    "a state beside one that grows": (f"""y, t = Loop (m, , x, x) <body = b (int64 i, bool go, float[k1, k2] v,
        float[k3, k4] u) => (bool go2, float[k5, k6] v2, float[k7, k8] u2) {{ {COPY} v2 = Neg (v)
        u2 = Concat <axis = 0> (u, x) }}>""", "n, s", "?t[0], s"),
    "states that change places": (f"""y, t = Loop (m, , x, x) <body = b (int64 i, bool go, float[k1, k2] v,
        float[k3, k4] u) => (bool go2, float[k5, k6] v2, float[k7, k8] u2) {{ {COPY} v2 = Neg (u) u2 = Sin (v) }}>""",
        "n, s", "n, s"),
    "a Loop in a Loop": (f"""y, t = Loop (m, , x) <body = b (int64 i, bool go, float[k1, k2] v)
        => (bool go2, float[k3, k4] w, float[k9] f) {{ {COPY} w, u = Loop (m, , v) <body = c (int64 i2, bool go3,
        float[k5, k6] v3) => (bool go4, float[k7, k8] w3, float[k0] u3) {{ go4 = Identity (go3) w3 = Tanh (v3)
        u3 = ReduceMax <keepdims = 0, axes = [0]> (w3) }}> f = ReduceMax <keepdims = 0, axes = [0]> (w) }}>""",
        "n, s", "?t[0], s"),
    "a Scan": ("""y, t = Scan <num_scan_inputs = 1, body = b (float[k1, k2] v, float[k3] u)
        => (float[k4, k5] w, float[k6] o) { w = Add (v, u) o = Neg (u) }> (x, x)""", "n, s", "n, s"),
}


@pytest.mark.parametrize(("text", "y", "t"), NAMED.values(), ids=NAMED)
def test_new_names_for_the_dims_of_a_body_hide_nothing(text: str, y: str, t: str) -> None:
    """As tf2onnx states them, a name for each dimension of each tensor."""
    model = graph(text, "(float[n, s] x, int64 m) => ()", "", opset(17))
    assert (text_of(model, "y"), text_of(model, "t")) == (y, t)


def test_a_loop_carries_what_it_begins_with_whatever_its_body_states() -> None:
    """A size that stays is known; a state whose rank changes is not what the Loop begins with."""
    text = f"""y, t = Loop (m, , first, x) <body = b (int64 i, bool go, float[n, k2] v, float[k3] u)
        => (bool go2, float[n, k4] v2, float[k5] u2) {{ {COPY} v2 = Neg (v) u2 = ReduceMax <keepdims = 0> (x) }}>"""
    model = graph(text, "(float[n, s] x, int64 m) => ()", "", opset(17))
    model.graph.node.insert(0, helper.make_node("NonZero", ["x"], ["places"]))
    model.graph.node.insert(1, helper.make_node("Cast", ["places"], ["first"], to=TensorProto.FLOAT))
    index = index_of(model)
    shapes = ShapeInference(OriginalModel(index))
    assert shapes.facts(body_scope(index, "body"), "v").shape[0] == 2
    assert shapes.facts(body_scope(index, "body"), "u").shape is None


def test_scans() -> None:
    """Slices go in, and come out stacked; states keep their shape."""
    text = """
    last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1],
                      body = b (float st, float sl) => (float st2, float o) {
        st2 = Add (st, sl)  o = Concat <axis = 0> (st2, sl) }> (first, x)
    """
    model = graph(text, "(float[n, s, 4] x, float[n, 4] first) => ()", "", opset(17))
    inner = next(item.g for item in model.graph.node[0].attribute if item.name == "body")
    for value in (*inner.input, *inner.output):
        value.type.tensor_type.ClearField("shape")
    assert text_of(model, "last") == "n, 4"
    assert text_of(model, "all") == "s, 2*n, 4"


def long_chain(length: int) -> Callable[[], None]:
    """A question about the end of that many nodes, one after the other, for facts and for values."""
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"x{i + 1}"]) for i in range(length)]
    nodes += [helper.make_node("Shape", [f"x{length}"], ["v0"])]
    nodes += [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(length // 10)]
    inputs = [helper.make_tensor_value_info("x0", 1, ["n", 8])]
    made = helper.make_graph(nodes, "g", inputs, [])
    shapes, scope = unchecked(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]))

    def ask() -> None:
        assert shapes.value(scope, f"v{length // 10}").tolist() == [symbol("n"), 8]

    return ask


def test_a_long_chain_takes_no_recursion() -> None:
    """20,000 nodes are no deeper than ten."""
    long_chain(20_000)()


def test_a_chain_twice_as_long_takes_twice_the_calls() -> None:
    assert growth(long_chain, 1_000, 4_000) < 1.2


def declared_chain(length: int) -> Callable[[], None]:
    """A question about the end of that many nodes, all of whose outputs are declared, with wrong sizes."""
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"x{i + 1}"]) for i in range(length)]
    made = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x0", 1, ["n", 8])], [])
    made.value_info.extend([helper.make_tensor_value_info(f"x{i}", 1, ["n", 9]) for i in range(1, length)])
    shapes, scope = unchecked(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]))

    def ask() -> None:
        assert shapes.facts(scope, f"x{length - 1}").shape == (symbol("n"), 8)

    return ask


def test_what_is_declared_is_inferred_all_the_same() -> None:
    """Once per tensor, and without recursion."""
    declared_chain(20_000)()
    assert growth(declared_chain, 1_000, 4_000) < 1.2
