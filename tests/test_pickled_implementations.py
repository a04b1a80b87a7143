"""Implementations that no file defines reach the worker process, or the run stops with a reason."""

import functools
import importlib
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from surgeon.errors import UsageError
from surgeon.runtime.implementations import implementation
from surgeon.runtime.implementations.function_pickling import pickle_function, unpickle_function
from surgeon.runtime.implementations.implementation import (
    export_registry,
    implements,
    import_registry,
    load,
    local_only_ops,
    register_trusted,
)
from surgeon.runtime.sessions.oracle import open_oracle
from tests import sampling
from tests.oracle_models import CUSTOM, NAME, X, answer, model, write

pytestmark = pytest.mark.usefixtures("forget_implementations")

OP = "test.customop::AddRound"
# What a person writes from top to bottom, without a guard.  `run` is what counts how often that happens.
SCRIPT = '''
open("ran", "a").write("x")
import numpy as np
import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.testing import parse

FACTOR = {factor}

def scaled(x):
    return x * FACTOR

@surgeon.implements("test.customop::AddRound")
def add_round(x, z):
    return scaled(np.round(x + z)).astype(x.dtype)

@rule(patterns=[lambda g, x, z: g.round(g.add(x, z))])
def to_plugin(g: Graph, x: Tensor, z: Tensor) -> Tensor:
    """Write the plugin."""
    return g.op("test.customop::AddRound", x, z)

source = parse("(float[n, 4] x, float[n, 4] z) => (float[n, 4] y) {{ a = Add(x, z) y = Round(a) }}")
try:
    _, report = surgeon.rewrite(source, to_plugin)
    (proof,) = report.proofs
except surgeon.CheckFailed as failed:
    proof = failed.report.rolled_back[0].proof
print(proof.outcome.value, proof.independent, proof.oracle, sep="; ")
'''
TOLD = {1: f"proved; True; Python implementation of {OP}", 7: f"failed; True; Python implementation of {OP}"}


