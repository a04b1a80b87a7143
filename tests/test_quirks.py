"""Each quirk of `surgeon/runtime/quirks.py`, reproduced without surgeon: whether the installed version still has it.

A test that fails here says that a quirk was corrected upstream, or that its range of versions is wrong.
"""

import ctypes.util
import importlib
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import inliner, parser
from onnx.reference import ReferenceEvaluator

from surgeon.runtime import quirks
from surgeon.runtime.quirks import Quirk

ROOT = Path(__file__).resolve().parent.parent
QUIRKS = {name: item for name, item in vars(quirks).items() if isinstance(item, Quirk)}
PROVIDERS = onnxruntime.get_available_providers()
LOAD = """
import sys, numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
session = onnxruntime.InferenceSession(sys.stdin.buffer.read(), options, providers=["CPUExecutionProvider"])
session.run(None, {port.name: np.ones(port.shape, np.float16 if "16" in port.type else np.float32)
                   for port in session.get_inputs()})
"""
INFER = "import sys, onnx; onnx.shape_inference.infer_shapes(sys.stdin.buffer.read(), strict_mode=True)"
LIST = "from onnxruntime.capi import onnxruntime_pybind11_state as state; state.get_all_opkernel_def()"
FAIL_TO_EXPORT = """
import io, sys, torch
class Unsupported(torch.nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)
for _ in range(2):
    try:
        torch.onnx.export(Unsupported(), (torch.ones(2),), io.BytesIO(), dynamo=False)
    except torch.onnx.errors.UnsupportedOperatorError:
        continue
    sys.exit("the exporter supports it: take another operator")
"""


def model(text: str, opset: int = 17, functions: str = "") -> onnx.ModelProto:
    """A model, and local functions of the domain `local`."""
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1, "local" : 1]>'
    found = "".join(f'\n<domain: "local", opset_import: ["" : {opset}]>\n{one}' for one in filter(None, [functions]))
    return parser.parse_model(f"{header}\ng {text}{found}")


