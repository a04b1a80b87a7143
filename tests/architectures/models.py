"""Small models of whole architectures, each built from the library's own configuration, with seeded random weights.

Loaded only when an export is made, as it imports torch, transformers and diffusers.  Every model has the structure of
the one that people download: two layers of 32 channels in place of 32 layers of 4,096.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn

from tests.architectures.decoys import FeatureClassifier

HIDDEN, LAYERS, HEADS, VOCAB, LENGTH = 32, 2, 4, 99, 7
SEED = 0
TYPES = {"fp32": torch.float32, "fp16": torch.float16}
TEXT = {0: "batch", 1: "sequence"}
IMAGE = {0: "batch"}
Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Architecture:
    """A model, its inputs by name in the order of its parameters, and the axes of each that are dynamic.

    outputs: how many of the model's results are exported.  fixed: arguments that are no tensors.
    """

    model: nn.Module
    inputs: Inputs
    axes: Mapping[str, Mapping[int, str]]
    outputs: int = 1
    fixed: Mapping[str, Any] = field(default_factory=dict)


class Named(nn.Module):
    """A model of transformers or diffusers, called with its inputs by name; returns its first results."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.model = architecture.model
        self.names, self.outputs = tuple(architecture.inputs), architecture.outputs
        self.fixed = dict(architecture.fixed)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        named = dict(zip(self.names, inputs, strict=True))
        results = self.model(**named, **self.fixed, return_dict=False)
        return results[0] if self.outputs == 1 else tuple(results[: self.outputs])


class Autoencoder(nn.Module):
    """One half of diffusers' AutoencoderKL: from latents to pixels, or from pixels to the moments of the latents."""

    def __init__(self, model: Any, half: str) -> None:
        super().__init__()
        decodes = half == "decoder"
        self.layers = nn.ModuleList(
            [model.post_quant_conv, model.decoder] if decodes else [model.encoder, model.quant_conv]
        )

    def forward(self, image: torch.Tensor, return_dict: bool = False) -> tuple[torch.Tensor]:
        for layer in self.layers:
            image = layer(image)
        return (image,)


def build(name: str, dtype: str) -> tuple[nn.Module, Inputs, dict[str, dict[int, str]]]:
    """The model in evaluation mode, called with its inputs by position; its inputs and their dynamic axes by name.

    dtype: "fp32" or "fp16", of weights and inputs.
    """
    torch.manual_seed(SEED)
    found = BUILDERS[name]()
    _unsettle(found.model)
    kind = TYPES[dtype]
    inputs = {key: x.to(kind) if x.is_floating_point() else x for key, x in found.inputs.items()}
    axes = {key: dict(found.axes.get(key, {})) for key in inputs}
    return Named(found).eval().to(kind), inputs, axes


