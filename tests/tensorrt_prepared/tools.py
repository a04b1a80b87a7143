"""What is done to a model before TensorRT, by surgeon and by others."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

import surgeon

LIMIT = 120  # seconds that a tool may take for one model


def ours(source: Any, folder: Path) -> Any:
    """A model after the rules for TensorRT."""
    where = folder / "ours.onnx"
    if isinstance(source, onnx.ModelProto):
        return surgeon.rewrite(source, "tensorrt", target="tensorrt", check="none")[0]
    surgeon.rewrite(source, "tensorrt", output=where, target="tensorrt", check="none", force=True)
    return where


def slim(source: Any, folder: Path) -> Any:
    """A model after onnxslim."""
    import onnxslim

    return onnxslim.slim(source if isinstance(source, onnx.ModelProto) else onnx.load(source))


def sim(source: Any, folder: Path) -> Any:
    """A model after onnxsim."""
    import onnxsim

    return onnxsim.simplify(source if isinstance(source, onnx.ModelProto) else onnx.load(source))[0]


def polygraphy(source: Any, folder: Path) -> Any:
    """A model after polygraphy's clean-up."""
    given, made = folder / "given.onnx", folder / "polygraphy.onnx"
    onnx.save(source if isinstance(source, onnx.ModelProto) else onnx.load(source), given)
    command = ["polygraphy", "surgeon", "sanitize", str(given), "-o", str(made), "--fold-constants", "--cleanup"]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT)
    return made


def modelopt(source: Any, folder: Path) -> Any:
    """A model after the one graph surgery of ModelOpt's that takes any; the others want a language model of a kind."""
    from modelopt.onnx.graph_surgery import transpose_dequantize_linear_weights  # type: ignore[import-not-found]

    given, made = folder / "given.onnx", folder / "modelopt.onnx"
    onnx.save(source if isinstance(source, onnx.ModelProto) else onnx.load(source), given)
    transpose_dequantize_linear_weights(model_path=str(given), output_path=str(made))
    return made


Tool = Callable[[Any, Path], Any]
OURS = "surgeon"
PEERS: dict[str, Tool] = {"onnxslim": slim, "onnxsim": sim, "polygraphy": polygraphy}
PEERS["modelopt"] = modelopt  # where it is installed; else each model counts as failed
TOOLS: dict[str, Tool] = {OURS: ours, **PEERS}


def within(seconds: int, function: Tool, source: Any, folder: Path) -> Any:
    """What a tool makes of a model.  Raises TimeoutError."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        return function(source, folder)
    finally:
        signal.alarm(0)
