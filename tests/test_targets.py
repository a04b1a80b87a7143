"""Targets as values: surgeon's own, and one that a package brings, which every command knows without a change here."""

import importlib
import re
import subprocess
import sys

import onnx
import pytest

import surgeon
from surgeon import Graph, Tensor, UsageError, rule
from surgeon.authoring.rule_proof import prover
from surgeon.display.content.rule_manual import targets_text
from surgeon.display.terminal.terminal_renderer import text_of
from surgeon.errors import Unavailable
from surgeon.rules.catalogue import all_rules
from surgeon.runtime.processes import worker
from surgeon.target_registry import OWN, names, owner, target_of, targets
from surgeon.targets.target import Target
from tests.command_line import ROOT, one_sentence, run
from tests.models import graph, make, opset
from tests.pages import blocks

ACME = next(block.text for block in blocks(ROOT / "docs" / "targets.md") if "TARGET = Target(" in block.text)
RULES = '''
from surgeon import Graph, Tensor, rule

def pattern(g: Graph, x: Tensor) -> Tensor:
    """x · sigmoid(tanh(x))."""
    return g.mul(x, g.sigmoid(g.tanh(x)))

@rule(patterns=[pattern], target="acme")
def smooth_gate(g: Graph, x: Tensor) -> Tensor:
    """The NPU's gate.  Numerics: rounding only."""
    return g.op("acme::SmoothGate", x)
'''
IMPLEMENTATION = """
import numpy as np
import surgeon

@surgeon.implements("acme::SmoothGate")
def smooth_gate(x):
    return x / (1 + np.exp(-np.tanh(x)))
"""
GATE = "t = Tanh({x}) s = Sigmoid(t) {y} = Mul({x}, s)"
FOUR = "({kind}[n, 1, 4, 4] x) => ({kind}[n, 1, 4, 4] y)"
THREE = "({kind}[n, 4, 4] x) => ({kind}[n, 4, 4] y)"
TWO = "({kind}[n, 4] x) => ({kind}[n, 4] y)"


def install(folder, name, entries, **modules):
    """Write a distribution as pip does: a package of these modules, and its entry points."""
    (folder / name).mkdir()
    for module, text in {"__init__": "", **modules}.items():
        (folder / name / f"{module}.py").write_text(text, encoding="utf-8")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(entries, encoding="utf-8")
    importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on Python's path for packages, forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    owner.cache_clear()
    yield folder
    owner.cache_clear()
    worker.stop()  # they have seen the packages
    for module in [item for item in sys.modules if item.partition(".")[0] in ("acme_npu", "other_npu")]:
        del sys.modules[module]


@pytest.fixture
def acme(site):
    """The target of the documentation, with a rule for it."""
    entries = "[surgeon.targets]\nacme = acme_npu.target:TARGET\n[surgeon.rules]\nacme = acme_npu.rules\n"
    install(site, "acme_npu", entries, target=ACME, rules=RULES)
    return site


def model(body, head=FOUR, kind="float", **imports):
    return graph(body, head.format(kind=kind), header=opset(17, **imports))


@pytest.fixture
def saved(tmp_path):
    """Save a model, and return its path."""

    def save(*arguments, **settings):
        path = tmp_path / "in.onnx"
        path.write_bytes(model(*arguments, **settings).SerializeToString())
        return path

    return save


