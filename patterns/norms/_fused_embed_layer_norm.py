"""EmbedLayerNormalization of ONNX Runtime as one node, and the same in primitives."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor
from .layer_norm import decompose_layer_norm

EPSILON = 1e-12  # the default of the node (ORT contrib ops, EmbedLayerNormalization-1)


class Looked(Captures):
    """The inputs of one node: ids, the tables, and the attributes of the norm.

    segments, spots: ids of types and of positions.  Without them the positions are 0, 1, 2, ...

    counts: the output for the mask.
    """

    ids: Tensor
    segments: Tensor | None = None
    words: Tensor
    places: Tensor
    types: Tensor | None = None
    gamma: Tensor
    beta: Tensor
    mask: Tensor | None = None
    spots: Tensor | None = None
    counts: Tensor | Any = None
    settings: dict[str, Any]


def node(g: Graph, m: Looked) -> list[Tensor]:
    """com.microsoft::EmbedLayerNormalization, with its outputs for the mask and the sum."""
    given: Any = m.ids, m.segments, m.words, m.places, m.types, m.gamma, m.beta, m.mask, m.spots
    made, m.counts, total = g.ms_embed_layer_normalization(*given, **m.settings, outputs=3)
    return [made, m.counts, total]


def node_alone(g: Graph, m: Looked) -> Tensor:
    """The same if only the first output is read."""
    return node(g, m)[0]


def node_with_counts(g: Graph, m: Looked) -> list[Tensor]:
    """The same if the sum is not read."""
    return node(g, m)[:2]


def node_with_sum(g: Graph, m: Looked) -> list[Tensor]:
    """The same if the counts are not read."""
    return node(g, m)[::2]


def in_parts(g: Graph, m: Looked) -> list[Tensor]:
    """The same in primitives."""
    counted_off = m.spots is None
    places = g.slice(m.places, [0], g.size_of(m.ids, 1), [0]) if counted_off else g.gather(m.places, m.spots, axis=0)
    total = g.add(g.gather(m.words, m.ids, axis=0), places)
    if m.types is not None and m.segments is not None:
        total = g.add(total, g.gather(m.types, m.segments, axis=0))
    made = [
        decompose_layer_norm(
            g, total, m.gamma, bias=m.beta, axes=[-1], epsilon=float(m.settings.get("epsilon", EPSILON))
        )
    ]
    if m.counts is not None:
        made.append(counted(g, m))
    return [*made, total][: m.output_count]


def counted(g: Graph, m: Looked) -> Tensor:
    """The number of ones in each row of the mask, or 0 without a mask."""
    if m.mask is None:
        return g.expand(np.array([0], np.int32), g.size_of(m.ids, 0))
    return g.reduce_sum(g.cast(g.equal(m.mask, np.array(1, np.int32)), to="int32"), [1], keepdims=0)