def ran(arguments, folder, text=None):
    """What a Python process of its own prints in a folder; it ends within a minute."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return subprocess.run(
        [sys.executable, *arguments],
        input=text,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=600,
    )


def own(body="return x + y", **names):
    """Register an implementation as the cell of a notebook does, whose functions are those of no file."""
    text = f"@implements('test.customop::CustomOpOne')\ndef one(x, y, alpha):\n{textwrap.indent(body, '    ')}"
    scope = {"__name__": "__main__", "implements": implements, "np": np, **names}
    exec(compile(text, "<cell>", "exec"), scope)
    return scope["one"]


@pytest.mark.parametrize("factor", sampling.chosen(lambda: [1], lambda: [*TOLD]))
def test_read_from_standard_input(factor, tmp_path):
    """A wrong one fails the rewrite, a right one proves it, independently of the rule."""
    result = ran(["-"], tmp_path, SCRIPT.format(factor=factor))
    assert result.stdout.strip() == TOLD[factor], result.stderr
    assert (tmp_path / "ran").read_text() == "x"


@pytest.mark.parametrize("factor", sampling.chosen(lambda: [7], lambda: [*TOLD]))
def test_in_a_script_without_a_guard(factor, tmp_path):
    """The script runs once, and no process of ours runs it again."""
    (tmp_path / "script.py").write_text(SCRIPT.format(factor=factor))
    result = ran(["script.py"], tmp_path)
    assert result.stdout.strip() == TOLD[factor], result.stderr
    assert (tmp_path / "ran").read_text() == "x"


def test_a_script_that_gives_itself_is_not_run_again(tmp_path):
    given = SCRIPT.replace("to_plugin)\n    (proof", "to_plugin, options=OPTIONS)\n    (proof")
    options = "OPTIONS = surgeon.CheckOptions(custom_ops=[__file__])\nsource = parse"
    (tmp_path / "script.py").write_text(given.replace("source = parse", options).format(factor=1))
    result = ran(["script.py"], tmp_path)
    assert result.stdout.strip() == TOLD[1], result.stderr
    assert (tmp_path / "ran").read_text() == "x"


def test_a_file_that_gives_itself_to_a_run_is_reported(tmp_path):
    path = tmp_path / "ops.py"
    path.write_text(f"from surgeon.runtime.implementations.implementation import load\nload({str(path)!r})\n")
    with pytest.raises(UsageError, match="starts a run that loads this file again. Put that run under if __name__"):
        load(path)


@pytest.mark.parametrize("factor", sampling.chosen(lambda: [7], lambda: [*TOLD]))
def test_in_the_cells_of_a_notebook(factor, tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    first, second = SCRIPT.format(factor=factor).split("@rule")
    cells = [nbformat.v4.new_code_cell(first), nbformat.v4.new_code_cell(f"@rule{second}")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(output["text"] for output in notebook.cells[1]["outputs"] if output["output_type"] == "stream")
    assert printed.strip() == TOLD[factor]


def test_at_a_prompt():
    """It runs in a process of its own, as one of a file does."""
    own("assert os.getpid() != here\nreturn x + alpha * y", os=os, here=os.getpid())
    name, independent, answers = answer(model(CUSTOM), {"x": X})
    assert (name, independent) == (NAME, True)
    np.testing.assert_allclose(answers["y"], np.exp(X / 2), rtol=1e-6)


def test_what_it_needs_is_sent_as_it_is_at_the_run():
    """Also where a name that it uses got another value since the last run."""
    settings = {"factor": np.float32(2)}
    function = own("return x + settings['factor'] * y", settings=settings)
    for factor in (2, 5):
        settings["factor"] = np.float32(factor)
        np.testing.assert_allclose(np.log(answer(model(CUSTOM), {"x": X})[2]["y"]), X - factor * X, rtol=1e-5)
    function.__globals__["settings"] = {"factor": np.float32(0)}
    np.testing.assert_allclose(answer(model(CUSTOM), {"x": X})[2]["y"], np.exp(X), rtol=1e-6)


def held(kind):
    """A function that holds what cannot be pickled."""
    inner = threading.Lock() if kind == "lock" else (number for number in range(3))

    def one(x, y, alpha):
        return (inner, x)[1]

    return one


@pytest.mark.parametrize("kind", ["lock", "generator"])
def test_one_that_cannot_be_sent_stops_the_run_in_one_sentence(kind):
    """It names the implementation, the cause, and what to do."""
    implements("test.customop::CustomOpOne")(held(kind))
    with pytest.raises(UsageError) as refused:
        open_oracle(model(CUSTOM))
    assert str(refused.value) == (
        f"The implementation of test.customop::CustomOpOne in '{__file__}' cannot be sent to the process that runs it "
        f"(TypeError: cannot pickle '{'_thread.lock' if kind == 'lock' else 'generator'}' object). Create such objects "
        "inside the function."
    )


def test_one_that_cannot_be_sent_is_no_fault_of_a_run_without_its_operator():
    implements("test.customop::CustomOpOne")(held("lock"))
    name, _, _ = answer(model("(float[n] x) => (float[n] y) { y = Neg(x) }"), {"x": X})
    assert name == "ONNX Runtime"


def test_a_rewrite_stops_where_one_cannot_be_sent(tmp_path):
    lock = SCRIPT.format(factor=1).replace("def scaled", "import threading\nLOCK = threading.Lock()\ndef scaled")
    result = ran(["-"], tmp_path, lock.replace("return x * FACTOR", "return (LOCK, x)[1]"))
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(f"surgeon.errors.UsageError: The implementation of {OP} cannot be sent to the process")


def test_a_file_given_whose_functions_cannot_be_pickled_is_run_for_them(tmp_path):
    """It was given to be run."""
    path = write(tmp_path, "with lock:\n    return x + alpha * y")
    path.write_text(path.read_text().replace("\n@impl", "\nimport threading\nlock = threading.Lock()\n@impl"))
    name, _, answers = answer(model(CUSTOM), {"x": X}, [path])
    assert name == NAME
    np.testing.assert_allclose(answers["y"], np.exp(X / 2), rtol=1e-6)


def test_one_that_cannot_be_unpacked_stops_the_run(monkeypatch):
    """What it needs is known to this process alone."""
    made = type(sys)("known_here_alone")
    exec("def half(x): return x / 2", vars(made))
    made.__spec__ = importlib.machinery.ModuleSpec("known_here_alone", None)
    monkeypatch.setitem(sys.modules, "known_here_alone", made)
    own("return half(x)", half=made.half)
    with pytest.raises(UsageError, match=r"cannot be unpickled in the process that runs it \(ModuleNotFoundError"):
        answer(model(CUSTOM), {"x": X})


def test_a_module_of_the_users_is_imported_as_it_is_now(tmp_path, monkeypatch):
    """A process that has imported it before does not serve once it was edited."""
    monkeypatch.syspath_prepend(tmp_path)
    helper = tmp_path / "helper_of_a_cell.py"
    helper.write_text("def scaled(x):\n    return 2 * x\n")
    module = importlib.import_module("helper_of_a_cell")
    try:
        own("import helper_of_a_cell\nreturn helper_of_a_cell.scaled(x)")
        np.testing.assert_allclose(answer(model(CUSTOM), {"x": X})[2]["y"], np.exp(2 * X), rtol=1e-6)
        helper.write_text("def scaled(x):\n    return -1 * x\n")
        importlib.reload(module)
        np.testing.assert_allclose(answer(model(CUSTOM), {"x": X})[2]["y"], np.exp(-X), rtol=1e-6)
    finally:
        sys.modules.pop("helper_of_a_cell", None)


@functools.cache
def cached(number):
    return number + cached(number - 1) if number else 0


class Adding:
    """A function that is an object."""

    def __init__(self, more):
        self.more = more

    def __call__(self, x, y, alpha):
        return x + np.float32(self.more) + 0 * y


FORMS = {
    "a function under a cache": (lambda x, y, alpha: x + np.float32(cached(4)), X + 10),
    "an object": (Adding(3), X + 3),
    "a part of one": (functools.partial(Adding.__call__, Adding(4)), X + 4),
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms_of_functions(form):
    function, wanted = FORMS[form]
    implements("test.customop::CustomOpOne")(function)
    np.testing.assert_allclose(answer(model(CUSTOM), {"x": X})[2]["y"], np.exp(wanted), rtol=1e-6)


def test_a_function_in_c():
    """It takes no attributes, and says not what it takes."""
    implements("test.customop::CustomOpOne")(np.maximum)
    mini = model('(float[n] x) => (float[n] y) { y = test.customop.CustomOpOne<plugin_version = "1">(x, x) }')
    np.testing.assert_array_equal(answer(mini, {"x": X})[2]["y"], X)


def test_packed_and_unpacked_again():
    data = pickle_function(cached)
    assert unpickle_function(data)(4) == 10
    assert unpickle_function(data) is not cached, "by value, for its module is the user's"
    assert unpickle_function(pickle_function(np.linalg.norm)) is np.linalg.norm, "of an installed library by name"


# Processes that work for this one


def child(data, code, folder):
    """What a process prints that received what was shipped."""
    (folder / "shipped").write_bytes(data)
    home = "surgeon.runtime.implementations.implementation"
    lines = f"import numpy as np\nfrom {home} import available, import_registry as receive\n"
    lines += "receive(open('shipped', 'rb').read())\n" + textwrap.dedent(code)
    result = ran(["-c", lines], folder)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


ANSWER = """
import sys
from surgeon.runtime.sessions.oracle import open_oracle
from tests import sampling
from tests.oracle_models import CUSTOM, X, model
with open_oracle(model(CUSTOM), sys.argv[1:] or FILES) as oracle:
    print(oracle.name, np.round(np.log(oracle.run({"x": X})["y"]) / X, 3)[0], sep="; ")
