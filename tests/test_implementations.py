"""Implementations of ops in Python: whose they are, what runs them, and what is told where they break."""

import os
import subprocess
import sys
import time

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

from surgeon.errors import UsageError
from surgeon.runtime.implementations import implementation
from surgeon.runtime.implementations.implementation import Implementation, load
from surgeon.runtime.implementations.implementation_worker import ImplementationWorker
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.oracle import open_oracle
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError, require_libraries
from tests.oracle_models import CUSTOM, GELU, NAME, X, answer, gelu, model, write

pytestmark = pytest.mark.usefixtures("forget_implementations")


def test_a_python_implementation(tmp_path):
    """It runs in another process, may print, and gets the node's attributes; the rest of the nodes run as ever."""
    path = write(tmp_path, "print('hello', flush=True)\nsys.stdout.write('x' * 100)\nreturn x + np.float32(alpha) * y")
    name, independent, answers = answer(model(CUSTOM), {"x": X}, [path])
    assert (name, independent) == (NAME, True)
    np.testing.assert_allclose(answers["y"], np.exp(X / 2), rtol=1e-6)


def test_python_files_are_taken_where_libraries_are(tmp_path, monkeypatch):
    """They are run where the options are judged, and are not for ONNX Runtime."""
    path = write(tmp_path, "return x")
    monkeypatch.chdir(tmp_path)
    assert require_libraries(["ops.py"]) == [str(path)]
    assert ("test.customop", "CustomOpOne") in implementation.available(["ops.py"])
    with OrtSession(model("(float[n] x) => (float[n] y) { y = Neg(x) }"), [path]) as session:
        np.testing.assert_array_equal(session.run({"x": X})["y"], -X)
    with pytest.raises(UsageError, match="Implementation file not found: none.py"):
        require_libraries(["none.py"])


def test_the_implementations_of_a_file_are_for_the_run_that_names_it(tmp_path):
    """Running the file leaves what is registered as it was, and a later run without it does not know them."""
    path = write(tmp_path, "return x + y")
    assert answer(model(CUSTOM), {"x": X}, [path])[0] == NAME
    require_libraries([path])
    assert not implementation.available()
    with pytest.raises(SessionError, match="CustomOpOne"):
        open_oracle(model(CUSTOM))
    with pytest.raises(SessionError, match="The site cannot run in float64"):
        Float64Reference(model(CUSTOM))


def test_a_file_given_comes_before_what_is_registered_and_a_later_one_before_an_earlier(tmp_path):
    """The process that runs them keeps files that implement the same operator apart."""
    own = write(tmp_path, "return x + 3 * y", name="own")
    exec(compile(own.read_text(), str(own), "exec"), {"__name__": "own"})
    assert [one.file for one in implementation.available().values()] == [own]
    earlier, later = (write(tmp_path, f"return x + {factor} * y", name=f"ops{factor}") for factor in (5, 7))
    more = "\n@implements('test.customop::Other')\ndef other(x):\n    return -x\n"
    earlier.write_text(earlier.read_text() + more)
    text = "(float[n] x) => (float[n] y) { a = test.customop.Other(x); y = test.customop.CustomOpOne(x, a) }"
    direct = "(float[n] x) => (float[n] y) { a = Neg(x); y = test.customop.CustomOpOne(x, a) }"
    for mini, files, factor in (
        (model(direct), [], 3),
        (model(direct), [later, earlier], 5),
        (model(text), [earlier, later], 7),
        (model(direct), [], 3),
    ):
        np.testing.assert_allclose(answer(mini, {"x": X}, files)[2]["y"], X - factor * X, rtol=1e-6)


def test_a_neighbour_that_registers_does_so_for_every_file_that_imports_it(tmp_path, monkeypatch):
    """And for the user's own code that imports it later."""
    write(tmp_path, "return x", name="registering_neighbour")
    files = [tmp_path / f"{name}.py" for name in ("one", "other")]
    for path in files:
        path.write_text("import registering_neighbour\n")
        (found,) = load(path)
        assert (found.name, found.file) == ("test.customop::CustomOpOne", path)
    assert not implementation.available()
    monkeypatch.syspath_prepend(tmp_path)
    __import__("registering_neighbour")
    try:
        assert [one.name for one in implementation.available().values()] == ["test.customop::CustomOpOne"]
    finally:
        del sys.modules["registering_neighbour"]


