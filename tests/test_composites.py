"""Composite helpers: forms in a pattern, the first form in a replacement, and claims about matches."""

import numpy as np
import onnx_graphsurgeon as gs
import pytest

import surgeon
from surgeon import Graph, require, rule
from surgeon.errors import RuleError
from surgeon.ops.builder.composites import find_composite, words
from surgeon.ops.schemas.helper_names import RESERVED, operator_of
from surgeon.rules.matching.pattern import AnyOf
from surgeon.rules.tracing.tracer import PatternGraph, trace
from surgeon.testing import parse
from tests.counting import searched

X = "(float[2, 3, 4] x) => (float[2, 3, 4] y)"


@pytest.mark.parametrize("name", words())
def test_a_word_is_documented_and_hides_no_helper(name):
    """A word would stand before an operator's helper of the same name."""
    assert find_composite(name).__doc__
    assert operator_of(name) is None
    assert name not in RESERVED
    assert not hasattr(Graph(opset=18), "nodes") or name not in vars(Graph)


def test_a_word_stands_for_any_of_its_forms_in_a_pattern():
    """rsqrt has at least the three spellings that exporters write."""
    found = PatternGraph().rsqrt(PatternGraph().any_tensor())
    assert isinstance(found.value, AnyOf)
    assert len(found.value.forms) == 3


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 23])
def test_a_replacement_writes_the_first_form_at_every_opset(opset):
    """The other forms may want ops that the opset has not."""

    @rule(patterns=[lambda g, x: g.relu(x)])
    def normal(g, x):
        return g.over_root(g.centred(x, [-1]), g.add(g.variance_over(x, [-1]), 1.0))

    model = parse(f'<ir_version: 8, opset_import: ["" : {opset}]> agraph {X} {{ y = Relu(x) }}')
    after, _ = surgeon.rewrite(model, [normal], check="none")
    assert {node.op_type for node in after.graph.node} == {"ReduceMean", "Sub", "Pow", "Add", "Sqrt", "Div"}


def test_a_helper_of_the_user_stands_before_a_word():
    """What a user registers under the name of a word is what his rules mean by it."""

    @gs.Graph.register()
    def square(self, x):
        return self.layer(op="Mul", inputs=[x, x], outputs=["squared"])[0]

    try:
        (pattern,) = trace(lambda g, x: g.square(x))
        assert pattern.outputs[0].operation.op == "Mul"
    finally:
        del gs.Graph.GLOBAL_FUNC_MAP["square"]


@rule(patterns=[lambda g, x: g.neg(g.mean_over(x, [-1]))])
def mean_found(g, x):
    return g.sub(0.0, g.reduce_mean(x, axes=[-1], keepdims=1))


@pytest.mark.parametrize(
    ("shape", "fires"),
    [("{2, 3, 1}", True), ("{2, 1, 3}", False), ("{6}", False), ("{-1, 3, 1}", True), ("{0, 0, 1}", True)],
)
def test_a_reshape_must_put_back_the_axis_that_was_reduced(shape, fires):
    """The claim looks at the shape that the Reshape makes, not at how it is written."""
    rank = shape.count(",") + 1
    head = f"(float[2, 3, 4] x) => (float[{', '.join('?' * rank)}] y)".replace("?", "n")
    model = parse(
        f"{head} <int64[{rank}] s = {shape}> "
        "{ m = ReduceMean<axes = [-1], keepdims = 0>(x) r = Reshape(m, s) y = Neg(r) }"
    )
    after, report = surgeon.rewrite(model, [mean_found], check="none")
    assert bool(report.sites) == fires
    assert ("Reshape" in {node.op_type for node in after.graph.node}) != fires


@pytest.mark.parametrize(("number", "fires"), [(4, True), (3, False), (12, False)])
def test_a_sum_is_a_mean_where_it_is_divided_by_the_number_of_elements(number, fires):
    """Anything else is another number."""
    model = parse(
        f"(float[2, 3, 4] x) => (float[2, 3, 1] y) <int64[1] a = {{-1}}, float n = {{{number}}}> "
        "{ t = ReduceSum(x, a) m = Div(t, n) y = Neg(m) }"
    )
    _, report = surgeon.rewrite(model, [mean_found], check="none")
    assert bool(report.sites) == fires
    if not fires:
        assert "must be divided by 4" in report.misses[0].reason