class TestOfAPackage:
    """What the documentation shows, installed."""

    def test_is_one_of_the_targets(self, acme):
        assert names() == (*OWN, "acme")
        assert isinstance(target_of("acme"), Target)
        assert [target.name for target in targets()] == [*OWN, "acme"]
        assert "Installed: acme." in run("rewrite", "--help").stdout
        assert "Installed: acme." in run("check", "--help").stdout

    def test_rewrite_writes_its_ops_and_proves_them(self, acme, saved, tmp_path):
        path, out = saved(GATE.format(x="x", y="y")), tmp_path / "out.onnx"
        words = ["rewrite", path, out, "--rules", "smooth_gate", "--target", "acme", "--require-proof"]
        done = run(*words)
        assert done.exit_code == 1
        assert "only the rule's own pattern computes the replacement" in done.output
        (tmp_path / "npu.py").write_text(IMPLEMENTATION)
        done = run(*words, "--custom-ops", tmp_path / "npu.py")
        assert done.exit_code == 0, done.output
        written = surgeon.find(out, "smooth_gate", target="decomposed")
        assert len(list(written)) == 1
        assert run("check", out, "--target", "acme").exit_code == 0

    def test_rewrite_does_not_write_what_it_has_no_kernel_for(self, acme):
        """Relu runs in float16 alone, and Tanh not at all: nothing is lost where it stood before."""

        def positive(g: Graph, x: Tensor) -> Tensor:
            return g.matmul(g.add(x, x), x)

        @rule(patterns=[positive], target="onnx")
        def first(g: Graph, x: Tensor) -> Tensor:
            return g.matmul(g.relu(g.add(x, x)), x)

        body = "a = Add(x, x) y = MatMul(a, x)"
        for kind, count in (("float16", 1), ("float", 0)):
            _, report = surgeon.rewrite(model(body, kind=kind), first, target="acme", check="none")
            assert report.count("first") == count
        assert report.misses[0].reason == "Acme's NPU has no kernel for ai.onnx::Relu in float at opset 17"
        _, report = surgeon.rewrite(model(body), first, target="acme", ep="any", check="none")
        assert report.count("first") == 1

    def test_what_its_own_op_makes_is_known_to_the_next(self, acme):
        """The gate of a float is a float, so that Relu has no kernel for it."""

        @rule(patterns=[lambda g, x: g.add(g.matmul(x, x), x)], target="acme")
        def behind(g: Graph, x: Tensor) -> Tensor:
            return g.add(g.relu(g.op("acme::SmoothGate", x)), x)

        _, report = surgeon.rewrite(model("m = MatMul(x, x) y = Add(m, x)"), behind, target="acme", check="none")
        assert report.count("behind") == 0
        assert "no kernel for ai.onnx::Relu in float" in report.misses[0].reason

    def test_rewrite_does_not_write_what_is_beyond_a_limit(self, acme):
        """But where what is there runs no better; `explain` says the same."""

        def pattern(g: Graph, x: Tensor) -> Tensor:
            return g.matmul(g.add(x, x), x)

        @rule(patterns=[pattern, lambda g, x: g.neg(g.tanh(x))], target="acme")
        def gated(g: Graph, x: Tensor) -> Tensor:
            return g.op("acme::SmoothGate", x)

        square = "({kind}[4, 4] x) => ({kind}[4, 4] y)"
        body = "a = Add(x, x) y = MatMul(a, x)"
        for head, count in ((FOUR, 1), (square, 0)):
            _, report = surgeon.rewrite(model(body, head), gated, target="acme", check="none")
            assert report.count("gated") == count
        message = "the NPU takes four axes only; put an Unsqueeze before it, and a Squeeze after it"
        misses = [*report.misses, *surgeon.explain(model(body, square), gated, target="acme")]
        assert [(miss.kind, miss.reason) for miss in misses] == [("kernel", message)] * 2
        unrun = model("t = Tanh(x) y = Neg(t)", square)
        assert surgeon.rewrite(unrun, gated, target="acme", check="none")[1].count("gated") == 1

    def test_rewrite_refuses_what_breaks_a_schema_of_its_own(self, acme):
        @rule(patterns=[lambda g, x: g.tanh(x)], target="acme")
        def wrong(g: Graph, x: Tensor) -> Tensor:
            return g.op("acme::SmothGate", x)

        with pytest.raises(surgeon.RuleError, match="acme has no op SmothGate; the nearest are SmoothGate"):
            surgeon.rewrite(model("y = Tanh(x)"), wrong, target="acme", check="none")

    @pytest.mark.parametrize(
        ("body", "head", "kind", "reason"),
        [
            ("y = acme.SoftClip(x)", FOUR, "float", None),
            ("y = acme.SmoothGate(x)", FOUR, "float", None),
            ("y = acme.SmoothGate(x)", TWO, "float", "the NPU takes four axes only"),
            ("y = acme.SoftClip(x)", TWO, "float", None),
            ("y = acme.SoftClip(x)", FOUR, "double", "is tensor(double) ('x'), but must be tensor(float)"),
            ("y = acme.SoftClip(x, x)", FOUR, "float", "SoftClip has 1 input, but this node has 2"),
            ("y = acme.Softclip(x)", FOUR, "float", "acme has no op Softclip; the nearest are SoftClip"),
            ("y = Relu(x)", FOUR, "float16", None),
            ("y = Relu(x)", FOUR, "float", "Acme's NPU has no kernel for it in float32"),
            ("y = Tanh(x)", FOUR, "float", "Acme's NPU has no kernel for it"),
            ("y = com.microsoft.Gelu(x)", FOUR, "float", "Acme's NPU has no kernel for it"),
            ("y = other.Gate(x)", FOUR, "float", "Acme's NPU has no domain 'other'"),
            ("y = Reloo(x)", FOUR, "float", "ai.onnx 17 does not have this op"),
        ],
    )
    def test_check_reports_what_it_does_not_run(self, acme, body, head, kind, reason):
        found = surgeon.check(model(body, head, kind, acme=1, other=1), "acme")
        assert len(found) == (reason is not None)
        assert all(one.stops and reason in one.reason for one in found)

    def test_check_says_what_helps_and_ends_with_1(self, acme, saved):
        done = run("check", saved(GATE.format(x="x", y="y")), "--target", "acme")
        assert done.exit_code == 1
        assert "rule smooth_gate fires: surgeon rewrite IN OUT --rules smooth_gate --target acme" in done.stdout
        assert "Acme's NPU cannot run this model" in done.stdout
        done = run("check", saved("y = acme.SmoothGate(x)", TWO, acme=1), "--target", "acme")
        assert done.exit_code == 1
        assert "stops    acme::SmoothGate (y): the NPU takes four axes only" in done.stdout
        assert "help     put an Unsqueeze before it, and a Squeeze after it" in done.stdout

    def test_other_targets_know_whose_op_it_is(self, acme):
        (found,) = surgeon.check(model("y = acme.SoftClip(x)", acme=1), "onnx")
        assert found.reason == "it is an op of Acme's NPU, and ONNX does not have it"
        assert [one.kind for one in surgeon.check(model("y = acme.SoftClip(x)", acme=1), "tensorrt")] == ["mapping"]

    def test_rules_tell_its_form(self, acme):
        reported = {rule.name: targets_text(rule) for _, _, rule in all_rules()}
        assert reported["smooth_gate"] == "decomposed, acme"
        assert reported["gelu"] == "ort, onnx (opset 20), contrib, decomposed", "for acme as for onnx"
        assert "acme_npu.rules" in run("rules", "-v").stdout
        assert "  acme       acme::SmoothGate(x)" in run("rules", "smooth_gate").stdout

    def test_rules_prove_its_form(self, acme, tmp_path, monkeypatch):
        """With its op in Python; nothing else runs it here."""
        monkeypatch.setattr(prover, "DTYPES", (onnx.TensorProto.FLOAT,))
        (tmp_path / "npu.py").write_text(IMPLEMENTATION)
        words = ["rules", "smooth_gate", "--prove", "--target", "acme"]
        assert run(*words).exit_code == 1
        done = run(*words, "--custom-ops", tmp_path / "npu.py")
        assert done.exit_code == 0, done.output
        assert re.search(r"^pattern +acme ", done.stdout, re.M)

    def test_explain_says_why_its_form_is_not_written(self, acme, saved):
        path = saved("t = Tanh(x) s = Sigmoid(t) y = Mul(t, s)")
        assert "smooth_gate matches nowhere" in run(
            "explain", path, "--rules", "smooth_gate", "--target", "acme"
        ).stdout
        path = saved(GATE.format(x="x", y="y"))
        output = run("explain", path, "--rules", "smooth_gate", "--target", "acme").stdout
        assert "fires    1 site (" in output
        output = run("explain", path, "-r", "smooth_gate").stdout
        assert "rule smooth_gate has no form for target ort; it has one for acme" in output