def test_a_python_implementation_comes_before_the_rules_own_pattern(tmp_path):
    """Who gives one wants it asked; with it a node counts as computed independently of the rule."""
    path = write(tmp_path, "return x + y")
    body = onnx.parser.parse_function('<domain: "rule", opset_import: ["" : 17]> f (x, z) => (y) { y = Neg(x) }')
    name, independent, _ = answer(model(CUSTOM), {"x": X}, [path], {"b": body})
    assert (name, independent) == (NAME, True)


def test_an_implementation_and_the_rules_own_pattern_together(tmp_path):
    mini = model(
        "(bfloat16[n] x) => (bfloat16[n] y) { a = trt.plugins.MyGelu(x); y = test.customop.CustomOpOne(a, x) }"
    )
    path = write(tmp_path, "return x + y")
    name, independent, answers = answer(mini, {"x": X.astype(ml_dtypes.bfloat16)}, [path], {"a": GELU})
    assert (name, independent) == (f"{NAME}, and the rule's own pattern", False)
    assert answers["y"].dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(answers["y"].astype(np.float64), gelu(X) + X, rtol=2e-2, atol=2e-2)


def test_an_implementation_in_a_branch_and_with_several_outputs(tmp_path):
    mini = model(
        """(float[n] x, bool c) => (float[n] y, float[n] z) {
        s, , d = test.customop.CustomOpOne<plugin_version = "1", plugin_namespace = "">(x);
        y = If(c) <then_branch = t () => (float[n] q) { q = test.customop.CustomOpOne(s, d) },
        else_branch = e () => (float[n] r) { r = Mul(s, d) }>; z = Identity(d) }"""
    )
    body = "assert y is None or alpha == 1.0\ny = x if y is None else y\nreturn x + y, x, x - y + 1"
    path = write(tmp_path, body, head="x, y=None, *, alpha=1.0")
    for taken, wanted in ((True, 2 * X + 1), (False, 2 * X)):
        _, _, answers = answer(mini, {"x": X, "c": np.array(taken)}, [path])
        np.testing.assert_array_equal(answers["y"], wanted)
        np.testing.assert_array_equal(answers["z"], np.ones_like(X))


def test_an_implementation_gives_a_reference_too(tmp_path):
    with Float64Reference(model(CUSTOM), custom_ops=[write(tmp_path, "return x + alpha * y")]) as reference:
        assert reference.name == f"float64 by the {NAME}"
        np.testing.assert_allclose(reference.run({"x": X})["y"], np.exp(X.astype(np.float64) / 2), rtol=1e-15)


