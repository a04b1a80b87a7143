"""Decomposed norms: a root, a logarithm or a quotient of a sum of squares, whose squares leave half precision.

The square of 300 overflows float16, and that of 1e-4 underflows to zero.  Between the squares and the root there may be
any monotone nodes: a bound, an epsilon, a factor, a weighted sum, a Reshape.
"""

from collections.abc import Iterator

from surgeon.connected_components import reachable
from surgeon.ir.edges import Edges
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.dtype_traits import POWERS, STEEP_NEAR_ZERO, UNBOUNDED_SUMS
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.dtype_graph import DtypeGraph

_MAX_NODES = 48  # nodes that one search visits: beyond, another formula begins


class Norms:
    """The nodes of such norms, from the squares to the root.  found: in the order of the model."""

    def __init__(self, dtype_graph: DtypeGraph) -> None:
        self._graph, self._edges = dtype_graph, Edges(dtype_graph.index)
        self.found: dict[Node, None] = {}
        for node in dtype_graph.nodes():
            facts = traits_of(node.op)
            if facts.numerics.reduces and facts.numerics.squares and node.op not in UNBOUNDED_SUMS:
                self._keep(node)  # with its own root
            if node.op in STEEP_NEAR_ZERO:
                self._search(node, 0, last=node)
            else:
                for place in facts.algebra.divisors:
                    self._search(node, place, last=None)

    def _keep(self, node: Node) -> None:
        ports = self._graph.ports[node]
        if ports.any and not ports.keep_reason:
            self.found.setdefault(node)

    def _search(self, end: Node, place: int, *, last: Node | None) -> None:
        """Keep the nodes from squares to an input of `end`, and `last`."""
        readers: dict[Node, set[Node]] = {}
        squares: list[Node] = []
        waiting, seen = [(end, name) for name in end.inputs[place : place + 1]], set[Node]()
        while waiting and len(seen) < _MAX_NODES:
            reader, name = waiting.pop(0)
            for node in self._makers(reader.scope, name):
                readers.setdefault(node, set()).add(reader)
                if node in seen:
                    continue
                seen.add(node)
                if self._is_square(node):
                    squares.append(node)
                    waiting += [(node, given) for given in node.inputs if self._is_of_square(node, given)]
                elif (
                    end.op in STEEP_NEAR_ZERO and node.op in STEEP_NEAR_ZERO
                ):  # a root of a root: the first may overflow too
                    waiting.append((node, node.inputs[0]))
                else:
                    waiting += [(node, given) for given in self._led_on(node)]
        path = reachable(squares, lambda node: readers[node] - {end})
        along = [traits_of(node.op) for node in path]
        if len(squares) > 1 or any(facts.numerics.accumulates or facts.products.kind for facts in along):
            for node in (*path, *([] if last is None else [last])):
                self._keep(node)

    def _makers(self, scope: Scope, name: str) -> Iterator[Node]:
        """The nodes that produce a tensor of the old dtype, through calls of functions in both directions."""
        if self._graph.wire(scope, name) is None:
            return
        tensor = self._edges.tensor(scope, name)
        node = tensor.scope.producers.get(name)
        if node is not None and self._graph.index.called(node) is None:
            yield node
        elif node is not None or tensor.scope.is_function:
            for origin in self._edges.origins(tensor):
                yield from self._makers(origin.scope, origin.name)

    def _led_on(self, node: Node) -> Iterator[str]:
        """The inputs with which a node's output grows."""
        facts, scope = traits_of(node.op), node.scope
        if facts.products.factors is not None:
            others = [node.inputs[place] for place in facts.products.factors]
            yield from (name for name, other in zip(others, others[::-1], strict=True) if self._is_fixed(scope, other))
        elif facts.products.kind == "conv" and facts.products.weight_slot is not None:
            yield from node.inputs[:1] if self._is_mean(scope, node.inputs[facts.products.weight_slot]) else ()
        elif (
            facts.algebra.family
            or facts.data.carried
            or facts.numerics.reduces
            or (facts.shape.broadcasts and facts.algebra.commutes)
        ):
            yield from (name for name in node.inputs if name and not self._is_fixed(scope, name))
        elif (facts.shape.same_type_as_input and facts.numerics.exact) or (
            facts.numerics.accumulates and not facts.numerics.squares and not facts.numerics.error_is_absolute
        ):
            yield from node.inputs[:1]

    def _is_square(self, node: Node) -> bool:
        """Whether a node multiplies a tensor by itself."""
        facts, scope = traits_of(node.op), node.scope
        if node.op in POWERS and facts.numerics.squares:
            power = self._graph.index.constants.scalar(scope, node.inputs[1])
            return power is None or power[0] > 1
        if facts.numerics.reduces and facts.numerics.squares:
            return True
        is_product = facts.products.kind or facts.algebra.family == "product"
        if not is_product or len(node.inputs) != 2 or facts.algebra.divisors:
            return False
        one, two = (self._source(scope, name) for name in node.inputs)
        return one == two and not self._is_fixed(scope, one)

    def _is_of_square(self, node: Node, name: str) -> bool:
        """Whether an input is a square itself, as in a norm of fourth powers."""
        inner = node.scope.producers.get(self._source(node.scope, name)) if name else None
        return inner is not None and inner is not node and self._is_square(inner)

    def _is_mean(self, scope: Scope, name: str) -> bool:
        """Whether the weights of a convolution form a weighted mean: a constant without negative elements."""
        array = self._graph.index.constants.array(scope, name) if self._is_fixed(scope, name) else None
        return array is not None and bool((array >= 0).all())

    def _source(self, scope: Scope, name: str) -> str:
        """The tensor before changes of shape and sign, and constant factors."""
        node = scope.producers.get(name)
        while node is not None and not traits_of(node.op).numerics.reduces:
            facts = traits_of(node.op)
            given = [text for text in node.inputs if text and not self._is_fixed(scope, text)]
            is_factor = facts.algebra.family == "product" and len(given) == 1
            is_moved = facts.data.copies_elements == (0,) and len(node.outputs) == 1
            if not (is_factor or is_moved or (facts.shape.same_type_as_input and facts.numerics.exact)):
                break
            name = given[0] if is_factor else node.inputs[0]
            node = scope.producers.get(name)
        return name

    def _is_fixed(self, scope: Scope, name: str) -> bool:
        return self._graph.index.constants.is_constant(scope, name)
