"""Sums and products as chains: operands in any order and association, `Div c` as `Mul 1/c`, `Sub c` as `Add -c`.

A chain of the pattern is a multiset of signed operands (a divisor or subtrahend has sign -1) and one number.  The
model's tree of binary nodes is cut at as many leaves as the pattern has operands; constants on the way are folded.
"""

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from math import nan

from surgeon.indexing.constants import CONSTANT_OPS
from surgeon.indexing.scope import Node, split_op
from surgeon.matching.advice import fixed
from surgeon.matching.algebra import Opening, by_laws, merged
from surgeon.matching.chain import FLIP, Chain, Folded, Matcher, Next, Term
from surgeon.matching.chain_findings import (
    gave_up,
    held_already,
    legacy,
    namesake,
    no_chain,
    no_number,
    no_operand,
    not_fixed,
    not_float,
    number_of_operands,
    other_number,
    raised,
)
from surgeon.matching.chain_nodes import (
    agrees,
    could_stand_in,
    divides_as_floats,
    is_namesake,
    made_by,
    may_fold,
    operands_of,
    producer,
    raises_rank,
)
from surgeon.matching.flatten import NEGATIONS, PRODUCT, SIGNS, combine
from surgeon.matching.state import STEP_LIMIT, State, close
from surgeon.ops.records import TRANSPARENT

LEGACY = 7  # from this opset on operands broadcast as in NumPy


def chain_matcher(chain: Chain) -> Matcher:
    """A matcher for a tensor that is this sum or product."""
    single = chain.terms[0] if len(chain.terms) == 1 and chain.capture is None else None

    def match(state: State, name: str, then: Next) -> bool:
        mark = len(state.nodes)
        state.visited += 1
        node = producer(state, name, chain.family, state.nodes)
        if node is None:
            del state.nodes[mark:]
            if chain.opens and _by_algebra(state, chain, name, then):
                return True
            return state.trace is not None and _namesake(state, chain, name, then)
        before = state.made.get(chain.key)
        state.made[chain.key] = node
        state.nodes.append(node)
        if single is not None and _one_operand(state, chain, single, node, then):
            return True
        pending = operands_of(node, 1, chain.family)
        constants = (FLIP,) if node.op in NEGATIONS and chain.family is PRODUCT else ()
        if _cut(state, chain, pending, (), constants, then):
            return True
        del state.nodes[mark:]
        if before is None:
            del state.made[chain.key]
        else:
            state.made[chain.key] = before
        return False

    return match


def _by_algebra(state: State, chain: Chain, name: str, then: Next) -> bool:
    """Match a tensor that is no product as one that it is equal to."""
    node = state.producers.get(state.canonical(name))
    if node is None or node.op not in chain.opens or chain.key in state.made:
        return False
    state.made[chain.key] = node

    def enter(opening: Opening) -> bool:
        return _cut(state, chain, opening.operands, (), opening.constants, then)

    if by_laws(state, chain, (name, 1), enter):
        return True
    del state.made[chain.key]
    return False


def _namesake(state: State, chain: Chain, name: str, then: Next) -> bool:
    """Record that the tensor is no such chain, and let a node of another domain or op stand in for its last one."""
    node = state.producers.get(state.canonical(name))
    if node is None or (not is_namesake(chain, node) and not could_stand_in(state, chain, node)):
        return state.missed(no_chain(state, chain, name))

    def enter() -> bool:
        before = state.made.get(chain.key)
        state.made[chain.key] = node
        if is_namesake(chain, node):
            done = _opened(state, chain, node, 1, (), (), (), then)
        else:
            done = _taken_for(state, chain, node, then)
        if before is None:
            del state.made[chain.key]
        else:
            state.made[chain.key] = before
        return done

    finding = namesake(chain, node) if is_namesake(chain, node) else no_chain(state, chain, name)
    return state.excused(finding, enter)


def _taken_for(state: State, chain: Chain, node: Node, then: Next) -> bool:
    """Go on with the operands of a node of another op, as if it were the chain."""
    operands = [name for name in node.inputs if name and state.scalar(name) is None]
    signs = sorted((term.sign for term in chain.terms), reverse=True)
    mark = len(state.nodes)
    state.nodes.append(node)
    if _assign(state, chain, 0, tuple(zip(operands, signs, strict=True)), then):
        return True
    del state.nodes[mark:]
    return False


def _opened(
    state: State,
    chain: Chain,
    node: Node,
    sign: int,
    pending: tuple[tuple[str, int], ...],
    leaves: tuple[tuple[str, int], ...],
    constants: tuple[Folded, ...],
    then: Next,
) -> bool:
    """Go on with the operands of a node of another domain in its place."""
    state.nodes.append(node)
    mark = len(state.nodes)
    if split_op(node.op)[1] in NEGATIONS and chain.family is PRODUCT:
        constants = (*constants, FLIP)
    if _cut(state, chain, (*operands_of(node, sign, chain.family), *pending), leaves, constants, then):
        return True
    del state.nodes[mark - 1 :]
    return False


