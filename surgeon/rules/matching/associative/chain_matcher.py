"""Sums and products as chains: operands in any order and association, `Div c` as `Mul 1/c`, `Sub c` as `Add -c`.

A chain of the pattern is a multiset of signed operands (a divisor or subtrahend has sign -1) and one number.  The
model's tree of binary nodes is cut at as many leaves as the pattern has operands; constants on the way are folded.
"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from math import nan
from typing import Literal as OneOf
from typing import NamedTuple

from surgeon.ir.constants import CONSTANT_OPS
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.associative.chain import (
    NEGATION,
    Chain,
    ChainOperand,
    FoldedConstant,
    Matcher,
    constants_agree,
    divides_as_floats,
    find_producer,
    is_produced_by,
    is_same_op_other_domain,
    may_fold,
    operands_of,
    rank_objection,
)
from surgeon.rules.matching.associative.flattening import NEGATIONS, OPERAND_SIGNS, PRODUCT, combine
from surgeon.rules.matching.associative.identities import Expansion, by_identities, with_common_factor
from surgeon.rules.matching.listener import Continuation
from surgeon.rules.matching.match_state import STEP_LIMIT, MatchState, constants_close, leave

LEGACY = 7  # first opset with NumPy broadcasting

Signed = tuple[str, int]
Leaves = tuple[Signed, ...]
Constants = tuple[FoldedConstant, ...]
ChainFault = OneOf["number", "none", "dtype", "legacy", "rank", "held"]
TOLERATED = ("number", "dtype", "rank")  # chain faults past which a search can go on


def chain_matcher(chain: Chain) -> Matcher:
    """A matcher for a tensor that is this sum or product."""
    single = chain.terms[0] if len(chain.terms) == 1 and chain.capture is None else None
    key = id(chain.operation)

    def match(state: MatchState, name: str, then: Continuation, is_near: bool = False) -> bool:
        if state.listener is not None and not is_near:
            return state.listener.exact_first(partial(match, state, name), then)
        mark = len(state.nodes)
        state.visited += 1
        node = find_producer(state, name, chain.family, state.nodes)
        if node is not None:
            return enter(state, node, mark, then=then)
        del state.nodes[mark:]
        if state.listener is None:
            return bool(chain.expandable) and _by_algebra(state, chain, name, then)
        _, node, _ = state.behind(name)
        if node is not None and is_same_op_other_domain(chain, node):
            go_on = partial(enter, state, node, mark, then=then)
            return state.listener.fails(go_on, chain.operation, ("namesake", chain, node))
        if node is None or (leaves := _operands_of_another_op(state, chain, node)) is None:
            return state.listener.fails(None, chain.operation, ("not_a_chain", chain, name))
        go_on = partial(enter, state, node, mark, then=then, leaves=leaves)
        return state.listener.fails(go_on, chain.operation, ("not_a_chain", chain, name))

    def enter(state: MatchState, node: Node, mark: int, then: Continuation, leaves: Leaves | None = None) -> bool:
        """Match the tree above a node.  mark: the nodes matched before.  leaves: the operands, if they are known."""
        before = state.node_of_pattern.get(key)
        state.node_of_pattern[key] = node
        state.nodes.append(node)
        if single is not None and state.listener is None and _one_operand(state, chain, single, node=node, then=then):
            return True
        if leaves is not None:
            _assign(state, chain, 0, leaves=leaves, then=then)
        elif _cut(
            state,
            chain,
            operands_of(node, 1, chain.family),
            leaves=(),
            constants=_negation_constants(chain, node),
            then=then,
        ):
            return True
        leave(state, key, before, mark)
        return False

    return match


def _operands_of_another_op(state: MatchState, chain: Chain, node: Node) -> Leaves | None:
    """The operands of a node of another op, as those of the chain's last node; None if their number differs."""
    names = [name for name in node.inputs if name and state.scalar(name) is None]
    if len(names) == 1 and len({id(term.value) for term in chain.terms}) == 1:
        names *= len(chain.terms)  # r² for r · r
    if node.op == "Constant" or len(names) != len(chain.terms) or chain.capture is not None:
        return None
    return tuple(zip(names, sorted((term.sign for term in chain.terms), reverse=True), strict=True))


def _negation_constants(chain: Chain, node: Node) -> Constants:
    """The constant that a node itself contributes, as a Neg in a product does."""
    return (NEGATION,) if node.op in NEGATIONS and chain.family is PRODUCT else ()