@pytest.mark.parametrize(("there", "fires"), [(1, True), (11, True), (16, False)])
def test_only_a_cast_that_keeps_all_digits_is_looked_through(there, fires):
    """float16 fits float32 and float64, and not bfloat16."""

    @rule(patterns=[lambda g, x: g.relu(g.maybe_narrower(g.neg(g.maybe_wider(x))))])
    def through(g, x):
        return g.relu(g.sub(0.0, x))

    model = parse(
        f"(float16[n] x) => (float16[n] y) {{ c = Cast<to = {there}>(x) m = Neg(c) b = Cast<to = 10>(m) y = Relu(b) }}"
    )
    _, report = surgeon.rewrite(model, [through], check="none")
    assert bool(report.sites) == fires


def test_such_that_is_asked_of_what_a_user_writes():
    """A claim of one's own: it calls `require`, and what it says is what the report says."""

    def is_even(constant):
        require(bool(np.all(constant.values % 2 == 0)), "the numbers must be even")

    @rule(patterns=[lambda g, x, c: g.max(x, g.such_that(c, is_even))])
    def even(g, x, c):
        return g.neg(g.min(g.neg(x), g.neg(c)))

    for number, fires in ((2, True), (3, False)):
        model = parse(f"(float[2] x) => (float[2] y) <float[2] c = {{{number}, 4}}> {{ y = Max(x, c) }}")
        _, report = surgeon.rewrite(model, [even], check="none")
        assert bool(report.sites) == fires
        if not fires:
            assert any("must be even" in miss.reason for miss in report.misses)


def test_such_that_wants_a_name_for_what_it_looks_at():
    """An inner tensor has none unless it is given one."""
    with pytest.raises(RuleError, match="further arguments of such_that must be"):
        trace(lambda g, x: g.such_that(g.neg(x), lambda *_: None, g.relu(x)))


def test_nodes_that_only_serve_the_match_go_with_it():
    """The arithmetic for the shape of a Reshape reads an inner tensor, and ends in the match."""
    text = (
        "(float[n, 3, 4] x) => (float[n, 3, 1] y{more}) <int64[1] one = {{1}}> {{ "
        "m = ReduceMean<axes = [-1], keepdims = 0>(x) t = Shape(m) s = Concat<axis = 0>(t, one) "
        "r = Reshape(m, s) y = Neg(r) {rest} }}"
    )
    after, report = surgeon.rewrite(parse(text.format(more="", rest="")), [mean_found])
    assert [node.op_type for node in after.graph.node] == ["ReduceMean", "Sub"]
    assert report.outcome == "proved"
    sizes_read = parse(text.format(more=", int64[2] z", rest="z = Identity(t)"))
    assert surgeon.rewrite(sizes_read, [mean_found], check="none")[1].sites
    values_read = parse(text.format(more=", float[n, 3] z", rest="z = Neg(m)"))
    assert not surgeon.rewrite(values_read, [mean_found], check="none")[1].sites


def stack(layers):
    """LayerNorms in a row, their variance as the mean of squares."""
    body, x = [], "x"
    for layer in range(layers):
        tensors = {letter: f"{letter}{layer}" for letter in "mdpvaqn"}
        tensors |= {"x": x, "y": f"y{layer}" if layer < layers - 1 else "y"}
        body.append(
            "{m} = ReduceMean<axes = [-1]>({x}) {d} = Sub({x}, {m}) {p} = Pow({d}, two) {v} = ReduceMean<axes = [-1]>"
            "({p}) {a} = Add({v}, e) {q} = Sqrt({a}) {n} = Div({d}, {q}) {y} = Mul({n}, w)".format(**tensors)
        )
        x = tensors["y"]
    return parse(f"{X} <float[4] w = {{1, 2, 3, 4}}, float two = {{2}}, float e = {{1e-5}}> {{ {' '.join(body)} }}")


def by_any_variance(g, x, w, epsilon: float):
    centred = g.maybe_wider(g.centred(g.maybe_wider(x), [-1]))
    return g.mul(g.over_root(centred, g.add(g.variance_over(x, [-1]), epsilon)), w)


def by_the_mean_of_squares(g, x, w, epsilon: float):
    wide = g.maybe_wider(x)
    centred = g.maybe_wider(g.centred(wide, [-1]))
    variance = g.reduce_mean(g.square(g.maybe_wider(g.centred(wide, [-1]))), axes=[-1], keepdims=1)
    return g.mul(g.over_root(centred, g.add(variance, epsilon)), w)


def test_forms_that_no_node_could_make_cost_nothing():
    """A variance may be a difference of moments, or by a sum of squares: where it is not, no search is made for it."""
    found, work = searched(stack(12), by_any_variance)
    alone, least = searched(stack(12), by_the_mean_of_squares)
    assert len(found) == len(alone) == 12
    assert work.total < 1.05 * least.total
    assert work.total / 12 < 220


