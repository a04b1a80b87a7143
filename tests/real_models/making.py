"""Makes models: `python -m tests.real_models.making export NAME PATH`, or `script MODULE MAKER PATH`.

In a process of its own, for torch is large.  The exports have the sizes that people run: BERT-base and ViT-base of
twelve layers, ResNet-50, Llama of four layers; the UNet is the small one of the tests' architectures.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

VOCABULARY = 1000
TEXT = {0: "batch", 1: "sequence"}
Parts = tuple[Any, dict[str, Any], dict[str, dict[int, str]]]


def _words(*names: str) -> tuple[dict[str, Any], dict[str, dict[int, str]]]:
    import torch

    ones = {"attention_mask": 2}
    inputs = {name: torch.randint(1, ones.get(name, VOCABULARY), (2, 7)) for name in names}
    return inputs, dict.fromkeys(names, TEXT)


def bert_base() -> Parts:
    """BERT-base: twelve layers of 768, twelve heads."""
    import transformers

    config = transformers.BertConfig(vocab_size=VOCABULARY)
    return (transformers.BertModel(config, add_pooling_layer=False), *_words("input_ids", "attention_mask"))


def vit_base() -> Parts:
    """ViT-base: twelve layers of 768 over 14 x 14 patches of 16."""
    return _with_pixels("ViTForImageClassification", "ViTConfig")


def resnet50() -> Parts:
    """ResNet-50 on pictures of 224 x 224."""
    return _with_pixels("ResNetForImageClassification", "ResNetConfig")


def _with_pixels(model: str, config: str) -> Parts:
    import torch
    import transformers

    made = getattr(transformers, model)(getattr(transformers, config)())
    return made, {"pixel_values": torch.randn(2, 3, 224, 224)}, {"pixel_values": {0: "batch"}}


def llama4() -> Parts:
    """Llama of four layers of 512, eight heads over four of keys."""
    import transformers

    size = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4}
    config = transformers.LlamaConfig(**size, intermediate_size=1408, vocab_size=VOCABULARY, use_cache=False)
    return (transformers.LlamaForCausalLM(config), *_words("input_ids", "attention_mask"))


def unet() -> Parts:
    """diffusers' UNet, small."""
    from tests.architectures import models

    found = models.BUILDERS["unet"]()
    return found.model, dict(found.inputs), {key: dict(axes) for key, axes in found.axes.items()}


EXPORTS: dict[str, Callable[[], Parts]] = {
    "bert_base": bert_base,
    "vit_base": vit_base,
    "resnet50": resnet50,
    "unet": unet,
    "llama4": llama4,
}


UNFOLDED = frozenset({"resnet50"})  # else the exporter folds its batch normalisations, and nothing is left to do


def export(name: str, path: Path) -> None:
    """Export one of EXPORTS with torch's newer exporter, opset 18."""
    import torch

    from tests.matrix.torch_export import quiet
    from tests.torch_models import FirstOutput

    torch.manual_seed(0)
    model, inputs, axes = EXPORTS[name]()
    module = FirstOutput(model.eval(), tuple(inputs))
    shapes = tuple(dict.fromkeys(dims, torch.export.Dim.DYNAMIC) for dims in axes.values())
    options: dict[str, Any] = {"opset_version": 18, "input_names": list(inputs), "output_names": ["y"]}
    with quiet():
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(path),
            dynamo=True,
            dynamic_shapes=(shapes,),
            external_data=False,
            verbose=False,
            optimize=name not in UNFOLDED,
            **options,
        )


def script(module: str, maker: str, path: Path) -> None:
    """Write a model of onnxscript's own tests."""
    import onnx_ir

    found = importlib.import_module(f"onnxscript.rewriter.models.{module}")
    onnx_ir.save(getattr(found, maker)().get_onnx_model(), path)


MAKERS: dict[str, Callable[..., None]] = {"export": export, "script": script}

if __name__ == "__main__":
    MAKERS[sys.argv[1]](*sys.argv[2:-1], Path(sys.argv[-1]))
