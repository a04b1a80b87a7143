"""Where a proof cuts a region out of its model, and which regions share a proof."""

import pytest
from onnx import TensorProto

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.proof.site import site_prover
from surgeon.testing import parse
from tests.versions import KERNELS_OF_ALL_RULES


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def relu_once(g: Graph, x: Tensor) -> Tensor:
    """Right, whatever the shape."""
    return g.relu(x)


@rule(patterns=[lambda g, x, shape: g.neg(g.reshape(x, shape))])
def reshape_last(g: Graph, x: Tensor, shape: Tensor) -> Tensor:
    """Right: the sign does not care."""
    return g.reshape(g.mul(x, -1.0), shape)


def proofs_of(model, rules, monkeypatch, **settings):
    """The report, and the cuts that were proved."""
    cuts = []
    prepared = site_prover.build_proof_case
    monkeypatch.setattr(site_prover, "build_proof_case", lambda cut, *rest: cuts.append(cut) or prepared(cut, *rest))
    _, report = surgeon.rewrite(model, rules, **settings)
    return report, cuts


def test_equal_regions_are_proved_once(monkeypatch):
    body = " ".join(f"a{n} = Relu(x{n}) b{n} = Relu(a{n}) x{n + 1} = Sin(b{n})" for n in range(9))
    report, cuts = proofs_of(parse(f"(float[n, 4] x0) => (float[n, 4] x9) {{ {body} }}"), relu_once, monkeypatch)
    assert len(report.sites) == 9
    assert len(cuts) == 1
    assert len(report.proofs) == 1


@pytest.mark.parametrize("change", ["shape", "dtype", "constant"])
def test_regions_that_differ_are_proved_each(monkeypatch, change):
    @rule(patterns=[lambda g, x, c: g.relu(g.mul(x, c))])
    def clipped(g: Graph, x: Tensor, c: Tensor) -> Tensor:
        return g.max(g.mul(x, c), 0.0)

    second = {"shape": "float[n, 5] z", "dtype": "double[n, 4] z", "constant": "float[n, 4] z"}[change]
    two = "double d = {2.0}" if change == "dtype" else "float d = {3.0}" if change == "constant" else "float d = {2.0}"
    text = f"""(float[n, 4] x, {second}) => (float[n, 4] y, {second.replace(" z", " w")}) <float c = {{2.0}}, {two}>
        {{ a = Mul(x, c) y = Relu(a) b = Mul(z, d) w = Relu(b) }}"""
    report, cuts = proofs_of(parse(text), clipped, monkeypatch)
    assert report.outcome == "proved"
    assert len(cuts) == 2


def test_the_target_of_a_reshape_stays_consistent(monkeypatch):
    """It is computed from the shape of another tensor: the proof must not make it up."""
    text = """(float[batch, seq, 12] x, float[batch, seq, 3, 4] like) => (float[batch, seq, 3, 4] y)
        <int64[1] two = {2}, int64[1] zero = {0}, int64[1] last = {4}, int64[1] three = {3}>
        { s = Shape(x) f = Slice(s, zero, two) t = Concat<axis = 0>(f, three, last) r = Reshape(x, t) y = Neg(r) }"""
    report, (cut,) = proofs_of(parse(text), reshape_last, monkeypatch)
    assert report.outcome == "proved"
    by_value = [leaf for leaf in cut.boundary_inputs.values() if leaf.value is not None]
    assert [leaf.tensor for leaf in by_value] == ["t"]
    assert [str(size) for size in by_value[0].value] == ["batch", "seq", "3", "4"]


def test_numbers_of_nodes_before_a_region_are_put_into_no_inputs(monkeypatch):
    """A proof in context begins with nodes whose constants are none of the region's, such as the number of a mask."""

    @rule(patterns=[lambda g, x, c: g.mul(g.neg(x), c)])
    def doubled(g: Graph, x: Tensor, c: Tensor) -> Tensor:
        """Right where the model makes a 2."""
        return g.mul(x, -2.0)

    experiments = []
    prepared = site_prover.build_proof_case
    monkeypatch.setattr(
        site_prover, "build_proof_case", lambda *given: experiments.append(prepared(*given)) or experiments[-1]
    )
    text = """(float[n, 4] x) => (float[n, 4] y) <int64 nil = {0}, float two = {2}, float low = {-3e38}>
        { s = Size(x) b = GreaterOrEqual(s, nil) c = Where(b, two, low) d = Neg(x) y = Mul(d, c) }"""
    _, report = surgeon.rewrite(parse(text), doubled)
    assert report.outcome == "proved"
    assert {"two", "low"} <= experiments[-1].replacement_only


def test_a_mask_is_computed_as_the_model_does(monkeypatch):
    """A cut goes back through integers and booleans to the data they come from."""

    @rule(patterns=[lambda g, m, x: g.relu(g.where(m, x, -1.0))])
    def masked(g: Graph, m: Tensor, x: Tensor) -> Tensor:
        return g.max(g.where(m, x, 0.0), 0.0)

    text = """(float[n, 4] x, int64[n, 4] ids) => (float[n, 4] y) <int64 pad = {0}, float low = {-1.0}>
        { e = Equal(ids, pad) m = Not(e) w = Where(m, x, low) y = Relu(w) }"""
    report, (cut,) = proofs_of(parse(text), masked, monkeypatch)
    assert report.outcome == "proved"
    assert [node.op for node in cut.prefix] == ["Equal", "Not"]
    assert sorted(leaf.tensor for leaf in cut.boundary_inputs.values()) == ["ids", "x"]


