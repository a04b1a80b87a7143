"""A decoder of transformers, exported by TorchScript with its cache as inputs and outputs."""

from collections import Counter

import onnx
import pytest

import surgeon

pytest.importorskip("torch", "2.9", reason="torch 2.9 or newer is not installed")
pytest.importorskip("transformers", "5.24", reason="transformers 5.24 or newer is not installed")

PRESENTS = [f"present.{n}.{kind}" for n in range(2) for kind in ("key", "value")]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.filterwarnings("ignore")
def test_the_cache_is_found(attention, tmp_path):
    from tests.decoders import architectures
    from tests.decoders.exported import export

    made = architectures.model("llama")
    made.set_attn_implementation(attention)
    export(made, "torchscript", 17, tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    made, report = surgeon.rewrite(model, "ort")
    ops = Counter(node.op_type for node in made.graph.node)
    appending = [node for node in made.graph.node if node.op_type == "MultiHeadAttention"]
    assert report.outcome == "proved"
    assert [name for node in appending for name in node.output[1:3]] == PRESENTS
    assert ops["Expand"] == 0
    assert ops.total() - ops["Constant"] <= 87, "an export by dynamo becomes 87 nodes"
    assert len(model.graph.node) > 500