def _unsettle(model: nn.Module) -> None:
    """Move every vector of weights off its initial ones and zeros, with which a lost scale or bias would not show."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.2 * torch.randn_like(weight))


def _words(*names: str) -> tuple[Inputs, dict[str, dict[int, str]]]:
    """Ones for masks, zeros and ones for token types, else token ids; batch and sequence dynamic."""
    high = {"attention_mask": 2, "token_type_ids": 2}
    low = {"token_type_ids": 0}
    inputs = {name: torch.randint(low.get(name, 1), high.get(name, VOCAB), (2, LENGTH)) for name in names}
    return inputs, dict.fromkeys(inputs, TEXT)


def _pixels(size: int = 16) -> tuple[Inputs, dict[str, dict[int, str]]]:
    return {"pixel_values": torch.randn(2, 3, size, size)}, {"pixel_values": IMAGE}


def _sizes(attention: str, **more: Any) -> dict[str, Any]:
    """The options that most configurations of transformers share."""
    return {
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 2 * HIDDEN,
        "attn_implementation": attention,
        **more,
    }


def _language(attention: str, **more: Any) -> dict[str, Any]:
    return _sizes(attention, vocab_size=VOCAB, max_position_embeddings=32, **more)


def bert() -> Architecture:
    """Masked words: LayerNorm behind every residual sum, the exact GELU."""
    return Architecture(
        transformers.BertForMaskedLM(transformers.BertConfig(**_language("sdpa"))),
        *_words("input_ids", "attention_mask", "token_type_ids"),
    )


def bert_loss() -> Architecture:
    """Classification with its loss, attention written out."""
    inputs, axes = _words("input_ids", "attention_mask")
    inputs["labels"], axes["labels"] = torch.tensor([1, 0]), IMAGE
    config = transformers.BertConfig(**_language("eager"), hidden_act="gelu_new")
    return Architecture(transformers.BertForSequenceClassification(config), inputs, axes, outputs=2)


def distilbert() -> Architecture:
    """A smaller BERT without token types."""
    config = transformers.DistilBertConfig(
        vocab_size=VOCAB,
        max_position_embeddings=32,
        dim=HIDDEN,
        n_layers=LAYERS,
        n_heads=HEADS,
        hidden_dim=2 * HIDDEN,
        attn_implementation="sdpa",
    )
    return Architecture(transformers.DistilBertForMaskedLM(config), *_words("input_ids", "attention_mask"))


def gpt2() -> Architecture:
    """A decoder with LayerNorm before each block, and the loss of the next word; attention written out."""
    config = transformers.GPT2Config(
        vocab_size=VOCAB,
        n_positions=32,
        n_embd=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        use_cache=False,
        bos_token_id=97,
        eos_token_id=98,
        attn_implementation="eager",
    )
    inputs, axes = _words("input_ids", "attention_mask", "labels")
    return Architecture(transformers.GPT2LMHeadModel(config), inputs, axes, outputs=2)


def _decoder(model: Any, config: Any, attention: str, **more: Any) -> Architecture:
    """A decoder with RMSNorm, rotary embeddings, a gated MLP and grouped keys."""
    made = config(
        **_language(attention, **more),
        num_key_value_heads=2,
        head_dim=HIDDEN // HEADS,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=97,
        eos_token_id=98,
    )
    return Architecture(model(made), *_words("input_ids", "attention_mask"))


def llama() -> Architecture:
    """RMSNorm with the weight behind the cast, SiLU."""
    return _decoder(transformers.LlamaForCausalLM, transformers.LlamaConfig, "sdpa")


def qwen2() -> Architecture:
    """As Llama, with biases; attention written out."""
    return _decoder(transformers.Qwen2ForCausalLM, transformers.Qwen2Config, "eager")


def qwen3() -> Architecture:
    """RMSNorm also on each head of queries and keys."""
    return _decoder(transformers.Qwen3ForCausalLM, transformers.Qwen3Config, "sdpa")


def gemma() -> Architecture:
    """RMSNorm times (1 + weight), in float32; the tanh GELU."""
    return _decoder(transformers.GemmaForCausalLM, transformers.GemmaConfig, "sdpa")


def gemma2() -> Architecture:
    """A norm before and after each block, and soft caps by tanh, which are no GELU."""
    return _decoder(transformers.Gemma2ForCausalLM, transformers.Gemma2Config, "eager", layer_types=None)


def t5() -> Architecture:
    """Encoder and decoder with RMSNorm, ReLU and relative positions; attention written out."""
    return _t5(feed_forward_proj="relu")


def t5_gated() -> Architecture:
    """As version 1.1: the tanh GELU as a gate."""
    return _t5(feed_forward_proj="gated-gelu")


def _t5(**more: Any) -> Architecture:
    config = transformers.T5Config(
        vocab_size=VOCAB,
        d_model=HIDDEN,
        d_kv=HIDDEN // HEADS,
        d_ff=2 * HIDDEN,
        num_layers=LAYERS,
        num_heads=HEADS,
        use_cache=False,
        attn_implementation="eager",
        **more,
    )
    inputs, axes = _words("input_ids", "attention_mask", "decoder_input_ids")
    axes["decoder_input_ids"] = {0: "batch", 1: "target"}
    return Architecture(transformers.T5ForConditionalGeneration(config), inputs, axes)


def vit() -> Architecture:
    """Patches of an image; attention written out."""
    config = transformers.ViTConfig(**_sizes("eager"), image_size=16, patch_size=4)
    return Architecture(transformers.ViTForImageClassification(config), *_pixels())


def dinov2() -> Architecture:
    """Patches with LayerScale and a gated MLP with SiLU."""
    config = transformers.Dinov2Config(
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        image_size=16,
        patch_size=4,
        use_swiglu_ffn=True,
        attn_implementation="sdpa",
    )
    return Architecture(transformers.Dinov2Model(config), *_pixels())


def clip() -> Architecture:
    """Text and image towers with the quick GELU, L2 norms of both, and the contrastive loss."""
    text = _language("eager", bos_token_id=97, eos_token_id=98, pad_token_id=0)
    vision = _sizes("eager", image_size=16, patch_size=4)
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=HIDDEN)
    words, axes = _words("input_ids", "attention_mask")
    pixels, more = _pixels()
    words["input_ids"][:, -1] = 98
    inputs = {"input_ids": words["input_ids"], **pixels, "attention_mask": words["attention_mask"]}
    model = transformers.CLIPModel(config)
    return Architecture(model, inputs, {**axes, **more}, outputs=2, fixed={"return_loss": True})


def convnext() -> Architecture:
    """Convolutions with LayerNorm over channels, first and last, and the exact GELU."""
    config = transformers.ConvNextConfig(hidden_sizes=[16, 32], depths=[1, 2], num_stages=2)
    return Architecture(transformers.ConvNextForImageClassification(config), *_pixels(32))


def wav2vec2() -> Architecture:
    """Speech: GroupNorm or LayerNorm behind convolutions, GELU, a positional convolution."""
    config = transformers.Wav2Vec2Config(
        **_sizes("sdpa"),
        conv_dim=[HIDDEN, HIDDEN],
        conv_stride=[5, 2],
        conv_kernel=[10, 3],
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        vocab_size=VOCAB,
    )
    return Architecture(
        transformers.Wav2Vec2Model(config), {"input_values": torch.randn(2, 400)}, {"input_values": IMAGE}
    )


def unet() -> Architecture:
    """The denoiser of Stable Diffusion: GroupNorm, SiLU, cross attention, GeGLU."""
    import diffusers

    model = diffusers.UNet2DConditionModel(
        sample_size=8,
        layers_per_block=1,
        block_out_channels=(16, HIDDEN),
        norm_num_groups=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=HIDDEN,
        attention_head_dim=4,
    )
    inputs = {
        "sample": torch.randn(2, 4, 8, 8),
        "timestep": torch.tensor([7, 3]),
        "encoder_hidden_states": torch.randn(2, LENGTH, HIDDEN),
    }
    return Architecture(model, inputs, {**dict.fromkeys(inputs, IMAGE), "encoder_hidden_states": TEXT})


def _autoencoder(half: str, channels: int, size: int) -> Architecture:
    import diffusers

    model = diffusers.AutoencoderKL(
        block_out_channels=(16, HIDDEN),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=4,
        latent_channels=4,
        layers_per_block=1,
    )
    image = {"image": torch.randn(2, channels, size, size)}
    return Architecture(Autoencoder(model, half), image, {"image": IMAGE})


def vae_decoder() -> Architecture:
    """From latents to pixels: GroupNorm, SiLU, one attention over all places."""
    return _autoencoder("decoder", 4, 4)


def vae_encoder() -> Architecture:
    """From pixels to the parameters of a distribution over latents, before it is drawn from."""
    return _autoencoder("encoder", 3, 8)


def feature_classifier() -> Architecture:
    """Standardised features, statistics pooling and losses: what only looks like a norm, around one real encoder."""
    inputs = {"features": torch.randn(2, LENGTH, 20), "labels": torch.tensor([1, 0])}
    axes = {"features": {0: "batch", 1: "frames"}, "labels": IMAGE}
    return Architecture(FeatureClassifier(20, HIDDEN, HEADS), inputs, axes, outputs=2)


BUILDERS: dict[str, Callable[[], Architecture]] = {
    build.__name__: build
    for build in (
        bert,
        bert_loss,
        distilbert,
        gpt2,
        llama,
        qwen2,
        qwen3,
        gemma,
        gemma2,
        t5,
        t5_gated,
        vit,
        dinov2,
        clip,
        convnext,
        wav2vec2,
        unet,
        vae_decoder,
        vae_encoder,
        feature_classifier,
    )
}
