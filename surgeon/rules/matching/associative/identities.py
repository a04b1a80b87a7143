"""Products that a model writes in an equal form: multiplied out, or with tanh in place of a sigmoid.

If a pattern has a product, one operand of the model may be equal to several:

    factor   a·b + a·c is a·(b + c), and 2·b + 6·c is 2·(b + 3·c)
    tanh     σ(z) is ½·(1 + tanh(z/2))
    sigmoid  n + n·tanh(z) is 2n·σ(2z), and 1/(1 + exp(z)) is σ(−z)

The right-hand sides consist of virtual nodes, which are not in the model and exist only during one attempt to match.
They are found by the names of their outputs, and a match leaves them out.
"""

from collections.abc import Callable, Iterator, Mapping
from math import isclose
from typing import Literal, NamedTuple

from surgeon.ir.scope import Node
from surgeon.ops.traits.dtype_traits import EXPONENTIALS, SIGMOIDS
from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.associative.chain import Chain, FoldedConstant, operands_of
from surgeon.rules.matching.associative.flattening import NEGATIONS, PRODUCT, SUM
from surgeon.rules.matching.match_state import VIRTUAL_PREFIX, MatchState

Identity = Literal["factor", "tanh", "sigmoid"]
Signed = tuple[str, int]

SUMS = SUM - NEGATIONS
TANHS = frozenset(("Tanh",))
OPS_EXPANDED: dict[Identity, frozenset[str]] = {"factor": SUMS, "tanh": SIGMOIDS, "sigmoid": SUMS}
OPS_REPLACED: dict[Identity, frozenset[str]] = {  # ops that may replace the function of the pattern
    "factor": frozenset(),
    "tanh": SIGMOIDS,
    "sigmoid": SIGMOIDS | TANHS | EXPONENTIALS,
}
MULTIPLIES = PRODUCT | TRANSPARENT
LOOKED_INTO = TRANSPARENT | TANHS | EXPONENTIALS | {"Constant"}
DEPTH = 2  # depth of nested products that are searched for a common factor
EXACT = 1e-6  # relative tolerance of equal float32 numbers


class Expansion(NamedTuple):
    """A value equal to an operand of a product."""

    operands: tuple[Signed, ...]
    """Name and sign of each tensor."""
    constants: tuple[FoldedConstant, ...]
    """Its constants."""
    nodes: tuple[Node, ...]
    """Nodes of the model that it replaces."""


class VirtualNode(Node):
    """A node that the model does not have."""

    __slots__ = ()


