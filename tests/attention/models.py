"""Small models of transformers with random weights: two layers of each, with attention written out or as torch's own.

Loaded only when an export is made, as it imports torch and transformers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from tests.attention.inputs import VOCAB, Input, Inputs, text

HIDDEN, LAYERS, HEADS, GROUPS, HEAD = 64, 2, 4, 2, 16
PLACES = 32
IMAGE = {"pixel_values": Input("real", ("batch", 3, 16, 16))}
SEED = 0
TYPES = {"fp32": torch.float32, "fp16": torch.float16}


@dataclass(frozen=True)
class Subject:
    """A module called with its inputs by position, and the names of what it gives.

    caches: how many keys and values it takes and gives, each of them two for an encoder's.
    """

    module: nn.Module
    inputs: Inputs
    outputs: tuple[str, ...] = ("logits",)
    loops: dict[str, str] = field(default_factory=dict)


class Called(nn.Module):
    """A model of transformers called with its inputs by name; returns its first results."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], results: int = 1) -> None:
        super().__init__()
        self.model, self.names, self.results = model, names, results

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        named = dict(zip(self.names, inputs, strict=True))
        return tuple(self.model(**named, return_dict=False)[: self.results])


class WithPast(nn.Module):
    """A decoder with keys and values of what came before as flat inputs, and those with the new ones as outputs.

    An encoder's keys and values are inputs too, where there are any, and no outputs, as no step changes them.
    """

    def __init__(self, model: nn.Module, names: tuple[str, ...], has_encoder: bool) -> None:
        super().__init__()
        self.model, self.names, self.has_encoder = model, names, has_encoder

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = len(self.names)
        named: dict[str, Any] = dict(zip(self.names, inputs[:first], strict=True))
        caches = [DynamicCache(list(_pairs(inputs[first + at : first + at + 2 * LAYERS]))) for at in self._starts()]
        past = EncoderDecoderCache(*caches) if self.has_encoder else caches[0]
        if self.has_encoder:
            named["encoder_outputs"] = (named["encoder_outputs"],)
        logits = self.model(**named, past_key_values=past, use_cache=True, return_dict=False)[0]
        return (logits, *(part for layer in caches[0].layers for part in (layer.keys, layer.values)))

    def _starts(self) -> tuple[int, ...]:
        return (0, 2 * LAYERS) if self.has_encoder else (0,)


def _pairs(parts: tuple[torch.Tensor, ...]) -> Any:
    return zip(parts[::2], parts[1::2], strict=True)


def build(name: str, attention: str, past: bool, dtype: str) -> Subject:
    """A model in evaluation mode.  attention: "eager" or "sdpa".  past: with keys and values from before."""
    torch.manual_seed(SEED)
    found = MODELS[name](attention, past)
    with torch.no_grad():
        for weight in found.module.parameters():
            if weight.ndim == 1:
                weight.add_(0.2 * torch.randn_like(weight))
    found.module.eval().to(TYPES[dtype])
    return found


def _sizes(attention: str, **more: Any) -> dict[str, Any]:
    return {
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 2 * HIDDEN,
        "attn_implementation": attention,
        **more,
    }


def _words(attention: str, **more: Any) -> dict[str, Any]:
    return _sizes(attention, vocab_size=VOCAB, max_position_embeddings=PLACES, pad_token_id=0, **more)


def _called(model: nn.Module, inputs: Inputs, *outputs: str) -> Subject:
    names = outputs or ("logits",)
    return Subject(Called(model, tuple(inputs), len(names)), inputs, names)


def _cache(prefix: str, kind: str, rows: str, heads: int, size: int) -> dict[str, Input]:
    return {
        f"{prefix}.{layer}.{kind}{part}": Input("real", ("batch", heads, rows, size))
        for layer in range(LAYERS)
        for part in ("key", "value")
    }


def bert(attention: str, _: bool) -> Subject:
    """Masked words, token types."""
    inputs = text(input_ids="ids", attention_mask="mask", token_type_ids="types")
    return _called(transformers.BertForMaskedLM(transformers.BertConfig(**_words(attention))), inputs)


def roberta(attention: str, _: bool) -> Subject:
    """Positions counted over the words that are no padding."""
    config = transformers.RobertaConfig(**_words(attention) | {"pad_token_id": 1})
    inputs = text(input_ids="ids", attention_mask="mask")
    return _called(transformers.RobertaForMaskedLM(config), inputs)


def distilbert(attention: str, _: bool) -> Subject:
    """BERT without token types."""
    config = transformers.DistilBertConfig(
        vocab_size=VOCAB,
        max_position_embeddings=PLACES,
        dim=HIDDEN,
        n_layers=LAYERS,
        n_heads=HEADS,
        hidden_dim=2 * HIDDEN,
        attn_implementation=attention,
    )
    return _called(transformers.DistilBertForMaskedLM(config), text(input_ids="ids", attention_mask="mask"))


def vit(attention: str, _: bool) -> Subject:
    """Patches of an image, no mask."""
    config = transformers.ViTConfig(**_sizes(attention), image_size=16, patch_size=4)
    return _called(transformers.ViTForImageClassification(config), IMAGE)


def clip(attention: str, _: bool) -> Subject:
    """A text tower, causal and masked, and an image tower."""
    config = transformers.CLIPConfig(
        text_config=_words(attention, bos_token_id=97, eos_token_id=98),
        vision_config=_sizes(attention, image_size=16, patch_size=4),
        projection_dim=HIDDEN,
        attn_implementation=attention,
    )
    words = text(input_ids="ids", attention_mask="mask")
    inputs = {"input_ids": words["input_ids"], **IMAGE, "attention_mask": words["attention_mask"]}
    return _called(transformers.CLIPModel(config), inputs, "logits_per_image", "logits_per_text", "text", "image")


