"""Rule sets of onnxscript, run by surgeon: matched by its matcher, proved and rolled back as surgeon's own rules."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import CheckFailed, RewriteError, RuleError, UsageError

REASON = "onnxscript 0.7.2 is not installed"
pytest.importorskip("onnxscript", minversion="0.7.2", reason=REASON)
rewriter = pytest.importorskip("onnxscript.rewriter", reason=REASON)
ir = pytest.importorskip("onnxscript.ir", reason=REASON)
RewriteRule, RewriteRuleSet = rewriter.RewriteRule, rewriter.RewriteRuleSet
FUSION, ORT = "ai.onnxruntime._fusion", "com.microsoft"


def model(body, *, opset=20, rest="", inputs="float[n,4] x"):
    """A model with one output y."""
    imports = f'<ir_version: 10, opset_import: ["": {opset}, "local": 1]>'
    return onnx.parser.parse_model(f"{imports} g ({inputs}) => (float[n,4] y) {{ {body} }} {rest}")


def ops(made):
    """The ops of a model in order, with the domain of those that are not of ai.onnx."""
    return [f"{node.domain}::{node.op_type}".removeprefix("::") for node in made.graph.node]


def script(name, pattern, replacement, **options):
    return RewriteRule(pattern, replacement, name=name, **options)


def run(source, rule_sets, **options):
    made, report = surgeon.rewrite(source, surgeon.integrations.onnxscript.rules(rule_sets), **options)
    return made, report


def reasons(report):
    """Why matches were declined."""
    return {miss.rule: miss.reason for miss in report.misses if not miss.reason.startswith("onnxscript found no match")}


gelu_of_sum = script(
    "gelu_of_sum", lambda op, x, b: op.Gelu(op.Add(x, b)), lambda op, x, b: op.BiasGelu(x, b, _domain=ORT)
)
fast_gelu = script("fast_gelu", lambda op, x: op.Gelu(x), lambda op, x: op.FastGelu(x, _domain=ORT))
named = script("named", lambda op, x: op.Gelu(x), lambda op, x: op.Named(x, _domain=FUSION))
ended = script("ended", lambda op, x: op.Named(x, _domain=FUSION), lambda op, x: op.Gelu(x, _domain=ORT))
BIASED = "s = Add(x, b) h = Gelu(s) y = Neg(h)"
WITH_BIAS = "float[n,4] x, float[4] b"


def test_a_right_rule_is_proved_and_applied():
    made, report = run(model(BIASED, inputs=WITH_BIAS), RewriteRuleSet([gelu_of_sum]))
    assert ops(made) == ["com.microsoft::BiasGelu", "Neg"]
    [site] = report.sites
    assert (site.rule, site.outcome) == ("gelu_of_sum", "proved")
    assert report.count("gelu_of_sum") == 1
    [origin] = [item.value for item in made.graph.node[0].metadata_props if item.key == "surgeon.rule"]
    assert origin == "gelu_of_sum"
    assert {item.domain: item.version for item in made.opset_import} == {"": 20, "local": 1, ORT: 1}


def test_a_wrong_rule_is_left_out_and_the_right_one_after_it_is_kept():
    """The wrong one hides the nodes that the right one looks for, so that the sets run again without it."""
    with pytest.raises(CheckFailed, match="fast_gelu at h") as failed:
        run(model(BIASED, inputs=WITH_BIAS), [RewriteRuleSet([fast_gelu]), RewriteRuleSet([gelu_of_sum])])
    report = failed.value.report
    assert [site.rule for site in report.rolled_back] == ["fast_gelu"]
    assert [(site.rule, site.outcome) for site in report.sites] == [("gelu_of_sum", "proved")]
    assert ops(failed.value.result) == ["com.microsoft::BiasGelu", "Neg"]


def test_a_wrong_constant_fails():
    zero = script("zero", lambda op, x: op.Relu(x), lambda op, x: op.Max(x, _constant(op, 0)))
    made, report = run(model("h = Relu(x) y = Neg(h)"), zero)
    assert ops(made) == ["Max", "Neg"]
    assert [site.outcome for site in report.sites] == ["proved"]
    little = script("little", lambda op, x: op.Relu(x), lambda op, x: op.Max(x, _constant(op, 0.01)))
    made, report = run(model("h = Relu(x) y = Neg(h)"), little, keep_going=True)
    assert ops(made) == ["Relu", "Neg"]
    assert report.rolled_back[0].outcome == "failed"


def _constant(op, number):
    return op.initializer(ir.tensor(np.float32(number)), name="number")


def test_steps_of_several_sets_are_one_site():
    """The op in between exists in no runtime; only the end of the chain is proved."""
    made, report = run(model("h = Gelu(x) y = Neg(h)"), [RewriteRuleSet([named]), RewriteRuleSet([ended])])
    [site] = report.sites
    assert (site.rules, site.outcome) == (("named", "ended"), "proved")
    assert ops(made) == ["com.microsoft::Gelu", "Neg"]


def test_an_op_that_no_rule_replaces_is_not_written():
    source = model("h = Gelu(x) y = Neg(h)")
    made, report = run(source, [RewriteRuleSet([ended]), RewriteRuleSet([named])])  # in the wrong order
    assert made.SerializeToString() == source.SerializeToString()
    why = f"no rule after it replaced {FUSION}::Named, which no runtime has; add the rule that does"
    assert reasons(report) == {"named": why}
    made, _ = run(source, [ended, named])  # one set: its pass over the nodes reaches the new one
    assert ops(made) == ["com.microsoft::Gelu", "Neg"]


def test_a_function_of_the_matched_nodes_is_only_a_step():
    call = script("call", lambda op, x: op.Gelu(x), lambda op, x: op.Mine(x, _domain="mine"), as_function=True)
    made, report = run(model("h = Gelu(x) y = Neg(h)"), call)
    assert ops(made) == ["Gelu", "Neg"]
    assert "no rule after it replaced mine::Mine" in reasons(report)["call"]


def test_when_the_last_step_is_wrong_the_right_steps_before_it_stay():
    """Steps of one site: the step at fault is left out, not the whole site."""
    right = script("right", lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(x))
    wrong = script("wrong", lambda op, x: op.Neg(op.Relu(x)), lambda op, x: op.Neg(op.Abs(x)))
    made, report = run(model("a = Relu(x) h = Relu(a) y = Neg(h)"), [right, wrong], keep_going=True)
    assert ops(made) == ["Relu", "Neg"]
    assert [site.rules for site in report.rolled_back] == [("right", "wrong")]
    assert [(site.rules, site.outcome) for site in report.sites] == [(("right",), "proved")]


@pytest.mark.parametrize("version", [None, 23])
def test_an_op_of_a_newer_opset_is_refused(version):
    options = {} if version is None else {"_version": version}

    def normalized(op, x, scale):
        return op.RMSNormalization(x, scale, axis=-1, **options)

    norm = script("norm", lambda op, x, scale: op.Mul(op.Abs(x), scale), normalized)
    source = model("h = Abs(x) m = Mul(h, b) y = Neg(m)", inputs=WITH_BIAS)
    made, report = run(source, norm)
    assert made.SerializeToString() == source.SerializeToString(), "not even the opset import of a refused match stays"
    assert "opset 23" in reasons(report)["norm"]
    assert [miss.opset for miss in report.misses] == [23]


def test_a_refused_match_does_not_keep_other_rules_from_its_nodes():
    """The matcher counts the uses of a tensor: those by nodes of a refused replacement do not count."""
    newer = script("newer", lambda op, x: op.Relu(x), lambda op, x: op.Relu(x, _version=23))
    other = script("other", lambda op, x: op.Relu(op.Abs(x)), lambda op, x: op.Abs(x))
    made, report = run(model("a = Abs(x) r = Relu(a) y = Neg(r)"), [RewriteRuleSet([newer]), RewriteRuleSet([other])])
    assert ops(made) == ["Abs", "Neg"]
    assert report.outcome == "proved"


def test_the_nearest_match_is_explained():
    """By the reason of onnxscript's matcher, or of the rule's own check."""

    def check(context, x):
        return rewriter.MatchResult().fail("x must have the rank 3")

    checked = script("checked", lambda op, x: op.Relu(x), lambda op, x: x, condition_function=check)
    nearly = script("nearly", lambda op, x: op.Neg(op.Relu(op.Abs(x))), lambda op, x: x)
    absent = script("absent", lambda op, x: op.Tanh(x), lambda op, x: x)
    _, report = run(model("a = Ceil(x) r = Relu(a) y = Neg(r)"), [checked, nearly, absent])
    assert {miss.rule: miss.reason for miss in report.misses} == {
        "checked": "onnxscript found no match, the nearest at r: x must have the rank 3; 1 node matched",
        "nearly": "onnxscript found no match, the nearest at y: OpType mismatch: expected Abs, got Ceil; 2 nodes "
        "matched",
        "absent": "onnxscript found no match",
    }


def test_a_rule_set_runs_once_and_node_by_node():
    """As onnxscript applies it: a chain of any length collapses in one pass, and nothing undoes an earlier set."""
    relus = script("relus", lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(x))
    made, report = run(model("a = Relu(x) b = Relu(a) c = Relu(b) d = Relu(c) y = Neg(d)"), relus)
    assert ops(made) == ["Relu", "Neg"]
    assert report.count("relus") == 3
    there = script("there", lambda op, x: op.Relu(x), lambda op, x: op.Max(x, _constant(op, 0)))
    back = script("back", lambda op, x: op.Max(x, 0.0), lambda op, x: op.Relu(x))
    made, _ = run(model("a = Relu(x) y = Neg(a)"), [RewriteRuleSet([there]), RewriteRuleSet([back])], check="none")
    assert ops(made) == ["Relu", "Neg"]


def test_a_set_does_not_see_nodes_that_the_set_before_it_left_without_readers():
    first = script("first", lambda op, x, z: op.Add(x, z), lambda op, x, z: op.Abs(x))
    second = script("second", lambda op, x: op.Abs(op.Relu(x)), lambda op, x: op.Relu(x))
    sets = [RewriteRuleSet([first]), RewriteRuleSet([second])]
    made, _ = run(model("a = Relu(x) n = Neg(a) h = Add(a, n) y = Ceil(h)"), sets, check="none")
    assert ops(made) == ["Relu", "Ceil"], "the Neg, which reads the result of the first Relu, is gone"


def test_nodes_that_others_read_stay():
    abs_once = script("abs_once", lambda op, x: op.Relu(op.Abs(x)), lambda op, x: op.Abs(x), remove_nodes=False)
    made, report = run(model("a = Abs(x) r = Relu(a) n = Neg(a) y = Add(r, n)"), abs_once)
    assert ops(made) == ["Abs", "Abs", "Neg", "Add"]
    assert report.outcome == "proved"


def test_bodies_and_functions_are_rewritten_too():
    relus = script("relus", lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(x))
    then = "then = t () => (float[n,4] u) { a = Relu(z) u = Relu(a) }"
    body = f"z = local.F(x) y = If(c) <then_branch = {then}, else_branch = e () => (float[n,4] v) {{ v = Abs(z) }}>"
    rest = '<domain: "local", opset_import: ["": 20]> F (x) => (y) { a = Relu(x) y = Relu(a) }'
    source = model(body.replace("then = t", "t"), rest=rest, inputs="float[n,4] x, bool c")
    made, report = run(source, relus)
    assert [site.scope for site in report.sites] == ["then_branch of y", "function local::F"]
    assert report.outcome == "proved"
    assert [node.op_type for node in made.functions[0].node] == ["Relu"]


def test_weights_are_read_from_their_file(tmp_path):
    """A rule may compute new weights; large ones are in the model's file or in a data file."""
    batch_norm = pytest.importorskip("onnxscript.rewriter.rules.common._fuse_batchnorm", reason=REASON)
    random = np.random.default_rng(0)
    arrays = {"w": random.normal(size=(16, 4, 3, 3)), **{name: random.uniform(0.5, 1.5, 16) for name in "sbmv"}}
    text = "float[n,4,8,8] x) => (float[n,16,6,6] y) { c = Conv(x, w) y = BatchNormalization(c, s, b, m, v) }"
    source = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> g ({text}')
    source.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()
    )
    onnx.save(source, tmp_path / "inside.onnx")
    onnx.save(source, tmp_path / "outside.onnx", save_as_external_data=True, size_threshold=1024)
    for name in ("inside", "outside"):
        path, report = run(tmp_path / f"{name}.onnx", batch_norm.rules, output=tmp_path / "made.onnx", force=True)
        assert ops(onnx.load(path)) == ["Conv"]
        assert [site.outcome for site in report.sites] == ["proved"]