def _by_algebra(state: MatchState, chain: Chain, name: str, then: Continuation) -> bool:
    """Match a tensor of another op as a product that it is equal to."""
    _, node, _ = state.behind(name)
    if node is None or node.op not in chain.expandable or id(chain.operation) in state.node_of_pattern:
        return False
    state.node_of_pattern[id(chain.operation)] = node

    def enter(opening: Expansion) -> bool:
        return _cut(state, chain, opening.operands, leaves=(), constants=opening.constants, then=then)

    if by_identities(state, chain, (name, 1), enter):
        return True
    del state.node_of_pattern[id(chain.operation)]
    return False


def _one_operand(state: MatchState, chain: Chain, term: ChainOperand, node: Node, then: Continuation) -> bool:
    """The commonest chain by a short cut: one operand and one floating 0-d constant.  False is not final."""
    if len(node.inputs) != 2:
        return False
    first, second = node.inputs
    minus = OPERAND_SIGNS[node.op][-1]
    found, operand, sign, its_sign = state.scalar(second), first, minus, 1
    if found is None:
        found, operand, sign, its_sign = state.scalar(first), second, 1, minus
    if found is None or its_sign != term.sign or found[2] or not found[3]:
        return False
    total = combine(chain.family, chain.neutral, found[0], sign)
    if not constants_agree(chain, total, found[1] / 2, ()):  # a single constant is its own total
        return False
    return (term.heads is None or is_produced_by(state, operand, term.heads)) and term.matcher(state, operand, then)


def _cut(
    state: MatchState, chain: Chain, pending: Leaves, leaves: Leaves, constants: Constants, then: Continuation
) -> bool:
    """Choose for each operand of the model's tree whether it is a leaf or is expanded further."""
    wanted, listener = len(chain.terms) + chain.may_merge, state.listener
    most = wanted if listener is None else wanted + 1  # one operand too many may take the place of the constant
    scalars, producers = state.scalars, state.producers
    while pending:
        state.steps += 1
        if state.steps > STEP_LIMIT:
            return False
        (name, sign), pending = pending[0], pending[1:]
        node = producers.get(name)
        if node is None or (node.op in CONSTANT_OPS and may_fold(producers, node)):
            number = scalars[name] if name in scalars else state.scalar(name)
            if number is not None:
                constants = (*constants, FoldedConstant(*number, sign, name))
                continue
        if len(leaves) > most:
            return False
        if node is not None and listener is None and node.op in chain.expandable:
            return _kept_or_equal(
                state, chain, (name, sign), pending=pending, leaves=leaves, constants=constants, then=then
            )
        is_strange = listener is not None and node is not None and is_same_op_other_domain(chain, node)
        if node is None or not (node.op in chain.family or node.op in TRANSPARENT or is_strange):
            leaves = (*leaves, (name, sign))
            continue
        passed: list[Node] = []
        node = node if is_strange else find_producer(state, name, chain.family, passed)
        if node is None:
            leaves = (*leaves, (name, sign))
            continue
        certain = len(leaves) + 1
        for rest, _ in pending:
            number = scalars[rest] if rest in scalars else state.scalar(rest)
            certain += number is None
        if certain > most:  # each non-constant operand becomes at least one leaf
            return False
        absorbs = chain.capture is not None and listener is None  # a captured number absorbs all constants
        keep_first = certain >= wanted and not absorbs
        for keep in (keep_first, not keep_first):
            if keep:
                if _cut(state, chain, pending, leaves=(*leaves, (name, sign)), constants=constants, then=then):
                    return True
                continue
            mark = len(state.nodes)
            state.nodes.extend(passed)
            state.nodes.append(node)
            opened = (*operands_of(node, sign, chain.family), *pending)
            numbers = (*constants, *_negation_constants(chain, node))
            if listener is not None and is_strange:
                go_on = partial(_cut, state, chain, opened, leaves=leaves, constants=numbers, then=then)
                listener.fails(go_on, chain.operation, ("namesake", chain, node))
            elif _cut(state, chain, opened, leaves=leaves, constants=numbers, then=then):
                return True
            del state.nodes[mark:]
        return False
    return _settle(state, chain, leaves, constants=constants, then=then)


