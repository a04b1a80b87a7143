"""Records of captures: fields instead of parameters, axes by name, and what a field is where it is absent."""

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import Captures, Constant, Graph, RuleError, Tensor, dims, require, rule

MODEL = """
<ir_version: 10, opset_import: ["": 18]>
g (float[batch, rows, 8] a, float[batch, rows, 8] c) => (float[batch, rows, 8] y)
<float[8] b = {1, 2, 3, 4, 5, 6, 7, 8}>
{ %s }
"""


def model(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL % body)


def ops(made: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in made.graph.node]


class Blend(Captures):
    x: Tensor = dims("batch rows columns")
    skip: Tensor = dims("batch rows columns", default=None)
    factor: float = 1.0
    columns: int


def blend(g: Graph, m: Blend) -> Tensor:
    """relu(x · factor + skip), both optional."""
    scaled = g.optional(g.mul(m.x, m.factor))
    return g.relu(g.any_of(g.add(scaled, m.skip), scaled))


@rule(patterns=[blend], target="any")
def abs_blend(g: Graph, m: Blend) -> Tensor:
    """Write what was found with its number of columns."""
    made = g.abs(g.mul(m.x, m.factor * m.columns))
    return made if m.skip is None else g.add(made, m.skip)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Relu(a)", ["Mul", "Abs"]),
        ("t = Add(a, c)  y = Relu(t)", ["Mul", "Abs", "Add"]),
        ("two = Constant<value_float = 2.0>()  s = Mul(two, a)  y = Relu(s)", ["Mul", "Abs"]),
    ],
)
def test_a_field_that_a_pattern_does_not_bind_is_its_default(body, expected):
    out, _ = surgeon.rewrite(model(body), abs_blend, check="none")
    assert [op for op in ops(out) if op != "Constant"] == expected


def test_a_size_is_a_field():
    out, _ = surgeon.rewrite(model("y = Relu(a)"), abs_blend, check="none")
    factors = [onnx.numpy_helper.to_array(item) for item in out.graph.initializer]
    assert any(np.all(factor == 8.0) for factor in factors)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("n = NonZero(a)  f = Cast<to = 1>(n)  q = Squeeze(f)  r = Relu(q)  y = Identity(a)", "axes of x are unknown"),
        ("d = ReduceSum<keepdims = 0>(a)  r = Relu(d)  y = Identity(a)", "x has 0 axes, expected batch, rows, columns"),
        ("t = Transpose<perm = [2, 0, 1]>(a)  r = Relu(t)  y = Identity(a)", "the columns of x is rows, not a fixed"),
    ],
)
def test_other_axes_are_refused_with_what_is_wanted(body, reason):
    found = model(body)
    found.graph.output.append(onnx.helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, None))
    out, _ = surgeon.rewrite(found, abs_blend, check="none")
    assert "Relu" in ops(out)
    assert any(reason in str(miss.reason) for miss in surgeon.explain(found, abs_blend))


class Pair(Captures):
    x: Tensor = dims("batch rows columns")
    skip: Tensor = dims("batch rows columns")


def pair(g: Graph, m: Pair) -> Tensor:
    return g.relu(g.add(m.x, m.skip))


@rule(patterns=[pair], target="any")
def abs_pair(g: Graph, m: Pair) -> Tensor:
    return g.add(g.abs(m.x), m.skip)


def test_an_axis_of_one_name_has_one_size():
    found = model("t = Transpose<perm = [1, 0, 2]>(a)  d = Add(t, c)  y = Relu(d)")
    out, _ = surgeon.rewrite(found, abs_pair, check="none")
    assert "Abs" not in ops(out)
    assert surgeon.explain(found, abs_pair)[0].reason == "the batch of skip is batch, but that of x is rows"


class Layout(Captures):
    x: Tensor = dims("... heads columns")
    row: Tensor = dims("rows? heads*columns")
    inner: Tensor = dims("_ 2 _")


def layout(g: Graph, m: Layout) -> Tensor:
    m.inner = g.relu(m.x)
    return g.add(g.reshape(m.inner, g.any_tensor()), m.row)


@rule(patterns=[layout], target="any")
def kept(g: Graph, m: Layout) -> Tensor:
    require(m.inner.shape[-1] == m.x.shape[-1], "the inner tensor has its axes")
    return g.add(g.reshape(g.abs(m.x), [0, 8]), m.row)


