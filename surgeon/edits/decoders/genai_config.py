"""The configuration that onnxruntime-genai reads next to a model: `genai_config.json`."""

from collections.abc import Iterator, Sequence
from typing import Any

from onnx import ModelProto, TensorProto

from surgeon.analysis.decoder_graph import ROWS, Decoder
from surgeon.edits.decoders.cache_names import cache_templates
from surgeon.edits.decoders.tokenizer_folder import TextFacts
from surgeon.errors import UsageError
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import symbols
from surgeon.shapes.index_shapes import shapes_of

_SHARING = "com.microsoft::GroupQueryAttention"
"""The op that writes new rows into the buffer of the past."""
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_AXES = 2  # of ids, mask and positions: the sequences and their tokens
_INDICES = (TensorProto.INT32, TensorProto.INT64)


def require_runnable(decoder: Decoder, model: ModelProto) -> None:
    """Raise UsageError for a decoder whose inputs or caches onnxruntime-genai cannot provide."""
    why = next(_obstacles(decoder, model), "")
    if why:
        raise UsageError(f"onnxruntime-genai cannot run this decoder: {why}. Export the model in another way.")


def _obstacles(decoder: Decoder, model: ModelProto) -> Iterator[str]:
    """Properties that onnxruntime-genai does not support, as clauses."""
    first = decoder.caches[0]
    for cache in decoder.caches:
        if (cache.heads, cache.size, cache.dtype) != (first.heads, first.size, first.dtype):
            one, other = (f"{c.past_key!r} has {c.heads} heads of size {c.size} in {dtype_name(c.dtype)}"
                          for c in (first, cache))  # fmt: skip
            yield f"all caches must have one layout, but {one} and {other}"
    types = {value.name: value.type.tensor_type for value in model.graph.input}
    names = [name for name in (decoder.mask, decoder.positions) if name is not None]
    for name in (decoder.ids, *names):
        if types[name].elem_type not in _INDICES or len(types[name].shape.dim) != _AXES:
            yield f"input {name!r} must have two axes and the dtype int32 or int64"
    if len({types[name].elem_type for name in names}) > 1:
        yield f"inputs {names[0]!r} and {names[1]!r} must have one dtype"
    if first.dtype not in _FLOATS:
        yield f"caches must be floats, but {first.past_key!r} is {dtype_name(first.dtype)}"


def shares_buffers(decoder: Decoder, index: Index) -> bool:
    """Whether a past and its present may be one buffer: only GroupQueryAttention reads and writes each cache.

    Such a buffer has rows for the whole context, so no other node may read its rows or their number.
    """
    names = [name for cache in decoder.caches for name in cache[:4]]
    uses = [(name, node) for name in names for node, _ in index.main.uses(name)]
    others = [(name, node) for name, node in uses if node.op != _SHARING]
    return all(cache.op == _SHARING for cache in decoder.caches) and not any(
        _reads_rows(index, name, node) for name, node in others
    )


def _reads_rows(index: Index, cache: str, node: Node) -> bool:
    """Whether a node reads more of a cache than sizes that do not depend on its rows."""
    shapes = shapes_of(index)
    sizes, read = shapes.shape(index.main, cache), shapes.value(index.main, node.outputs[0])
    if sizes is None or read is None or not traits_of(node.op).shape.reads_only_shape:
        return True
    return any(symbols(size) & symbols(sizes[ROWS]) for size in read.reshape(-1))


def completed_facts(decoder: Decoder, facts: TextFacts) -> TextFacts:
    """The facts with those that the graph has: the rows of a table of positions are a context.

    Raises UsageError for facts that are missing or contradict the graph.
    """
    rows = decoder.position_rows
    found = facts.over(TextFacts(context=rows))
    needed = (found.context, "the longest context", "--context N"), (found.eos, "the token that ends a text", "--eos N")
    missing = {what: option for value, what, option in needed if not value}
    if missing:
        options = " and ".join(missing.values())
        raise UsageError(f"The graph does not say {' and '.join(missing)}. Give {options}, or --tokenizer DIR.")
    if rows is not None and found.context is not None and found.context > rows:
        raise UsageError(f"The context is {found.context:,}, but the table of positions has {rows:,} rows.")
    found.require_tokens(decoder.vocabulary)
    return found._replace(pad=found.eos[0] if found.pad is None else found.pad)


def genai_config(
    decoder: Decoder, facts: TextFacts, file: str, *, shares: bool, query_heads: int | None = None
) -> dict[str, Any]:
    """The configuration of a decoder whose caches have names by template.

    facts: complete ones.  file: the name of the model's file.  shares: whether a past and its present are one buffer.
    query_heads: None if the graph does not say it.
    """
    first, heads = decoder.caches[0], query_heads or decoder.query_heads
    plain = {"input_ids": decoder.ids, "attention_mask": decoder.mask, "position_ids": decoder.positions}
    names = {f"{port}_names": template for port, template in cache_templates(decoder).items()}
    inputs = {key: name for key, name in (plain | names).items() if name is not None and "present" not in key}
    outputs = {"logits": decoder.logits} | {key: name for key, name in names.items() if "present" in key}
    eos: int | Sequence[int] = facts.eos[0] if len(facts.eos) == 1 else list(facts.eos)
    width = {} if decoder.width is None else {"hidden_size": decoder.width}
    bos = {} if facts.bos is None else {"bos_token_id": facts.bos}
    return {
        "model": {
            "type": "decoder",
            "vocab_size": decoder.vocabulary,
            "context_length": facts.context,
            **bos,
            "eos_token_id": eos,
            "pad_token_id": facts.pad,
            "decoder": {
                "session_options": {"provider_options": []},
                "filename": file,
                **width,
                "head_size": first.size,
                "num_attention_heads": heads or first.heads,
                "num_key_value_heads": first.heads,
                "num_hidden_layers": len(decoder.caches),
                "inputs": inputs,
                "outputs": outputs,
            },
        },
        "search": {"max_length": facts.context, "past_present_share_buffer": shares},
    }