def test_what_constants_find_in_constants_is_no_input(monkeypatch):
    """Another site folds it; as an input, it would hold other numbers than what the region finds itself."""
    found = """c{0} = ConstantOfShape<value = float[1] {{1.0}}>(two) n{0} = NonZero(c{0}) t{0} = Transpose(n{0})
        s{0} = Squeeze(t{0}, last) k{0} = Cast<to = 7>(s{0}) r{0} = Reshape(k{0}, flat) m{0} = Mul(r{0}, one)
        u{0} = Add(m{0}, one) v{0} = Sub(u{0}, one) rows{0} = Gather(table{0}, v{0}) y{0} = MatMul(x, rows{0})"""
    eight = ", ".join(f"{number}.0" for number in range(8))
    text = f"""(float[n, 2] x) => (float[2, n, 2] y)
        <float[2, 2, 2] tablea = {{{eight}}}, float[2, 2, 2] tableb = {{{eight}}},
        int64[1] two = {{2}}, int64 one = {{1}}, int64[1] last = {{1}}, int64[1] flat = {{-1}}>
        {{ {found.format("a")} {found.format("b")} t = Tanh(ya) y = Mul(t, yb) }}"""
    report, cuts = proofs_of(parse(text), ["constant_folding", "duplicate_nodes"], monkeypatch)
    assert report.outcome == "proved"
    assert {leaf.tensor for cut in cuts for leaf in cut.boundary_inputs.values()} == {"x"}


def test_two_nodes_that_do_the_same_are_one_input(monkeypatch):
    """The matcher takes equal casts for one tensor, and so must the proof."""

    @rule(patterns=[lambda g, x: g.relu(g.sub(x, x))])
    def nothing(g: Graph, x: Tensor) -> Tensor:
        return g.mul(x, 0.0)

    text = """(float[n] x) => (float[n] y)
        { s = Sin(x) a = Exp(s) b = Exp(s) d = Sub(a, b) r = Relu(d) y = Neg(r) }"""
    report, (cut,) = proofs_of(parse(text), nothing, monkeypatch)
    assert report.outcome == "proved", report.rolled_back
    assert [node.op for node in cut.prefix] == ["Exp", "Exp"]
    assert [leaf.tensor for leaf in cut.boundary_inputs.values()] == ["s"]


def test_what_is_reshaped_and_what_it_is_reshaped_from_are_one_input(monkeypatch):
    """Rules look through reshapes, those that stay among them: what they read then must be what it was."""

    @rule(patterns=[lambda g, x, y: g.relu(g.sub(x, y))])
    def nothing(g: Graph, x: Tensor, y: Tensor) -> Tensor:
        return g.mul(x, 0.0)

    text = """(float[n] x) => (float[n] y) <int64[1] flat = {-1}, int64[1] front = {0}>
        { s = Sin(x) a = Unsqueeze(s, front) b = Reshape(a, flat) d = Sub(s, b) r = Relu(d) y = Neg(r) }"""
    report, (cut,) = proofs_of(parse(text), nothing, monkeypatch)
    assert report.outcome == "proved", report.rolled_back
    assert [node.op for node in cut.prefix] == ["Unsqueeze", "Reshape"]
    assert [leaf.tensor for leaf in cut.boundary_inputs.values()] == ["s"]