FAULTS = {
    "ends": ("os._exit(3)", "ended its process (exit code 3) instead of returning a result"),
    "crashes": ("os.kill(os.getpid(), 11)", "crashed (SIGSEGV)"),
    "raises": ("raise ValueError('no\\nway')", "raised ValueError at line 7 (no way)"),
    "raises in numpy": ("return np.split(x, len(x) + 1)", "raised ValueError at line 7 (array split does not"),
    "exits": ("sys.exit('enough')", "raised SystemExit at line 7 (enough)"),
    "text": ("return 'a'", "returned a value of type str. It must return a numpy array of numbers, or a tuple of them"),
    "nothing": ("pass", "returned a value of type NoneType. It must return a numpy array"),
    "objects": ("return np.array([None])", "returned an array of object. It must return a numpy array of numbers"),
    "too few": ("return ()", "returned 0 of the node's 1 outputs. It must return all, as a tuple"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_implementation_that_fails_is_reported_in_one_sentence(tmp_path, fault):
    body, wanted = FAULTS[fault]
    path = write(tmp_path, body)
    with pytest.raises(SessionError) as refused:
        answer(model(CUSTOM), {"x": X}, [path])
    assert str(refused.value).startswith(f"The implementation of test.customop::CustomOpOne in '{path}' {wanted}")
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)
    assert not refused.value.is_unsupported


def test_an_implementation_of_another_dtype(tmp_path):
    """Where the model declares the dtype of the node's output, and where only that of what follows."""
    path = write(tmp_path, "return (x + y).astype(np.float64)")
    direct = model("(float[n] x) => (float[n] y) { y = test.customop.CustomOpOne(x, x) }")
    with pytest.raises(SessionError, match="returned float64, but the model declares float32"):
        answer(direct, {"x": X}, [path])
    with pytest.raises(SessionError, match="Output 'y' is float64, but the model declares float32"):
        answer(model(CUSTOM), {"x": X}, [path])


def test_an_attribute_that_an_implementation_does_not_take(tmp_path):
    path = write(tmp_path, "return x", head="x, y")
    with pytest.raises(SessionError, match=r"raised TypeError \(one\(\) got an unexpected keyword argument 'alpha'\)"):
        answer(model(CUSTOM), {"x": X}, [path])


def test_an_implementation_that_takes_too_long(tmp_path):
    """It tells nothing about the model."""
    done = tmp_path / "done"
    path = write(tmp_path, f"time.sleep(60)\nopen({str(done)!r}, 'w').close()")
    with pytest.raises(SessionError, match="did not return within 1.5 s. Make it faster") as refused:
        answer(model(CUSTOM), {"x": X}, [path], limit=1.5)
    assert refused.value.is_unsupported
    assert not done.exists()  # nobody waited for it


def test_the_process_starts_again_after_a_crash(tmp_path):
    path = write(tmp_path, "if x[0] > 0:\n    os._exit(1)\nreturn x")
    with open_oracle(model(CUSTOM), [path]) as oracle:
        with pytest.raises(SessionError, match="ended its process"):
            oracle.run({"x": X + 10})
        np.testing.assert_allclose(oracle.run({"x": X})["y"], np.exp(X), rtol=1e-6)


def test_a_process_serves_one_model_after_another_until_its_file_is_edited(tmp_path):
    """Not two at once, and none that still owes an answer."""
    path = write(tmp_path, "return x + os.getpid()")
    mini = model("(float[n] x) => (float[n] y) { y = test.customop.CustomOpOne(x, x) }")

    def pid(oracle):
        return int(oracle.run({"x": np.zeros(1, np.float32)})["y"][0])

    with open_oracle(mini, [path]) as one, open_oracle(mini, [path]) as other:
        first, second = pid(one), pid(other)
    assert first != second
    with open_oracle(mini, [path]) as oracle:
        assert pid(oracle) in (first, second)
    write(tmp_path, "if x[0]:\n    time.sleep(60)\nreturn x + os.getpid()")
    with open_oracle(mini, [path], limit=1) as oracle, pytest.raises(SessionError, match="did not return within"):
        oracle.run({"x": np.ones(1, np.float32)})
    with open_oracle(mini, [path]) as oracle:
        edited = pid(oracle)
    assert edited not in (first, second)


def test_a_call_that_is_interrupted_leaves_no_answer_behind(tmp_path, monkeypatch):
    (found,) = load(write(tmp_path, "return x"))
    worker, x = ImplementationWorker([found]), np.ones(1)
    worker.call(found.name, [x, x], {})
    child = worker._child

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("surgeon.runtime.processes.worker.read_message", interrupt)
        with pytest.raises(KeyboardInterrupt):
            worker.call(found.name, [x, x], {})
    worker.close()
    assert child.popen.poll() is not None
    np.testing.assert_array_equal(worker.call(found.name, [3 * x, x], {})[0], 3 * x)
    worker.close()


def test_the_process_dies_with_its_parent(tmp_path):
    """Also when the parent has no time to say so, and the implementation is at work."""
    pid = tmp_path / "pid"
    path = write(tmp_path, f"open({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    code = (
        "import os, sys, threading, numpy as np\nfrom surgeon.runtime.implementations.implementation import load\n"
        "from surgeon.runtime.implementations.implementation_worker import ImplementationWorker\n"
        f"worker = ImplementationWorker(load({str(path)!r}))\nx = np.zeros(1)\n"
        "threading.Thread(target=worker.call, args=('test.customop::CustomOpOne', [x, x], {}), daemon=True).start()\n"
        f"import time\nwhile not os.path.exists({str(pid)!r}): time.sleep(0.05)\ntime.sleep(0.1)\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
    number = int(pid.read_text())
    deadline = time.monotonic() + 120  # only so that a process that lives on ends this test
    while _alive(number) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _alive(number)


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = f"/proc/{pid}/stat"  # one that nobody has waited for is dead all the same
    return not os.path.exists(status) or open(status).read().rpartition(")")[2].split()[0] != "Z"


def test_arrays_pass_the_pipe_as_they_are(tmp_path):
    """Of all dtypes and shapes, absent ones too."""
    body = "return tuple(a for a in all if a is not None) + tuple(more.values())"
    found = load(write(tmp_path, body, head="*all, **more"))
    arrays = [np.zeros((0, 3), np.float16), np.array(3, np.int64), np.arange(6).reshape(2, 3).T, np.array([True])]
    arrays += [np.array([1.5, 2], ml_dtypes.bfloat16), np.array([[0.5]], ml_dtypes.float8_e4m3fn), np.array([1 + 2j])]
    worker = ImplementationWorker(found)
    back = worker.call("test.customop::CustomOpOne", [*arrays, None], {"w": np.array([[7]], np.uint8)})
    worker.close()
    for sent, got in zip([*arrays, np.array([[7]], np.uint8)], back, strict=True):
        assert (sent.dtype, sent.shape) == (got.dtype, got.shape)
        np.testing.assert_array_equal(sent, got)


def test_strings_do_not_pass(tmp_path):
    path = write(tmp_path, "return x")
    mini = model("(string[n] x) => (string[n] y) { y = test.customop.CustomOpOne(x, x) }")
    with pytest.raises(SessionError, match="cannot receive its inputs"):
        answer(mini, {"x": np.array(["a"], dtype=object)}, [path])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, "Implementation file not found: .*"),
        ("x = (", r"raised an error: SyntaxError: .* \(line 1\)$"),
        ("raise SystemExit(2)", r"raised an error: SystemExit: 2$"),
        ("import nowhere_at_all", r"raised an error: ModuleNotFoundError: "),
        ("x = 1", r"registers no implementation. Decorate a function with @surgeon.implements"),
        ("from surgeon import implements\nimplements('Op')", "Invalid operator 'Op'. Give domain and name"),
        ("from surgeon import implements\nimplements('::Add')", "is in ONNX's own domain"),
    ],
)
def test_a_file_of_implementations_that_is_wrong(tmp_path, text, wanted):
    path = tmp_path / "ops.py"
    if text is not None:
        path.write_text(text)
    before = dict(implementation.available())
    with pytest.raises(UsageError, match=wanted):
        open_oracle(model(CUSTOM), [path])
    assert implementation.available() == before


