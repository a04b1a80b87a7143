"""What fails is taken back, with what was built on it; what stands is as if the rest had never been asked for."""

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import numpy_helper

import surgeon
from surgeon import CheckOptions, Graph, Tensor, rule
from surgeon.pipeline.reports.site import Site
from surgeon.pipeline.rewriting.step_replay import NOT_AGAIN
from surgeon.testing import parse


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def relu_once(g: Graph, x: Tensor) -> Tensor:
    """Right."""
    return g.relu(x)


def ops(model):
    return [node.op_type for node in model.graph.node]


def caught(model, rules, **settings):
    with pytest.raises(surgeon.CheckFailed) as failed:
        surgeon.rewrite(model, rules, **settings)
    return failed.value


def test_the_report_follows_a_rollback():
    """Its numbers, and what is left to do, are those of the result, not those of the first run."""

    @rule(patterns=[lambda g, x: g.mul(g.op("com.microsoft::Gelu", x), 2.0)], target="any")
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    body = "c = Constant<value = float {2.0}>() a = com.microsoft.Gelu(x) y = Mul(a, c)"
    error = caught(parse(f"(float[n] x) => (float[n] y) {{ {body} }}"), wrong, target="onnx")
    assert ops(error.result) == ["Constant", "Gelu", "Mul"]
    assert (error.report.nodes, error.report.constants) == ((3, 3), (1, 1))
    (left,) = error.report.next_steps
    assert left.startswith("com.microsoft::Gelu stays at a, but ONNX does not have it")


def test_a_chain_is_one_region_and_goes_as_a_whole():
    """The second rule is right, but it builds on what the first one wrote wrongly."""

    @rule(patterns=[lambda g, x: g.softplus(g.neg(x))])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.relu(x))

    model = parse("(float[n] x) => (float[n] y, float[n] z) { m = Neg(x) y = Softplus(m) a = Relu(x) z = Relu(a) }")
    error = caught(model, [wrong, relu_once])
    (gone,) = error.report.rolled_back
    assert gone.rules == ("wrong", "relu_once")
    assert [site.rules for site in error.report.sites] == [("relu_once",)]
    assert ops(error.result) == ["Neg", "Softplus", "Relu"]


def test_what_cannot_be_reached_without_the_failed_one_goes_too():
    """The second place can be rewritten only because the first rewrite took away another use of an inner tensor."""

    @rule(patterns=[lambda g, v, w: g.add(g.neg(g.abs(v)), w)])
    def wrong(g: Graph, v: Tensor, w: Tensor) -> Tensor:
        return g.neg(w)

    model = parse(
        """(float[n] x, float[n] w) => (float[n] y, float[n] z)
        { r = Relu(x) s = Relu(r) z = Neg(s) a = Abs(r) b = Neg(a) y = Add(b, w) }"""
    )
    error = caught(model, [wrong, relu_once])
    assert not error.report.sites
    assert error.result.SerializeToString() == model.SerializeToString()
    assert [site.rule for site in error.report.rolled_back] == ["wrong", "relu_once"]
    assert error.report.rolled_back[1].undone == "it depends on a rewrite that was rolled back"


