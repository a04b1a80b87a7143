"""surgeon in polygraphy: the loader among polygraphy's own, and `debug reduce` with surgeon as its check."""

import sys

import onnx
import pytest

from surgeon.errors import RuleError
from tests.command_line import ROOT, process
from tests.models import graph

pytest.importorskip("polygraphy", reason="polygraphy is not installed: pip install polygraphy")

from polygraphy.backend.onnx import BytesFromOnnx, OnnxFromPath
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

from surgeon.integrations.polygraphy import RewriteOnnx

MODEL = str(ROOT / "notebooks" / "models" / "tiny_distilbert.onnx")
RULES = '''
import surgeon

def pattern(g, x):
    """erf."""
    return g.erf(x)

@surgeon.rule(patterns=[pattern], target="any")
def wrong(g, x):
    """Write tanh(1.2 x), which is only near."""
    return g.tanh(g.mul(x, 1.2))
'''


def test_runners_agree_on_the_model_and_its_rewrite():
    load = OnnxFromPath(MODEL)
    fused = RewriteOnnx(load, "ort")
    assert fused.report is None
    runners = [OnnxrtRunner(SessionFromOnnx(BytesFromOnnx(one))) for one in (load, fused)]
    assert Comparator.compare_accuracy(Comparator.run(runners))
    assert fused.report.outcome == "proved"
    assert fused.report.nodes == (180, 60)


def test_a_model_in_memory_and_options():
    made = RewriteOnnx(onnx.load(MODEL), "gelu", target="contrib")()
    assert [node.domain for node in made.graph.node if node.op_type == "Gelu"] == ["com.microsoft"] * 4
    with pytest.raises(RuleError, match="gleu"):
        RewriteOnnx(onnx.load(MODEL), "gleu")()


def test_a_wrong_site_is_rolled_back_and_reported(tmp_path, capsys):
    (tmp_path / "wrong.py").write_text(RULES)
    loader = RewriteOnnx(OnnxFromPath(MODEL), str(tmp_path / "wrong.py"))
    assert len(loader().graph.node) == 180
    assert len(loader.report.rolled_back) == 4
    assert "[W] <Report wrong 0; 4 rolled back" in capsys.readouterr().out


def test_a_call_sets_no_attribute():
    """polygraphy refuses it with POLYGRAPHY_INTERNAL_CORRECTNESS_CHECKS=1."""
    loader = RewriteOnnx(graph("y = Relu(x)"), "gelu")
    before = dict(vars(loader))
    loader()
    assert vars(loader) == before
    assert loader.report is not None


def test_reduce_finds_the_nodes_at_which_a_rule_fails(tmp_path):
    """The exit codes of surgeon say which failure is searched."""
    model = graph("a = Relu(x) b = Erf(a) c = Softmax(b) y = Neg(c)")
    onnx.save(model, tmp_path / "in.onnx")
    (tmp_path / "wrong.py").write_text(RULES)
    check = [sys.executable, "-m", "surgeon", "rewrite", "polygraphy_debug.onnx", "x.onnx", "--rules", "./wrong.py"]
    reduce = ["debug", "reduce", "in.onnx", "-o", "small.onnx", "--fail-code", "1", "--check"]
    done = process("-c", "from polygraphy.tools import main; main()", *reduce, *check, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [node.op_type for node in onnx.load(tmp_path / "small.onnx").graph.node] == ["Erf"]
