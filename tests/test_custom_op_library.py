"""The custom-op library of notebooks/custom_ops: built here, run in processes of their own, and proved with."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import CheckOptions, UsageError
from surgeon.runtime.implementations.implementation import load
from surgeon.testing import parse
from tests import sampling

FOLDER = Path(__file__).resolve().parent.parent / "notebooks" / "custom_ops"
RULE, IMPLEMENTATIONS = f"{FOLDER / 'rules.py'}:customop", FOLDER / "implementations.py"
HEAD = '<ir_version: 8, opset_import: ["" : 18, "test.customop" : 1, "mylibrary" : 1]>'
BOTH = f"""{HEAD} g (float[] x, float[] z) => (float[] s, int32[] r)
    {{ s = test.customop.CustomOpOne (x, z) r = test.customop.CustomOpTwo (s) }}"""
PLACEHOLDER = f"""{HEAD} g (float[n, 4] x, float[n, 4] z) => (float[n, 4] y)
    {{ y = mylibrary.addandround_op (x, z) }}"""
# Loads the library for two sessions, lets the first end, and runs each set of inputs; prints what came or was said.
DRIVER = """
import json, sys
import numpy as np, onnxruntime
library, model, inputs = sys.argv[1:]
sessions = []
for _ in range(2):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(library)
    try:
        sessions.append(onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]))
    except Exception as error:
        print(json.dumps(str(error)))
        sys.exit()
session = sessions.pop()
sessions.clear()
found = []
for x, z in json.loads(inputs):
    feeds = {"x": np.array(x, np.float32), "z": np.array(z, np.float32)}
    try:
        found.append([[out.tolist(), list(out.shape), str(out.dtype)] for out in session.run(None, feeds)])
    except Exception as error:
        found.append(str(error))
print(json.dumps(found))
"""


# From torch to numbers by each exporter: export with a placeholder, rewrite, run with the library, hold against torch.
WHOLE_WAY = """
import sys
import torch, surgeon, surgeon.torch
rule, library, *exporters = sys.argv[1:]

@torch.library.custom_op("mylibrary::addandround_op", mutates_args=())
def addandround_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.round(x + y)

@addandround_op.register_fake
def _(x, y):
    return torch.empty_like(x + y)

class Model(torch.nn.Module):
    def forward(self, x, y):
        return 0.5 * torch.ops.mylibrary.addandround_op(x, y.relu())

torch.manual_seed(0)
model, x, y = Model().eval(), 9 * torch.randn(3, 4), torch.randn(3, 4)
free = {"x": {0: "batch"}, "y": {0: "batch"}}
surgeon.torch.implement("mylibrary::addandround_op")
options = surgeon.CheckOptions(custom_ops=[library])
halves = torch.tensor([[0.5, 1.5, -2.5, 3.25]]), torch.zeros(1, 4)
for exporter in exporters:
    surgeon.torch.export(model, (x, y), "in.onnx", placeholders=["mylibrary::addandround_op"], exporter=exporter,
                         dynamic_shapes=free)
    _, report = surgeon.rewrite("in.onnx", rule, output="out.onnx", options=options)
    equal = [bool(surgeon.torch.compare(model, "out.onnx", args, custom_ops=[library])) for args in ((x, y), halves)]
    print(exporter, report.outcome, report.counts, equal)
"""


def module(name):
    """A file of the folder, which is no package, as a module."""
    spec = importlib.util.spec_from_file_location(f"custom_ops_{name}", FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


build = module("build").build


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library, built by the compiler of this machine."""
    return build(tmp_path_factory.mktemp("library") / "custom_ops.so")