def test_forms_are_tried_for_what_lies_behind_nodes_that_change_nothing():
    """What an Identity hands on is made by any op."""

    @rule(patterns=[lambda g, x: g.neg(g.any_of(g.exp(x), g.abs(x)))])
    def twofold(g, x):
        return g.relu(x)

    after, report = surgeon.rewrite(parse(f"{X} {{ a = Abs(x) i = Identity(a) y = Neg(i) }}"), [twofold], check="none")
    assert len(report.sites) == 1
    assert [node.op_type for node in after.graph.node] == ["Relu"]


@rule(patterns=[lambda g, x: g.mul(g.cut(x, 2, -1)[0], g.sigmoid(g.cut(x, 2, -1)[1]))], target="any")
def gated(g, x):
    first, second = g.cut(x, 2, -1)
    return g.op("my::Glu", first, second)


CUTS = {
    "Split": "a, b = Split<axis = -1, num_outputs = 2>(x)",
    "Split by sizes": "s = Constant<value_ints = [3, 3]>()  a, b = Split<axis = 2>(x, s)",
    "Slices": "z = Constant<value_ints = [0]>()  m = Constant<value_ints = [3]>()  e = Constant<value_ints = [6]>() "
    " c = Constant<value_ints = [-1]>()  a = Slice(x, z, m, c)  b = Slice(x, m, e, c)",
    "Slices from the end, with steps": "z = Constant<value_ints = [0]>()  m = Constant<value_ints = [-3]>() "
    " e = Constant<value_ints = [99]>()  c = Constant<value_ints = [2]>()  o = Constant<value_ints = [1]>() "
    " a = Slice(x, z, m, c, o)  b = Slice(x, m, e, c, o)",
}
OTHER_CUTS = {
    "uneven": "s = Constant<value_ints = [4, 2]>()  a, d = Split<axis = 2>(x, s)  e, b = Split<axis = 2>(x, s)",
    "the second half first": CUTS["Split"].replace("a, b", "b, a"),
    "another axis": CUTS["Split"].replace("axis = -1", "axis = 1"),
    "overlapping": CUTS["Slices"].replace("b = Slice(x, m, e, c)", "n = Sub(m, o1)  b = Slice(x, n, e, c)").replace(
        "a = ", "o1 = Constant<value_ints = [1]>()  a = "
    ),
    "the first half twice": CUTS["Slices"].replace("b = Slice(x, m, e, c)", "b = Slice(x, z, m, c)"),
}


def cut_model(body):
    return parse(
        '<ir_version: 8, opset_import: ["" : 18, "my" : 1]> agraph (float[2, 4, 6] x) => (float[p, q, r] y) '
        f"{{ {body}  g = Sigmoid(b)  y = Mul(a, g) }}"
    )


@pytest.mark.parametrize("case", CUTS)
def test_cut_is_found_however_it_is_spelt(case):
    after, _ = surgeon.rewrite(cut_model(CUTS[case]), gated, check="none")
    assert sorted(node.op_type for node in after.graph.node if node.op_type != "Constant") == ["Glu", "Split"]


@pytest.mark.parametrize("case", OTHER_CUTS)
def test_cut_skips_other_parts(case):
    after, _ = surgeon.rewrite(cut_model(OTHER_CUTS[case]), gated, check="none")
    assert "Glu" not in [node.op_type for node in after.graph.node]


@pytest.mark.parametrize(("sizes", "fires"), [("2, 2, 2", True), ("1, 2, 3", False)])
def test_the_parts_that_a_pattern_leaves_out_count_too(sizes, fires):
    """The second of 1, 2 and 3 rows is a third of them, and not the second third."""

    @rule(patterns=[lambda g, x: g.neg(g.cut(x, 3, 0)[1])], target="any")
    def second(g, x):
        return g.abs(g.cut(x, 3, 0)[1])

    model = parse(
        '<ir_version: 8, opset_import: ["" : 18]> agraph (float[6, 2] x) => (float[2, 2] y) '
        f"<int64[3] s = {{{sizes}}}> {{ a, b, c = Split(x, s)  y = Neg(b) }}"
    )
    _, report = surgeon.rewrite(model, second, check="none")
    assert bool(report.sites) is fires
    assert fires or report.misses[0].reason == "a Split must have 3 equal parts"