"""


def test_another_process_knows_what_this_one_has_registered(tmp_path):
    own("return factor * x", factor=np.float32(3))
    assert child(export_registry(), ANSWER.replace("FILES", "[]"), tmp_path) == f"{NAME}; 3.0"


def test_another_process_knows_the_files_given_without_running_them(tmp_path):
    path = write(tmp_path, "return 4 * x")
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('x')\n" + path.read_text())
    data = export_registry([path])
    assert child(data, ANSWER.replace("FILES", f"[{str(path)!r}]"), tmp_path) == f"{NAME}; 4.0"
    assert (tmp_path / "ran").read_text() == "x"


def test_another_process_says_what_could_not_be_sent(tmp_path):
    """It stops there as it would here, and only where that operator is asked for."""
    implements("test.customop::CustomOpOne")(held("lock"))
    code = "from surgeon.errors import UsageError\ntry:" + textwrap.indent(ANSWER.replace("FILES", "[]"), "    ")
    result = child(export_registry(), code + "\nexcept UsageError as error:\n    print(error)", tmp_path)
    assert result.startswith("The implementation of test.customop::CustomOpOne in ")
    assert result.endswith("Create such objects inside the function.")


def test_what_stays_in_this_process_is_reported(tmp_path):
    """As torch's own operators do, some of which only this process knows."""
    register_trusted("test.customop::CustomOpOne", lambda x, y, alpha: x)
    own_key = ("test.customop", "CustomOpOne")
    assert local_only_ops() == {own_key}
    code = "from surgeon.errors import UsageError\ntry:" + textwrap.indent(ANSWER.replace("FILES", "[]"), "    ")
    result = child(export_registry(), code + "\nexcept UsageError as error:\n    print(error)", tmp_path)
    assert result == (
        "The implementation of test.customop::CustomOpOne runs only in the process that registered it."
    )


def test_receiving_forgets_what_was_registered_before(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    data = export_registry()
    own()
    assert implementation.available()
    import_registry(data)
    assert not implementation.available()