def run(library, folder, text, *inputs):
    """What a model puts out for each set of inputs, or what ONNX Runtime says; a crash fails here."""
    onnx.save(parse(text), folder / "model.onnx")
    command = [sys.executable, "-c", DRIVER, str(library), str(folder / "model.onnx"), json.dumps(inputs)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (ran.returncode, ran.stderr)
    return json.loads(ran.stdout)


def test_sums_and_rounds_to_even(library, tmp_path):
    x = [[0.5, 1.5, 2.5, -0.5], [-1.5, 0.49999997, 1e9, 8388609.0]]
    ((sums, rounded),) = run(library, tmp_path, BOTH, (x, np.zeros((2, 4)).tolist()))
    assert sums == [np.float32(x).tolist(), [2, 4], "float32"]
    assert rounded == [[[0, 2, 2, 0], [-2, 0, 1000000000, 8388609]], [2, 4], "int32"]


def test_beyond_the_range_of_int32(library, tmp_path):
    """The nearest end, and 0 for NaN: no undefined behaviour."""
    x = [3e9, -3e9, float("inf"), float("-inf"), float("nan"), 2147483520.0, -2147483648.0]
    ((_, rounded),) = run(library, tmp_path, BOTH, (x, [0.0] * 7))
    low, high = -(2**31), 2**31 - 1
    assert rounded[0] == [high, low, high, low, 0, 2147483520, low]


def test_scalars_empty_tensors_and_many_axes(library, tmp_path):
    deep = np.arange(24, dtype=np.float32).reshape(2, 1, 3, 4).tolist()
    found = run(library, tmp_path, BOTH, (1.5, 1.0), (np.zeros((0, 4)).tolist(), []), ([], []), (deep, deep))
    assert [rounded[:2] for _, rounded in (found[0], found[2])] == [[2, []], [[], [0]]]
    assert found[3][1][1] == [2, 1, 3, 4]
    assert found[3][1][0] == (2 * np.array(deep)).astype(int).tolist()


def test_broadcasting_is_refused(library, tmp_path):
    (said,) = run(library, tmp_path, BOTH, ([[1.0, 2.0]], [1.0, 2.0]))
    assert "CustomOpOne does not broadcast: give it two tensors of one shape." in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOTH.replace("float[] x", "double[] x").replace("float[] z", "double[] z"), "tensor(double)"),
        (BOTH.replace("CustomOpOne (x, z)", "CustomOpOne (x)"), "CustomOpOne"),
        (
            BOTH.replace("CustomOpTwo", "CustomOpThree"),
            "test.customop:CustomOpThree(-1) is not a registered function/op",
        ),
    ],
    ids=["wrong dtype", "an input too few", "no such op"],
)
def test_what_does_not_fit_is_refused_when_the_model_is_loaded(library, tmp_path, text, said):
    assert said in run(library, tmp_path, text)


def test_the_python_implementations_give_the_same_numbers(library, tmp_path):
    one, two, original = (item.function for item in load(IMPLEMENTATIONS))
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 3, 40), np.arange(-8, 8) / 2, [3e9, -3e9, np.inf, -np.inf, np.nan]]).astype("f4")
    z = np.zeros_like(x)
    z[:40] = rng.normal(0, 100, 40)
    ((sums, rounded),) = run(library, tmp_path, BOTH, (x.tolist(), z.tolist()))
    np.testing.assert_array_equal(one(x, z), np.float32(sums[0]))
    np.testing.assert_array_equal(two(one(x, z)), np.int32(rounded[0]))
    assert (one(x, z).dtype, two(x).dtype, original(x, z).dtype) == (np.float32, np.int32, np.float32)
    with pytest.raises(ValueError, match="does not broadcast"):
        one(x, x[:1])


@pytest.mark.parametrize("with_library", [True, False], ids=["library", "Python alone"])
def test_the_rewrite_is_proved(library, tmp_path, with_library):
    """In a process of its own, by the command line."""
    onnx.save(parse(PLACEHOLDER), tmp_path / "in.onnx")
    ops = ["--custom-ops", str(IMPLEMENTATIONS), *(["--custom-ops", str(library)] if with_library else [])]
    command = ["-m", "surgeon", "rewrite", "in.onnx", "out.onnx", "-r", RULE, "--require-proof", *ops]
    ran = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "PROVED" in ran.stdout
    assert ("Python implementation of test.customop::CustomOpOne" in ran.stdout) is not with_library
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == [
        "CustomOpOne",
        "CustomOpTwo",
        "Cast",
    ]


SUM = f"""{HEAD} g (float[n, 4] x, float[n, 4] z) => (float[n, 4] s)
    {{ t = test.customop.CustomOpOne (x, z)  s = Neg (t) }}"""