@pytest.mark.parametrize(("rows", "width", "fires"), [(1, 8, True), (5, 8, True), (5, 1, False)])
def test_sizes_are_computed_and_axes_may_be_one(rows, width, fires):
    found = onnx.parser.parse_model(f"""
<ir_version: 10, opset_import: ["": 18]>
g (float[5, 2, 4] a, float[{rows}, {width}] r) => (float[5, 8] y)
<int64[2] s = {{5, 8}}> {{ p = Relu(a)  q = Reshape(p, s)  y = Add(q, r) }}
""")
    out, _ = surgeon.rewrite(found, kept, check="none")
    assert ("Abs" in ops(out)) is fires


class Rest(Captures):
    first: Tensor
    others: tuple[Tensor, ...]
    attributes: dict[str, object]


def joined(g: Graph, m: Rest) -> Tensor:
    return g.relu(g.concat(m.first, *m.others, **m.attributes))


@rule(patterns=[joined], target="any")
def relu_first(g: Graph, m: Rest) -> Tensor:
    return g.concat(g.relu(m.first), *[g.relu(x) for x in m.others], **m.attributes)


def test_an_axis_may_be_a_number():
    found = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["": 18]>
g (float[5, 4, 2] a, float[5, 8] r) => (float[5, 8] y)
<int64[2] s = {5, 8}> { p = Relu(a)  q = Reshape(p, s)  y = Add(q, r) }
""")
    assert surgeon.explain(found, kept)[0].reason == "inner has an axis of size 4, expected 2"


def test_further_inputs_and_attributes_are_fields():
    out, _ = surgeon.rewrite(model("t = Concat<axis = -1>(a, a, c)  z = Relu(t)  y = Identity(a)"), relu_first)
    assert ops(out).count("Relu") == 3 or "Concat" not in ops(out)


def test_records_build_on_one_another():
    class Wider(Blend):
        mask: Tensor | None = None
        factor: float = 2.0

    class Both(Pair, Wider):
        pass

    assert [field.name for field in Both.fields()] == ["x", "skip", "factor", "mask"]
    assert [field.name for field in Wider.fields()] == ["x", "skip", "factor", "mask"]
    assert next(field.default for field in Wider.fields() if field.name == "factor") == 2.0


class Product(Captures):
    x: Tensor = dims("... columns")
    factor: float = 1.0
    total: Tensor | None = None
    columns: int


class TwoProducts(Captures):
    left: Product
    right: Product


def product(g: Graph, m: Product) -> Tensor:
    m.total = g.optional(g.mul(m.x, m.factor))
    return m.total


def two_products(g: Graph, m: TwoProducts) -> Tensor:
    return g.relu(g.add(product(g, m.left), product(g, m.right)))


def is_right_total(m: TwoProducts) -> None:
    require(m.right.total is not None and m.right.columns == m.right.total.shape[-1], "the total has its axes")


@rule(patterns=[two_products], conditions=[is_right_total], target="any")
def abs_products(g: Graph, m: TwoProducts) -> Tensor:
    return g.add(g.mul(g.abs(m.left.x), m.left.factor), g.mul(g.neg(m.right.x), m.right.factor))


def test_a_record_may_be_a_field_of_another():
    assert [field.name for field in TwoProducts.fields()] == [
        *("left_x", "left_factor", "left_total"),
        *("right_x", "right_factor", "right_total"),
    ]
    found = model("two = Constant<value_float = 2.0>()  s = Mul(two, c)  t = Add(s, a)  y = Relu(t)")
    out, _ = surgeon.rewrite(found, abs_products, check="none")
    assert ops(out) == ["Abs", "Mul", "Neg", "Mul", "Add"]
    turned = model("d = Transpose<perm = [0, 2, 1]>(a)  e = Transpose<perm = [0, 2, 1]>(c)  t = Add(d, e)  y = Relu(t)")
    miss = surgeon.explain(turned, abs_products)[0]
    assert miss.reason == "the columns of left_x is rows, not a fixed size"


class Factor(Captures):
    x: Tensor = dims("_ .inner columns")
    columns: int


class BothFactors(Captures):
    left: Factor
    right: Factor


class WithScale(BothFactors):
    scale: Tensor = dims("inner _")


def summed_products(g: Graph, m: BothFactors) -> Tensor:
    return g.relu(g.concat(g.abs(m.left.x), g.abs(m.right.x), axis=-1))


@rule(patterns=[summed_products], target="any")
def abs_of_both(g: Graph, m: BothFactors) -> Tensor:
    """The columns of each are its own, and what they have in common is one size."""
    return g.mul(g.abs(g.concat(m.left.x, m.right.x, axis=-1)), float(m.left.columns + m.right.columns))


def scaled_products(g: Graph, m: WithScale) -> Tensor:
    return g.relu(g.concat(g.abs(m.left.x), g.abs(g.mul(m.right.x, m.scale)), axis=-1))


@rule(patterns=[scaled_products], target="any")
def abs_of_scaled(g: Graph, m: WithScale) -> Tensor:
    return g.abs(g.concat(m.left.x, g.mul(m.right.x, m.scale), axis=-1))


TWO = """<ir_version: 10, opset_import: ["": 18]>
g (float[n, %s, 8] a, float[n, %s, 4] c, float[%s, 1] w) => (float[n, p, 12] y) { %s }"""
PLAIN = "d = Abs(a)  e = Abs(c)  t = Concat<axis = -1>(d, e)  y = Relu(t)"
SCALED = PLAIN.replace("e = Abs(c)", "f = Mul(c, w)  e = Abs(f)")


@pytest.mark.parametrize(
    ("wanted", "body", "rows", "why"),
    [
        (abs_of_both, PLAIN, ("k", "k", "k"), ""),
        (abs_of_both, PLAIN, ("k", "q", "k"), "the inner of right_x is q, but that of left_x is k"),
        (abs_of_scaled, SCALED, ("3", "3", "3"), ""),
        (abs_of_scaled, SCALED, ("3", "3", "1"), "the inner of left_x is 3, but that of scale is 1"),
    ],
)
def test_records_in_a_record_may_have_an_axis_in_common_with_it(wanted, body, rows, why):
    found = onnx.parser.parse_model(TWO % (*rows, body))
    out, report = surgeon.rewrite(found, wanted, check="none")
    assert bool(report.sites) is not bool(why)
    assert not why or report.misses[0].reason == why
    assert why or ops(out)[0] in ("Concat", "Mul")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: type("Bad", (Captures,), {"__annotations__": {"match": Tensor}}), "Bad.match is reserved"),
        (lambda: dims("a ... b ..."), 'at most one "..."'),
        (lambda: type("Bad", (Layout,), {"__annotations__": {"heads": Tensor}}), "heads is both a tensor and an axis"),
        (
            lambda: type("Bad", (Captures,), {"__annotations__": {"a": Tensor}, "a": dims("a b")}),
            "both a tensor and an axis",
        ),
        (
            lambda: type(
                "Bad", (Captures,), {"__annotations__": {"x": Tensor, "width": int}, "x": dims("rows 2*width")}
            ),
            r'Bad.width is not the size of an axis: .* dims\("... width"\)',
        ),
        (lambda: surgeon.rules.rule.Rule.compiled(abs_blend, lambda g, m: g.relu(m.shape)), "no shape yet"),
    ],
)
def test_what_no_record_can_be_is_said(make, message):
    with pytest.raises(RuleError, match=message):
        make()


def test_a_pattern_cannot_give_a_field_that_there_is_not():
    def wrong(g: Graph, m: Blend) -> Tensor:
        m.total = g.relu(m.x)  # type: ignore[attr-defined]
        return m.total  # type: ignore[attr-defined,no-any-return]

    with pytest.raises(RuleError, match="has no capture 'total'"):
        surgeon.rewrite(model("y = Relu(a)"), rule(patterns=[wrong], target="any", name="wrong")(abs_blend_form))


def abs_blend_form(g: Graph, m: Blend) -> Tensor:
    return g.abs(m.x)


class Limited(Captures):
    x: Tensor
    low: Tensor | None = None


def limited(g: Graph, m: Limited) -> Tensor:
    return g.relu(g.clip(m.x, m.low, None))


def turned(g: Graph, m: Limited) -> Tensor:
    return g.relu(g.neg(m.x))


@rule(patterns=[limited, turned], target="any")
def custom(g: Graph, m: Limited) -> Tensor:
    return g.op("acme::turned", m.x) if m.low is None else g.op("acme::limited", m.x, m.low)


@pytest.mark.parametrize(("body", "stands_in"), [("t = Clip(a, one)", True), ("t = Neg(a)", False)])
def test_a_reference_stands_in_only_where_the_match_binds_what_it_reads(body, stands_in):
    """Else it would be Clip without a limit, and what is right would be rolled back."""
    found = model(f"{body}  y = Relu(t)")
    found.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1), "one"))
    _, report = surgeon.rewrite(found, custom)
    assert report.outcome == "unproved"
    assert [bool(site.proof.runs) for site in report.sites] == [stands_in]


def is_bias_fixed(x: Tensor, other: Tensor) -> None:
    require(isinstance(other, Constant), "the other is no constant")
    require(not isinstance(x, Constant), "x is a constant")


@rule(patterns=[lambda g, x, other: g.relu(g.add(x, other))], conditions=[is_bias_fixed], target="any")
def fixed_bias(g: Graph, x: Tensor, other: Tensor) -> Tensor:
    return g.abs(g.add(x, other))


@pytest.mark.parametrize(("other", "op"), [("b", "Abs"), ("c", "Relu")])
def test_isinstance_constant_reports_the_truth(other, op):
    out, _ = surgeon.rewrite(model(f"t = Add(a, {other})  y = Relu(t)"), fixed_bias, check="none")
    assert op in ops(out)


class Scaled(Captures):
    x: Tensor
    wide: int | None = None
    factor: float | None = None
    made: Tensor | None = None
    guarded: Tensor | None = None


def scaled(g: Graph, m: Scaled) -> Tensor:
    made = m.made = g.softmax(g.optional(g.cast(m.x, to=m.wide)), axis=-1)
    m.guarded = made
    weights = g.any_of(g.nan_to_zero(m.guarded), made)
    return g.sqrt(g.any_of(g.mul(weights, m.factor), weights))


def of_turned(g: Graph, m: Scaled) -> Tensor:
    return scaled(g, m.but(x=g.transpose(m.x, perm=[0, 1, 2])))


@rule(patterns=[of_turned], target="any")
def again(g: Graph, m: Scaled) -> Tensor:
    return scaled(g, m.but(x=g.neg(m.x)))


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("s = Softmax(t)  y = Sqrt(s)", ["Neg", "Softmax", "Sqrt"]),
        ("c = Cast<to = 11>(t)  s = Softmax(c)  y = Sqrt(s)", ["Neg", "Cast", "Softmax", "Sqrt"]),
        ("s = Softmax(t)  m = Mul(s, two)  y = Sqrt(m)", ["Neg", "Softmax", "Mul", "Sqrt"]),
        (
            "s = Softmax(t)  n = IsNaN(s)  w = Where(n, zero, s)  m = Mul(two, w)  y = Sqrt(m)",
            ["Neg", "Softmax", "IsNaN", "Where", "Mul", "Sqrt"],
        ),
    ],
)
def test_a_pattern_is_written_again_as_it_was_found(body, wanted):
    """Of other captures; without what the match has not, an inner tensor among it."""
    output = "double[2, 3, 4] y" if "Cast" in body else "float[2, 3, 4] y"
    found = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 18]> g (float[2, 3, 4] a) => ({output})
        <float two = {{2}}, float zero = {{0}}> {{ t = Transpose<perm = [0, 1, 2]>(a)  {body} }}"""
    )
    out, _ = surgeon.rewrite(found, again, check="none")
    assert ops(out) == wanted