def _one_operand(state: State, chain: Chain, term: Term, node: Node, then: Next) -> bool:
    """The commonest chain by the short road: one operand beside one floating 0-d constant.  A no is not final."""
    if len(node.inputs) != 2:
        return False
    first, second = node.inputs
    minus = SIGNS[node.op][-1]
    found, operand, sign, its_sign = state.scalar(second), first, minus, 1
    if found is None:
        found, operand, sign, its_sign = state.scalar(first), second, 1, minus
    if found is None or its_sign != term.sign or found[2] or not found[3]:
        return False
    total = combine(chain.family, chain.identity, found[0], sign)
    if not agrees(chain, total, found[1] / 2, ()):  # of one constant the total says all
        return False
    return (term.heads is None or made_by(state, operand, term.heads)) and term.matcher(state, operand, then)


def _cut(
    state: State,
    chain: Chain,
    pending: tuple[tuple[str, int], ...],
    leaves: tuple[tuple[str, int], ...],
    constants: tuple[Folded, ...],
    then: Next,
) -> bool:
    """Choose for each operand of the model's tree whether it is a leaf or is opened further."""
    wanted = len(chain.terms) + chain.merges
    scalars, producers = state.scalars, state.producers
    while pending:
        state.steps += 1
        if state.steps > STEP_LIMIT:
            return state.trace is not None and state.missed(gave_up(chain))
        (name, sign), pending = pending[0], pending[1:]
        node = producers.get(name)
        if node is None or (node.op in CONSTANT_OPS and may_fold(producers, node)):
            number = scalars[name] if name in scalars else state.scalar(name)
            if number is not None:
                constants = (*constants, Folded(*number, sign, name))
                continue
        if len(leaves) > wanted:
            return state.trace is not None and state.missed(number_of_operands(state, chain, (*leaves, (name, sign))))
        if node is not None and node.op in chain.opens:
            return _kept_or_equal(state, chain, (name, sign), pending, leaves, constants, then)
        if node is None or not (node.op in chain.family or node.op in TRANSPARENT):
            if state.trace is not None and node is not None and is_namesake(chain, node):
                opened = partial(_opened, state, chain, node, sign, pending, leaves, constants, then)
                if state.excused(namesake(chain, node), opened):
                    return True
            leaves = (*leaves, (name, sign))
            continue
        passed: list[Node] = []
        node = producer(state, name, chain.family, passed)
        if node is None:
            leaves = (*leaves, (name, sign))
            continue
        certain = len(leaves) + 1
        for rest, _ in pending:
            number = scalars[rest] if rest in scalars else state.scalar(rest)
            certain += number is None
        if certain > wanted + (state.trace is not None):  # every operand that is no constant ends in a leaf or more
            return state.trace is not None and state.missed(number_of_operands(state, chain, (*leaves, (name, sign))))
        keep_first = certain >= wanted and chain.capture is None  # a captured number takes in all constants there are
        for keep in (keep_first, not keep_first):
            if keep:
                if _cut(state, chain, pending, (*leaves, (name, sign)), constants, then):
                    return True
                continue
            mark = len(state.nodes)
            state.nodes.extend(passed)
            state.nodes.append(node)
            inner = constants
            if node.op in NEGATIONS and chain.family is PRODUCT:
                inner = (*constants, FLIP)
            if _cut(state, chain, (*operands_of(node, sign, chain.family), *pending), leaves, inner, then):
                return True
            del state.nodes[mark:]
        return False
    return _settle(state, chain, leaves, constants, then)


def _kept_or_equal(
    state: State,
    chain: Chain,
    operand: tuple[str, int],
    pending: tuple[tuple[str, int], ...],
    leaves: tuple[tuple[str, int], ...],
    constants: tuple[Folded, ...],
    then: Next,
) -> bool:
    """Take an operand of a product for a leaf, and else for what it is equal to by algebra."""
    if _cut(state, chain, pending, (*leaves, operand), constants, then):
        return True

    def enter(opening: Opening) -> bool:
        more = (*constants, *opening.constants)
        return _cut(state, chain, (*opening.operands, *pending), leaves, more, then)

    return by_laws(state, chain, operand, enter)


def _settle(
    state: State, chain: Chain, leaves: tuple[tuple[str, int], ...], constants: tuple[Folded, ...], then: Next
) -> bool:
    """The tree is cut: compare the constants, then give each operand a leaf."""
    if state.trace is not None:
        state.trace.line = chain.where, chain.op, chain.key
    missing = len(chain.terms) - len(leaves)
    if missing == 0:
        return _compare(state, chain, leaves, constants, then)
    if missing < 0 or missing > sum(term.heads is None for term in chain.terms):
        if missing == -1 and chain.merges and _merge(state, chain, leaves, constants, then):
            return True
        if state.trace is None:
            return False
        state.missed(number_of_operands(state, chain, leaves))
        return missing == -1 and not any(item.name for item in constants) and _no_constant(state, chain, leaves, then)
    for chosen in combinations([item for item in constants if item.name], missing):
        rest = tuple(item for item in constants if not any(item is one for one in chosen))
        more = tuple((item.name, item.sign) for item in chosen)
        if _compare(state, chain, (*leaves, *more), rest, then):
            return True
    return False