@pytest.mark.usefixtures("forget_implementations")
@pytest.mark.parametrize("declares", [False, True])
def test_an_op_of_a_library_that_declares_no_traits_is_named_once(library, declares, tmp_path):
    """A library does not list its ops, so those that nothing else defines are taken for its own."""

    def found(g, x, z):
        return g.neg(g.op("test.customop::CustomOpOne", x, z))

    @surgeon.rule(patterns=[found], target="any")
    def swapped(g, x, z):
        return g.op("test.customop::CustomOpOne", g.neg(z), g.neg(x))

    declared = '@surgeon.implements("test.customop::CustomOpOne", like="Add")'
    (tmp_path / "declared.py").write_text(f"import surgeon\n\n{declared}\ndef f(x, z):\n    return x + z\n")
    options = CheckOptions(custom_ops=[library, *([tmp_path / "declared.py"] if declares else [])])
    _, report = surgeon.rewrite(parse(SUM), swapped, options=options)
    assert report.outcome == "proved", report.doubts
    hints = [step for step in report.next_steps if "valid input of test.customop::CustomOpOne" in step]
    assert len(hints) == (not declares)


def test_a_library_beside_the_program_is_found_by_its_bare_name(library, tmp_path, monkeypatch):
    """The loader itself looks for such a name among the system's libraries alone."""
    (tmp_path / "custom_ops.so").write_bytes(library.read_bytes())
    monkeypatch.chdir(tmp_path)
    options = CheckOptions(custom_ops=["custom_ops.so", IMPLEMENTATIONS])
    _, report = surgeon.rewrite(parse(PLACEHOLDER), RULE, options=options)
    assert report.outcome == "proved", report.doubts


def test_without_saying_where_it_differs_the_rule_fails():
    """Through int32 there is no way for numbers beyond its range: the proof finds what the tutorial does not say."""
    rules = module("rules")

    @surgeon.rule(patterns=[rules.addandround])
    def everywhere(g, x, y):
        """The same rule that claims to hold everywhere."""
        total = g.op("test.customop::CustomOpOne", x, y)
        return g.cast(g.op("test.customop::CustomOpTwo", total), to=np.float32)

    why = r"z\[0, \d\] = nan gives y\[0, \d\] = 0.0 instead of nan \(by special rows, "
    with pytest.raises(surgeon.CheckFailed, match=why):
        surgeon.rewrite(parse(PLACEHOLDER), everywhere, options=CheckOptions(custom_ops=[IMPLEMENTATIONS]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [(("float[n, 4] z", "float[4] z"), "does not broadcast"), (("float[n, 4]", "double[n, 4]"), "float32 alone")],
)
def test_the_rule_skips_what_the_library_cannot_do(change, reason):
    _, report = surgeon.rewrite(parse(PLACEHOLDER.replace(*change)), RULE, check="none")
    assert report.counts == {"customop": 0}
    assert reason in " ".join(miss.reason for miss in report.misses)


def test_from_torch_to_onnx_runtime(library, tmp_path):
    exporters = sampling.chosen(lambda: ["torchscript"], lambda: ["dynamo", "torchscript"])
    command = [sys.executable, "-c", WHOLE_WAY, RULE, str(library), *exporters]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    output = [line for line in ran.stdout.splitlines() if line.startswith(("dynamo ", "torchscript "))]
    assert output == [f"{exporter} proved {{'customop': 1}} [True, True]" for exporter in exporters]


def test_a_library_that_registers_nothing_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "empty.cc").write_text('extern "C" int other() { return 0; }\n')
    empty = build(tmp_path / "empty.so", tmp_path / "empty.cc")
    with pytest.raises(
        UsageError, match=r"cannot be loaded \(.*RegisterCustomOps.*\)\. Use one built for this machine"
    ):
        surgeon.rewrite(parse(PLACEHOLDER), RULE, options=CheckOptions(custom_ops=[empty]))


def test_without_a_compiler_one_sentence_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"No C\+\+ compiler was found .*: install one, or take .*implementations\.py"):
        build(tmp_path / "custom_ops.so")


def test_what_the_compiler_refuses_is_reported(tmp_path):
    (tmp_path / "broken.cc").write_text("int f() { return nothing; }\n")
    with pytest.raises(UsageError, match=r"refuses broken\.cc \(.*nothing.*\): correct it"):
        build(tmp_path / "broken.so", tmp_path / "broken.cc")
