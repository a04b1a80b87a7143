"""Models beside what TensorRT makes of them: the sentence where there is no GPU, and the whole way with a fake one."""

import json

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.display.content.bench import bench_lines
from surgeon.runtime.processes.worker import Task, Worker
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.runtime.sessions.session_tasks import RunRequest
from surgeon.runtime.tensorrt import cuda_driver, isolated_engine, library
from surgeon.runtime.tensorrt.cuda_driver import GpuDriver, GpuUnavailable
from surgeon.runtime.tensorrt.library import installed
from surgeon.runtime.tensorrt.parser_tasks import ParseRequest
from surgeon.testing import parse
from tests.command_line import run

LIBRARY = installed()
needs_parser = pytest.mark.skipif(LIBRARY is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")


def has_gpu():
    """Whether this machine has one that can be used."""
    try:
        GpuDriver()
    except GpuUnavailable:
        return False
    return True


def net(body="a = MatMul(x, w)  y = Relu(a)"):
    return parse(f"(float[n, 3] x) => (float[n, 3] y) <float[3, 3] w = {{1, 2, -3, 4, -5, 6, -7, 8, 9}}> {{ {body} }}")


@pytest.fixture
def files(tmp_path):
    onnx.save(net(), tmp_path / "a.onnx")
    onnx.save(net("a = MatMul(x, w)  b = Identity(a)  y = Relu(b)"), tmp_path / "b.onnx")
    return str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")


@pytest.fixture
def fake_gpu(monkeypatch):
    """Children run models by `tests.fake_gpu`."""
    monkeypatch.setattr(isolated_engine, "MODULE", "tests.fake_gpu")


@needs_parser
@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
@pytest.mark.parametrize("command", ["compare", "bench"])
def test_without_a_gpu_one_sentence_says_so(files, command):
    done = run(command, *files, "--with", "tensorrt")
    assert done.exit_code == 2
    assert done.output.startswith("Error: TensorRT-RTX needs an NVIDIA GPU (")
    assert done.output.count("\n") == 1
    assert "Traceback" not in done.output


def test_without_tensorrt_one_sentence_says_so(files, monkeypatch):
    nothing = library.Library("tensorrt-rtx", "TensorRT-RTX", ("no_module_of_this_name",), ())
    monkeypatch.setattr(isolated_engine, "LIBRARIES", (nothing,))
    done = run("compare", *files, "--with", "tensorrt")
    sentence = 'Error: TensorRT is not installed. Install it: pip install "onnx-surgeon[tensorrt]"\n'
    assert (done.exit_code, done.output) == (2, sentence)


def test_what_the_driver_says_is_reported(monkeypatch):
    class Library:
        def __getattr__(self, name):
            return lambda *arguments: 0 if name == "cuGetErrorName" else 100

    monkeypatch.setattr(cuda_driver, "_opened", Library)
    with pytest.raises(GpuUnavailable, match="cuInit of NVIDIA's driver returns error 100"):
        GpuDriver()
    monkeypatch.undo()
    monkeypatch.setattr(cuda_driver, "NAMES", ("no_library_of_this_name.so",))
    with pytest.raises(GpuUnavailable, match=r"not installed \(no_library_of_this_name.so not found\)"):
        GpuDriver()


@needs_parser
@pytest.mark.parametrize("name", ["b.onnx", "wrong"])
def test_a_model_is_compared_with_the_engine_of_another(files, fake_gpu, name, tmp_path):
    """The engine runs on each set of inputs, of sizes of its own."""
    other = files[1]
    if name == "wrong":
        onnx.save(net("a = MatMul(x, w)  y = Abs(a)"), tmp_path / "wrong.onnx")
        other = tmp_path / "wrong.onnx"
    found = surgeon.compare(files[0], other, runtime="tensorrt")
    assert found.outcome.value == ("failed" if name == "wrong" else "proved")
    assert found.oracle == "TensorRT, the original under ONNX Runtime"
    assert found.runs > 1


@needs_parser
def test_outputs_that_grow_and_models_in_memory(fake_gpu):
    before = net("a = MatMul(x, w)  y = Relu(a)")
    found = surgeon.compare(before, before, runtime="tensorrt", dims={"n": 300})
    assert found.outcome.value == "proved"


FAULTS = {
    "answer": "",
    "build": "TensorRT cannot build an engine",
    "load": "TensorRT cannot load the engine that it built",
    "run": "TensorRT cannot run the model",
    "dtype": "Output 'y' is FP4, which numpy does not support",
}


@needs_parser
@pytest.mark.parametrize("fault", FAULTS)
def test_what_goes_wrong_on_the_gpu_is_reported(fault, files, monkeypatch):
    """In a child of its own, as the fault stands in its environment."""
    monkeypatch.setenv("SURGEON_TEST_FAULT", fault)
    child = Worker()
    try:
        opening = ParseRequest(LIBRARY.module, net().SerializeToString())
        answer = child.run(Task("tests.fake_gpu:hold", opening, 60.0)).value
        assert answer["name"] == "TensorRT"
        feeds = {"x": np.float32([[1, -2, 3]])}
        result = child.run(Task("surgeon.runtime.sessions.session_tasks:run", RunRequest(feeds, ("y",)), 60.0))
        if fault == "answer":
            np.testing.assert_array_equal(result.arrays[0], np.maximum(feeds["x"] @ WEIGHT, 0) + 1)
        else:
            assert FAULTS[fault] in result.value["refused"]
    finally:
        child.end()


WEIGHT = np.float32([[1, 2, -3], [4, -5, 6], [-7, 8, 9]])


@needs_parser
def test_what_tensorrt_refuses_fails_and_says_so(files, fake_gpu, tmp_path):
    onnx.save(net("a = MatMul(x, w)  b = Det(w)  c = Mul(a, b)  d = Div(c, b)  y = Relu(d)"), tmp_path / "det.onnx")
    found = surgeon.compare(files[0], tmp_path / "det.onnx", runtime="tensorrt")
    assert found.outcome.value == "failed"
    assert "TensorRT rejects the model" in found.reason
    assert "To list the nodes: surgeon check IN --target tensorrt" in found.reason


@needs_parser
def test_options_that_do_not_go_with_an_engine(files, fake_gpu):
    with pytest.raises(surgeon.UsageError, match="With the runtime TensorRT, neither inner tensors nor"):
        surgeon.compare(*files, runtime="tensorrt", layers=True)
    with pytest.raises(surgeon.UsageError, match="Threads, processor time, ep and custom ops do not apply to TensorRT"):
        surgeon.bench(*files, runtime="tensorrt", threads=2)
    with pytest.raises(surgeon.UsageError, match="Unknown runtime 'openvino'. Choose onnxruntime or tensorrt"):
        surgeon.compare(*files, runtime="openvino")


@needs_parser
def test_engines_are_timed_in_rounds(files, fake_gpu, monkeypatch):
    monkeypatch.setattr("surgeon.runtime.timing.load_batches.MODULE", "tests.fake_gpu_bench")
    found = surgeon.bench(*files, runtime="tensorrt", rounds=4, loads=1, seconds=0.0, at=[{"n": 2}, {"n": 5}])
    data = json.loads(json.dumps(found.to_dict()))
    assert (data["runtime"], data["ep"], len(data["ratios"]), data["rounds"]) == ("TensorRT-RTX", None, 2, 4)
    assert "under TensorRT-RTX, on the GPU" in dict(bench_lines(found))["loads"]


def test_a_session_that_is_refused_is_an_error():
    """What the child of a GPU answers without one."""
    if LIBRARY is None or has_gpu():
        pytest.skip("it wants a machine with TensorRT and without a GPU")
    with pytest.raises(SessionError, match="TensorRT cannot run, because "):
        isolated_engine.TensorRtRuntime(LIBRARY).open(net())