def _kept_or_equal(
    state: MatchState,
    chain: Chain,
    operand: Signed,
    pending: Leaves,
    leaves: Leaves,
    constants: Constants,
    then: Continuation,
) -> bool:
    """Take an operand of a product as a leaf, else as what it is equal to by identities."""
    if _cut(state, chain, pending, leaves=(*leaves, operand), constants=constants, then=then):
        return True

    def enter(opening: Expansion) -> bool:
        more = (*constants, *opening.constants)
        return _cut(state, chain, (*opening.operands, *pending), leaves=leaves, constants=more, then=then)

    return by_identities(state, chain, operand, enter)


def _settle(state: MatchState, chain: Chain, leaves: Leaves, constants: Constants, then: Continuation) -> bool:
    """The tree is cut: compare the constants, then assign a leaf to each operand."""
    if len(leaves) == len(chain.terms) + 1 and chain.may_merge and state.listener is None:
        # two operands with a common factor form one product
        return with_common_factor(
            state, chain, leaves, lambda fewer: _compare(state, chain, fewer, constants=constants, then=then)
        )
    splits = _with_constants_as_operands(chain, leaves, constants)
    if state.listener is None:
        return any(_compare(state, chain, *split, then) for split in splits)
    tried = [_compare(state, chain, *split, then) for split in splits]
    return not tried and _other_count(state, chain, leaves, constants=constants, then=then)


def _other_count(state: MatchState, chain: Chain, leaves: Leaves, constants: Constants, then: Continuation) -> bool:
    """The number of operands is wrong, for a listener: perhaps one is in the place of the constant."""
    listener = state.listener
    if listener is None:
        return False
    listener.fails(None, chain.operation, ("number_of_operands", chain, leaves))
    has_number = any(item.name for item in constants) or chain.capture is not None or chain.number == chain.neutral
    if len(leaves) != len(chain.terms) + 1 or has_number:
        return False

    def order(place: int) -> tuple[bool, bool]:
        """Sort key: the likeliest first."""
        return not state.is_default(leaves[place][0]), leaves[place][0] in state.producers

    for place in sorted(range(len(leaves)), key=order):
        rest = _drop_operand(leaves, place)
        go_on = partial(_compare, state, chain, rest, constants=(), then=then, is_reported=True)
        listener.fails(go_on, chain.operation, ("not_fixed", chain, leaves[place][0]))
    return False


def _with_constants_as_operands(
    chain: Chain, leaves: Leaves, constants: Constants
) -> Iterator[tuple[Leaves, Constants]]:
    """As many leaves as the chain has operands, with constants among them if there are too few others."""
    missing = len(chain.terms) - len(leaves)
    if missing == 0:
        yield leaves, constants
    elif 0 < missing <= sum(term.heads is None for term in chain.terms):
        for chosen in combinations([item for item in constants if item.name], missing):
            rest = tuple(item for item in constants if not any(item is one for one in chosen))
            yield (*leaves, *((item.name, item.sign) for item in chosen)), rest


class ConstantTotal(NamedTuple):
    """The constants of a chain taken together."""

    number: float
    """Their product or sum."""
    eps: float
    """Its precision."""
    rank: int
    """Greatest rank among them."""
    is_float: bool
    """Whether one of them is floating-point."""
    divides: bool
    """Whether one of them is a divisor."""

    @classmethod
    def of(cls, chain: Chain, constants: Constants) -> "ConstantTotal":
        """The total of a chain's constants."""
        is_product = chain.family is PRODUCT
        total, eps, rank, is_float, divides = chain.neutral, 0.0, 0, False, False
        for number, its_eps, its_rank, floating, sign, _ in constants:
            if not is_product:
                total += sign * number
            elif sign > 0:
                total *= number
            else:
                total, divides = total / number if number else nan, True
            eps += its_eps / 2
            rank = its_rank if its_rank > rank else rank
            is_float = is_float or floating
        return cls(total, eps, rank, is_float=is_float, divides=divides)


def _chain_faults(
    state: MatchState, chain: Chain, leaves: Leaves, constants: Constants, total: ConstantTotal
) -> Iterator[ChainFault]:
    """The fault of a cut chain apart from its operands."""
    if chain.capture is None:
        if not constants_agree(chain, total.number, total.eps, constants):
            yield "number"
    elif not any(item.name for item in constants):
        yield "none"
    is_risky = not total.is_float and chain.family is PRODUCT
    if is_risky and not divides_as_floats(state, chain, leaves, divides=total.divides, constants=len(constants)):
        yield "dtype"
    if (state.scope.opset or LEGACY) < LEGACY and any(node.attribute("axis") for node in state.nodes):
        yield "legacy"
    if total.rank and rank_objection(state, leaves, total.rank) is not None:
        yield "rank"
    held = None if chain.capture is None else state.bindings.get(chain.capture)
    if held is not None and not constants_close(held[0], captured_number(chain, total), None, 0.0):
        yield "held"


