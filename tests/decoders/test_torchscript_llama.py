"""A decoder of transformers, exported by TorchScript with its cache as inputs and outputs."""

from collections import Counter

import onnx
import pytest

import surgeon

torch = pytest.importorskip("torch", "2.9", reason="torch 2.9 or newer is not installed")
transformers = pytest.importorskip("transformers", "5.24", reason="transformers 5.24 or newer is not installed")

LAYERS = 2
PASTS = [f"past_key_values.{n}.{kind}" for n in range(LAYERS) for kind in ("key", "value")]
PRESENTS = [name.replace("past_key_values", "present") for name in PASTS]


class Flat(torch.nn.Module):
    """The model with its past as tensors one by one."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask, positions, *past):
        cache = transformers.DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        made = self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
        )
        return made.logits, *(part for layer in made.past_key_values.layers for part in (layer.keys, layer.values))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.filterwarnings("ignore")
def test_the_cache_is_found(attention, tmp_path):
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=LAYERS, vocab_size=256, attn_implementation=attention)
    ids, positions, mask = torch.arange(6).reshape(2, 3), torch.arange(5, 8).repeat(2, 1), torch.ones(2, 8).long()
    past = [torch.randn(2, 2, 5, 16) for _ in PASTS]
    axes = {name: {0: "batch", 1: "seq"} for name in ("input_ids", "position_ids")}
    axes |= {"attention_mask": {0: "batch", 1: "total"}} | {name: {0: "batch", 2: "past"} for name in PASTS}
    axes |= {name: {0: "batch", 2: "total"} for name in PRESENTS}
    torch.onnx.export(
        Flat(transformers.LlamaForCausalLM(config).eval()),
        (ids, mask, positions, *past),
        tmp_path / "model.onnx",
        input_names=["input_ids", "attention_mask", "position_ids", *PASTS],
        output_names=["logits", *PRESENTS],
        dynamic_axes=axes,
        dynamo=False,
        opset_version=17,
    )
    model = onnx.load(tmp_path / "model.onnx")
    made, report = surgeon.rewrite(model, "ort")
    ops = Counter(node.op_type for node in made.graph.node)
    appending = [node for node in made.graph.node if node.op_type == "MultiHeadAttention"]
    assert report.outcome == "proved"
    assert [name for node in appending for name in node.output[1:3]] == PRESENTS
    assert ops["Expand"] == 0
    assert ops.total() - ops["Constant"] <= 87, "an export by dynamo becomes 87 nodes"
    assert len(model.graph.node) > 500
