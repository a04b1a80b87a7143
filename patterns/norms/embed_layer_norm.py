"""The embeddings of a transformer: a sum of table rows, and the layer normalisation after it."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._embeddings import Embedding, are_tables_compatible, as_ids, tables_and_positions
from ._fused_embed_layer_norm import Looked, in_parts, node, node_alone, node_with_counts, node_with_sum


def rows(g: Graph, table: Tensor, ids: Tensor) -> Tensor:
    """The rows of a table that ids select."""
    return g.gather(table, ids, axis=0)


def some(g: Graph, m: Embedding, x: Tensor) -> list[Tensor]:
    """The first elements of a tensor along an axis, as many as a count gives."""
    return [g.slice(x, [0], m.count, m.axis, [1]), g.slice(x, [0], m.count, m.axis)]


def normalised(g: Graph, m: Embedding, first: Tensor, second: Tensor, third: Tensor) -> tuple[Tensor, Tensor]:
    """LayerNorm of a sum of two or three tensors, and the sum.  One node may compute the last sum and the norm."""
    total = g.any_of(g.add(first, second, third), g.add(first, second))
    pairs = (g.add(first, second), third), (g.add(first, third), second), (g.add(second, third), first), (first, second)
    both = [
        g.ms_skip_layer_normalization(
            *(g.capture("widest", x), skip, m.gamma, m.beta), epsilon=m.epsilon, outputs=4
        )
        for pair in pairs
        for x, skip in (pair, pair[::-1])
    ]
    normal = g.layer_normalization(total, m.gamma, m.beta, axis=-1, epsilon=m.epsilon)
    return g.any_of(normal, *(made[0] for made in both)), g.any_of(total, *(made[3] for made in both))


def by_ids_with_sum(g: Graph, m: Embedding) -> tuple[Tensor, Tensor]:
    """The same as by_ids, with the sum, which the next layer adds to."""
    return normalised(
        g, m, rows(g, m.one, m.one_ids), second=rows(g, m.two, m.two_ids), third=rows(g, m.three, m.three_ids)
    )


def by_ids(g: Graph, m: Embedding) -> Tensor:
    """LayerNorm of the sum of rows of two or three tables."""
    return by_ids_with_sum(g, m)[0]


def by_count_with_sum(g: Graph, m: Embedding) -> tuple[Tensor, Tensor]:
    """The same as by_count, with the sum, which the next layer adds to."""
    made = g.range(0, m.count, 1)
    places = g.any_of(*some(g, m, m.counted), made, g.unsqueeze(made, [0]))
    position = g.any_of(rows(g, m.two, g.shared(places)), m.fixed, *some(g, m, m.fixed))
    first, third = g.shared(rows(g, m.one, m.one_ids)), g.shared(rows(g, m.three, m.three_ids))
    return normalised(g, m, first, second=position, third=third)


def by_count(g: Graph, m: Embedding) -> Tensor:
    """The same with the rows of one table in order: as many as there are ids, a number that may come from other ids."""
    return by_count_with_sum(g, m)[0]


@rule(
    patterns=[by_count, by_count_with_sum, by_ids, by_ids_with_sum],
    differs={"backwards": "ids that count from the end of a table are refused"},
    conditions=[are_tables_compatible],
    form_patterns=[node_alone, node_with_counts, node_with_sum, node],
)
def embed_layer_norm(g: Graph, m: Embedding) -> object:
    """Fuse the embeddings of a transformer into com.microsoft::EmbedLayerNormalization.

    What: LayerNorm(words[ids] + positions[places] + types[type ids]).  The types are optional.  The sum may have other
    consumers.  The normalisation must already be one node, which the rules layer_norm or skip_layer_norm produce.
    Numerics: rounding only.  ONNX Runtime sums each row one element after the other.  A negative id is an error,
    although Gather counts it from the end of the table.
    Speed: on a CPU (ONNX Runtime 1.31, one thread, 128 ids, rows of 768 numbers) the op takes 152 µs.  The nodes that
    it replaces take 490 µs with the fusion that ONNX Runtime applies on loading, and 115 µs after the rule
    residual_sum.  Therefore residual_sum runs first in the group `transformers`.  For 8 × 128 ids the times are 1465,
    970 and 952 µs.
    """
    (word, *kind), (table, places) = tables_and_positions(m)
    has_all_rows = m.widest is None or (m.widest.shape is not None and m.widest.shape[:-1] == word[1].shape)
    require(has_all_rows, "the first input of SkipLayerNormalization must have a row for each id")
    segments, types = (as_ids(g, kind[0][1]), kind[0][0]) if kind else (None, None)
    given: Any = as_ids(g, word[1]), segments, word[0], table, types, m.gamma, m.beta
    spots: Any = () if places is None else (None, as_ids(g, places))
    settings: Any = {"epsilon": m.epsilon, "mask_index_type": 0}
    if m.output_count == 1:
        return g.ms_embed_layer_normalization(*given, *spots, **settings)
    made = g.ms_embed_layer_normalization(*given, *spots, **settings, outputs=3)
    return made[0], made[2]


@embed_layer_norm.on("decomposed", conditions=[])
def _(g: Graph, m: Looked) -> list[Tensor]:
    return in_parts(g, m)