def captured_number(chain: Chain, total: ConstantTotal) -> float:
    """The number that a chain's capture is bound to."""
    rest = combine(chain.family, total.number, chain.number, -1)
    return int(rest) if not total.is_float and rest == rest // 1 else rest


def _compare(
    state: MatchState, chain: Chain, leaves: Leaves, constants: Constants, then: Continuation, is_reported: bool = False
) -> bool:
    """Compare the constants of a cut chain, then its operands.  is_reported: the number is missing."""
    total = ConstantTotal.of(chain, constants)
    faults = _chain_faults(state, chain, leaves, constants=constants, total=total)
    if state.listener is None:
        for _ in faults:
            return False
        return _bind(state, chain, leaves, total=total, then=then)
    wrong = [fault for fault in faults if not (is_reported and fault == "number")]
    go_on = partial(_bind, state, chain, leaves, total=total, then=then)
    for fault in reversed(wrong):
        reason = "chain_fault", fault, chain, leaves, constants, state.bindings.get(chain.capture or "")
        go_on = partial(state.listener.fails, go_on if fault in TOLERATED else None, chain.operation, reason)
    return go_on()


def _bind(state: MatchState, chain: Chain, leaves: Leaves, total: ConstantTotal, then: Continuation) -> bool:
    """Bind the number of a chain, then assign its operands."""
    if chain.capture is None or chain.capture in state.bindings:
        return _assign(state, chain, 0, leaves=leaves, then=then)
    state.bindings[chain.capture] = (captured_number(chain, total),)
    if _assign(state, chain, 0, leaves=leaves, then=then):
        return True
    del state.bindings[chain.capture]
    return False


def _assign(state: MatchState, chain: Chain, position: int, leaves: Leaves, then: Continuation) -> bool:
    """Assign leaves to operands one by one, most constrained operand first, with backtracking."""
    if position == len(chain.terms):
        return then()
    state.steps += 1
    if state.steps > STEP_LIMIT:
        return False
    term = chain.terms[position]
    if position + 1 == len(chain.terms) and len(leaves) == 1 and term.heads is None:
        name, sign = leaves[0]
        if sign == term.sign:
            state.reader = chain.operation
            return term.matcher(state, name, then)
    for place, name in _candidates(state, term, leaves):
        rest, state.reader = _drop_operand(leaves, place), chain.operation
        if term.matcher(state, name, partial(_assign, state, chain, position + 1, leaves=rest, then=then)):
            return True
    return state.listener is not None and _no_candidate(state, chain, position, leaves=leaves, then=then)


def _no_candidate(state: MatchState, chain: Chain, position: int, leaves: Leaves, then: Continuation) -> bool:
    """Report that no operand has the right op; a listener may tolerate the op of any that a node produces."""
    term, listener = chain.terms[position], state.listener
    if listener is None or any(_candidates(state, term, leaves)):
        return False
    reason = "no_operand", chain, term, leaves
    if len(leaves) > 1 or leaves[0][1] != term.sign:
        listener.fails(None, chain.operation, reason)
    for place, (name, sign) in enumerate(leaves):
        if sign == term.sign and name in state.producers:
            rest, state.reader = _drop_operand(leaves, place), chain.operation
            term.matcher(state, name, partial(_assign, state, chain, position + 1, leaves=rest, then=then))
    return listener.fails(None, chain.operation, reason)


def _candidates(state: MatchState, term: ChainOperand, leaves: Leaves) -> Iterator[tuple[int, str]]:
    """The leaves that an operand can be: with its sign, produced by one of its ops, each tensor once."""
    tried: set[str] = set()
    for place, (name, sign) in enumerate(leaves):
        if sign == term.sign and name not in tried and (term.heads is None or is_produced_by(state, name, term.heads)):
            tried.add(name)
            yield place, name


def _drop_operand(leaves: Leaves, place: int) -> Leaves:
    """All leaves but one."""
    return (*leaves[:place], *leaves[place + 1 :])
