"""Architectures of transformers as small decoders with random weights, and the tokens that they generate."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import transformers

VOCABULARY = 256
SMALL: Mapping[str, int] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LARGE = {
    **SMALL,
    "vocab_size": 1000,  # the builder of onnxruntime-genai takes any layer with so many outputs for the last one
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
}
"""Sizes whose time is spent in products of matrices rather than between ops."""
PROMPTS = tuple(np.random.default_rng(count).integers(3, VOCABULARY, count).tolist() for count in (1, 2, 7, 40, 300))
BATCH = PROMPTS[1:4]


def _kinds(sizes: Mapping[str, int]) -> list[str]:
    """Every second layer sees all tokens."""
    return ["sliding_attention", "full_attention"] * (sizes["num_hidden_layers"] // 2)


def _window(sizes: Mapping[str, int]) -> int:
    return sizes["max_position_embeddings"] // 32


def _wide(sizes: Mapping[str, int]) -> dict[str, Any]:
    """Heads that are together wider than a token."""
    return {**sizes, "head_dim": 2 * sizes["hidden_size"] // sizes["num_attention_heads"]}


def _windows(sizes: Mapping[str, int]) -> dict[str, Any]:
    return {**_wide(sizes), "sliding_window": _window(sizes), "layer_types": _kinds(sizes)}


def _without(sizes: Mapping[str, int], *names: str) -> dict[str, Any]:
    return {name: value for name, value in sizes.items() if name not in names}


def _granite(sizes: Mapping[str, int]) -> Any:
    scales = {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0}
    return transformers.GraniteConfig(**sizes, **scales, attention_multiplier=1 / 16)


def _phi3(sizes: Mapping[str, int]) -> Any:
    first = sizes["max_position_embeddings"]
    return transformers.Phi3Config(**sizes, original_max_position_embeddings=first, sliding_window=_window(sizes))


def _gpt_oss(sizes: Mapping[str, int]) -> Any:
    first = sizes["max_position_embeddings"] // 32
    rope = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0}
    rope |= {"truncate": False, "original_max_position_embeddings": first}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    return transformers.GptOssConfig(**_windows(sizes), **experts, rope_parameters=rope)


CONFIGS: Mapping[str, Callable[[Mapping[str, int]], Any]] = {
    "llama": lambda sizes: transformers.LlamaConfig(**sizes),
    "qwen2": lambda sizes: transformers.Qwen2Config(**sizes),
    "qwen3": lambda sizes: transformers.Qwen3Config(**_wide(sizes)),
    "mistral": lambda sizes: transformers.MistralConfig(**sizes, sliding_window=_window(sizes)),
    "phi3": _phi3,
    "gemma2": lambda sizes: transformers.Gemma2Config(**_windows(sizes), query_pre_attn_scalar=32),
    "gemma3": lambda sizes: transformers.Gemma3TextConfig(**_windows(sizes), query_pre_attn_scalar=32),
    "smollm3": lambda sizes: transformers.SmolLM3Config(**sizes, no_rope_layer_interval=2),
    "granite": _granite,
    "gpt2": lambda sizes: transformers.GPT2Config(**_without(sizes, "intermediate_size", "num_key_value_heads")),
    "gpt_neox": lambda sizes: transformers.GPTNeoXConfig(**_without(sizes, "num_key_value_heads")),
    "falcon": lambda sizes: transformers.FalconConfig(**_without(sizes, "intermediate_size", "num_key_value_heads")),
    "stablelm": lambda sizes: transformers.StableLmConfig(**sizes),
    "olmo2": lambda sizes: transformers.Olmo2Config(**sizes),
    "cohere": lambda sizes: transformers.CohereConfig(**sizes),
    "gpt_oss": _gpt_oss,
}
"""The architectures for which the rules were written."""
_MIXED = {"sliding_window": 16, "layer_types": _kinds(SMALL)}
_EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_HEADS = {"head_dim": 16}
_GPT = {"n_positions": 512, "n_embd": 64, "n_layer": 2, "n_head": 4}
FURTHER: Mapping[str, Mapping[str, Any]] = {
    "afmoe": {**_EXPERTS, **_MIXED, **_HEADS},
    "apertus": {},
    "arcee": {},
    "biogpt": {},
    "bitnet": {},
    "bloom": {"n_head": 4, "n_layer": 2},
    "codegen": {**_GPT, "rotary_dim": 8},
    "cohere2": {**_MIXED, **_HEADS},
    "cwm": {},
    "deepseek_v3": {
        **_EXPERTS,
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "q_lora_rank": 32,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
        "num_key_value_heads": 4,
    },
    "diffllama": _HEADS,
    "doge": {},
    "ernie4_5": _HEADS,
    "exaone4": _MIXED,
    "flex_olmo": _EXPERTS,
    "gemma": {"head_dim": 32},
    "glm": _HEADS,
    "glm4": _HEADS,
    "glm4_moe": {**_EXPERTS, **_HEADS, "n_routed_experts": 4, "n_group": 1, "topk_group": 1},
    "gpt_bigcode": _GPT,
    "gpt_neo": {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 16},
    "gptj": {**_GPT, "rotary_dim": 8},
    "granitemoe": _EXPERTS,
    "hunyuan_v1_dense": _HEADS,
    "internlm3": {},
    "jais2": {},
    "jetmoe": {**_EXPERTS, "kv_channels": 16},
    "minimax_m2": {**_EXPERTS, **_HEADS},
    "ministral": {**_MIXED, **_HEADS},
    "ministral3": {},
    "mixtral": {**_EXPERTS, "sliding_window": 16},
    "nanochat": {},
    "nemotron": {},
    "olmo": {},
    "olmo3": _MIXED,
    "olmoe": _EXPERTS,
    "opt": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "persimmon": {},
    "phi": {},
    "phimoe": _EXPERTS,
    "qwen2_moe": {**_EXPERTS, "shared_expert_intermediate_size": 64},
    "qwen3_moe": {**_EXPERTS, **_HEADS},
    "seed_oss": {},
    "starcoder2": {"sliding_window": 16},
    "vaultgemma": {**_MIXED, **_HEADS, "query_pre_attn_scalar": 16},
    "xglm": {"d_model": 64, "ffn_dim": 128, "num_layers": 2, "attention_heads": 4},
}
"""Settings of architectures that were tried afterwards."""
_EMBEDDINGS = {"gemma": 0.02, "gemma2": 0.02, "gemma3": 0.02, "granite": 1 / 12, "vaultgemma": 0.02}
"""Factors of embeddings that the architecture multiplies: by the root of their width, or a number of the settings."""


def model(name: str, sizes: Mapping[str, int] = SMALL) -> torch.nn.Module:
    """A model whose blocks outweigh the embedding: a tied one repeats its last token otherwise.

    Biases and factors of norms are random too.
    """
    torch.manual_seed(0)
    config = CONFIGS[name](sizes) if name in CONFIGS else transformers.CONFIG_MAPPING[name](**sizes | FURTHER[name])
    config._experts_implementation = "batched_mm"  # exporters cannot follow a loop over the chosen experts
    made = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for key, weight in made.named_parameters():
            if weight.dim() > 1:
                weight.mul_(_EMBEDDINGS.get(name, 1) if "embed" in key or "wte" in key else 20)
            else:
                weight.add_(0.1 * torch.randn_like(weight))
    return made


def tokens(made: torch.nn.Module, prompt: Sequence[int], count: int) -> list[int]:
    """The best next tokens."""
    return batch_tokens(made, [prompt], count)[0]


def batch_tokens(made: torch.nn.Module, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """The best next tokens of texts that are generated together, padded on the left."""
    width = max(map(len, prompts))
    ids = torch.tensor([[*[0] * (width - len(prompt)), *prompt] for prompt in prompts])
    mask = torch.tensor([[*[0] * (width - len(prompt)), *[1] * len(prompt)] for prompt in prompts])
    settings = {"max_new_tokens": count, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    with torch.no_grad():
        return made.generate(ids, attention_mask=mask, **settings)[:, width:].tolist()
