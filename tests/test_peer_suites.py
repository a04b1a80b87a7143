"""What `python -m tests.peer_suites` counts with: how models are caught in other tests, and how results are judged."""

import os
import textwrap

import onnx
import pytest

from tests.peer_suites import equality
from tests.peer_suites.catalogue import SUITES, Suite
from tests.peer_suites.getting import CannotGet, captured
from tests.peer_suites.judging import Verdict, held, judge
from tests.peer_suites.table import faults, known_reasons, reason, table

HEAD = '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (float[2,n] x) => (float[2,n] y) '


def model(body):
    return onnx.parser.parse_model(f"{HEAD}{{ {body} }}")


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        ("y = Relu(x)", "y = Relu(x)", "equal"),
        ("y = Relu(x)", "t = Relu(x) y = Relu(t)", "equal"),
        ("t = Relu(x) y = Identity(t)", "y = Relu(x)", "identity"),
        ("t = Abs(x) y = Relu(t)", "y = Relu(x)", "worse"),
        ("t = com.microsoft.Gelu(x) y = Relu(t)", "y = com.microsoft.Gelu(x)", "equal"),
    ],
)
def test_results_are_held_by_nodes_and_by_ops_that_stand_for_many(ours, theirs, outcome):
    assert held(model("t = Relu(x) u = Abs(t) y = Neg(u)"), model(ours), model(theirs)) == outcome


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("t = Relu(x) y = Relu(t)", "y = Relu(x)", ""),
        ("y = Tanh(x)", "y = Sigmoid(x)", "output y: differs by"),
        ("y = Relu(x)", "y = Missing(x)", "does not load"),
        ("y = Relu(x)", "y = Concat <axis = 1> (x, x)", "another shape"),
    ],
)
def test_results_are_compared_by_runs(first, second, text):
    found = equality.difference(model(first), model(second))
    assert text in found
    assert bool(found) == bool(text)


def test_a_peer_that_is_wrong_is_not_better(tmp_path):
    """Fewer nodes alone count for nothing."""
    before, right, wrong = (tmp_path / f"{name}.onnx" for name in ("before", "right", "wrong"))
    onnx.save(model("t = Mul(x, x) y = Tanh(t)"), before)
    onnx.save(model("y = Relu(x)"), wrong)
    onnx.save(model("t = Mul(x, x) u = Abs(t) y = Tanh(u)"), right)
    assert judge("a test", before, wrong).outcome == "peer is wrong"
    assert judge("a test", before, right).outcome == "equal"


def test_faults_are_told():
    """A better peer needs a reason and may not be too common; wrong results have none."""
    worse = Verdict("no such test", "worse", (3, 2, 1), text="1 Relu for nothing")
    assert [line.partition(":")[0] for line in faults({"onnxslim": [worse, *[Verdict("t", "equal")] * 99]})] == [
        "onnxslim, no such test"
    ]
    assert "the peer is better on 50.0%" in faults({"onnxslim": [worse, Verdict("t", "equal")]})[-1]
    assert "wrong: differs" in faults({"onnxslim": [Verdict("t", "wrong", text="differs")]})[0]
    rows = table({"onnxslim": [worse, Verdict("t", "equal")]})
    assert "| onnxslim | 2 | 1 | 0 | 0 | 0 | 1 | 0 | 50.0% | 0 | 0 | 0 | 0 | 0 |" in rows


def test_reasons_are_of_suites():
    """Each names a suite and says something."""
    reasons = known_reasons()
    assert set(reasons) <= set(SUITES)
    assert all(len(text) > 20 for patterns in reasons.values() for text in patterns.values())
    assert reason({"onnxslim": {"*half*": "because"}}, "onnxslim", Verdict("test_half.py::t", "worse")) == "because"


PEER = """
import onnx

def optimize(model, passes=None):
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[1:]
    made.graph.node[0].output[0] = model.graph.output[0].name
    return made
"""
TESTS = """
import os, signal
import onnx
import onnxoptimizer
from onnxoptimizer import optimize

MODEL = onnx.parser.parse_model('''%s { t = Relu(x) y = Relu(t) }''')

def test_by_module():
    assert len(onnxoptimizer.optimize(MODEL).graph.node) == 1

def test_that_ends_the_process():
    os.kill(os.getpid(), signal.SIGKILL)

def test_again_is_not_kept_twice():
    optimize(MODEL)

def test_by_name():
    other = onnx.ModelProto()
    other.CopyFrom(MODEL)
    other.graph.node[0].op_type = "Abs"
    optimize(other, ["pass"])
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_models_are_caught_in_other_tests(tmp_path, monkeypatch):
    """By whatever name a test calls its optimizer, and also after a test that ended the process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "checkout"
    for path, text in (("onnxoptimizer/__init__.py", PEER), ("checks/test_peer.py", TESTS % HEAD)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(textwrap.dedent(text))
    found = captured("onnxoptimizer", Suite(tests=("checks/test_*.py",), on_path=True), root)
    assert [one.test.partition("::")[2] for one in found] == ["test_by_module", "test_by_name"]
    assert [len(onnx.load(path).graph.node) for one in found for path in (one.before, one.after)] == [2, 1, 2, 1]
    with pytest.raises(CannotGet, match="no package brings its tests"):
        captured("onnxoptimizer", Suite(), None)
