"""Small decoders of transformers with random weights, exported with their caches, and the tokens that they generate."""

from pathlib import Path

import numpy as np
import torch
import transformers
from transformers.cache_utils import DynamicCache

VOCABULARY = 256
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}
_TWO_KINDS = ["sliding_attention", "full_attention"]
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**_SIZES),
    "qwen3": lambda: transformers.Qwen3Config(**_SIZES, head_dim=32),
    "gpt2": lambda: transformers.GPT2Config(**_GPT2),
    "mistral": lambda: transformers.MistralConfig(**_SIZES, sliding_window=16),
    "gemma3": lambda: transformers.Gemma3TextConfig(**_SIZES, head_dim=32, sliding_window=16, layer_types=_TWO_KINDS),
}
PROMPTS = tuple(np.random.default_rng(count).integers(3, VOCABULARY, count).tolist() for count in (1, 2, 7, 40, 300))


def model(name: str) -> torch.nn.Module:
    """A model whose blocks outweigh the embedding: a tied one repeats its last token otherwise."""
    torch.manual_seed(0)
    made = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).eval()
    with torch.no_grad():
        for key, weight in made.named_parameters():
            if weight.dim() > 1:
                own = 0.02 if name == "gemma3" else 1  # Gemma multiplies embeddings by the root of their width
                weight.mul_(own if "embed" in key or "wte" in key else 20)
    return made


def tokens(made: torch.nn.Module, prompt: list[int], count: int) -> list[int]:
    """The best next tokens."""
    ids, mask = torch.tensor([prompt]), torch.ones(1, len(prompt), dtype=torch.int64)
    settings = {"max_new_tokens": count, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    with torch.no_grad():
        return made.generate(ids, attention_mask=mask, **settings)[0].tolist()[len(prompt) :]


class Flat(torch.nn.Module):
    """A model whose cache is a list of tensors, as `torch.onnx.export` wants it."""

    def __init__(self, made: torch.nn.Module) -> None:
        super().__init__()
        self.made = made

    def forward(self, input_ids, attention_mask, position_ids, *past):
        """Scores, and the keys and values of each layer."""
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        known = {"attention_mask": attention_mask, "position_ids": position_ids, "past_key_values": cache}
        found = self.made(input_ids=input_ids, **known)
        return found.logits, *(one for layer in found.past_key_values.layers for one in (layer.keys, layer.values))


def _inputs(made: torch.nn.Module) -> tuple[torch.Tensor, ...]:
    """Ids, mask, positions and pasts: two texts, three new tokens after four."""
    config = made.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    pasts = [torch.randn(2, heads, 4, size) for _ in range(2 * config.num_hidden_layers)]
    positions = torch.arange(4, 7).expand(2, 3).contiguous()
    return torch.randint(3, VOCABULARY, (2, 3)), torch.ones(2, 7, dtype=torch.int64), positions, *pasts


def export(made: torch.nn.Module, exporter: str, opset: int, path: Path) -> None:
    """Write a model with its data in another file.  exporter: "dynamo" of torch, or "transformers"."""
    ids, mask, positions, *pasts = _inputs(made)
    if exporter == "transformers":
        import onnx_ir
        from transformers.exporters import OnnxConfig, OnnxExporter

        cache = DynamicCache(list(zip(pasts[::2], pasts[1::2], strict=True)))
        known = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "past_key_values": cache}
        program = OnnxExporter().export(made, known, OnnxConfig(dynamic=True, opset_version=opset)).program
        onnx_ir.save(getattr(program, "model", program), path, external_data=f"{path.name}.data")
        return
    any_size = torch.export.Dim.DYNAMIC
    kinds = [f"{layer}.{kind}" for layer in range(len(pasts) // 2) for kind in ("key", "value")]
    torch.onnx.export(
        Flat(made).eval(),
        (ids, mask, positions, *pasts),
        path,
        dynamo=True,
        opset_version=opset,
        verbose=False,
        input_names=["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{kind}" for kind in kinds)],
        output_names=["logits", *(f"present.{kind}" for kind in kinds)],
        dynamic_shapes=(*({0: any_size, 1: any_size},) * 3, tuple({0: any_size, 2: any_size} for _ in pasts)),
    )
