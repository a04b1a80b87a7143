"""GroupQueryAttention as patterns look for it, whatever it reads."""

from typing import Any

from surgeon import Captures, Graph, Tensor


class Grouped(Captures):
    """What one GroupQueryAttention reads.

    q: the queries, or they with keys and values behind them.  last: the last key that counts of each sequence; less:
    one of which that is copies.  total: how many keys the longest has.  places: those of the queries in their sequence.
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
        """An attribute, or what it is where the node does not say."""
        return self.attributes.get(name, usual)


def grouped_node(g: Graph, m: Grouped) -> Any:
    """What GroupQueryAttention makes, and the keys and values that the next step starts with."""
    last = g.any_of(g.shared(g.expand(m.less, g.any_tensor())), m.last)
    given = m.q, m.k, m.v, m.past_key, m.past_value, last, m.total, m.cos, m.sin, m.places, m.bias, m.sink
    return g.ms_group_query_attention(*given, **m.attributes, outputs=3)


def grouped_node_alone(g: Graph, m: Grouped) -> Tensor:
    """The same of which nothing else is read."""
    made: Tensor = grouped_node(g, m)[0]
    return made
