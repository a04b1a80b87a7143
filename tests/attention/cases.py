"""The cases: variants of models, through both exporters, and the designs of them that are measured.

Needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = (("ts", 14), ("ts", 17), ("dynamo", 18), ("dynamo", 20), ("dynamo", 23))
MODES = (("fp32", True), ("fp16", True), ("fp32", True), ("fp32", False), ("fp16", True), ("fp16", False))
"""dtype, and whether sizes are free; the free ones more often, as they are harder."""

ENCODERS = ("bert", "roberta", "distilbert", "vit", "clip")
DECODERS = ("gpt2", "llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "phi3")
EAGER_ONLY = ("gemma2", "bloom")
"""torch's own attention cannot cap its scores; transformers has no BLOOM with it."""
TWO_SIDES = ("t5", "bart", "whisper")
MORE = ("bloom", "falcon", "gpt_neox", "gemma3", "mixtral", "swin")
"""The models of more_models.py, without a past."""
FORMS = (
    "multihead",
    "multihead_masked",
    "sdpa",
    "sdpa_causal",
    "sdpa_float_mask",
    "sdpa_bool_mask",
    "sdpa_scale",
    "sdpa_grouped",
    "sdpa_cross",
    "scale_on_q",
    "scale_on_both",
    "scale_by_div",
    "scale_on_k",
    "masked_fill",
    "where_causal",
    "wide_softmax",
    "three_axes",
    "three_axes_masked",
    "einsum",
    "alibi",
    "packed",
    "rope_half",
    "rope_interleaved",
    "rope_partial",
)
BY_LIBRARIES = (
    "cosine",
    "sinks",
    "sinks_shifted",
    "disentangled",
    "mask_cut",
    "mask_filled",
    "mask_triangle",
    "mask_like",
    "mask_where",
    "mask_expanded",
    "channels_first",
    "channels_first_heads",
    "heads_last",
    "heads_in_batch",
    "rope_one_table",
    "rope_one_table_halves",
    "rope_prefix",
    "rope_prefix_halves",
    "rope_gptj",
    "rope_roformer",
    "rope_pairs",
    "rope_complex",
    "rope_litgpt",
    "rope_x_transformers",
    "rope_diffusers",
    "rope_diffusers_halves",
    "rope_wan",
    "rope_negated_products",
    "rope_by_halves",
    "rope_sines_first",
    "rope_deepseek",
)
"""The modules of library_modules.py."""
DECOYS = (
    "class_softmax",
    "similarity_loss",
    "expert_routing",
    "query_axis",
    "no_softmax",
    "sigmoid_scores",
    "weights_given",
    "softmax_twice",
    "turned_the_other_way",
)
OWN = "own"
"""The attention of what is no model of transformers: as the module has it."""


@dataclass(frozen=True)
class Variant:
    """What is exported: a model or module, its attention "eager", "sdpa" or "own", and whether it takes a past."""

    model: str
    attention: str
    past: bool

    @property
    def name(self) -> str:
        """For instance `llama-sdpa-past`."""
        return "-".join([self.model, *([self.attention] if self.attention != OWN else []), *(["past"] * self.past)])


@dataclass(frozen=True)
class Case:
    """One export of a variant: `exporter` "ts" or "dynamo", ONNX `opset`, "fp32" or "fp16", free or fixed sizes."""

    variant: Variant
    exporter: str
    opset: int
    dtype: str
    dynamic: bool

    @property
    def name(self) -> str:
        """For instance `llama-sdpa-past-dynamo18-fp16-fixed`."""
        parts = [self.variant.name, f"{self.exporter}{self.opset}", self.dtype]
        return "-".join([*parts, *([] if self.dynamic else ["fixed"])])


def variants() -> tuple[Variant, ...]:
    """Every model in each attention, with and without a past where it has one, and every module."""
    found = []
    for model in (*ENCODERS, *DECODERS, *TWO_SIDES):
        for attention in ("eager", "sdpa")[: 1 + (model not in EAGER_ONLY)]:
            found += [Variant(model, attention, past) for past in (False, True)[: 1 + (model not in ENCODERS)]]
    own = (Variant(name, OWN, False) for name in (*FORMS, *DECOYS))
    kinds = {model: ("eager", "sdpa")[: 1 + (model not in EAGER_ONLY)] for model in MORE}
    more = (Variant(model, attention, False) for model in MORE for attention in kinds[model])
    # behind the others, as the place of a variant says in which modes it is exported
    return (*found, *own, *more, *(Variant(name, OWN, False) for name in BY_LIBRARIES))


def every() -> tuple[Case, ...]:
    """The whole product of variants, exporters, opsets, dtypes, and free or fixed sizes."""
    modes = tuple(dict.fromkeys(MODES))
    return tuple(Case(one, *column, *mode) for one in variants() for column in COLUMNS for mode in modes)


def table() -> tuple[Case, ...]:
    """Every variant in every column, in one dtype and one kind of sizes each, so that all of them meet over a few."""
    return tuple(
        Case(one, *column, *MODES[(at + place) % len(MODES)])
        for at, one in enumerate(variants())
        for place, column in enumerate(COLUMNS)
    )


SAMPLE = (
    "bert-eager-ts14-fp32",
    "gpt2-eager-past-ts14-fp16-fixed",
    "t5-sdpa-past-ts17-fp32",
    "llama-sdpa-ts14-fp16",
    "qwen2-eager-ts14-fp32",
    "sdpa_bool_mask-ts17-fp16",
    "sdpa_cross-dynamo18-fp32",
    "sdpa_causal-dynamo20-fp32",
    "scale_on_q-dynamo23-fp16",
    "class_softmax-ts14-fp16",
    "expert_routing-ts17-fp16",
    "query_axis-ts14-fp16",
)
"""The cases that run by default."""
NOT_LOADED = ("gpt2-eager-past-ts14-fp16-fixed",)
"""What ONNX Runtime before 1.31 does not load, as it was exported."""
STANDARD_SAMPLE = (
    "bert-eager-ts14-fp32",
    "qwen2-eager-ts14-fp32",
    "sdpa_bool_mask-ts17-fp16",
    "sdpa_causal-dynamo20-fp32",
    "query_axis-ts14-fp16",
)
"""Those of them that are raised to opset 23, and rewritten with standard ops, as well."""

MISSED = ("gemma2-eager-past",)
"""How the names of cases begin that are not full, as TABLE.md lists them."""
STANDARD_MISSED: tuple[str, ...] = ()
"""The same of those that are rewritten with standard ops."""

TAKEN_BACK = ("bert-eager-ts14-fp32", "qwen2-eager-ts14-fp32")
"""Those of them whose attention is written for ONNX Runtime, and then as standard ops, or in primitives."""


def sample() -> tuple[Case, ...]:
    """The cases of SAMPLE, in its order."""
    known = {case.name: case for case in every()}
    return tuple(known[name] for name in SAMPLE)
