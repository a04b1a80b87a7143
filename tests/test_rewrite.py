"""rewrite() and find(): what goes in comes out in its kind, choices, checks and their failures, targets."""

from itertools import islice

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from surgeon.patterns.activations.gelu import gelu

from surgeon import CheckFailed, CheckOptions, Graph, GraphError, Tensor, UsageError, find, require, rewrite, rule
from surgeon.shapes.algebra.size_expressions import symbol
from tests.models import graph, make, ops, opset

CONSTANTS = "float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}"
ERF = "d = Div(x, sqrt2) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)"


@pytest.fixture
def model():
    return graph(ERF, constants=CONSTANTS)


@rule(patterns=[lambda g, x: g.tanh(x)])
def wrong(g: Graph, x: Tensor) -> Tensor:
    """Not the same at all."""
    return g.sin(x)


def test_a_proto_comes_back_as_a_new_proto(model):
    before = model.SerializeToString()
    after, report = rewrite(model, "gelu")
    assert isinstance(after, onnx.ModelProto)
    assert ops(after.graph) == ["Gelu"]
    assert model.SerializeToString() == before
    assert (report.outcome, report.nodes_before, report.nodes_after) == ("proved", 5, 1)
    assert {"read", "match", "write", "check"} <= set(report.seconds)


def test_a_path_comes_back_as_the_path_written(model, tmp_path):
    onnx.save(model, tmp_path / "in.onnx")
    out, report = rewrite(tmp_path / "in.onnx", [gelu], output=tmp_path / "out.onnx")
    assert out == tmp_path / "out.onnx"
    assert report.proved
    assert ops(onnx.load(out).graph) == ["Gelu"]
    assert ops(onnx.load(tmp_path / "in.onnx").graph) != ["Gelu"]
    out, report = rewrite(str(tmp_path / "in.onnx"), "gelu", output=str(tmp_path / "in.onnx"))
    assert ops(onnx.load(tmp_path / "in.onnx").graph) == ["Gelu"]


def test_a_gs_graph_comes_back_as_a_gs_graph(model):
    source = gs.import_onnx(model)
    after, report = rewrite(source, "gelu")
    assert isinstance(after, gs.Graph)
    assert [node.op for node in after.nodes] == ["Gelu"]
    assert [node.op for node in source.nodes] == ["Div", "Erf", "Add", "Mul", "Mul"]
    assert report.proved
    again, report = rewrite(after, "gelu")
    assert again is after
    assert report.outcome == "unchanged"


def test_no_match_gives_the_same_bytes(model, tmp_path):
    data = model.SerializeToString() + b"\xf8\x07\x01"
    (tmp_path / "in.onnx").write_bytes(data)
    _, report = rewrite(tmp_path / "in.onnx", "bias_gelu", output=tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == data
    assert report.outcome == "unchanged"
    assert report.misses


def test_dry_run_writes_nothing(model, tmp_path):
    onnx.save(model, tmp_path / "in.onnx")
    source, report = rewrite(tmp_path / "in.onnx", "gelu", output=tmp_path / "out.onnx", dry_run=True)
    assert source == tmp_path / "in.onnx"
    assert len(report.sites) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.onnx"]
    assert rewrite(tmp_path / "in.onnx", "gelu", dry_run=True)[1].count("gelu") == 1
    assert rewrite(model, "gelu", dry_run=True)[0] is model
    source = gs.import_onnx(model)
    assert rewrite(source, "gelu", dry_run=True)[0] is source


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        ({"only": "b*"}, ["a", "c"]),
        ({"skip": "b*"}, ["b"]),
        ({"only": ["a", "c"], "skip": ["c"]}, ["b", "c"]),
    ],
)
def test_only_and_skip(choice, left):
    model = graph("p = Tanh(x) q = Tanh(p) y = Tanh(q)")
    for node, name in zip(model.graph.node, "abc", strict=True):
        node.name = name
    after, report = rewrite(model, wrong, check="none", **choice)
    assert [node.name for node in after.graph.node if node.op_type == "Tanh"] == left
    assert len(report.sites) == 3 - len(left)