class Shared(rewriter.RewriteRuleClassBase):
    """Writes a constant at the first match, which the other matches read; `cleanup` ends that."""

    def __init__(self):
        super().__init__("Shared")
        self.known = None

    def pattern(self, op, x):
        return op.Relu(x)

    def rewrite(self, op, x):
        self.known = self.known if self.known is not None else op.Constant(value_float=0.0)
        return op.Max(x, self.known)

    def cleanup(self):
        self.known = None


RELUS = "a = Relu(x) b = Neg(a) c = Relu(b) d = Neg(c) e = Relu(d) y = Neg(e)"


def test_a_rule_may_keep_a_tensor_for_its_next_matches():
    made, report = run(model(RELUS), Shared.rule())
    assert ops(made).count("Constant") == 1
    assert ops(made).count("Max") == 3
    assert report.outcome == "proved"


def test_a_match_does_not_read_a_tensor_of_a_refused_one():
    made, report = run(model(RELUS), Shared.rule(), skip="a")
    assert ops(made).count("Max") == 2
    assert report.outcome == "proved"
    onnx.checker.check_model(made, full_check=True)


class Drifting(rewriter.RewriteRuleClassBase):
    """Right at its first match only, and never again."""

    count = 0

    def pattern(self, op, x):
        return op.Relu(x)

    def rewrite(self, op, x):
        self.count += 1
        return op.Max(x, op.Constant(value_float=0.0 if self.count == 1 else 0.01))