def _merge(
    state: State, chain: Chain, leaves: tuple[tuple[str, int], ...], constants: tuple[Folded, ...], then: Next
) -> bool:
    """One operand too many: take two that have a factor in common for one product."""
    return merged(state, chain, leaves, lambda fewer: _compare(state, chain, fewer, constants, then))


def _no_constant(state: State, chain: Chain, leaves: tuple[tuple[str, int], ...], then: Next) -> bool:
    """One operand too many, and no constant: take each for the constant in turn, the likeliest first."""
    if chain.capture is not None or chain.number == chain.identity:
        return False
    for leaf in sorted(leaves, key=lambda item: (not fixed(state, item[0]), item[0] in state.producers)):
        rest = tuple(item for item in leaves if item is not leaf)
        if state.excused(not_fixed(state, chain, leaf[0]), partial(_compare, state, chain, rest, (), then, 1)):
            return True
    return False


def _compare(
    state: State,
    chain: Chain,
    leaves: tuple[tuple[str, int], ...],
    constants: tuple[Folded, ...],
    then: Next,
    excused: int = 0,
) -> bool:
    """Compare the constants of a chain that is cut.  excused: the last of its checks that is taken to have passed."""
    is_product = chain.family is PRODUCT
    total, eps, rank, is_float, divides = chain.identity, 0.0, 0, False, False
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
    if chain.capture is None:
        if excused < 1 and not agrees(chain, total, eps, constants):
            if state.trace is None:
                return False
            again = partial(_compare, state, chain, leaves, constants, then, 1)
            return state.excused(other_number(state, chain, constants), again)
    elif not any(item.name for item in constants):
        return state.trace is not None and state.missed(no_number(chain))
    is_risky = excused < 2 and not is_float and is_product
    if is_risky and not divides_as_floats(state, chain, leaves, divides, len(constants)):
        if state.trace is None:
            return False
        again = partial(_compare, state, chain, leaves, constants, then, 2)
        return state.excused(not_float(state, chain, leaves), again)
    if (state.scope.opset or LEGACY) < LEGACY and any(node.attribute("axis") for node in state.nodes):
        return state.trace is not None and state.missed(legacy(chain))
    why = raises_rank(state, chain, leaves, rank) if rank and excused < 3 else ""
    if why:
        if state.trace is None:
            return False
        again = partial(_compare, state, chain, leaves, constants, then, 3)
        return state.excused(raised(chain, rank, why), again)
    if chain.capture is not None:
        rest = combine(chain.family, total, chain.number, -1)
        rest = int(rest) if not is_float and rest == rest // 1 else rest
        held = state.bound.get(chain.capture)
        if held is not None:
            if close(held[0], rest, None, 0.0):
                return _assign(state, chain, 0, leaves, then)
            return state.trace is not None and state.missed(held_already(chain, held[0], rest))
        state.bound[chain.capture] = (rest,)
        if _assign(state, chain, 0, leaves, then):
            return True
        del state.bound[chain.capture]
        return False
    return _assign(state, chain, 0, leaves, then)


def _assign(state: State, chain: Chain, position: int, leaves: Sequence[tuple[str, int]], then: Next) -> bool:
    """Give the operands leaves one by one, most constrained operand first, with backtracking."""
    if position == len(chain.terms):
        return then()
    state.steps += 1
    if state.steps > STEP_LIMIT:
        return state.trace is not None and state.missed(gave_up(chain))
    term = chain.terms[position]
    if state.trace is not None:
        state.trace.line = chain.where, chain.op, chain.key
    if position + 1 == len(chain.terms) and len(leaves) == 1 and term.heads is None:
        name, sign = leaves[0]
        if sign == term.sign:
            return term.matcher(state, name, then)
        return state.trace is not None and state.missed(no_operand(state, chain, term, leaves))
    tried: set[str] = set()
    fitting = False
    for place, (name, sign) in enumerate(leaves):
        if sign != term.sign or name in tried or (term.heads is not None and not made_by(state, name, term.heads)):
            continue
        fitting = True
        tried.add(name)
        rest = (*leaves[:place], *leaves[place + 1 :])
        if term.matcher(state, name, partial(_assign, state, chain, position + 1, rest, then)):
            return True
    if fitting or state.trace is None:
        return False
    return _stand_in(state, chain, position, leaves, then)


def _stand_in(state: State, chain: Chain, position: int, leaves: Sequence[tuple[str, int]], then: Next) -> bool:
    """No operand is made by the op that is wanted: say so, and try those that others make in its place."""
    term = chain.terms[position]
    if len(leaves) > 1 or leaves[0][1] != term.sign:
        state.missed(no_operand(state, chain, term, leaves))
    for place, (name, sign) in enumerate(leaves):
        if sign == term.sign and state.producers.get(name) is not None:
            rest = (*leaves[:place], *leaves[place + 1 :])
            if term.matcher(state, name, partial(_assign, state, chain, position + 1, rest, then)):
                return True
    return state.missed(no_operand(state, chain, term, leaves))