def test_a_file_is_run_once_and_anew_when_edited(tmp_path):
    """It may import its neighbours, and a helper of theirs may register for it: the file is the one that was given."""
    (tmp_path / "neighbour_of_ops.py").write_text(
        "from surgeon import implements\ndef add(name):\n    implements(name)(lambda x: x)\n"
    )
    path = tmp_path / "ops.py"
    path.write_text("from neighbour_of_ops import add\nadd('test.customop::Other')\n")
    try:
        (first,) = load(path)
        assert load(path)[0] is first
        assert (first.name, first.file) == ("test.customop::Other", path.resolve())
        path.write_text("from neighbour_of_ops import add\nadd('test.customop::Another')\n")
        assert load(str(path))[0].name == "test.customop::Another"
        mini = model("(float[n] x) => (float[n] y) { y = test.customop.Another(x) }")
        np.testing.assert_array_equal(answer(mini, {"x": X}, [path])[2]["y"], X)
    finally:
        sys.modules.pop("neighbour_of_ops", None)


def test_a_neighbour_of_an_implementation_that_nobody_knows(tmp_path):
    mini = model("(float[n] x) => (float[n] y) { a = test.customop.CustomOpOne(x, x); y = trt.plugins.MyGelu(a) }")
    with pytest.raises(SessionError, match="trt.plugins::MyGelu has no implementation") as refused:
        open_oracle(mini, [write(tmp_path, "return x")])
    assert refused.value.is_unsupported


def test_lists_beside_an_implementation(tmp_path):
    """Nodes of lists cannot run one by one: the evaluator then runs all."""
    mini = model(
        """(float[n] x) => (float[m] y) { a = test.customop.CustomOpOne(x, x); s = SequenceConstruct(a, x);
        y = ConcatFromSequence<axis = 0>(s) }"""
    )
    name, _, answers = answer(mini, {"x": X}, [write(tmp_path, "return x + y")])
    assert name == NAME
    np.testing.assert_array_equal(answers["y"], np.concatenate([2 * X, X]))


# The evaluator by itself


def test_implementations_are_values():
    one = Implementation("a.b", "Op", len, None)
    assert one.name == "a.b::Op"


def test_what_is_no_name_is_reported():
    with pytest.raises(UsageError, match="Invalid operator 5. Give domain and name"):
        implementation.implements(5)
