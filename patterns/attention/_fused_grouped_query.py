"""Pattern of GroupQueryAttention, with any of its inputs."""

from typing import Any

from surgeon import Captures, Graph, Tensor


class Grouped(Captures):
    """The inputs of one GroupQueryAttention.

    q: the queries, or queries, keys and values in one tensor. last: the last valid key of each sequence. less: the
    tensor that `last` repeats. total: the number of keys of the longest sequence. places: the positions of the queries
    in their sequence.
    """

    q: Tensor
    k: Tensor | None = None
    v: Tensor | None = None
    past_key: Tensor | None = None
    past_value: Tensor | None = None
    last: Tensor | Any = None
    less: Tensor | Any = None
    total: Tensor
    cos: Tensor | None = None
    sin: Tensor | None = None
    places: Tensor | None = None
    bias: Tensor | None = None
    sink: Tensor | None = None
    attributes: dict[str, Any]

    def setting(self, name: str, usual: Any) -> Any:
        """Return an attribute, or `usual` if the node does not have it."""
        return self.attributes.get(name, usual)


def grouped_inputs(g: Graph, m: Grouped, q: Any, k: Any, v: Any, last: Any) -> Any:
    """GroupQueryAttention of other queries, keys and values, with the same further inputs and attributes."""
    given = m.past_key, m.past_value, last, m.total, m.cos, m.sin, m.places, m.bias, m.sink
    return g.ms_group_query_attention(q, k, v, *given, **m.attributes, outputs=3)


def grouped_node(g: Graph, m: Grouped) -> Any:
    """The output of GroupQueryAttention, and the keys and values for the next step."""
    last = g.any_of(g.shared(g.expand(m.less, g.any_tensor())), m.last)
    return grouped_inputs(g, m, m.q, k=m.k, v=m.v, last=last)


def grouped_node_alone(g: Graph, m: Grouped) -> Tensor:
    """The same if only the first output is read."""
    made: Tensor = grouped_node(g, m)[0]
    return made
