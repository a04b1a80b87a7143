"""More small models of transformers, with the attention of other families: their heads, positions, windows, experts.

A file of its own, so that exports of the models in models.py are kept where one of these changes.  Loaded only when an
export is made, as it imports torch and transformers.
"""

from __future__ import annotations

import transformers
from torch import nn

from tests.attention import models
from tests.attention.inputs import VOCAB, Input
from tests.attention.models import HEAD, HEADS, HIDDEN, LAYERS, SLIDING, Subject


def register() -> None:
    """Let models.build know these models."""
    models.MODELS.update(MORE)


def counted(model: nn.Module, layer: str) -> nn.Module:
    """The model, each of its layers of a class saying that it is one attention, where torch's calls do not show it."""
    for inner in model.modules():
        if type(inner).__name__ == layer:
            inner.operation = "attention"
    return model


def bloom(attention: str, past: bool) -> Subject:
    """Slopes times distances added to scores, by baddbmm, in a batch of heads."""
    config = transformers.BloomConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        use_cache=past,
        attn_implementation=attention,
    )
    return models._decoder(counted(transformers.BloomForCausalLM(config), "BloomAttention"), past, HEADS, HEAD)


def falcon(attention: str, past: bool) -> Subject:
    """One head of keys and values for all of queries."""
    config = transformers.FalconConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        multi_query=True,
        new_decoder_architecture=False,
        use_cache=past,
        attn_implementation=attention,
    )
    return models._decoder(counted(transformers.FalconForCausalLM(config), "FalconAttention"), past, 1, HEAD)


def gpt_neox(attention: str, past: bool) -> Subject:
    """Packed projections interleaved by head, and half of each head turned."""
    words = models._words(attention, bos_token_id=97, eos_token_id=98, use_cache=past)
    config = transformers.GPTNeoXConfig(**words, rope_parameters={**models.PARTIAL["rope_parameters"]})
    return models._decoder(transformers.GPTNeoXForCausalLM(config), past, HEADS, HEAD)


def swin(attention: str, _: bool) -> Subject:
    """Windows of an image, shifted in every other layer, and relative positions as a bias."""
    config = transformers.SwinConfig(
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        attn_implementation=attention,
    )
    image = {"pixel_values": Input("real", ("batch", 3, 32, 32))}
    return models._called(transformers.SwinForImageClassification(config), image)


# All experts count for each word: which of them the best are may hang on rounding, which no comparison forgives.
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 4, "experts_implementation": "batched_mm"}

MORE = {
    "bloom": bloom,
    "falcon": falcon,
    "gpt_neox": gpt_neox,
    "gemma3": models._rotary(transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig, **SLIDING),
    "mixtral": models._rotary(transformers.MixtralForCausalLM, transformers.MixtralConfig, **EXPERTS),
    "swin": swin,
}
"""As models.MODELS."""