def test_a_removed_node_is_proved_as_what_its_readers_read_now():
    @rule(patterns=[lambda g, x: g.abs(g.relu(x))])
    def right(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    @rule(patterns=[lambda g, x: g.mul(x, 1.0)])
    def unit(g: Graph, x: Tensor) -> Tensor:
        return x

    text = "(float[n] x) => (float[n] y) <float one = {1.0}> { a = Mul(x, one) b = Relu(a) c = Abs(b) y = Neg(c) }"
    made, report = surgeon.rewrite(parse(text), [unit, right])
    assert report.outcome == "proved"
    assert ops(made) == ["Relu", "Neg"]

    @rule(patterns=[lambda g, x: g.mul(x, 2.0)])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return x

    error = caught(parse(text.replace("{1.0}", "{2.0}")), wrong)
    assert [site.outcome for site in error.report.rolled_back] == ["failed"]


def test_a_proof_in_one_context_is_not_taken_for_another():
    """|x| is x where x is a length, and not elsewhere, although both places look the same."""

    @rule(patterns=[lambda g, x: g.neg(g.abs(x))])
    def needs_context(g: Graph, x: Tensor) -> Tensor:
        return g.mul(x, -1.0)

    text = """(float[1] x, float[n] w) => (float[1] y, float[1] z)
        { l = Shape(w) r = Cast<to = 1>(l) a = Abs(r) y = Neg(a) s = Sin(x) b = Abs(s) z = Neg(b) }"""
    error = caught(parse(text), needs_context)
    assert [site.replaced[-1].outputs for site in error.report.sites] == [("y",)]
    assert [site.replaced[-1].outputs for site in error.report.rolled_back] == [("z",)]


def test_expectation_counts_what_stands():
    @rule(patterns=[lambda g, x: g.relu(g.abs(x))])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.neg(x)

    model = parse("(float[n] x) => (float[n] y) { a = Abs(x) y = Relu(a) }")
    with pytest.raises(surgeon.ExpectationUnmet):
        surgeon.rewrite(model, wrong, expect={"wrong": 1})


# Wrong at 777 and at 888, which none of the constants is, nor what a sum makes of one: proofs of sites try those.
SECRET = """(float[n] x) => (float[n] y)
    <float k = {300.0}, float a = {603429.0}, float l = {222.0}, float b = {788322.0}, float zero = {0.0}>
    { w = Mul(x, x) m = Sub(w, k) p = Equal(m, a) q = Where(p, zero, x) r = Neg(q)
      z = Mul(x, x) o = Sub(z, l) s = Equal(o, b) t = Where(s, zero, r) u = Abs(t) v = Relu(u) y = Relu(v) }"""


def secret_rules():
    """Two rules that are wrong for one number each."""

    @rule(patterns=[lambda g, x, v: g.where(g.equal(g.sub(g.mul(x, x), 300.0), 603429.0), 0.0, v)])
    def first(g: Graph, x: Tensor, v: Tensor) -> Tensor:
        return v

    @rule(patterns=[lambda g, x, v: g.where(g.equal(g.sub(g.mul(x, x), 222.0), 788322.0), 0.0, v)])
    def second(g: Graph, x: Tensor, v: Tensor) -> Tensor:
        return v

    return [first, second, relu_once]


def test_bisection_names_both_culprits(tmp_path):
    """Two rewrites that are wrong for the user's own data alone: the whole-model check sees it, and finds both."""
    np.savez(tmp_path / "mine.npz", x=np.array([777.0, 888.0, -1.0], np.float32))
    path = tmp_path / "in.onnx"
    onnx.save(parse(SECRET), path)
    options = CheckOptions(inputs=[tmp_path / "mine.npz"])
    error = caught(path, secret_rules(), output=tmp_path / "out.onnx", check="both", options=options)
    assert sorted(site.rule for site in error.report.rolled_back) == ["first", "second"]
    assert [site.rule for site in error.report.sites] == ["relu_once"]
    assert all("it makes the whole model wrong" in site.undone for site in error.report.rolled_back)
    made = onnx.load(tmp_path / "out.onnx")
    assert ops(made) == ["Mul", "Sub", "Equal", "Where", "Neg", "Mul", "Sub", "Equal", "Where", "Abs", "Relu"]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["in.onnx", "mine.npz", "out.onnx"]


def test_bisection_in_memory(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.array([1.0, 888.0], np.float32))
    options = CheckOptions(inputs=[tmp_path / "mine.npz"])
    error = caught(parse(SECRET), secret_rules(), check="model", options=options)
    assert [site.rule for site in error.report.rolled_back] == ["second"]
    assert error.report.check.outcome.value == "proved"


def test_require_proof_takes_back_what_is_not_proved():
    """An op that nobody here knows: written and said loudly, or taken back where proof is required."""

    @rule(patterns=[lambda g, x: g.relu(g.op("my.ops::Twice", x))])
    def to_plugin(g: Graph, x: Tensor) -> Tensor:
        return g.op("my.ops::TwiceRelu", x)

    text = """<ir_version: 8, opset_import: ["" : 17, "my.ops" : 1]> agraph (float[n] x) => (float[n] y)
        { a = my.ops.Twice(x) y = Relu(a) }"""
    made, report = surgeon.rewrite(parse(text), to_plugin)
    assert report.outcome == "unproved"
    assert ops(made) == ["TwiceRelu"]
    assert "the original nodes cannot run" in report.doubts[0]
    error = caught(parse(text), to_plugin, require_proof=True)
    assert ops(error.result) == ["Twice", "Relu"]
    assert error.report.outcome == "unproved"


def test_large_weights_are_read_only_where_the_proof_needs_them():
    """Weights made up suffice for what holds for all; a folded weight holds for its own value alone."""
    weight = np.random.default_rng(0).standard_normal((96, 96)).astype(np.float32)
    model = parse("(float[n, 96] x) => (float[n, 96] y) { a = MatMul(x, w) b = Relu(a) y = Relu(b) }")
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    _, report = surgeon.rewrite(model, relu_once)
    assert report.outcome == "proved"

    @rule(patterns=[lambda g, x, w: g.relu(g.relu(g.matmul(x, w)))])
    def folded(g: Graph, x: Tensor, w: Tensor) -> Tensor:
        return g.relu(g.matmul(x, np.asarray(w.values)))

    _, report = surgeon.rewrite(model, folded)
    assert report.outcome == "proved"


def test_a_tensor_that_nothing_reads_any_more_is_no_output_of_a_region():
    """Readers of a removed node's output were removed themselves: what they were to read is gone, rightly."""

    @rule(patterns=[lambda g, x: g.abs(x)])
    def drop_abs(g: Graph, x: Tensor) -> Tensor:
        return x

    model = parse(
        "(float[n] x) => (float[n] y) { a = Relu(x) b = Abs(a) c = Relu(b) d = Abs(c) e = Relu(d) y = Neg(e) }"
    )
    made, report = surgeon.rewrite(model, [drop_abs, relu_once])
    assert report.outcome == "proved"
    assert ops(made) == ["Relu", "Neg"]


def test_a_graph_of_gs_comes_back_as_one_also_when_it_fails():
    @rule(patterns=[lambda g, x: g.relu(g.abs(x))])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.neg(x)

    text = "(float[n] x) => (float[n] y, float[n] z) { a = Abs(x) y = Relu(a) b = Relu(x) z = Relu(b) }"
    graph = gs.import_onnx(parse(text))
    error = caught(graph, [wrong, relu_once])
    assert isinstance(error.result, gs.Graph)
    assert [node.op for node in error.result.nodes] == ["Abs", "Relu", "Relu"]
    assert caught(graph, wrong).result is graph


def test_what_is_left_is_byte_for_byte_what_skipping_the_rest_gives(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(parse(SECRET), path)
    np.savez(tmp_path / "mine.npz", x=np.array([777.0, -1.0], np.float32))
    options = CheckOptions(inputs=[tmp_path / "mine.npz"])
    caught(path, secret_rules(), output=tmp_path / "rolled.onnx", check="model", options=options)
    surgeon.rewrite(path, secret_rules()[1:], output=tmp_path / "skipped.onnx")
    assert (tmp_path / "rolled.onnx").read_bytes() == (tmp_path / "skipped.onnx").read_bytes()


def test_who_is_found_guilty_has_failed_whatever_its_own_proof_says(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.array([777.0, 888.0, -1.0], np.float32))
    options = CheckOptions(inputs=[tmp_path / "mine.npz"], layers=True)
    report = caught(parse(SECRET), secret_rules(), check="both", options=options).report
    assert report.outcome == "failed"
    assert [(site.outcome, site.proof.outcome.value) for site in report.rolled_back] == [("failed", "proved")] * 2
    assert report.check.outcome.value == "proved", "of what is left"
    assert all(not site.error.ok for site in report.rolled_back)
    together = "; with all 2 sites at fault the first tensor outside the tolerance is 'r'"
    assert all(site.undone.endswith(together) for site in report.rolled_back), "no one's alone"
    np.savez(tmp_path / "mine.npz", x=np.array([777.0, -1.0], np.float32))
    report = caught(parse(SECRET), secret_rules(), check="both", options=options).report
    assert [site.undone.rpartition("; ")[2] for site in report.rolled_back] == [
        "the first tensor outside the tolerance is 'r'"
    ]


def test_a_check_of_what_is_no_more_is_not_reported():
    """All sites are rolled back: nothing is left to check."""

    @rule(patterns=[lambda g, x: g.relu(g.abs(x))])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.neg(x)

    report = caught(parse("(float[n] x) => (float[n] y) { a = Abs(x) y = Relu(a) }"), wrong, check="model").report
    assert report.check is None
    assert report.rolled_back[0].check.outcome.value == "failed"


def test_expectation_counts_what_stands_after_bisection(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.array([777.0], np.float32))
    onnx.save(parse(SECRET), tmp_path / "in.onnx")
    settings = {"check": "model", "expect": {"first": 1}, "options": CheckOptions(inputs=[tmp_path / "mine.npz"])}
    with pytest.raises(surgeon.ExpectationUnmet) as unmet:
        surgeon.rewrite(tmp_path / "in.onnx", secret_rules(), output=tmp_path / "out.onnx", **settings)
    message = "first was applied 0 times (and 1 was rolled back), but 1 was expected; nothing was written."
    assert str(unmet.value) == message
    assert not (tmp_path / "out.onnx").exists()
    assert unmet.value.report.check is None, "it was of another model"


def test_a_rule_whose_place_another_had_is_reported():
    """The misses are those of the model that is left, and those in what was rolled back are not among them."""

    @rule(patterns=[lambda g, x: g.relu(g.abs(x))])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.neg(x)

    @rule(patterns=[lambda g, x: g.relu(g.abs(x))])
    def right(g: Graph, x: Tensor) -> Tensor:
        return g.abs(x)

    text = "(float[n] x) => (float[n] y, float[n] z) { a = Abs(x) y = Relu(a) b = Abs(y) z = Relu(b) }"
    report = caught(parse(text), [wrong, right]).report
    assert len(report.rolled_back) == 2
    assert [(miss.rule, miss.node, miss.others, miss.reason) for miss in report.misses] == [
        ("right", "y", ("z",), NOT_AGAIN + "; list this rule first, or run only this rule")
    ]


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def not_relu(g: Graph, x: Tensor) -> Tensor:
    """Wrong."""
    return g.neg(x)


@rule(patterns=[lambda g, x: g.relu(g.abs(x)), lambda g, x: g.abs(x)])
def not_abs(g: Graph, x: Tensor) -> Tensor:
    """Wrong in two forms."""
    return g.neg(x)


ALONE = {
    "the same place in another form": (not_abs, "a = Abs(x) y = Relu(a)", []),
    "a place that shares nodes": (
        not_relu,
        "a = Relu(x) b = Relu(a) y = Relu(b)",
        [("y", "it shares nodes with a site where this rule was rolled back")],
    ),
    "several such": (
        not_relu,
        "a = Relu(x) b = Relu(a) c = Relu(b) d = Neg(c) e = Relu(d) f = Relu(e) y = Relu(f)",
        [("c", "it shares nodes with a site where this rule was rolled back")],
    ),
}


@pytest.mark.parametrize("case", ALONE)
def test_a_rule_alone_is_not_reported_of_another(case):
    """There is none: nobody could have come first."""
    wrong, body, wanted = ALONE[case]
    report = caught(parse(f"(float[n] x) => (float[n] y) {{ {body} }}"), wrong).report
    assert report.rolled_back
    assert [(miss.node, miss.reason) for miss in report.misses] == wanted


def test_beside_others_a_rule_is_reported_whose_rewrites_stood_in_its_way():
    """Another rule was rolled back too, but elsewhere."""
    text = "a = Relu(x) b = Relu(a) c = Relu(b) d = Abs(c) y = Relu(d)"
    report = caught(parse(f"(float[n] x) => (float[n] y) {{ {text} }}"), [not_relu, not_abs]).report
    assert {rule for site in report.rolled_back for rule in site.rules} == {"not_relu", "not_abs"}
    assert [(miss.rule, miss.node, miss.reason) for miss in report.misses] == [
        ("not_relu", "c", "it shares nodes with a site where this rule was rolled back")
    ]


def test_bisection_finds_room_where_the_result_will_be(tmp_path, monkeypatch):
    """The folder of the source cannot be written: trials go beside the output, and none stays."""
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    onnx.save(parse(SECRET), source / "in.onnx")
    np.savez(tmp_path / "mine.npz", x=np.array([777.0], np.float32))

    monkeypatch.setattr("os.access", lambda folder, _: str(folder) != str(source))
    options = CheckOptions(inputs=[tmp_path / "mine.npz"])
    error = caught(source / "in.onnx", secret_rules(), output=out / "out.onnx", check="model", options=options)
    assert [site.rule for site in error.report.rolled_back] == ["first"]
    assert [item.name for item in out.iterdir()] == ["out.onnx"]


def test_progress_reports_the_phases_and_not_the_runs_that_are_repeated(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.array([777.0], np.float32))
    said: list[tuple[str, int]] = []
    options = CheckOptions(inputs=[tmp_path / "mine.npz"])
    caught(parse(SECRET), secret_rules(), check="both", options=options, progress=lambda *message: said.append(message))
    assert said[-5:] == [("relu_once", 3), ("prove", 3), ("check", 3), ("bisect", 3), ("check", 2)]


def test_a_long_chain_is_one_region_in_the_order_of_its_steps():
    model = parse(
        f"(float[n] x) => (float[n] t300) {{ t0 = Relu(x) {' '.join(f't{i + 1} = Relu(t{i})' for i in range(300))} }}"
    )
    made, report = surgeon.rewrite(model, relu_once)
    (site,) = report.sites
    assert ops(made) == ["Relu"]
    assert len(site.replaced) == 301
    places = {step: place for place, step in enumerate(site.steps)}
    assert all(places[earlier] < places[step] for step in site.steps for earlier in step.before)


def test_sites_are_distinguished_by_identity():
    """Comparing what they hold would make rolling back thousands of them quadratic."""
    _, report = surgeon.rewrite(parse("(float[n] x) => (float[n] y) { a = Relu(x) y = Relu(a) }"), relu_once)
    (site,) = report.sites
    assert site != Site(site.steps, site.proof, site.check)
    assert len({site, site}) == 1
