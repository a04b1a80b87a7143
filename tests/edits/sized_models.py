"""Small models whose exports are made at one batch, beside those of `tests.architectures`; loads torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers
from torch import nn

from tests.architectures import models
from tests.architectures.models import (
    HEADS,
    HIDDEN,
    LENGTH,
    VOCAB,
    Architecture,
    _decoder,
    _language,
    _pixels,
    _sizes,
    _words,
)

WORDS = ("input_ids", "attention_mask")
AT = {1: "batch"}


def _text(model: type, config: type, attention: str = "sdpa", **more: object) -> Architecture:
    return Architecture(model(config(**_language(attention, **more))), *_words(*WORDS))


def roberta() -> Architecture:
    """Positions that are counted from the mask of padding."""
    return _text(transformers.RobertaForMaskedLM, transformers.RobertaConfig)


def albert() -> Architecture:
    """One layer, run again and again."""
    return _text(transformers.AlbertForMaskedLM, transformers.AlbertConfig, embedding_size=16)


def electra() -> Architecture:
    """A discriminator: one score a word; attention written out."""
    return _text(transformers.ElectraForPreTraining, transformers.ElectraConfig, "eager", embedding_size=16)


def mpnet() -> Architecture:
    """Relative positions in buckets."""
    return _text(transformers.MPNetModel, transformers.MPNetConfig, "eager")


def bloom() -> Architecture:
    """Biases by distance from the mask, heads merged with the batch."""
    config = transformers.BloomConfig(vocab_size=VOCAB, hidden_size=HIDDEN, n_layer=2, n_head=HEADS, use_cache=False)
    return Architecture(transformers.BloomForCausalLM(config), *_words(*WORDS))


def opt() -> Architecture:
    """Positions as sums over the mask."""
    config = transformers.OPTConfig(
        **_language("eager"), ffn_dim=64, word_embed_proj_dim=HIDDEN, use_cache=False, pad_token_id=1
    )
    return Architecture(transformers.OPTForCausalLM(config), *_words(*WORDS))


def gpt_neox() -> Architecture:
    """Rotary embeddings on part of each head, attention and MLP side by side."""
    config = transformers.GPTNeoXConfig(**_language("sdpa"), use_cache=False)
    return Architecture(transformers.GPTNeoXForCausalLM(config), *_words(*WORDS))


def mistral() -> Architecture:
    """A sliding window of keys."""
    return _decoder(transformers.MistralForCausalLM, transformers.MistralConfig, "eager", sliding_window=4)


def bart() -> Architecture:
    """Encoder and decoder with learned positions."""
    config = transformers.BartConfig(
        vocab_size=VOCAB,
        d_model=HIDDEN,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=32,
        use_cache=False,
        attn_implementation="eager",
    )
    inputs, axes = _words("input_ids", "attention_mask", "decoder_input_ids")
    return Architecture(transformers.BartModel(config), inputs, axes)


def classifier() -> Architecture:
    """GPT-2 that scores whole texts by the last word that is no padding."""
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=32, n_embd=HIDDEN, n_layer=1, n_head=HEADS, use_cache=False, pad_token_id=0
    )
    return Architecture(transformers.GPT2ForSequenceClassification(config), *_words(*WORDS))


def swin() -> Architecture:
    """Windows of an image that go with the batch, shifted and masked."""
    config = transformers.SwinConfig(
        image_size=16, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    return Architecture(transformers.SwinForImageClassification(config), *_pixels())


def segformer() -> Architecture:
    """Maps of several sizes brought to one."""
    config = transformers.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[16, 32],
        patch_sizes=[3, 3],
        strides=[2, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
    )
    return Architecture(transformers.SegformerForSemanticSegmentation(config), *_pixels(32))


def resnet() -> Architecture:
    """Convolutions with shortcuts."""
    config = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic")
    return Architecture(transformers.ResNetForImageClassification(config), *_pixels(32))


def mobilenet() -> Architecture:
    """Convolutions by channel."""
    config = transformers.MobileNetV2Config(depth_multiplier=0.25, image_size=32)
    return Architecture(transformers.MobileNetV2ForImageClassification(config), *_pixels(32))


def regnet() -> Architecture:
    """Gates by channel."""
    config = transformers.RegNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], groups_width=8)
    return Architecture(transformers.RegNetForImageClassification(config), *_pixels(32))


def mobilevit() -> Architecture:
    """Patches unfolded and folded again."""
    config = transformers.MobileViTConfig(
        image_size=64,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 24, 24, 32, 32],
        num_attention_heads=2,
        output_stride=32,
    )
    return Architecture(transformers.MobileViTForImageClassification(config), *_pixels(64))


def deit() -> Architecture:
    """Two tokens before the patches."""
    config = transformers.DeiTConfig(**_sizes("sdpa"), image_size=16, patch_size=4)
    return Architecture(transformers.DeiTForImageClassification(config), *_pixels())


def beit() -> Architecture:
    """Relative places of patches, and a scale for each layer."""
    config = transformers.BeitConfig(
        **_sizes("eager"), image_size=16, patch_size=4, use_relative_position_bias=True, layer_scale_init_value=0.1
    )
    return Architecture(transformers.BeitForImageClassification(config), *_pixels())


def siglip() -> Architecture:
    """Patches pooled by attention from a learned query."""
    config = transformers.SiglipVisionConfig(**_sizes("eager"), image_size=16, patch_size=4)
    return Architecture(transformers.SiglipVisionModel(config), *_pixels())


class Recurrent(nn.Module):
    """Two directions, steps first, with states that begin at nothing."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.steps = kind(8, HIDDEN, num_layers=2, bidirectional=True)
        self.head = nn.Linear(2 * HIDDEN, 5)

    def forward(self, steps: torch.Tensor, return_dict: bool = False) -> tuple[torch.Tensor]:
        return (self.head(self.steps(steps)[0]),)


def lstm() -> Architecture:
    """Initial states of zeros."""
    return Architecture(Recurrent(nn.LSTM), {"steps": torch.randn(LENGTH, 2, 8)}, {"steps": AT})


def gru() -> Architecture:
    """The same of one state."""
    return Architecture(Recurrent(nn.GRU), {"steps": torch.randn(LENGTH, 2, 8)}, {"steps": AT})


class Encoder(nn.Module):
    """torch's own encoder, steps first: heads merged with the batch behind the steps."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(HIDDEN, HEADS, 64, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, steps: torch.Tensor, return_dict: bool = False) -> tuple[torch.Tensor]:
        return (self.layers(steps),)


def encoder() -> Architecture:
    """Heads merged with the batch, which comes behind the steps."""
    return Architecture(Encoder(), {"steps": torch.randn(LENGTH, 2, HIDDEN)}, {"steps": AT})


BUILDERS: dict[str, Callable[[], Architecture]] = {
    **models.BUILDERS,
    **{
        build.__name__: build
        for build in (
            roberta,
            albert,
            electra,
            mpnet,
            bloom,
            opt,
            gpt_neox,
            mistral,
            bart,
            classifier,
            swin,
            segformer,
            resnet,
            mobilenet,
            regnet,
            mobilevit,
            deit,
            beit,
            siglip,
            lstm,
            gru,
            encoder,
        )
    },
}
