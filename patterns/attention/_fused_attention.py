"""Attention that is one node of ONNX Runtime or ONNX: patterns that match it, and functions that write it."""

from typing import Any

from surgeon import Captures, Graph, Tensor


class FusedAttention(Captures):
    """An attention node of any op.

    q: the queries, or the input from which com.microsoft::Attention computes queries, keys and values with `weights`
    and `projection_bias`. bias: added to the scores. qkv_bias: added to queries, keys and values. mask_index: the
    padding mask.

    seqlens_k, seqlens_k_source: the index of the last key of each sequence, and the tensor that it repeats.
    total_sequence_length: the number of keys, an input only of GroupQueryAttention. onnx_output: the output if the node
    is Attention (ONNX).
    """

    q: Tensor
    k: Tensor | Any = None
    v: Tensor | Any = None
    weights: Tensor | Any = None
    projection_bias: Tensor | Any = None
    bias: Tensor | Any = None
    qkv_bias: Tensor | Any = None
    mask_index: Tensor | Any = None
    seqlens_k: Tensor | Any = None
    seqlens_k_source: Tensor | Any = None
    total_sequence_length: Tensor | Any = None
    past_key: Tensor | Any = None
    past_value: Tensor | Any = None
    onnx_output: Tensor | Any = None
    attributes: dict[str, Any]

    @property
    def is_causal(self) -> bool:
        """Whether each query sees only the keys up to its own position."""
        numbers, usual = self.attributes, self.total_sequence_length is not None
        return bool(numbers.get("unidirectional", numbers.get("is_causal", numbers.get("causal", usual))))

    @property
    def past(self) -> dict[str, Any]:
        """The past keys and values as arguments of a helper, if any.  The op then also returns those of the next
        step.
        """
        past = {"past_key": self.past_key, "past_value": self.past_value}
        return {} if self.past_key is None else {**past, "outputs": 3}


def multi_head(g: Graph, m: FusedAttention, bias: Any = None, **more: Any) -> Any:
    """The outputs of MultiHeadAttention.  With a past, they include keys and values for the next step."""
    made = g.ms_multi_head_attention(m.q, m.k, m.v, attention_bias=bias, **m.past, **{**m.attributes, **more})
    return made if m.past else [made]


def group_query(g: Graph, m: FusedAttention, bias: Any = None, **more: Any) -> Any:
    """The outputs of GroupQueryAttention, with keys and values for the next step."""
    settings: dict[str, Any] = {
        "seqlens_k": m.seqlens_k,
        "total_sequence_length": m.total_sequence_length,
        "attention_bias": bias,
        "outputs": 3,
    }
    return g.ms_group_query_attention(m.q, m.k, m.v, **{**settings, **m.past, **m.attributes, **more})


def ort_attention(g: Graph, m: FusedAttention, bias: Tensor | None = None, index: Tensor | None = None) -> Any:
    """The output of com.microsoft::Attention."""
    return g.ms_attention(m.q, m.weights, m.projection_bias, index, None, bias, **m.attributes)


def onnx_attention(g: Graph, m: FusedAttention) -> Any:
    """Attention without a past."""
    m.onnx_output = g.attention(m.q, m.k, m.v, m.bias, **m.attributes)
    return m.onnx_output


def without_mask(g: Graph, m: FusedAttention, is_causal: bool = False) -> Any:
    """Write the op without its mask, causal if requested, with as many outputs as before."""
    if m.onnx_output is not None:
        return g.attention(m.q, m.k, m.v, **{**m.attributes, "is_causal": int(is_causal)})
    if m.weights is not None:
        return ort_attention(g, m)
    if m.total_sequence_length is not None:  # GroupQueryAttention is causal by default
        return group_query(g, m, **({"causal": None} if is_causal else {}))[: m.output_count]
    return multi_head(g, m, **({"unidirectional": 1} if is_causal else {}))[: m.output_count]


def behind_past(g: Graph, m: FusedAttention) -> Any:
    """MultiHeadAttention with a past, and the keys and values for the next step."""
    return g.ms_multi_head_attention(
        *(m.q, m.k, m.v, m.qkv_bias, m.mask_index, m.bias, m.past_key, m.past_value), **m.attributes, outputs=3
    )


def behind_past_alone(g: Graph, m: FusedAttention) -> Tensor:
    """The same if only the first output is read."""
    made: Tensor = behind_past(g, m)[0]
    return made


def any_ort_attention(g: Graph, m: FusedAttention) -> Any:
    """An op of ONNX Runtime without a past.  GroupQueryAttention must use all rows of the keys."""
    last = g.any_of(g.shared(g.expand(m.seqlens_k_source, g.any_tensor())), m.seqlens_k)
    settings: dict[str, Any] = {
        "seqlens_k": last,
        "total_sequence_length": m.total_sequence_length,
        "attention_bias": m.bias,
        "outputs": 3,
    }
    grouped = g.ms_group_query_attention(m.q, m.k, m.v, **settings, **m.attributes)[0]
    whole = g.ms_multi_head_attention(m.q, m.k, m.v, m.qkv_bias, m.mask_index, m.bias, **m.attributes)
    return g.any_of(whole, grouped, ort_attention(g, m, m.bias, m.mask_index))