@pytest.mark.parametrize("check", ["sites", "model", "both"])
def test_a_rule_that_is_wrong_fails_and_is_rolled_back(tmp_path, check):
    onnx.save(graph("y = Tanh(x)"), tmp_path / "in.onnx")
    with pytest.raises(CheckFailed, match="rolled back .*(differs|gives)") as caught:
        rewrite(tmp_path / "in.onnx", wrong, output=tmp_path / "out.onnx", check=check)
    assert caught.value.report.outcome == "failed"
    assert caught.value.report.rolled_back[0].outcome == "failed"
    assert not caught.value.report.sites
    assert caught.value.result == tmp_path / "out.onnx"
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "in.onnx").read_bytes()
    rewrite(tmp_path / "in.onnx", wrong, output=tmp_path / "out.onnx", check="none")
    assert ops(onnx.load(tmp_path / "out.onnx").graph) == ["Sin"]


def test_proof_may_be_required(tmp_path):
    model = graph("h = my.placeholder(x) y = Tanh(h)", header=opset(17))
    _, report = rewrite(model, wrong)
    assert report.outcome == "unproved"
    assert report.sites[0].proof.reason
    _, whole = rewrite(model, wrong, check="model")
    assert (whole.outcome, bool(whole.check.reason)) == ("unproved", True)
    with pytest.raises(CheckFailed, match="not proved: .*; nothing was written"):
        rewrite(model, wrong, require_proof=True, check="model")
    with pytest.raises(CheckFailed, match="rolled back") as caught:
        rewrite(model, wrong, require_proof=True)
    assert caught.value.report.outcome == "unproved"
    with pytest.raises(UsageError, match="A proof is required, but check='none' turns the check off"):
        rewrite(model, wrong, require_proof=True, check="none")


def test_nothing_to_do_needs_no_proof(model):
    assert rewrite(graph("h = my.placeholder(x) y = Neg(h)", header=opset(17)), "gelu", require_proof=True)[1].proved


def test_usage_errors(model, tmp_path):
    with pytest.raises(UsageError, match="No output path given"):
        rewrite(tmp_path / "in.onnx", "gelu")
    with pytest.raises(UsageError, match="Unknown target 'tensorflow'"):
        rewrite(model, "gelu", target="tensorflow")
    with pytest.raises(UsageError, match="Unknown target 'tensorflow'"):
        list(find(model, "gelu", target="tensorflow"))
    with pytest.raises(UsageError, match="Unknown check 'modle'"):
        rewrite(model, "gelu", check="modle")

def test_a_model_in_memory_is_written_on_request(model, tmp_path):
    path, report = rewrite(model, "gelu", output=tmp_path / "out.onnx")
    assert (path, report.written) == (tmp_path / "out.onnx", True)
    assert onnx.load(path) == rewrite(model, "gelu")[0]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("z = Neg(x)", "No node produces 'y', an output of the graph"),
        ("a = Add(x, b) b = Neg(a) y = Relu(b)", "cycle"),
        ("a = Add(x, gone) y = Neg(a)", "reads 'gone'"),
        ("a = Neg(x) a = Relu(x) y = Neg(a)", "produced twice"),
        ("a = Neg(a) y = Relu(a)", "cycle"),
    ],
)
def test_graphs_that_break_onnx_s_rules_are_named(body, why):
    with pytest.raises(GraphError, match=why):
        rewrite(graph(body), "gelu")


def test_options_of_the_check(model):
    options = CheckOptions(atol=1.9, dims={"n": 3}, seed=4)
    _, report = rewrite(graph("y = Tanh(x)"), wrong, options=options, check="model")
    assert report.proved
    assert report.check.worst.name == "y"
    with pytest.raises(CheckFailed, match=r"\[3, 4\]") as caught:
        rewrite(graph("y = Tanh(x)"), wrong, options=options)
    assert caught.value.report.proofs[0].tolerance == {"float32 rtol": 2e-5, "float32 atol": 1.9}