def test_what_is_not_there_is_reported_where_nothing_stands_for_it():
    @rule(patterns=[of_turned], target="any", name="wrong")
    def wrong(g: Graph, m: Scaled) -> Tensor:
        return g.neg(g.mul(m.x, m.factor))

    with pytest.raises(RuleError, match="Input 2 of Mul is required, but is None"):
        surgeon.rewrite(model("t = Transpose<perm = [0, 1, 2]>(a)  s = Softmax(t)  y = Sqrt(s)"), wrong, check="none")
    with pytest.raises(RuleError, match="no field 'z'"):
        Scaled.but(object.__new__(Scaled), z=1)


class Rows(Captures):
    x: Tensor = dims("*ahead columns")
    y: Tensor = dims("*ahead _")


def summed(g: Graph, m: Rows) -> Tensor:
    return g.relu(g.concat(m.x, m.y, axis=-1))


@rule(patterns=[summed], target="any")
def by_axes(g: Graph, m: Rows) -> Tensor:
    return g.abs(g.concat(m.x, m.y, axis=len(m.ahead)))


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ("float[2, b, 4] x, float[2, b, 3] y", ""),
        ("float[4] x, float[3] y", ""),
        ("float[2, b, 4] x, float[2, c, 3] y", "the ahead of y is (2, c), but that of x is (2, b)"),
    ],
)
def test_axes_of_one_name_are_the_same_however_many(inputs, reason):
    found = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18]> g ({inputs}) => (float z) '
        "{ c = Concat<axis = -1>(x, y)  z = Relu(c) }"
    )
    del found.graph.output[0].type.tensor_type.shape.dim[:]
    found.graph.output[0].type.tensor_type.ClearField("shape")
    out, report = surgeon.rewrite(found, by_axes, check="none")
    assert ops(out)[-1] == ("Relu" if reason else "Abs")
    assert [miss.reason for miss in report.misses] == [reason] * bool(reason)