def run(made: onnx.ModelProto, provider: str = "CPUExecutionProvider", **feeds: np.ndarray) -> list[np.ndarray]:
    """The outputs under ONNX Runtime, without its optimisations on a CPU."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if provider == "CPUExecutionProvider":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=[provider]).run(None, feeds)


def ends_process(code: str, made: onnx.ModelProto | None = None) -> bool:
    """Whether a child that runs some code on a model dies of a signal."""
    given = b"" if made is None else made.SerializeToString()
    return subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, timeout=120).returncode < 0


def version_of(package: str) -> tuple[int, ...]:
    return tuple(map(int, importlib.import_module(package).__version__.split(".")[:2]))


def refuses(action, *errors: type[Exception]) -> bool:
    try:
        action()
    except errors:
        return True
    return False


def transposed_float16_matmul() -> bool:
    weights = ", ".join("1" * 12)
    text = f"(float16[5, 4, 4] x) => (float16[4, 5, 3] y) <float16[4, 3] w = {{{weights}}}>"
    return ends_process(LOAD, model(text + "{ t = Transpose<perm = [1, 0, 2]>(x) y = MatMul(t, w) }"))


def cast_before_cuda_matmul() -> bool:
    if "CUDAExecutionProvider" not in PROVIDERS:
        pytest.skip("it takes ONNX Runtime for CUDA")
    text = "(float[5, 4, 4] x, float16[4, 3] w) => (float16[4, 5, 3] y)"
    made = model(text + "{ t = Transpose<perm = [1, 0, 2]>(x) c = Cast<to = 10>(t) y = MatMul(c, w) }")
    feeds = {"x": np.ones((5, 4, 4), np.float32), "w": np.ones((4, 3), np.float16)}
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    return refuses(lambda: run(made, "CUDAExecutionProvider", **feeds), state.NotImplemented, state.Fail)


def unchecked_bias_length() -> bool:
    made = model(
        "(uint8[2, 3] a, uint8[3, 400] b, float s, float t, uint8 z, uint8 u, float[2] c) => (float[2, 400] y)"
        "{ y = com.microsoft.MatMulIntegerToFloat(a, b, s, t, z, u, c) }"
    )
    one, none = np.ones((), np.float32), np.zeros((), np.uint8)
    feeds = {"a": np.zeros((2, 3), np.uint8), "b": np.ones((3, 400), np.uint8), "c": np.ones(2, np.float32)}
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    return not refuses(lambda: run(made, s=one, t=one, z=none, u=none, **feeds), state.Fail, state.RuntimeException)


def recurrent(op: str, gates: int, dtype: str, batch: int) -> onnx.ModelProto:
    head = f"({dtype}[3, {batch}, 4] x, {dtype}[1, {gates * 2}, 4] w, {dtype}[1, {gates * 2}, 2] r)"
    return model(f"{head} => ({dtype}[3, 1, {batch}, 2] y) {{ y = {op}<hidden_size = 2>(x, w, r) }}")


def empty_recurrent() -> bool:
    return all(ends_process(LOAD, recurrent(op, gates, "float", 0)) for op, gates in (("LSTM", 4), ("GRU", 3)))


def float64_recurrent() -> bool:
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    found = []
    for op, gates in (("LSTM", 4), ("GRU", 3)):
        feeds = {"x": np.ones((3, 1, 4)), "w": np.ones((1, gates * 2, 4)), "r": np.ones((1, gates * 2, 2))}
        made = recurrent(op, gates, "double", 1)
        onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        found.append(refuses(lambda made=made, feeds=feeds: run(made, **feeds), state.RuntimeException, state.Fail))
    return all(found)


def imprecise_group_norm() -> bool:
    head = "(float[1, 2, 64] x, float[2] s, float[2] b) => (float[1, 2, 64] y)"
    made = model(head + "{ y = GroupNormalization<num_groups = 1>(x, s, b) }", 21)
    x = 1000 + np.random.default_rng(0).normal(size=(1, 2, 64))
    wanted = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    (y,) = run(made, x=x.astype(np.float32), s=np.ones(2, np.float32), b=np.zeros(2, np.float32))
    return bool(np.abs(y - wanted).max() > 0.01)


def masked_attention_row() -> bool:
    parts = ", ".join(f"double[1, 1, 2, 4] {name}" for name in "qkv")
    made = model(f"({parts}, bool[2, 2] m) => (double[1, 1, 2, 4] y) {{ y = Attention(q, k, v, m) }}", 23)
    feeds = {name: np.ones((1, 1, 2, 4)) for name in "qkv"}
    if version_of("onnxruntime") < (1, 23):
        return False  # it has no Attention
    (y,) = run(made, m=np.array([[False, False], [True, True]]), **feeds)
    return bool(np.isnan(y[0, 0, 0]).all())


def causal_attention(outputs: str, results: str, mask: np.ndarray) -> list[np.ndarray]:
    """The results of Attention with is_causal, one head, on ones and a float mask."""
    made = model(
        f"(float[1, 1, 2, 4] x, float[2, 2] m) => ({outputs})"
        f"{{ {results} = Attention<is_causal = 1, qk_matmul_output_mode = 2>(x, x, x, m) }}",
        23,
    )
    return run(made, x=np.ones((1, 1, 2, 4), np.float32), m=mask.astype(np.float32))


def lowest_fill_hides() -> bool:
    if version_of("onnxruntime") < (1, 23):
        return False  # it has no Attention
    lowest = float(np.finfo(np.float32).min)
    (y,) = causal_attention("float[1, 1, 2, 4] y", "y", np.array([[lowest, 0], [0, 0]]))
    assert y[0, 0, 1].all()
    return not y[0, 0, 0].any()


def finite_hidden_scores() -> bool:
    if version_of("onnxruntime") < (1, 23):
        return False  # it has no Attention
    outputs = "float[1, 1, 2, 4] y, float[1, 1, 2, 2] s"
    _, scores = causal_attention(outputs, "y, , , s", np.zeros((2, 2)))
    return bool(np.isfinite(scores[0, 0, 0, 1]))


def saturated_int8_sums() -> bool:
    cpu = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not cpu.is_file():
        pytest.skip("it takes an x86 processor and Linux")
    made = model("(uint8[1, 2] a, int8[2, 1] b) => (int32[1, 1] y) { y = MatMulInteger(a, b) }")
    (y,) = run(made, a=np.full((1, 2), 255, np.uint8), b=np.full((2, 1), 127, np.int8))
    assert (int(y.item()) != 2 * 255 * 127) == ("vnni" not in cpu.read_text())
    if "vnni" in cpu.read_text():
        pytest.skip("this processor has VNNI, and its sums are right")
    return True


def missing_provider_library() -> bool:
    if "TensorrtExecutionProvider" not in PROVIDERS or ctypes.util.find_library("nvinfer") is not None:
        pytest.skip("it takes onnxruntime-gpu on a machine without TensorRT")
    return ends_process(LIST)


def unchecked_window_axes() -> bool:
    head = "(float[1, 4, 8] x, float[4, 4, 3, 3] w) => (float[a, b, c] y)"
    return ends_process(INFER, model(head + "{ y = Conv(x, w) }"))


def inlined(text: str, function: str) -> onnx.GraphProto:
    return inliner.inline_local_functions(model(text, functions=function)).graph


def inlined_defaults() -> bool:
    function = "f <alpha: float = 0.5> (a) => (b) { b = LeakyRelu<alpha : float = @alpha>(a) }"
    (node,) = inlined("(float[2] x) => (float[2] y) { y = local.f(x) }", function).node
    return not node.attribute


def inlined_outputs() -> bool:
    text = "(float[2] x) => (float[2] y, float[2] z) { y, z = local.f(x) }"
    for function in ("f (a) => (a, b) { b = Relu(a) }", "f (a) => (b, b) { b = Relu(a) }"):
        graph = inlined(text, function)
        if {"y", "z"} <= {name for node in graph.node for name in node.output}:
            return False
    return True


def inlined_body_outputs() -> bool:
    body = "p (int64 i, bool k, float[2] s) => (bool k, float[2] t) { t = Neg(s) }"
    function = f"f (a, n, c) => (b) {{ b = Loop(n, c, a) <body = {body}> }}"
    (loop,) = inlined("(float[2] x, int64 n, bool c) => (float[2] y) { y = local.f(x, n, c) }", function).node
    graph = loop.attribute[0].g
    return graph.output[0].name != graph.input[1].name


def evaluator_domain() -> bool:
    made = parser.parse_model(
        '<ir_version: 8, opset_import: ["ai.onnx" : 17]>\ng (float[1] x) => (float[1] y) { y = ai.onnx.Relu(x) }'
    )
    return refuses(lambda: ReferenceEvaluator(made).run(None, {"x": np.ones(1, np.float32)}), NotImplementedError)


def evaluator_shared_heads() -> bool:
    head = "(float[1, 4, 1, 1] q, float[1, 2, 1, 1] k, float[1, 2, 1, 1] v) => (float[1, 4, 1, 1] y)"
    made = model(head + "{ y = Attention(q, k, v) }", 23)
    key, values = np.ones((1, 2, 1, 1), np.float32), np.array([1, 2], np.float32).reshape(1, 2, 1, 1)
    feeds = {"q": np.ones((1, 4, 1, 1), np.float32), "k": key, "v": values}
    (y,) = ReferenceEvaluator(made).run(None, feeds)
    return y.ravel().tolist() == [1, 2, 1, 2]


def evaluator_precision() -> bool:
    """LogSoftmax takes the logarithm of 0, LayerNormalization and MeanVarianceNormalization refuse float64."""
    head = "(double[1, 2] x, double[2] s) => (double[1, 2] y)"
    feeds = {"x": np.array([[0.0, -2000.0]]), "s": np.ones(2)}

    def evaluated(node: str) -> np.ndarray:
        return ReferenceEvaluator(model(f"{head} {{ {node} }}")).run(None, feeds)[0]

    return (
        refuses(lambda: evaluated("y = LayerNormalization<stash_type = 11>(x, s)"), NotImplementedError)
        and refuses(lambda: evaluated("y = MeanVarianceNormalization<axes = [0, 1]>(x)"), Exception)
        and np.isneginf(evaluated("y = LogSoftmax(x)")[0, 1])
    )


def torchscript_log() -> bool:
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", FAIL_TO_EXPORT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return "Torch IR graph at exception" in done.stdout


REPRODUCTIONS = {name: found for name, found in vars().items() if name.upper() in QUIRKS}


def test_each_quirk_is_reproduced():
    assert {name.upper() for name in REPRODUCTIONS} == set(QUIRKS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(REPRODUCTIONS))
def test_the_installed_version_has_the_fault(name):
    """Or has it not, outside of the range that the quirk states."""
    quirk = QUIRKS[name.upper()]
    version = pytest.importorskip(quirk.package).__version__
    assert REPRODUCTIONS[name]() == quirk.affects(version), f"{quirk.package} {version}: {quirk.fault}"


@pytest.mark.parametrize("name", sorted(QUIRKS))
def test_each_workaround_names_its_quirk(name):
    """So that removing a quirk finds all that it stands for."""
    paths = sorted((ROOT / "surgeon").rglob("*.py"))
    users = {path.relative_to(ROOT / "surgeon").as_posix() for path in paths if name in path.read_text("utf-8")}
    assert users - {"runtime/quirks.py"} == set(QUIRKS[name].used_by)


@pytest.mark.parametrize(
    ("version", "first", "corrected", "affected"),
    [
        ("1.32.0", (0,), None, True),
        ("1.22.1", (1, 23), None, False),
        ("1.23.0", (1, 23), None, True),
        ("1.26.9", (0,), (1, 27), True),
        ("1.27.0", (0,), (1, 27), False),
        ("2.13.0+cpu", (2, 9), (2, 14), True),
        ("1.20.0rc1", (1, 20), None, True),
    ],
)
def test_a_range_of_versions(version, first, corrected, affected):
    assert Quirk("", "onnx", (), first, corrected).affects(version) == affected
