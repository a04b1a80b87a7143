"""What surgeon costs before its work begins: `python -m tests.benchmarks.startup [--runs 11] [--bars]`.

Processor time of whole processes beside `python -c 'import onnx, numpy'` in the same rounds: the median of the ratios.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.benchmarks.measure import Run, measure

SHIPPED = Path(__file__).resolve().parents[2] / "notebooks" / "models" / "tiny_distilbert.onnx"
BASE = "import onnx, numpy"
# What may be at most, in times of the base; None: nothing is promised, as there is work to do.
BARS = {
    "surgeon --version": 0.5,
    "rewrite --rules mish": 1.5,
    "rewrite --rules ort": 2.5,
    "rewrite --rules ort, with matches": None,
}


def small_model() -> onnx.ModelProto:
    """A convolutional net of 15 nodes and 80 KB, in which no rule finds anything."""
    numbers = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    held: list[onnx.TensorProto] = []

    def weight(name: str, *shape: int) -> str:
        held.append(numpy_helper.from_array(numbers.normal(size=shape).astype(np.float32), name))
        return name

    name, channels = "x", 3
    for place, more in enumerate((16, 24, 32, 32)):
        kernel = [weight(f"w{place}", more, channels, 3, 3), weight(f"b{place}", more)]
        nodes.append(helper.make_node("Conv", [name, *kernel], [f"c{place}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{place}"], [f"r{place}"]))
        nodes.append(helper.make_node("MaxPool", [f"r{place}"], [f"p{place}"], kernel_shape=[2, 2], strides=[2, 2]))
        name, channels = f"p{place}", more
    nodes.append(helper.make_node("GlobalAveragePool", [name], ["g"]))
    nodes.append(helper.make_node("Flatten", ["g"], ["f"]))
    nodes.append(helper.make_node("Gemm", ["f", weight("wl", 32, 10), weight("bl", 10)], ["y"]))
    ends = [helper.make_tensor_value_info(*end) for end in (("x", 1, ["n", 3, 64, 64]), ("y", 1, ["n", 10]))]
    assert TensorProto.FLOAT == 1
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def commands(folder: Path) -> dict[str, tuple[str, ...]]:
    """What is measured, by name; the base has none."""
    onnx.save(small_model(), folder / "small.onnx")
    surgeon = (sys.executable, "-m", "surgeon")

    def rewrite(source: Path, rules: str) -> tuple[str, ...]:
        return (*surgeon, "rewrite", str(source), str(folder / "out.onnx"), "--rules", rules, "--check", "none")

    return {
        "": (sys.executable, "-c", BASE),
        "surgeon --version": (*surgeon, "--version"),
        "rewrite --rules mish": rewrite(folder / "small.onnx", "mish"),
        "rewrite --rules ort": rewrite(folder / "small.onnx", "ort"),
        "rewrite --rules ort, with matches": rewrite(SHIPPED, "ort"),
    }


def main() -> int:
    """Measure, print the table, and say with --bars whether all bars are held."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.startup", description=__doc__)
    parser.add_argument("--runs", type=int, default=11, help="rounds (default 11)")
    parser.add_argument("--bars", action="store_true", help="exit with 1 when a bar is missed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asked = commands(Path(folder))
        for command in asked.values():  # bytecode and the disk's cache are there for all then
            measure(command)
        rounds: list[dict[str, Run]] = [
            {name: measure(command) for name, command in asked.items()} for _ in range(options.runs)
        ]
    print(f"| command | processor time, ms | by `{BASE}` | at most |\n|---|--:|--:|--:|")
    missed = False
    for name in asked:
        cost = median(run[name].processor for run in rounds)
        ratio = median(run[name].processor / run[""].processor for run in rounds)
        bar = BARS.get(name)
        missed = missed or (bar is not None and ratio > bar)
        print(f"| `{name or BASE}` | {1000 * cost:.0f} | {ratio:.2f} | {'' if bar is None else bar} |")
    return int(options.bars and missed)


if __name__ == "__main__":
    sys.exit(main())
