"""Execution providers of plugin libraries: which can be registered, and models under them, in each process anew."""

import _ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import UsageError
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.site.target_replacement import _is_special
from surgeon.runtime.sessions import ep_library
from surgeon.runtime.sessions.ep_library import EpLibrary, PluginProvider, find_plugin, short_name
from surgeon.testing import parse
from tests.command_line import ROOT, result_in, run

MODEL = str(ROOT / "notebooks" / "models" / "tiny_distilbert.onnx")
# Two functions are all that ONNX Runtime asks a library for; this one has no factory, and so no device.
EMPTY = """
#include <stddef.h>
void *CreateEpFactories(const char *n, const void *b, const void *l, void **f, size_t m, size_t *count)
{ *count = 0; return 0; }
void *ReleaseEpFactory(void *factory) { return 0; }
"""
ABORTS = "#include <stdlib.h>\n__attribute__((constructor)) static void start(void) { abort(); }"
MODULES = {
    "ep_without_library": "",
    "ep_not_installed": "def get_library_path():\n    raise FileNotFoundError('lib.so is missing.')",
    "ep_needs_another": "import no_such_package_of_it",
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    (tmp_path / "modules").mkdir()
    for name, text in MODULES.items():
        (tmp_path / "modules" / f"{name}.py").write_text(text)
    (tmp_path / "text.so").write_text("no library")


def built(source: str) -> str:
    """The path of a library, built by the C compiler of this machine."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform == "win32":
        pytest.skip("no C compiler builds a library here")
    Path("built.c").write_text(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "built.so", "built.c"], check=True)
    return str(Path("built.so").absolute())


@pytest.fixture
def openvino() -> str:
    """The module of a plugin with a device here."""
    pytest.importorskip("onnxruntime_ep_openvino", reason="no plugin: pip install onnxruntime-ep-openvino")
    try:
        find_plugin("onnxruntime_ep_openvino", "openvino")
    except UsageError as error:
        pytest.skip(f"the plugin works on Intel's devices: {error}")
    return "onnxruntime_ep_openvino"


WRONG = {
    "no_such_module_of_a_plugin": "Module 'no_such_module_of_a_plugin' of an execution provider was not found",
    "json.no_such": "Module 'json.no_such' of an execution provider was not found",
    "": "'' is not the name of a Python module",
    ".relative": "'.relative' is not the name of a Python module",
    "ep_without_library": "Module 'ep_without_library' has no get_library_path. Give the library itself: NAME=PATH",
    "ep_not_installed": "Module 'ep_not_installed' has no library: lib.so is missing. Install it again.",
    "text.so": "'text.so' is a path. Give it a name: NAME=text.so",
    "./text.so": "'./text.so' is a path. Give it a name: NAME=./text.so",
    "it=nowhere.so": "No library of execution providers at 'nowhere.so'",
    "=text.so": "No library of execution providers at 'text.so'",
    "it=": "No library of execution providers at ''",
    "it=text.so": "text.so cannot be registered: Failed to load library",
    f"it={_ctypes.__file__}": "undefined symbol: CreateEpFactories",
}
COMMANDS = (
    ("compare", "in.onnx", "in.onnx"),
    ("bench", "in.onnx", "in.onnx", "--loads", "1", "--seconds", "0"),
    ("rewrite", "in.onnx", "out.onnx", "--rules", "gelu"),
    ("check", "in.onnx"),
)


@pytest.mark.parametrize("text", WRONG)
def test_a_library_that_is_none_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        find_plugin(text, None)
    assert WRONG[text] in str(raised.value)


def test_a_module_that_fails_itself_keeps_its_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package_of_it"):
        find_plugin("ep_needs_another", None)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("text", ["it=text.so", "ep_without_library"])
def test_commands_refuse_it_before_their_work(words: tuple[str, ...], text: str) -> None:
    onnx.save(parse("(float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }"), "in.onnx")
    done = run(*words, "--ep-library", text)
    assert done.exit_code == 2
    assert WRONG[text] in done.stderr
    assert not Path("out.onnx").exists()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_library_without_a_device_lists_those_that_there_are(words: tuple[str, ...]) -> None:
    onnx.save(parse("(float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }"), "in.onnx")
    path = built(EMPTY)
    done = run(*words, "--ep-library", f"empty={path}")
    said = f"Error: The library {path} offers no device on this machine. Devices here: CPUExecutionProvider on CPU ("
    assert done.exit_code == 2
    assert done.stderr.startswith(said), done.stderr


def test_a_real_plugin_without_a_device() -> None:
    pytest.importorskip("onnxruntime_ep_webgpu", reason="no plugin: pip install onnxruntime-ep-webgpu")
    try:
        found: str | PluginProvider = find_plugin("onnxruntime_ep_webgpu", None)
    except UsageError as error:
        found = str(error)
    if isinstance(found, PluginProvider):
        pytest.skip("this machine has a GPU")
    assert "offers no device on this machine. Devices here: CPUExecutionProvider on CPU" in found


def test_a_library_that_ends_the_process_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"ended the process that registered it \(SIGABRT\)"):
        find_plugin(f"it={built(ABORTS)}", None)


def test_an_old_runtime_takes_no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace())
    answer, _ = ep_library.probe(EpLibrary("it", "it.so"), lambda _: None)
    assert answer == {"refused": "the installed ONNX Runtime takes no plugins: they need version 1.23 or newer"}


def test_a_module_names_its_first_provider(openvino: str, tmp_path: Path) -> None:
    text = f"from {openvino} import get_library_path\nget_ep_name = lambda: 'OpenVINOExecutionProvider.AUTO'\n"
    (tmp_path / "modules" / "ep_of_two.py").write_text(text)
    assert find_plugin("ep_of_two", None).name == "OpenVINOExecutionProvider.AUTO"
    assert find_plugin("ep_of_two", "openvino").name == "OpenVINOExecutionProvider"


def test_names_of_providers() -> None:
    library = EpLibrary("it", "it.so")
    assert short_name(PluginProvider("OpenVINOExecutionProvider", library)) == "openvino"
    assert short_name(PluginProvider("OpenVINOExecutionProvider.AUTO", library)) == "openvinoexecutionprovider.auto"
    assert short_name("CPUExecutionProvider") == "cpu"


def test_other_providers_of_the_library_are_listed(openvino: str) -> None:
    for name in (None, "openvino", "OpenVINO", "OpenVINOExecutionProvider"):
        assert find_plugin(openvino, name).name == "OpenVINOExecutionProvider"
    assert find_plugin(openvino, "openvinoexecutionprovider.auto").name == "OpenVINOExecutionProvider.AUTO"
    with pytest.raises(UsageError, match=r"has no provider 'cpu'. Choose one of OpenVINOExecutionProvider, "):
        find_plugin(openvino, "cpu")


@pytest.mark.parametrize("ep", [None, "OpenVINOExecutionProvider.AUTO"])
def test_the_other_model_runs_under_the_plugin(openvino: str, ep: str | None) -> None:
    """With the precision of float32, although the plugin computes in bfloat16 by default on some processors."""
    import onnxruntime

    result = surgeon.compare(MODEL, MODEL, ep=ep, ep_library=openvino)
    assert result.proved, result.reason
    assert "OpenVINO" in result.oracle
    assert "the OpenVINO" not in surgeon.compare(MODEL, MODEL).oracle
    assert {device.ep_name for device in onnxruntime.get_ep_devices()} == {"CPUExecutionProvider"}, "only workers do it"


def test_a_model_that_differs_under_the_plugin_fails(openvino: str) -> None:
    text = "(float[n, 4] x) => (float[n, 4] y) { y = NAME(x) }"
    relu, other = (parse(text.replace("NAME", name)) for name in ("Relu", "Abs"))
    assert surgeon.compare(relu, relu, ep_library=openvino).proved
    assert surgeon.compare(relu, other, ep_library=openvino).outcome.value == "failed"


def test_a_benchmark_runs_under_the_plugin(openvino: str) -> None:
    options = ("--dim", "batch=1", "--dim", "sequence=8", "--loads", "1", "--seconds", "0", "--json")
    done = run("bench", MODEL, MODEL, "--ep-library", openvino, "--ep", "openvino", *options)
    assert done.exit_code == 0, done.output
    assert result_in(done.stdout)["ep"] == "openvino"


def test_replacements_are_proved_under_the_plugin(openvino: str) -> None:
    _, report = surgeon.rewrite(MODEL, "gelu", output="out.onnx", ep_library=openvino)
    assert (report.outcome, report.count("gelu")) == ("proved", 4)
    assert report.runtime.startswith("the OpenVINO provider of ONNX Runtime 1.")
    assert {proof.oracle for proof in report.proofs} == {report.runtime}


def test_a_rule_that_is_wrong_fails_under_the_plugin(openvino: str) -> None:
    @surgeon.rule(patterns=[lambda g, x: g.erf(x)], target="any")
    def careless(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
        """Write Erf as Tanh."""
        return g.tanh(x)

    _, report = surgeon.rewrite(MODEL, careless, output="out.onnx", ep_library=openvino, keep_going=True)
    assert len(report.rolled_back) == 4
    assert {site.outcome for site in report.rolled_back} == {"failed"}


def test_integers_beyond_int32_are_as_the_plugin_treats_them_in_the_original(openvino: str) -> None:
    """It casts 2**32 to False, and ONNX Runtime's CPU provider casts it to True."""
    text = "(int64[n] x) => (bool[n] y) { i = Identity(x) y = Cast<to = 9>(i) }"
    _, report = surgeon.rewrite(parse(text), "identity", ep_library=openvino, options=CheckOptions(cache=False))
    assert report.outcome == "proved", report.rolled_back[0].reason


DET = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4, 4] x) => (float[n, 4, 4] r, float[n] y, float[n] z)
    { r = Relu(x)  y = Det(x)  [second] z = Det(r) }"""


def test_a_check_lists_the_nodes_that_the_plugin_leaves_to_the_cpu(openvino: str) -> None:
    assert surgeon.check(MODEL, ep_library=openvino) == []
    model = parse(DET)
    assert surgeon.check(model) == []
    (found,) = surgeon.check(model, ep_library=openvino)
    assert (found.kind, found.op, found.count, found.stops) == ("kernel", "ai.onnx::Det", 2, False)
    assert found.nodes == ["y", "second"]
    assert found.reason == "the OpenVINO provider does not take it, so it runs on the CPU"
    onnx.save(model, "in.onnx")
    done = run("check", "in.onnx", "--ep-library", openvino)
    assert done.exit_code == 0
    assert "ai.onnx::Det (2 nodes: y, second): the OpenVINO provider does not take it" in done.stdout


def test_a_model_that_does_not_load_under_the_plugin_is_a_problem(openvino: str) -> None:
    broken = parse("(float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }")
    broken.ir_version = 99
    assert any(one.stops for one in surgeon.check(broken, ep_library=openvino))


def test_which_integers_a_runtime_may_treat_differently() -> None:
    assert all(map(_is_special, (np.array([2**32]), np.array([-(2**31) - 1, 0]))))
    assert not any(map(_is_special, (np.array([2**31 - 1, -(2**31)]), np.array([True]), np.array([], np.int64))))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("compare {m} {m} --ep-library X --with tensorrt", ""),
        ("compare {m} {m} --ep cuda", "has no execution provider 'cuda'"),
        ("rewrite {m} out.onnx --target tensorrt --ep-library X", "Target tensorrt is not of ONNX Runtime"),
        ("check {m} --target onnx --ep-library X", "Target onnx has no choice of execution providers"),
        ("check {m} --no-load --ep-library X", "A plugin says only for a loaded model which nodes it runs"),
        ("record deploy.toml rewrite {m} out.onnx --rules gelu --ep-library X", "A recipe has no plugin"),
    ],
)
def test_where_a_plugin_has_no_effect_it_is_refused(words: str, said: str) -> None:
    done = run(*words.format(m=MODEL).split())
    assert done.exit_code == 2
    assert said in done.stderr


def test_inner_tensors_are_compared_on_the_cpu(openvino: str) -> None:
    with pytest.raises(UsageError, match="Inner tensors are compared only on the CPU"):
        surgeon.compare(MODEL, MODEL, layers=True, ep_library=openvino)