class TestNotInstalled:
    """Forms for targets that are not there, and packages that are broken."""

    def test_a_form_for_it_is_no_fault(self):
        made = make(lambda g, x: g.tanh(x), lambda g, x: g.sin(x), name="both", target="onnx")
        made.on("openvino")(lambda g, x: g.op("openvino::Sin", x))
        _, report = surgeon.rewrite(model("y = Tanh(x)"), made, target="onnx", check="none")
        assert report.count("both") == 1
        assert made.targets == ["ort", "onnx", "contrib", "decomposed"]
        assert "  openvino   openvino::Sin(x)  (no installed target takes it)" in text_of(made).splitlines()

    def test_a_rule_without_another_form_names_it(self):
        made = make(lambda g, x: g.tanh(x), lambda g, x: g.sin(x), name="one", target="tensort")
        assert made.plan("onnx", 17) == Unavailable(
            "rule one has no form for target onnx; it has one for 'tensort', but no installed target has that name "
            "(did you mean 'tensorrt'?)"
        )

    def test_asking_for_it_lists_those_that_there_are(self, saved):
        message = "Unknown target 'openvino'. Choose one of ort, onnx, tensorrt, contrib, decomposed."
        with pytest.raises(UsageError, match=message):
            surgeon.rewrite(model("y = Tanh(x)"), "gelu", target="openvino")
        with pytest.raises(UsageError, match="named 'openvino' for a check; choose one of ort, onnx, tensorrt.$"):
            surgeon.check(model("y = Tanh(x)"), "openvino")
        with pytest.raises(UsageError, match="named 'contrib' for a check; choose one of ort, onnx, tensorrt.$"):
            surgeon.check(model("y = Tanh(x)"), "contrib")
        done = run("rewrite", saved("y = Tanh(x)"), "out.onnx", "--rules", "gelu", "--target", "openvino")
        assert done.exit_code == 2
        assert "'openvino' is not one of 'ort', 'onnx', 'tensorrt', 'contrib', 'decomposed'" in done.stderr

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("TARGET = 1\n", "other_npu.target:TARGET is not a surgeon.Target named 'other'"),
            ("import no_such_module\n", r"cannot be loaded \(ModuleNotFoundError: No module named 'no_such_module'\)"),
            (ACME, "is not a surgeon.Target named 'other'"),
        ],
    )
    def test_a_broken_one_stops_nobody_else(self, site, saved, tmp_path, text, why):
        install(site, "other_npu", "[surgeon.targets]\nother = other_npu.target:TARGET\n", target=text)
        with pytest.raises(UsageError, match=why):
            target_of("other")
        with pytest.warns(UserWarning, match=why):
            assert [target.name for target in targets()] == list(OWN)
        path = saved("y = Tanh(x)")
        one_sentence(run("rewrite", path, tmp_path / "out.onnx", "--rules", "gelu", "--target", "other"), 2)
        assert run("rewrite", path, tmp_path / "out.onnx", "--rules", "gelu").exit_code == 0

    @pytest.mark.parametrize(
        ("old", "new", "why"),
        [
            ('writes=("acme", "onnx", "any")', 'writes="acme"', "Invalid writes='acme' of the target 'acme'"),
            ("RUNS),)", "RUNS))", "Invalid providers of the target 'acme'"),
            ('FLOATS = ("float"', 'FLOATS = ("float32"', "Invalid type 'float32' of ai.onnx::MatMul in the kernels of"),
        ],
        ids=["writes", "providers", "types"],
    )
    def test_what_a_target_says_wrongly_is_reported_when_it_is_asked_for(self, site, saved, tmp_path, old, new, why):
        assert old in ACME
        install(site, "acme_npu", "[surgeon.targets]\nacme = acme_npu.target:TARGET\n", target=ACME.replace(old, new))
        path = saved("y = Tanh(x)")
        for words in (["rewrite", path, tmp_path / "out.onnx", "--rules", "gelu"], ["check", path]):
            result = run(*words, "--target", "acme")
            assert result.exit_code == 2
            assert why in result.stderr
            assert "not one of" not in result.stderr

    @pytest.mark.parametrize(
        ("limit", "why"),
        [
            ("lambda node: 1 / 0", "The limit of Relu in the target Acme's NPU raised ZeroDivisionError: division by"),
            ("lambda node: None", r"The limit of Relu in the target Acme's NPU raised TypeError"),
            ("lambda node: ('a', 'b')", "The limit of Relu in the target Acme's NPU yielded 'a'. Yield two texts"),
        ],
    )
    @pytest.mark.parametrize("op", ["Relu", "ai.onnx::Relu"])
    def test_a_limit_that_breaks_is_the_target_s(self, site, limit, why, op):
        """And an op of ONNX may be called by its full name, as its kernels are."""
        text = ACME.replace('limits={"acme::SmoothGate": rank}', f'limits={{"{op}": {limit}}}')
        install(site, "acme_npu", "[surgeon.targets]\nacme = acme_npu.target:TARGET\n", target=text)
        with pytest.raises(UsageError, match=why):
            surgeon.check(model("y = Relu(x)", kind="float16"), "acme")

    def test_two_of_one_name_are_refused(self, acme):
        install(acme, "other_npu", "[surgeon.targets]\nacme = other_npu.target:TARGET\n", target=ACME)
        with pytest.raises(UsageError, match="Several packages define the target 'acme' .*acme_npu.* and other_npu"):
            target_of("acme")

    def test_surgeon_s_own_are_never_replaced(self, site):
        install(site, "other_npu", "[surgeon.targets]\nort = other_npu.target:TARGET\n", target=ACME)
        assert names() == OWN
        assert target_of("ort").title == "ONNX Runtime"