def _decoder(model: nn.Module, past: bool, heads: int, size: int) -> Subject:
    """A decoder on words and a mask; with a past, the mask is over what came before too."""
    inputs = text(input_ids="ids", attention_mask="mask")
    if not past:
        return _called(model, inputs)
    inputs["attention_mask"] = Input("mask", ("batch", "total"))
    caches = _cache("past_key_values", "", "past", heads, size)
    loops = {name: f"present{name.removeprefix('past_key_values')}" for name in caches}
    module = WithPast(model, tuple(inputs), has_encoder=False)
    return Subject(module, {**inputs, **caches}, ("logits", *loops.values()), loops)


def gpt2(attention: str, past: bool) -> Subject:
    """Packed projections in a Conv1D, learned positions."""
    config = transformers.GPT2Config(
        vocab_size=VOCAB,
        n_positions=PLACES,
        n_embd=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        use_cache=past,
        attn_implementation=attention,
    )
    return _decoder(transformers.GPT2LMHeadModel(config), past, HEADS, HEAD)


def _rotary(model: Any, config: Any, **options: Any) -> Callable[[str, bool], Subject]:
    def make(attention: str, past: bool) -> Subject:
        given: dict[str, Any] = {"num_key_value_heads": GROUPS, "head_dim": HEAD, "use_cache": past, **options}
        kind = config(**_words(attention, bos_token_id=97, eos_token_id=98, **given))
        return _decoder(model(kind), past, given["num_key_value_heads"], given["head_dim"])

    return make


def _with_encoder(model: nn.Module, source: Inputs, past: bool) -> Subject:
    """An encoder and a decoder, or one step of the decoder on keys and values of both."""
    words = {"decoder_input_ids": Input("ids", ("batch", "target"))}
    if not past:
        return _called(model, {**source, **words})
    masks = {name: Input("mask", ("batch", "memory")) for name in source if name == "attention_mask"}
    inputs = {"encoder_outputs": Input("real", ("batch", "memory", HIDDEN)), **masks, **words}
    own = _cache("past_key_values", "decoder.", "past", HEADS, HEAD)
    other = _cache("past_key_values", "encoder.", "memory", HEADS, HEAD)
    loops = {name: f"present{name.removeprefix('past_key_values')}" for name in own}
    module = WithPast(model, tuple(inputs), has_encoder=True)
    return Subject(module, {**inputs, **own, **other}, ("logits", *loops.values()), loops)


def t5(attention: str, past: bool) -> Subject:
    """Relative positions as a bias; scores without a scale."""
    config = transformers.T5Config(
        vocab_size=VOCAB,
        d_model=HIDDEN,
        d_kv=HEAD,
        d_ff=2 * HIDDEN,
        num_layers=LAYERS,
        num_heads=HEADS,
        use_cache=past,
        attn_implementation=attention,
    )
    words = text(input_ids="ids", attention_mask="mask")
    return _with_encoder(transformers.T5ForConditionalGeneration(config), words, past)


def _both_sides(attention: str) -> dict[str, Any]:
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in _SIDE.items()}
    return {"vocab_size": VOCAB, "d_model": HIDDEN, "attn_implementation": attention, **sides}


_SIDE = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": 2 * HIDDEN}


def bart(attention: str, past: bool) -> Subject:
    """An encoder, and a decoder that looks at it."""
    config = transformers.BartConfig(**_both_sides(attention), max_position_embeddings=PLACES, use_cache=past)
    words = text(input_ids="ids", attention_mask="mask")
    return _with_encoder(transformers.BartForConditionalGeneration(config), words, past)


def whisper(attention: str, past: bool) -> Subject:
    """Speech of a fixed length, and a decoder that looks at it; the queries are scaled.

    Without a mask of the decoder the model looks for packed sequences, by aten::diff, which TorchScript cannot export.
    """
    config = transformers.WhisperConfig(
        **_both_sides(attention),
        num_mel_bins=8,
        max_source_positions=10,
        max_target_positions=PLACES,
        use_cache=past,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    sound = {"input_features": Input("real", ("batch", 8, 20))}
    model = transformers.WhisperForConditionalGeneration(config)
    if past:
        return _with_encoder(model, sound, past)
    words = {"decoder_input_ids": "ids", "decoder_attention_mask": "mask"}
    return _called(model, {**sound, **{name: Input(role, ("batch", "target")) for name, role in words.items()}})


SLIDING = {"sliding_window": 4}
PARTIAL = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}

MODELS: dict[str, Callable[[str, bool], Subject]] = {
    "bert": bert,
    "roberta": roberta,
    "distilbert": distilbert,
    "vit": vit,
    "clip": clip,
    "gpt2": gpt2,
    "t5": t5,
    "bart": bart,
    "whisper": whisper,
    "llama": _rotary(transformers.LlamaForCausalLM, transformers.LlamaConfig),
    "qwen2": _rotary(transformers.Qwen2ForCausalLM, transformers.Qwen2Config),
    "qwen3": _rotary(transformers.Qwen3ForCausalLM, transformers.Qwen3Config),
    "mistral": _rotary(transformers.MistralForCausalLM, transformers.MistralConfig, **SLIDING),
    "gemma": _rotary(transformers.GemmaForCausalLM, transformers.GemmaConfig, num_key_value_heads=1, head_dim=8),
    "gemma2": _rotary(transformers.Gemma2ForCausalLM, transformers.Gemma2Config, **SLIDING),
    "phi3": _rotary(transformers.Phi3ForCausalLM, transformers.Phi3Config, **PARTIAL),
}
"""Functions of the attention's implementation and of whether there is a past."""