def test_a_proof_belongs_to_a_replacement():
    """The run after the rollback writes something else at the proved match, so that the proof does not count."""
    made, report = run(model("a = Relu(x) b = Neg(a) c = Relu(b) y = Neg(c)"), Drifting.rule(), keep_going=True)
    assert ops(made) == ["Relu", "Neg", "Relu", "Neg"]
    assert [site.outcome for site in report.rolled_back] == ["failed", "failed"]


def test_a_replacement_that_the_index_cannot_have_is_refused():
    swap = script("swap", lambda op, x, z: op.Sub(op.Neg(x), z), lambda op, x, z: op.Sub(op.Neg(x), z))
    with pytest.raises(RewriteError, match="Rule swap matches its own output"):
        run(model("a = Neg(x) h = Sub(a, x) y = Relu(h)"), swap)
    two = script("two", lambda op, x, z: (op.Abs(x), op.Neg(z)), lambda op, x, z: (op.Relu(z), op.Neg(z)))
    _, report = run(model("a = Abs(x) b = Sqrt(a) c = Neg(b) y = Add(a, c)"), two, check="none")
    assert reasons(report) == {"two": "it would read 'b', which depends on its own outputs"}


def test_errors_of_a_rule_name_it_and_the_node():
    def raises(op, x):
        raise KeyError("scale")

    with pytest.raises(RuleError, match="Rule broken of onnxscript raised an error at node 'y': KeyError: 'scale'"):
        run(model("y = Relu(x)"), script("broken", lambda op, x: op.Relu(x), raises))