class Overlay(dict[str, Node]):
    """Producers: virtual nodes, and below them those of the model."""

    def __init__(self, below: Mapping[str, Node]) -> None:
        super().__init__()
        self.below = below

    def get(self, name: str, default: Node | None = None) -> Node | None:  # type: ignore[override]
        """The producer of a tensor, or the default."""
        return super().get(name) or self.below.get(name, default)

    def __missing__(self, name: str) -> Node:
        return self.below[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.below


def by_identities(state: MatchState, chain: Chain, place: Signed, go_on: Callable[[Expansion], bool]) -> bool:
    """Continue with each expansion of a product's operand, until one succeeds."""
    producers = state.producers
    node = producers.get(place[0])
    if node is not None and node.op in SUMS and not may_expand(producers, state.scalar, node):
        return False
    mark = len(state.nodes)
    for opening in _openings(state, chain, *place):
        state.nodes.extend(opening.nodes)
        if go_on(opening):
            return True
        del state.nodes[mark:]
    state.producers = producers
    return False


def with_common_factor(
    state: MatchState, chain: Chain, leaves: tuple[Signed, ...], go_on: Callable[[tuple[Signed, ...]], bool]
) -> bool:
    """Continue with each two operands of a sum that have a common factor, taken as one."""
    producers = state.producers
    inside = [_inside(state, name) for name, _ in leaves]
    for place, (first, one) in enumerate(leaves):
        for other in range(place + 1, len(leaves)):
            second, two = leaves[other]
            if inside[place].isdisjoint(inside[other]) or not _have_common(state, first, second):
                continue
            rest = tuple(leaf for spot, leaf in enumerate(leaves) if spot not in (place, other))
            if go_on(((_signed_sum(state, (first, one), (second, two))), *rest)):
                return True
    state.producers = producers
    return False


def without_virtual(nodes: list[Node]) -> list[Node]:
    """Nodes without the virtual ones."""
    return [node for node in nodes if not isinstance(node, VirtualNode)]


def may_expand(producers: Mapping[str, Node], scalar: Callable[[str], object], node: Node) -> bool:
    """A quick check that skips most sums: a common factor, a number to factor out, tanh or exp."""
    below: list[set[str]] = []
    for operand in node.inputs:
        source = producers.get(operand)
        if source is None or source.op not in PRODUCT:
            if source is not None and source.op in LOOKED_INTO:
                return True
            below.append({operand})
            continue
        inside = {operand, *source.inputs}
        for item in source.inputs:
            deeper = producers.get(item)
            if deeper is None or deeper.op in LOOKED_INTO:
                if deeper is not None or scalar(item) is not None:
                    return True
            elif deeper.op in PRODUCT:
                inside.update(deeper.inputs)
        below.append(inside)
    return not below[0].isdisjoint(below[1])


def _inside(state: MatchState, name: str) -> set[str]:
    """The tensors that a product consists of, as far as a quick check sees."""
    found, level = {name}, [name]
    for _ in range(DEPTH):
        sources = [state.producers.get(item) for item in level]
        level = [item for node in sources if node is not None and node.op in MULTIPLIES for item in node.inputs]
        found.update(level)
    return found


def _openings(state: MatchState, chain: Chain, name: str, sign: int) -> Iterator[Expansion]:
    name, node, passed = state.behind(name)
    if node is None or node.op not in chain.expandable:
        return
    if node.op in SIGMOIDS:
        if isinstance(node, VirtualNode):
            return  # made from a tanh of the model: expanding it would not end
        half, inner = _times(state, node.inputs[0], 0.5)
        whole = node_of("Add", node_of("Tanh", half, state=state), _number(state, 1.0), state=state)
        yield Expansion(((whole, sign),), (_folded(0.5, sign),), (*passed, node, *inner))
        return
    if "sigmoid" in chain.identities:
        yield from _as_sigmoid(state, node, sign, passed)
    if "factor" in chain.identities:
        yield from _factored(state, node, sign, passed)


def _as_sigmoid(state: MatchState, node: Node, sign: int, passed: tuple[Node, ...]) -> Iterator[Expansion]:
    """n + k·tanh(z) with k = ±n, and 1 + exp(z) as a divisor."""
    parts = [_scaled(state, name, its_sign) for name, its_sign in operands_of(node, 1, SUM)]
    number = next((part for part in parts if not part.tensor), None)
    other = next((part for part in parts if part.tensor), None)
    if number is None or other is None or not number.number:
        return
    _, source, beside = state.behind(other.tensor)
    if source is None or source.op not in TANHS | EXPONENTIALS or isinstance(source, VirtualNode):
        return  # made from a sigmoid of the model
    ratio = other.number / number.number
    nodes = (*passed, node, *number.nodes, *other.nodes, *beside, source)
    if source.op in TANHS and isclose(abs(ratio), 1, rel_tol=EXACT):
        twice, inner = _times(state, source.inputs[0], 2.0 * round(ratio))
        made = node_of("Sigmoid", twice, state=state)
        yield Expansion(((made, sign),), (_folded(2 * number.number, sign),), (*nodes, *inner))
    elif source.op in EXPONENTIALS and sign < 0 and isclose(ratio, 1, rel_tol=EXACT):
        minus, inner = _times(state, source.inputs[0], -1.0)
        made = node_of("Sigmoid", minus, state=state)
        yield Expansion(((made, 1),), (_folded(number.number, -1),), (*nodes, *inner))


def _factored(state: MatchState, node: Node, sign: int, passed: tuple[Node, ...]) -> Iterator[Expansion]:
    """A sum of two products with a common factor, or with a number that can be factored out."""
    (first, one), (second, two) = operands_of(node, 1, SUM)
    left, right = _factors(state, first), _factors(state, second)
    for factor in _common(left, right):
        raised = left[factor].sign * sign
        for opening in _summed(state, _rest(state, left[factor], one), _rest(state, right[factor], two), sign):
            yield Expansion(((factor, raised), *opening.operands), opening.constants, (*passed, node, *opening.nodes))
    if isinstance(node, VirtualNode):
        return  # a number was factored out already: doing it again would not end
    pair = _scaled(state, first, one), _scaled(state, second, two)
    if any(abs(part.number) != 1 for part in pair):
        for opening in _summed(state, *pair, sign):
            if opening.constants[0].number not in (0.0, 1.0):
                yield Expansion(opening.operands, opening.constants, (*passed, node, *opening.nodes))


class Scaled(NamedTuple):
    """number · tensor, or the number itself if the tensor is ""."""

    number: float
    """The coefficient."""
    tensor: str
    """Name of the tensor, or ""."""
    eps: float
    """Precision of the coefficient."""
    nodes: tuple[Node, ...]
    """Nodes that compute it."""


def _summed(state: MatchState, one: Scaled, two: Scaled, sign: int) -> Iterator[Expansion]:
    """A sum of two as a number times a virtual sum, in which one of them has the coefficient 1."""
    nodes = (*one.nodes, *two.nodes)
    eps = one.eps + two.eps
    tried: list[float] = []
    if not one.tensor and not two.tensor:
        return
    for pulled in (one.number, two.number):
        if not pulled or any(isclose(pulled, known, rel_tol=EXACT) for known in tried):
            continue
        tried.append(pulled)
        parts = [_part(state, part, part.number / pulled, eps) for part in (one, two)]
        made, its_sign = _signed_sum(state, *parts)
        yield Expansion(
            ((made, sign),), (FoldedConstant(pulled * its_sign, eps, 0, is_float=True, sign=sign, name=""),), nodes
        )


def _part(state: MatchState, part: Scaled, ratio: float, eps: float) -> Signed:
    """A summand with another coefficient, and its sign."""
    if not part.tensor:
        return _number(state, abs(ratio), eps), 1 if ratio > 0 else -1
    if isclose(abs(ratio), 1, rel_tol=EXACT):
        return part.tensor, round(ratio)
    return _product(state, (part.tensor, 1), (_number(state, ratio, eps), 1)), 1


def _signed_sum(state: MatchState, first: Signed, second: Signed) -> Signed:
    """A virtual sum or difference of two tensors, and its sign."""
    (one, plus), (two, minus) = first, second
    if plus == minus:
        return node_of("Add", one, two, state=state), plus
    larger, smaller = (one, two) if plus > 0 else (two, one)
    return node_of("Sub", larger, smaller, state=state), 1


class Factor(NamedTuple):
    """How a tensor enters a product."""

    sign: int
    """-1 if it is a divisor."""
    beside: tuple[Signed, ...]
    """Name and sign of the other factors."""
    nodes: tuple[Node, ...]
    """Nodes between the tensor and the product."""


def _factors(state: MatchState, name: str) -> dict[str, Factor]:
    """The tensors of which this one is a product with others, the largest first; the tensor itself is one of them."""
    name, _, passed = state.behind(name)
    found = {name: Factor(1, (), passed)}
    level = [name]
    for _ in range(DEPTH):
        below: list[str] = []
        for at in level:
            node, way = state.producers.get(at), found[at]
            if node is None or node.op not in PRODUCT:
                continue
            operands = operands_of(node, way.sign, PRODUCT)
            minus = ((_number(state, -1.0), 1),) if node.op in NEGATIONS else ()
            for place, (operand, sign) in enumerate(operands):
                others = (*way.beside, *operands[:place], *operands[place + 1 :], *minus)
                operand, _, passed = state.behind(operand)
                if operand not in found and state.scalar(operand) is None:
                    found[operand] = Factor(sign, others, (*way.nodes, node, *passed))
                    below.append(operand)
        if not below:
            break
        level = below
    return found


def _common(left: dict[str, Factor], right: dict[str, Factor]) -> Iterator[str]:
    """Factors that both products have."""
    for name, factor in left.items():
        if name in right and right[name].sign == factor.sign:
            yield name


def _have_common(state: MatchState, first: str, second: str) -> bool:
    return next(_common(_factors(state, first), _factors(state, second)), None) is not None


def _rest(state: MatchState, factor: Factor, sign: int) -> Scaled:
    """The other factors than one, as a number and one tensor."""
    number, eps = float(sign), 0.0
    tensors: list[Signed] = []
    nodes = list(factor.nodes)
    for name, its_sign in factor.beside:
        known = state.scalar(name)
        if known is None:
            tensors.append((name, its_sign))
        elif known[3] and not known[2] and (known[0] or its_sign > 0):
            number, eps = number * known[0] ** its_sign, eps + known[1]
        else:
            tensors.append((name, its_sign))  # an integer, or of rank 1 or more
    if not tensors:
        return Scaled(number, "", eps, tuple(nodes))
    if tensors[0][1] < 0:
        tensors.insert(0, (_number(state, 1.0), 1))
    made = tensors[0][0]
    for tensor in tensors[1:]:
        made = _product(state, (made, 1), tensor)
    return Scaled(number, made, eps, tuple(nodes))


def _scaled(state: MatchState, name: str, sign: int) -> Scaled:
    """A tensor as a number times the rest."""
    number, eps = float(sign), 0.0
    nodes: list[Node] = []
    for _ in range(DEPTH):
        known = state.scalar(name)
        if known is not None:
            plain = known[3] and not known[2]
            return Scaled(number * known[0], "", eps + known[1], tuple(nodes)) if plain else _whole(name, sign)
        name, node, passed = state.behind(name)
        if node is None or node.op not in PRODUCT:
            break
        operands = operands_of(node, 1, PRODUCT)
        numbers = [(state.scalar(item), its_sign) for item, its_sign in operands]
        place = next((spot for spot, (known, _) in enumerate(numbers) if known is None), None)
        others = [item for spot, item in enumerate(numbers) if spot != place]
        if place is None or operands[place][1] < 0 or any(known is None for known, _ in others):
            break
        for known, its_sign in others:
            if known is None or known[2] or not known[3] or not known[0]:
                return _whole(name, sign)
            number, eps = number * known[0] ** its_sign, eps + known[1]
        number = -number if node.op in NEGATIONS else number
        nodes += [*passed, node]
        name = operands[place][0]
    return Scaled(number, name, eps, tuple(nodes))


def _whole(name: str, sign: int) -> Scaled:
    return Scaled(float(sign), name, 0.0, ())


def _product(state: MatchState, first: Signed, second: Signed) -> str:
    """A virtual product of two; the second may be a divisor."""
    names = first[0], second[0]
    return node_of("Mul", *names, state=state) if second[1] > 0 else node_of("Div", *names, state=state)


def _times(state: MatchState, name: str, number: float) -> tuple[str, tuple[Node, ...]]:
    """A tensor times a number: the tensor that it is a multiple of, and the nodes between, if that is exact."""
    part = _scaled(state, name, 1)
    if part.tensor and isclose(part.number * number, 1, rel_tol=EXACT):
        return part.tensor, part.nodes
    return _product(state, (name, 1), (_number(state, number), 1)), ()


def node_of(op: str, *inputs: str, state: MatchState) -> str:
    """The output of a new virtual node."""
    overlay = state.producers
    if not isinstance(overlay, Overlay):
        overlay = state.producers = Overlay(overlay)
    state.virtual += 1
    name = f"{VIRTUAL_PREFIX}{op}_{state.virtual}"
    overlay[name] = VirtualNode(op, inputs, (name,), scope=state.scope, slot=-1, encoded=b"")
    return name


def _number(state: MatchState, number: float, eps: float = 0.0) -> str:
    """A virtual constant."""
    name = f"{VIRTUAL_PREFIX}{number!r}_{eps!r}"
    state.scalars[name] = number, eps, 0, True
    return name


def _folded(number: float, sign: int) -> FoldedConstant:
    return FoldedConstant(number, 0.0, 0, is_float=True, sign=sign, name="")
