"""The models of the speed table: `python -m tests.benchmarks.speed_models NAME PATH`.

BERT of 24 layers, D-FINE and RT-DETRv2 are small and have random weights; smollm_2 is that of onnxscript's tests.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

BATCH, LENGTH, VOCABULARY, SIDE = 2, 7, 1000, 128
DETECTOR = {
    "d_model": 64,
    "encoder_hidden_dim": 64,
    "encoder_in_channels": [32, 64, 64],
    "feat_strides": [8, 16, 32],
    "encoder_layers": 1,
    "encoder_ffn_dim": 64,
    "encoder_attention_heads": 4,
    "decoder_in_channels": [64, 64, 64],
    "decoder_ffn_dim": 64,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "num_queries": 30,
    "hidden_expansion": 0.5,
}


def two_nodes(path: Path) -> None:
    """A Relu and a Sigmoid, for which no rule does anything."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"])]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8])] for name in "xy"]
    graph = helper.make_graph(nodes, "two", *ends)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def bert(path: Path) -> None:
    """BERT of 24 layers by TorchScript at opset 17: int64 `input_ids` and `attention_mask` [batch, sequence]."""
    import torch
    import transformers

    from tests.torch_models import FirstOutput

    size = {"hidden_size": 128, "num_hidden_layers": 24, "num_attention_heads": 4, "intermediate_size": 512}
    model = transformers.BertModel(transformers.BertConfig(**size, vocab_size=VOCABULARY), add_pooling_layer=False)
    ids = torch.randint(1, VOCABULARY, (BATCH, LENGTH))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    axes = {name: {0: "batch", 1: "sequence"} for name in inputs}
    _export(FirstOutput(model.eval(), tuple(inputs)), tuple(inputs.values()), path, [*inputs], ["y"], dynamic_axes=axes)


def d_fine(path: Path) -> None:
    """D-FINE over an HGNetV2: float32 `pixel_values` [1, 3, 128, 128], outputs `logits` and `boxes`."""
    import transformers

    widths = {"stem_channels": [3, 8, 8], "stage_in_channels": [8, 16, 32, 64], "stage_mid_channels": [8, 8, 16, 16]}
    depths = {"stage_num_blocks": [1, 1, 1, 1], "stage_numb_of_layers": [3, 3, 3, 3], "stage_kernel_size": [3, 3, 5, 5]}
    flags = {"stage_downsample": [False, True, True, True], "stage_light_block": [False, False, True, True]}
    outputs = {"stage_out_channels": [16, 32, 64, 64], "hidden_sizes": [16, 32, 64, 64]}
    stages = ["stage2", "stage3", "stage4"]
    backbone = transformers.HGNetV2Config(**widths, **depths, **flags, **outputs, out_features=stages)
    config = transformers.DFineConfig(backbone_config=backbone, **DETECTOR)
    _detector(transformers.DFineForObjectDetection(config), path)


def rt_detr(path: Path) -> None:
    """RT-DETRv2 over a ResNet, with the inputs and outputs of `d_fine`."""
    import transformers

    size = {"embedding_size": 16, "hidden_sizes": [16, 32, 64, 64], "depths": [2, 2, 2, 2], "layer_type": "basic"}
    backbone = transformers.RTDetrResNetConfig(**size, out_features=["stage2", "stage3", "stage4"])
    config = transformers.RTDetrV2Config(backbone_config=backbone, **DETECTOR)
    _detector(transformers.RTDetrV2ForObjectDetection(config), path)


def smollm(path: Path) -> None:
    """One layer of SmolLM with a vocabulary of 49,152 and 1 GB of weights, as in onnxscript's tests."""
    import onnx_ir
    from onnxscript.rewriter.models import _smollm_2

    onnx_ir.save(_smollm_2.smollm_test_2().get_onnx_model(), str(path))


def _detector(model: Any, path: Path) -> None:
    import torch

    class Detections(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model.eval()

        def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            found = self.model(pixel_values=pixel_values)
            return found.logits, found.pred_boxes

    _export(Detections(), (torch.rand(1, 3, SIDE, SIDE),), path, ["pixel_values"], ["logits", "boxes"])


def _export(
    model: Any, inputs: tuple[Any, ...], path: Path, input_names: list[str], output_names: list[str], **more: Any
) -> None:
    import torch

    from tests.matrix.torch_export import quiet

    names = {"input_names": input_names, "output_names": output_names}
    with quiet(), torch.no_grad():
        torch.onnx.export(model, inputs, str(path), opset_version=17, dynamo=False, **names, **more)


MODELS = {"two": two_nodes, "bert": bert, "dfine": d_fine, "rtdetr": rt_detr, "smollm": smollm}


def main(name: str, path: Path) -> None:
    """Write a model, and print its nodes."""
    if "torch" not in sys.modules and name in ("bert", "dfine", "rtdetr"):
        import torch

        torch.manual_seed(0)
    MODELS[name](path)
    ops = Counter(node.op_type for node in onnx.load(path, load_external_data=False).graph.node)
    sys.stdout.write(f"{name}: {ops.total():,} nodes, {ops['Conv']} of them Conv\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
