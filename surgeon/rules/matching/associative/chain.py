"""A sum or product to look for, and checks of nodes and constants that need no backtracking."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from surgeon.ir.constants import CONSTANT_OPS
from surgeon.ir.scope import Node, split_op
from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.associative.flattening import DIVISIONS, NEGATIONS, OPERAND_SIGNS, PRODUCT, SUM
from surgeon.rules.matching.listener import Continuation
from surgeon.rules.matching.match_state import MatchState, default_rtol
from surgeon.rules.matching.pattern import NodePattern, Value

CANCELS = 100.0
Matcher = Callable[[MatchState, str, Continuation], bool]


class FoldedConstant(NamedTuple):
    """A constant that is folded into the number of a chain."""

    number: float
    """Its value."""
    eps: float
    """Precision of its dtype."""
    rank: int
    """Its rank."""
    is_float: bool
    """Whether its dtype is floating-point."""
    sign: int
    """-1 if it is subtracted or divided by."""
    name: str
    """Name of the tensor; "" if there is none, as for the -1 of a Neg."""


NEGATION = FoldedConstant(-1.0, 0.0, 0, is_float=False, sign=1, name="")
"""A Neg as a factor of a product."""


class ChainOperand(NamedTuple):
    """An operand of a pattern's chain."""

    matcher: Matcher
    """Matches a tensor."""
    sign: int
    """-1 if it is subtracted or divided by."""
    heads: frozenset[str] | None
    """Ops that can produce it; None: any, or a constant."""
    value: Value
    """The value of the pattern."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A sum or product to look for."""

    family: frozenset[str]
    """Ops that it consists of."""
    terms: tuple[ChainOperand, ...]
    """Its operands, those with the fewest candidates first."""
    neutral: float
    """1 for a product, 0 for a sum."""
    number: float
    """Its constant part."""
    rtol: float | None
    """Relative tolerance of `number`; None: the default of its dtype."""
    capture: str | None
    """Capture name that binds the number instead."""
    operation: NodePattern
    """Its last operation in the pattern."""
    is_division: bool = False
    """Whether it is a single Div, which integers allow only in this form."""
    identities: frozenset[str] = frozenset()
    """Identities that apply to the operands of a product (`surgeon.rules.matching.associative.identities`)."""
    expandable: frozenset[str] = frozenset()
    """Ops of operands to which `identities` apply."""
    may_merge: bool = False
    """Whether two operands of a sum may form one product."""


def find_producer(state: MatchState, name: str, ops: frozenset[str], passed: list[Node]) -> Node | None:
    """The producer of a tensor, if its op is one of these; nodes that are looked through are added to `passed`."""
    node = state.producers.get(name)
    while node is not None and node.op not in ops:
        if node.op not in TRANSPARENT or not state.is_passthrough(node, name):
            return None
        passed.append(node)
        name = node.inputs[0]
        node = state.producers.get(name)
    return node


def is_same_op_other_domain(chain: Chain, node: Node) -> bool:
    """Whether a node has an op of the chain, but another domain."""
    op = split_op(node.op)[1]
    return node.op not in chain.family and op in chain.family and len(node.inputs) == len(OPERAND_SIGNS[op])


def operands_of(node: Node, sign: int, family: frozenset[str]) -> tuple[tuple[str, int], ...]:
    inputs = node.inputs
    op = node.op if node.op in family else split_op(node.op)[1]
    signs = OPERAND_SIGNS[op]
    if len(signs) == 2:
        return ((inputs[0], sign), (inputs[1], sign * signs[1]))
    return ((inputs[0], sign if family is PRODUCT and op in NEGATIONS else -sign),)


def may_fold(producers: Mapping[str, Node], node: Node) -> bool:
    """A quick check of the inputs' ops, which skips the search for a constant at most nodes."""
    for name in node.inputs:
        source = producers.get(name)
        if source is not None and source.op not in CONSTANT_OPS:
            return False
    return True


def constants_agree(chain: Chain, total: float, eps: float, constants: tuple[FoldedConstant, ...]) -> bool:
    if chain.number == chain.neutral:
        # 1e-12 is not zero, and +c and -c do not cancel in floating point: each constant must be neutral by itself,
        # or change only the sign, which is exact both ways.  Factors that identities add are exact too.
        by_laws = any(not item.name and abs(item.number) != 1 for item in constants)
        return total == chain.neutral and (by_laws or all(abs(item.number) == chain.neutral for item in constants))
    allowed = chain.rtol if chain.rtol is not None else max(default_rtol(chain.number, eps), eps)
    most = CANCELS * abs(chain.number)
    if len(constants) > 1 and chain.family is SUM and any(abs(item.number) > most for item in constants):
        return False  # large constants that nearly cancel lose digits of the terms between them
    return abs(total - chain.number) <= allowed * abs(chain.number)


def divides_as_floats(
    state: MatchState, chain: Chain, leaves: tuple[tuple[str, int], ...], divides: bool, constants: int
) -> bool:
    """Integer division is not a multiplication; sums and products wrap in the same way in any order."""
    if not divides and all(sign > 0 for _, sign in leaves):
        return True
    root = state.node_of_pattern[id(chain.operation)]
    if chain.is_division and len(leaves) + constants == 2 and root.op in DIVISIONS:
        return True
    return any(state.is_float(name) for name, _ in leaves)


def rank_objection(state: MatchState, leaves: tuple[tuple[str, int], ...], rank: int) -> str | None:
    """Why a constant of shape [1] may raise the rank of the result; None if it does not."""
    ranks = [found for found in (state.rank(name) for name, _ in leaves) if found is not None]
    if ranks and max(ranks) >= rank:
        return None
    return "it would raise the rank of the result" if ranks else "it may raise the rank of the result"


def is_produced_by(state: MatchState, name: str, ops: frozenset[str]) -> bool:
    node = state.producers.get(name)
    if node is None:
        return False
    return node.op in ops or (node.op in TRANSPARENT and find_producer(state, name, ops, []) is not None)


def ordered(terms: Iterator[ChainOperand]) -> tuple[ChainOperand, ...]:
    """Operands with few candidates first, plain variables last."""
    return tuple(sorted(terms, key=lambda term: (term.heads is None, len(term.heads or ()))))