@rule(patterns=[lambda g, x: g.mul(*pair_of_parts(g, x))], target="any")
def in_two(g, x):
    return g.op("my::Uneven", x)


def pair_of_parts(g, x):
    first, second = g.parts(x, 2, -1)
    return g.tanh(first), g.neg(second)


PARTS = {
    "Split": "s = Constant<value_ints = [4, 2]>()  a, b = Split<axis = 2>(x, s)",
    "even": "a, b = Split<axis = -1, num_outputs = 2>(x)",
    "Slices": "z = Constant<value_ints = [0]>()  m = Constant<value_ints = [4]>()  e = Constant<value_ints = [6]>() "
    " c = Constant<value_ints = [-1]>()  a = Slice(x, z, m, c)  b = Slice(x, m, e, c)",
    "Slices from the end, with steps": "z = Constant<value_ints = [0]>()  m = Constant<value_ints = [-2]>() "
    " e = Constant<value_ints = [99]>()  c = Constant<value_ints = [2]>()  o = Constant<value_ints = [1]>() "
    " a = Slice(x, z, m, c, o)  b = Slice(x, m, e, c, o)",
}
GAP = PARTS["Slices"].replace("b = Slice(x, m", "k = Constant<value_ints = [5]>()  b = Slice(x, k")
OTHER_PARTS = {
    "the second part first": (PARTS["Split"].replace("a, b", "b, a"), "output"),
    "a gap": (GAP, "at the end of the one before it"),
    "the end left out": (PARTS["Slices"].replace("[6]", "[5]"), "must cover the whole tensor"),
    "begun later": (PARTS["Slices"].replace("[0]", "[1]"), "expected the constant 0"),
}


def parted_model(body):
    return parse(
        '<ir_version: 8, opset_import: ["" : 18, "my" : 1]> agraph (float[2, 4, 6] x) => (float[p, q, r] y) '
        f"{{ {body}  t = Tanh(a)  n = Neg(b)  y = Mul(t, n) }}"
    )


@pytest.mark.parametrize("case", PARTS)
def test_parts_are_found_however_they_are_cut(case):
    after, _ = surgeon.rewrite(parted_model(PARTS[case]), in_two, check="none")
    assert [node.op_type for node in after.graph.node if node.op_type != "Constant"] == ["Uneven"]


@pytest.mark.parametrize("case", OTHER_PARTS)
def test_parts_are_all_of_a_tensor_one_behind_the_other(case):
    body, why = OTHER_PARTS[case]
    _, report = surgeon.rewrite(parted_model(body), in_two, check="none")
    assert not report.sites
    assert any(why in miss.reason for miss in report.misses), [miss.reason for miss in report.misses]


@rule(patterns=[lambda g, x: g.sub(*g.unstacked(x, 2, 1))], target="any")
def difference(g, x):
    return g.op("my::Difference", *g.unstacked(x, 2, 1))


CUT_AXIS = "c, d = Split<axis = 1, num_outputs = 2>(x)  s = Constant<value_ints = [3, 4]>() "
UNSTACKED = {
    "Gather": "i = Constant<value_int = 0>()  j = Constant<value_int = 1>()  a = Gather<axis = 1>(x, i) "
    " b = Gather<axis = 1>(x, j)",
    "Squeeze": f"{CUT_AXIS} o = Constant<value_ints = [1]>()  a = Squeeze(c, o)  b = Squeeze(d, o)",
    "Reshape": f"{CUT_AXIS} a = Reshape(c, s)  b = Reshape(d, s)",
}


@pytest.mark.parametrize(
    ("body", "fires"),
    [*((body, True) for body in UNSTACKED.values()), (UNSTACKED["Reshape"].replace("3, 4", "4, 3"), False)],
)
def test_an_axis_that_is_taken_apart_goes(body, fires):
    model = parse(
        '<ir_version: 8, opset_import: ["" : 18, "my" : 1]> agraph (float[3, 2, 4] x) => (float[p, q] y) '
        f"{{ {body}  y = Sub(a, b) }}"
    )
    after, _ = surgeon.rewrite(model, difference, check="none")
    made = [node.op_type for node in after.graph.node if node.op_type != "Constant"]
    assert (made == ["Split", "Squeeze", "Squeeze", "Difference"]) is fires


@rule(patterns=[lambda g, x: g.neg(g.repeated_heads(x))], target="any")
def negated_first(g, x):
    return g.repeated_heads(g.neg(x), 2, 3, 4)