FUNCTION = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]> agraph (float[n] x, double[n, 3] z)
    => (float[n] y, double[n, 3] w) { y = local.twice(x) w = local.twice(z) }
    <domain: "local", opset_import: ["" : 17]> twice (a) => (c) { b = Relu(a) c = Relu(b) }"""


def test_a_function_is_proved_for_each_way_it_is_called(monkeypatch):
    report, cuts = proofs_of(parse(FUNCTION), relu_once, monkeypatch)
    assert report.outcome == "proved"
    assert len(report.sites) == 1
    found = sorted((leaf.dtype, len(leaf.shape)) for cut in cuts for leaf in cut.boundary_inputs.values())
    assert found == [(TensorProto.FLOAT, 1), (TensorProto.DOUBLE, 2)]


def test_a_function_that_fails_for_one_call_fails():
    @rule(patterns=[lambda g, x: g.relu(g.relu(x))])
    def wrong_for_matrices(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.squeeze(x))

    text = FUNCTION.replace("double[n, 3]", "float[1, 3]").replace("float[n]", "float[3]")
    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(parse(text), wrong_for_matrices)
    assert "has shape" in caught.value.report.rolled_back[0].proof.reason


def test_a_function_that_nobody_calls_is_unproved():
    text = FUNCTION.replace("local.twice(x)", "Neg(x)").replace("local.twice(z)", "Neg(z)")
    _, report = surgeon.rewrite(parse(text), relu_once)
    assert report.outcome == "unproved"
    assert "no node calls function local::twice" in report.doubts[0]


def test_both_overloads_of_a_function_are_taken_along():
    """Two functions of one name, told apart by overload alone: without both, the region would not run."""
    model = parse(
        """<ir_version: 10, opset_import: ["" : 17, "local" : 1]> agraph (float[n] x) => (float[n] y)
        { a = local.act(x) b = local.act(a) r = Relu(b) y = Relu(r) }
        <domain: "local", opset_import: ["" : 17]> act (p) => (q) { q = Sin(p) }"""
    )
    model.functions.add().CopyFrom(model.functions[0])
    model.functions[1].overload = model.graph.node[1].overload = "second"
    model.functions[1].node[0].op_type = "Cos"

    def twice(g, x):
        return g.relu(g.relu(g.op("local::act", g.op("local::act", x))))

    @rule(patterns=[twice])
    def right(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.cos(g.sin(x)))

    @rule(patterns=[twice])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.sin(g.sin(x)))

    outcomes = [surgeon.rewrite(model, one, keep_going=True)[1].outcome for one in (right, wrong)]
    if KERNELS_OF_ALL_RULES:
        assert outcomes == ["proved", "failed"]
    else:  # this ONNX Runtime takes one overload for the other: its own answer is nothing to go by
        assert outcomes[1] == "unproved"


# `a` stays, for `b` is read elsewhere; what comes in the place of the rest reads `b`, which is computed from `a`.
RESTS_ON_KEPT = """(int64[n, 4] x, int64[n, 4] z) => (int64[n, 4] y, int64[n, 4] b) <int64[1, 1] two = {2}>
    { a = Abs(x) b = Mul(a, two) s = Add(a, z) t = Sub(s, b) y = Abs(t) }"""


def of_differences(g: Graph, x: Tensor, z: Tensor, b: Tensor) -> Tensor:
    """||x| + z - b|, where |x| may be read elsewhere."""
    return g.abs(g.sub(g.add(g.shared(g.abs(x)), z), b))


@rule(patterns=[of_differences])
def one_sum(g: Graph, x: Tensor, z: Tensor, b: Tensor) -> Tensor:
    """Right."""
    total = g.add(z, g.sub(g.abs(x), b))
    return g.max(total, g.neg(total))


@rule(patterns=[of_differences])
def wrong_sum(g: Graph, x: Tensor, z: Tensor, b: Tensor) -> Tensor:
    """Wrong: the sign of b."""
    total = g.add(z, g.abs(x), b)
    return g.max(total, g.neg(total))


@pytest.mark.parametrize(("found", "wanted"), [(one_sum, "proved"), (wrong_sum, "failed")])
def test_what_is_computed_from_a_node_that_stays_is_computed_again(monkeypatch, found, wanted):
    """The replacement reads such a tensor, and its nodes stand in the region: each side has them."""
    report, (cut, *_) = proofs_of(parse(RESTS_ON_KEPT), found, monkeypatch, keep_going=True)
    (site,) = (*report.sites, *report.rolled_back)
    assert site.outcome == wanted, site.reason
    assert [node.op for node in cut.between] == ["Mul"]
    assert [node.op for node in cut.recomputed] == ["Abs", "Mul"]


def test_regions_that_differ_in_what_lies_between_are_proved_each(monkeypatch):
    """What is read again behind the region is part of what is proved."""
    text = """(int64[n, 4] x, int64[n, 4] z, int64[n, 4] v) =>
        (int64[n, 4] y, int64[n, 4] b, int64[n, 4] w, int64[n, 4] c) <int64[1, 1] two = {2}>
        { a = Abs(x) b = Mul(a, two) s = Add(a, z) t = Sub(s, b) y = Abs(t)
          d = Abs(v) c = Add(d, two) e = Add(d, z) f = Sub(e, c) w = Abs(f) }"""
    report, cuts = proofs_of(parse(text), one_sum, monkeypatch)
    assert report.outcome == "proved"
    assert [[node.op for node in cut.between] for cut in cuts] == [["Mul"], ["Add"]]


def test_fixed_sizes_are_stated_where_nothing_loads_without():
    """onnx 1.19 to 1.23 takes the columns that Attention makes of rows for 0 where it is not told how many come in."""

    @rule(patterns=[lambda g, x, w: g.matmul(g.attention(x, x, x, q_num_heads=2, kv_num_heads=2), g.neg(w))])
    def behind(g: Graph, x: Tensor, w: Tensor) -> Tensor:
        return g.neg(g.matmul(g.attention(x, x, x, q_num_heads=2, kv_num_heads=2), w))

    text = """<ir_version: 11, opset_import: ["" : 23]> g (float[n, s, 8] x) => (float[n, s, 1] y)
        <float[8, 1] w = {1, 2, 3, 4, 5, 6, 7, 8}>
        { a = Attention<q_num_heads = 2, kv_num_heads = 2>(x, x, x) b = Neg(w) y = MatMul(a, b) }"""
    assert surgeon.rewrite(parse(text), behind)[1].outcome == "proved"