def test_what_is_no_rule_set_is_refused():
    core = pytest.importorskip("onnxscript.rewriter.ort_fusions._core", reason=REASON)
    for given, found in ((core.fuse_xformers, "an object of type function"), ([], "none"), ("gelu", "type str")):
        with pytest.raises(UsageError, match=f"got .*{found}.*Give a RewriteRuleSet"):
            surgeon.integrations.onnxscript.rules(given)


def test_rules_without_a_name_and_rules_in_a_row():
    one = RewriteRule(lambda op, x: op.Abs(x), lambda op, x: x)
    two = script("two", lambda op, x: op.Neg(x), lambda op, x: x)
    found = surgeon.integrations.onnxscript.rules([one, two, RewriteRuleSet([one])])
    assert [rule.name for rule in found] == ["onnxscript_rule_1", "two", "onnxscript_rule_3"]
    assert found[0].search.find is found[1].search.find is not found[2].search.find, "rules in a row are one set"


def test_a_rule_file_may_define_them(tmp_path):
    """So `surgeon rewrite --rules ./file.py` runs them."""
    (tmp_path / "mine.py").write_text(
        "import surgeon\nfrom onnxscript.rewriter.ort_fusions.bias_gelu import bias_gelu_rules\n"
        "fused = surgeon.integrations.onnxscript.rules(bias_gelu_rules)\n"
    )
    _, report = surgeon.rewrite(model(BIASED, inputs=WITH_BIAS), str(tmp_path / "mine.py"))
    assert report.count("gelu_onnx_op") == 1
    [match] = surgeon.find(model(BIASED, inputs=WITH_BIAS), f"{tmp_path / 'mine.py'}:gelu_onnx_op")
    assert match.rule == "gelu_onnx_op"


def test_they_run_together_with_rules_of_surgeon():
    body = "s = Add(x, b) d = Div(s, k) e = Erf(d) a = Add(e, one) m = Mul(s, a) y = Mul(m, half)"
    source = model(body, inputs=WITH_BIAS)
    for name, number in (("k", 2**0.5), ("one", 1.0), ("half", 0.5)):
        source.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(number), name))
    made, report = surgeon.rewrite(source, ["gelu", *surgeon.integrations.onnxscript.rules(gelu_of_contrib)])
    assert ops(made) == ["com.microsoft::BiasGelu"]
    assert report.sites[0].rules == ("gelu", "gelu_of_contrib")


gelu_of_contrib = script(
    "gelu_of_contrib",
    lambda op, x, b: op.Gelu(op.Add(x, b), _domain=ORT),
    lambda op, x, b: op.BiasGelu(x, b, _domain=ORT),
)


def test_nothing_of_onnxscript_is_imported_before_it_is_used():
    code = "import sys, surgeon; surgeon.integrations.onnxscript; print({'onnxscript', 'onnx_ir'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        surgeon.integrations.nothing  # noqa: B018 - it raises
