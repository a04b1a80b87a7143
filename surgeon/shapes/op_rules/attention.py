"""Rules for fused attention and embeddings, of ai.onnx and of ONNX Runtime's com.microsoft domain."""

from collections.abc import Sequence

from surgeon.shapes.algebra.size_expressions import Size, floor_div
from surgeon.shapes.op_rules.axis_labels import AxisLabels, LabelRule, rank
from surgeon.shapes.tensor_types import INT32, NodeView, PartialType, Rule, TensorType, require


def _standard_attention(site: NodeView) -> Sequence[PartialType]:
    """ONNX Attention-23: q, k, v of [batch, heads, sequence, head] or [batch, sequence, heads · head], then a cache."""
    dtype, query = site.facts(0)
    key, value, past = site.shape(1), site.shape(2), site.shape(4)
    if query is None or key is None or value is None or (site.has(4) and past is None):
        return [
            PartialType(dtype, None if query is None else [*query[:-1], None]),
            *[PartialType(dtype, [None] * 4)] * 3,
        ]
    require(len(query) in (3, 4) and len(query) == len(key) == len(value) and (past is None or len(past) == 4))
    heads, groups = site.attribute("q_num_heads", 1), site.attribute("kv_num_heads", 1)
    if len(query) == 4:
        heads, groups, width, result = query[1], key[1], key[3], value[3]
    else:
        width, result = floor_div(key[2], groups), floor_div(value[2], groups)
    total = key[-2] if past is None else key[-2] + past[2]
    shape = (*query[:-1], result) if len(query) == 4 else (*query[:-1], heads * result)
    caches = [PartialType(dtype, [query[0], groups, total, size]) for size in (width, result)]
    return [PartialType(dtype, shape), *caches, PartialType(dtype, [query[0], heads, query[-2], total])]


def _attention(site: NodeView) -> Sequence[PartialType]:
    """Input [batch, sequence, hidden], weights [hidden, q, k and v together]."""
    dtype, shape = site.facts(0)
    weights, sizes = site.shape(1), site.attribute("qkv_hidden_sizes")
    if shape is None or (not sizes and weights is None):
        return [PartialType(dtype, None), PartialType(dtype, [None] * 5)]
    heads = site.attribute("num_heads")
    require(len(shape) == 3 and weights != () and heads is not None)
    width: Size = sizes[-1] if sizes else floor_div((weights or (0,))[-1], 3)
    total = _with_cache(site, 4, 3, shape[1])
    return [
        PartialType(dtype, [*shape[:-1], width]),
        PartialType(dtype, [2, shape[0], heads, total, floor_div(width, heads)]),
    ]


def _with_cache(site: NodeView, position: int, axis: int, length: Size) -> Size | None:
    """The number of keys with those of the cache, an optional input."""
    past = site.shape(position)
    require(past is None or len(past) > axis)
    return length if not site.has(position) else None if past is None else length + past[axis]


def _multi_head_attention(site: NodeView) -> Sequence[PartialType]:
    """Query [batch, sequence, hidden]; value [batch, keys, hidden] or [batch, heads, keys, head]; or all packed."""
    dtype, query = site.facts(0)
    value = site.shape(2)
    if query is None:
        return [PartialType(dtype, None), PartialType(dtype, [None] * 4), PartialType(dtype, [None] * 4)]
    heads, key = site.attribute("num_heads"), site.shape(1)
    require(len(query) in (3, 4, 5) and heads is not None)
    width: Size | None = None
    if len(query) == 5:
        width = query[2] * query[4]
    elif value is not None and len(value) == 3:
        width = value[2]
    elif value is not None and len(value) == 4:
        width = value[1] * value[3]
    elif not site.has(2):
        width = query[2]
    total = None if key is None or len(key) not in (3, 4) else _with_cache(site, 6, 2, key[-2])
    head = floor_div(query[2], heads) if len(query) == 3 and site.has(1) else None
    result = None if width is None else floor_div(width, heads)
    caches = [PartialType(dtype, [query[0], heads, total, size]) for size in (head, result)]
    return [PartialType(dtype, [query[0], query[1], width]), *caches]


def _group_query_attention(site: NodeView) -> Sequence[PartialType]:
    """Query [batch, sequence, heads · head], which may contain key and value too."""
    dtype, query = site.facts(0)
    heads, groups = site.attribute("num_heads", 1), site.attribute("kv_num_heads", 1)
    if query is None or len(query) != 3:
        return [PartialType(dtype, None), PartialType(dtype, [None] * 4), PartialType(dtype, [None] * 4)]
    head = floor_div(query[2], heads if site.has(1) else heads + 2 * groups)
    cache = [query[0], groups, None, head]
    return [
        PartialType(dtype, [query[0], query[1], head * heads]),
        PartialType(dtype, cache),
        PartialType(dtype, cache),
    ]


def _embedding(site: NodeView) -> Sequence[TensorType]:
    """Ids [batch, sequence] and a table [words, hidden]; the second output is the index of the mask."""
    ids, (dtype, table) = site.shape(0), site.facts(2)
    require(table is None or len(table) == 2)
    shape = None if ids is None or table is None else (*ids, table[1])
    return [TensorType(dtype, shape), TensorType(INT32, None if ids is None else ids[:1]), TensorType(dtype, shape)]


RULES: dict[str, Rule] = {
    "Attention": _standard_attention,
    "com.microsoft::Attention": _attention,
    "com.microsoft::MultiHeadAttention": _multi_head_attention,
    "com.microsoft::GroupQueryAttention": _group_query_attention,
    "com.microsoft::EmbedLayerNormalization": _embedding,
}


def samples(view: NodeView) -> AxisLabels:
    """Attention computes each sample separately, from all of its tokens."""
    given = [place for place in range(len(view.inputs)) if view.has(place)]
    labels = {place: [(place, axis) for axis in range(rank(view, place))] for place in given}
    return AxisLabels(labels, mixed=[label for axes in labels.values() for label in axes[1:]])


LABELS: dict[str, LabelRule] = {
    **dict.fromkeys(("RotaryEmbedding", "com.microsoft::RotaryEmbedding"), samples),
}