@pytest.mark.parametrize(
    ("body", "version", "target", "wanted"),
    [
        (ERF, 20, "ort", "com.microsoft::Gelu"),
        (ERF, 20, "onnx", "Gelu"),
        (ERF, 20, "contrib", "com.microsoft::Gelu"),
        (ERF, 20, "decomposed", None),
        ("y = Gelu(x)", 20, "ort", None),
        ("y = Gelu(x)", 20, "contrib", "com.microsoft::Gelu"),
        ("y = com.microsoft.Gelu(x)", 20, "onnx", "Gelu"),
        ("y = com.microsoft.Gelu(x)", 20, "ort", None),
        ("y = com.microsoft.Gelu(x)", 17, "onnx", None),
        (ERF, 17, "onnx", None),
    ],
)
def test_targets(body, version, target, wanted):
    constants = CONSTANTS if body == ERF else ""
    after, report = rewrite(graph(body, constants=constants, header=opset(version)), gelu, target=target)
    found = [node.op for site in report.sites for node in site.added]
    assert found == ([wanted] if wanted else [])
    again, second = rewrite(after, gelu, target=target)
    assert not second.sites
    assert again.SerializeToString() == after.SerializeToString()


def test_back_and_forth_between_targets():
    there, report = rewrite(graph("y = Gelu(x)", header=opset(20)), gelu, target="decomposed")
    assert sorted(ops(there.graph)) == ["Add", "Div", "Erf", "Mul", "Mul"]
    back, _ = rewrite(there, gelu, target="onnx", require_proof=True)
    assert ops(back.graph) == ["Gelu"]
    assert not back.graph.initializer


def test_find_is_lazy_and_never_overlaps():
    model = graph(" ".join(f"t{k + 1} = Tanh(t{k})" for k in range(9)), "(float[4] t0) => (float[4] t9)")
    asked = []

    def seen(match: object) -> None:
        asked.append(match.root.outputs[0])
        require(True, "")

    pairs = rule(patterns=[lambda g, x: g.tanh(g.tanh(x))], conditions=[seen])(lambda g, x: g.sin(x))
    assert [match.outputs for match in islice(find(model, pairs), 2)] == [("t2",), ("t4",)]
    assert len(asked) < 5
    nodes = [node for match in find(model, pairs) for node in match.nodes]
    assert len(nodes) == len(set(nodes)) == 8


def test_find_shows_what_was_bound(model):
    [match] = find(model, "gelu")
    assert match["x"].name == "x"
    assert match["x"].dtype == np.float32
    assert match["x"].shape == (symbol("n"), 4)
    assert match.root.label == "y"
    assert [node.op for node in match.nodes] == ["Div", "Erf", "Add", "Mul", "Mul"]
    assert len(list(find(gs.import_onnx(model), "gelu"))) == 1


def test_only_what_is_used_is_imported():
    model = graph(ERF, constants=CONSTANTS, header='<ir_version: 8, opset_import: ["" : 17]> agraph ')
    after, _ = rewrite(model, "gelu")
    assert {item.domain: item.version for item in after.opset_import} == {"": 17, "com.microsoft": 1}
    gone = make(lambda g, x: g.ms_gelu(x), lambda g, x: g.neg(x), name="gone")
    after, _ = rewrite(model, [gelu, gone], check="none")
    assert [item.domain for item in after.opset_import] == [""]


def test_dtype_rank_and_shape_are_there_for_conditions():
    facts = {}

    def note(x: Tensor, match: object) -> None:
        facts[x.name] = (x.dtype, x.rank, x.shape, x.is_constant)

    noted = rule(patterns=[lambda g, x: g.tanh(x)], conditions=[note])(lambda g, x: g.sin(x))
    body = "h = Transpose<perm = [1, 0]>(x) c = Cast<to = 10>(h) y = Tanh(c)"
    model = graph(body, "(float[n, 4] x) => (float16[4, n] y)")
    list(find(model, noted))
    assert facts == {"c": (np.float16, 2, (4, symbol("n")), False)}