def test_limits_of_tensorrt_keep_rules_from_writing():
    """A pooling over one axis is none of its own; over two it is."""

    @rule(patterns=[lambda g, x: g.neg(g.neg(x))], target="onnx")
    def pooled(g: Graph, x: Tensor) -> Tensor:
        return g.max_pool(x, kernel_shape=[1] * (len(x.shape) - 2))

    body = "n = Neg(x) y = Neg(n)"
    for head, target, count in ((FOUR, "tensorrt", 1), (THREE, "tensorrt", 0), (THREE, "onnx", 1)):
        _, report = surgeon.rewrite(model(body, head), pooled, target=target, check="none")
        assert report.count("pooled") == count, (head, target)


def test_surgeon_s_own_say_what_they_are():
    """Each file has the target of its name; what they take between them is what rules write."""
    assert [target.name for target in targets()] == list(OWN)
    assert {"ort", "onnx", "tensorrt", "decomposed", "any"} == {kind for one in targets() for kind in one.writes}
    assert target_of("tensorrt").opsets == range(9, 25)


def test_a_target_of_surgeon_s_own_asks_no_package_and_loads_no_other():
    """So that a rewrite starts as fast as before: nothing scans what is installed, no table of kernels is read."""
    code = (
        "import importlib.metadata, sys\n"
        "importlib.metadata.distributions = lambda **only: 1 / 0\n"
        "from surgeon.target_registry import target_of\n"
        "target_of('ort')\n"
        "print(sorted(name for name in sys.modules if name.startswith('surgeon.')), 'onnx' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    helpers = ["ops", "ops.builder", "ops.builder.helper_registration"]
    modules = ["entry_points", "errors", *helpers, "target_registry", "targets", "targets.ort", "targets.target"]
    assert done.stdout.strip() == f"{[f'surgeon.{name}' for name in modules]} False"