@pytest.mark.parametrize(("axis", "each", "fires"), [(2, "2, 2, 3, 5, 4", True), (1, "2, 3, 2, 5, 4", False)])
def test_heads_are_repeated_one_copy_after_the_other(axis, each, fires):
    """And not all heads, one time after the other."""
    model = parse(
        '<ir_version: 8, opset_import: ["" : 18]> agraph (float[2, 2, 5, 4] x) => (float[2, 6, 5, 4] y) '
        f"<int64[1] at = {{{axis}}}, int64[5] e = {{{each}}}, int64[4] s = {{0, 6, 5, 4}}> "
        "{ u = Unsqueeze(x, at)  c = Expand(u, e)  r = Reshape(c, s)  y = Neg(r) }"
    )
    _, report = surgeon.rewrite(model, negated_first)
    assert bool(report.sites) is fires
    assert not fires or report.outcome == "proved"


@rule(patterns=[lambda g, x: g.neg(g.joined_heads(g.abs(g.split_heads(x))))], target="any")
def on_rows(g, x):
    return g.neg(g.abs(x))


def test_heads_that_are_split_and_joined_again():
    model = parse(
        '<ir_version: 8, opset_import: ["" : 18]> agraph (float[b, n, 6] x) => (float[b, n, 6] y) '
        "<int64[4] s = {0, 0, 2, 3}, int64[3] j = {0, 0, 6}> { r = Reshape(x, s)  "
        "t = Transpose<perm = [0, 2, 1, 3]>(r)  a = Abs(t)  u = Transpose<perm = [0, 2, 1, 3]>(a)  v = Reshape(u, j) "
        " y = Neg(v) }"
    )
    after, report = surgeon.rewrite(model, on_rows)
    assert ([node.op_type for node in after.graph.node], report.outcome) == (["Abs", "Neg"], "proved")


def test_numbers_that_only_a_replacement_has_are_asked_for():
    """Heads are split into as many as it says: a shape that may be any is none that can be written."""

    @rule(patterns=[lambda g, x: g.neg(g.exp(x))], target="any")
    def forgotten(g, x):
        return g.split_heads(x)

    model = parse("(float[2, 4, 6] x) => (float[2, 4, 6] y) { e = Exp(x)  y = Neg(e) }")
    _, report = surgeon.rewrite(model, forgotten, check="none")
    assert not report.sites
    assert "so its value is unknown" in report.misses[0].reason


def summed(g, x, skip):
    total = g.exposed(g.add(x, skip))
    return g.relu(total)


@rule(patterns=[summed], target="any")
def summed_op(g, x, skip):
    made, total = g.op("my::AddRelu", x, skip, outputs=2)
    return made, total


@rule(patterns=[summed], target="tensorrt")
def summed_there(g, x, skip):
    made, total = g.op("my::AddRelu", x, skip, outputs=2)
    return made, total


@pytest.mark.parametrize(("further", "outputs"), [("z = Identity(r)", 0), ("z = Neg(t)", 1)])
def test_an_exposed_tensor_is_an_output_where_others_read_it(further, outputs):
    model = parse(
        '<ir_version: 8, opset_import: ["" : 18, "my" : 1]> agraph (float[2] a, float[2] b) '
        f"=> (float[2] r, float[2] z) {{ t = Add(a, b)  r = Relu(t)  {further} }}"
    )
    after, report = surgeon.rewrite(model, summed_op, check="none")
    node = next(node for node in after.graph.node if node.op_type == "AddRelu")
    read = {name for other in after.graph.node for name in other.input}
    assert len(report.sites) == 1
    assert (len(node.output) > 1 and node.output[1] in read) is bool(outputs)
    assert "Add" not in [other.op_type for other in after.graph.node]


def test_a_form_of_two_outputs_is_taken_apart_into_a_pattern_that_exposes_one():
    """The pattern is written again with what it exposes as the further output."""
    model = parse(
        '<ir_version: 8, opset_import: ["" : 18, "my" : 1]> agraph (float[2] a, float[2] b) '
        "=> (float[2] r, float[2] z) { r, t = my.AddRelu(a, b)  z = Neg(t) }"
    )
    after, _ = surgeon.rewrite(model, summed_there, target="decomposed", check="none")
    assert sorted(node.op_type for node in after.graph.node) == ["Add", "Neg", "Relu"]
    assert next(node for node in after.graph.node if node.op_type == "Neg").input[0] == next(
        node for node in after.graph.node if node.op_type == "Add"
    ).output[0]


def test_exposed_is_for_what_the_pattern_makes():
    with pytest.raises(RuleError, match="exposed needs"):
        trace(lambda g, x: g.relu(g.exposed(x)))
