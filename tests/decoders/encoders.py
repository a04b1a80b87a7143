"""Exports of decoders of transformers that read an encoder, with their caches as inputs and outputs."""

import warnings
from pathlib import Path

import torch
import transformers
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

VOCABULARY, WIDTH, LAYERS, HEADS = 64, 32, 2, 2
_SHARED = {"vocab_size": VOCABULARY, "d_model": WIDTH, "pad_token_id": 0, "eos_token_id": 2}
_WHISPER = {
    **_SHARED,
    "encoder_layers": 1,
    "encoder_attention_heads": HEADS,
    "encoder_ffn_dim": WIDTH,
    "decoder_layers": LAYERS,
    "decoder_attention_heads": HEADS,
    "decoder_ffn_dim": WIDTH,
    "max_source_positions": 20,
    "max_target_positions": 40,
    "num_mel_bins": 8,
    "bos_token_id": 1,
    "decoder_start_token_id": 1,
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
}
_T5 = {**_SHARED, "d_kv": WIDTH // HEADS, "d_ff": WIDTH, "num_layers": LAYERS, "num_heads": HEADS}
MODELS = {
    "whisper": lambda: transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**_WHISPER)),
    "t5": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**_T5)),
}
FORMS = ("states", "caches")
"""What cross-attention reads: the states of the encoder, or caches of their keys and values."""


class CachedDecoder(torch.nn.Module):
    """The decoder with scores.  Its caches are a list of tensors: by layer two of the text and two of the encoder."""

    def __init__(self, made: torch.nn.Module, form: str) -> None:
        super().__init__()
        self.decoder, self.head, self.form = made.get_decoder(), made.get_output_embeddings(), form

    def forward(self, input_ids, encoder_hidden_states, *past):
        """Scores and caches."""
        layers = [past[at : at + 4] for at in range(0, len(past), 4)]
        known = DynamicCache([tuple(layer[2:]) for layer in layers]) if self.form == "caches" else DynamicCache()
        cache = EncoderDecoderCache(DynamicCache([tuple(layer[:2]) for layer in layers]), known)
        states = {"encoder_hidden_states": encoder_hidden_states, "past_key_values": cache, "use_cache": True}
        found = self.decoder(input_ids=input_ids, **states)
        both = found.past_key_values.self_attention_cache.layers, found.past_key_values.cross_attention_cache.layers
        tensors = (one for pair in zip(*both, strict=True) for layer in pair for one in (layer.keys, layer.values))
        return self.head(found.last_hidden_state), *tensors


def export(name: str, form: str, exporter: str, path: Path) -> None:
    """Write a decoder.  exporter: "dynamo" or "torchscript" of torch."""
    past = [torch.randn(2, HEADS, rows, WIDTH // HEADS) for _ in range(LAYERS) for rows in (4, 4, 20, 20)]
    kinds = [f"{layer}.{side}.{kind}" for layer in range(LAYERS) for side in ("decoder", "encoder")
             for kind in ("key", "value")]  # fmt: skip
    pasts, presents = ([f"{side}.{kind}" for kind in kinds] for side in ("past_key_values", "present"))
    names = ["input_ids", "encoder_hidden_states"]
    if exporter == "dynamo":
        free = torch.export.Dim.DYNAMIC
        sizes = {0: free, 1: free}, {0: free, 1: free}, tuple({0: free, 2: free} for _ in past)
        how = {"dynamic_shapes": sizes, "opset_version": 20, "dynamo": True, "verbose": False}
    else:
        axes = {one: {0: "batch", 1: f"{one}_rows"} for one in (*names, "logits")}
        axes |= {one: {0: "batch", 2: f"{one.rsplit('.', 1)[0]}_rows"} for one in (*pasts, *presents)}
        how = {"dynamic_axes": axes, "opset_version": 17, "dynamo": False}
    inputs = torch.ones(2, 3, dtype=torch.int64), torch.randn(2, 20, WIDTH), *past
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        made = CachedDecoder(MODELS[name]().eval(), form)
        torch.onnx.export(made, inputs, path, input_names=[*names, *pasts], output_names=["logits", *presents], **how)
