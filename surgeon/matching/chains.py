"""Sums and products as chains: operands in any order and association, `Div c` as `Mul 1/c`, `Sub c` as `Add -c`.

A chain of the pattern is a multiset of signed operands (a divisor or subtrahend has sign -1) and one number.  The
model's tree of binary nodes is cut at as many leaves as the pattern has operands; constants on the way are folded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import nan
from typing import Any

from surgeon.indexing.constants import CONSTANT_OPS
from surgeon.indexing.scope import Node
from surgeon.matching.flatten import PRODUCT, SUM, combine
from surgeon.matching.state import RTOL, STEP_LIMIT, TRANSPARENT, State, close

Next = Callable[[], bool]
Matcher = Callable[[State, str, Next], bool]

LEGACY = 7  # from this opset on operands broadcast as in NumPy
CANCELS = 100.0


@dataclass(frozen=True, slots=True)
class Term:
    """An operand of a pattern's chain.  heads: ops that can make it (None: anything, a constant too)."""

    matcher: Matcher
    sign: int
    heads: frozenset[str] | None
    label: str


@dataclass(frozen=True, slots=True)
class Chain:
    """A sum or product to look for.

    identity: what changes nothing, 1 in a product and 0 in a sum.  number: the constant part; capture: the name that
    binds it instead.  is_division: it is one Div, which means the same in integers only as it stands.
    """

    family: frozenset[str]
    terms: tuple[Term, ...]
    identity: float
    number: float
    rtol: float | None
    capture: str | None
    key: int
    where: str
    is_division: bool = False


def chain_matcher(chain: Chain) -> Matcher:
    """A matcher for a tensor that is this sum or product."""
    single = chain.terms[0] if len(chain.terms) == 1 and chain.capture is None else None

    def match(state: State, name: str, then: Next) -> bool:
        mark = len(state.nodes)
        node = _producer(state, name, chain.family, state.nodes)
        if node is None:
            del state.nodes[mark:]
            if state.trace is None:
                return False
            return state.missed(chain.where, f"wanted {_spelled(chain)}, found {state.found(name)}")
        before = state.made.get(chain.key)
        state.made[chain.key] = node
        state.nodes.append(node)
        if single is not None and _one_operand(state, chain, single, node, then):
            return True
        pending = _operands(node, 1, chain.family)
        flip = -1.0 if node.op == "Neg" and chain.family is PRODUCT else None
        constants = ((flip, 0.0, 0, False, 1, ""),) if flip else ()
        if _cut(state, chain, pending, (), constants, then):
            return True
        del state.nodes[mark:]
        if before is None:
            del state.made[chain.key]
        else:
            state.made[chain.key] = before
        return False

    return match


def _one_operand(state: State, chain: Chain, term: Term, node: Node, then: Next) -> bool:
    """The commonest chain by the short road: one operand beside one floating 0-d constant.  A no is not final."""
    if len(node.inputs) != 2:
        return False
    first, second = node.inputs
    minus = -1 if node.op in ("Div", "Sub") else 1
    found, operand, sign, its_sign = state.scalar(second), first, minus, 1
    if found is None:
        found, operand, sign, its_sign = state.scalar(first), second, 1, minus
    if found is None or its_sign != term.sign or found[2] or not found[3]:
        return False
    total = combine(chain.family, chain.identity, found[0], sign)
    if not _agrees(chain, total, found[1] / 2, ((*found, sign, ""),)):
        return False
    return (term.heads is None or _made_by(state, operand, term.heads)) and term.matcher(state, operand, then)


def _producer(state: State, name: str, ops: frozenset[str], passed: list[Node]) -> Node | None:
    """The node that makes the tensor, if its op is one of these; nodes looked through are added to `passed`."""
    node = state.producers.get(name)
    while node is not None and node.op not in ops:
        if node.op not in TRANSPARENT or not state.passes(node, name):
            return None
        passed.append(node)
        name = node.inputs[0]
        node = state.producers.get(name)
    return node


def _operands(node: Node, sign: int, family: frozenset[str]) -> tuple[tuple[str, int], ...]:
    inputs = node.inputs
    op = node.op
    if op in ("Mul", "Add"):
        return ((inputs[0], sign), (inputs[1], sign))
    if op in ("Div", "Sub"):
        return ((inputs[0], sign), (inputs[1], -sign))
    return ((inputs[0], -sign if op == "Reciprocal" or family is SUM else sign),)


def _cut(
    state: State,
    chain: Chain,
    pending: tuple[tuple[str, int], ...],
    leaves: tuple[tuple[str, int], ...],
    constants: tuple[Any, ...],
    then: Next,
) -> bool:
    """Choose for each operand of the model's tree whether it is a leaf or is opened further."""
    wanted = len(chain.terms)
    scalars, producers = state.scalars, state.producers
    while pending:
        state.steps += 1
        if state.steps > STEP_LIMIT:
            return state.missed(chain.where, f"gave up after {STEP_LIMIT} steps; the chain is too ambiguous")
        (name, sign), pending = pending[0], pending[1:]
        node = producers.get(name)
        if node is None or (node.op in CONSTANT_OPS and _may_fold(producers, node)):
            number = scalars[name] if name in scalars else state.scalar(name)
            if number is not None:
                constants = (*constants, (*number, sign, name))
                continue
        if len(leaves) > wanted:
            return False
        if node is None or not (node.op in chain.family or node.op in TRANSPARENT):
            leaves = (*leaves, (name, sign))
            continue
        passed: list[Node] = []
        node = _producer(state, name, chain.family, passed)
        if node is None:
            leaves = (*leaves, (name, sign))
            continue
        certain = len(leaves) + 1
        for rest, _ in pending:
            number = scalars[rest] if rest in scalars else state.scalar(rest)
            certain += number is None
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
            if node.op == "Neg" and chain.family is PRODUCT:
                inner = (*constants, (-1.0, 0.0, 0, False, 1, ""))
            if _cut(state, chain, (*_operands(node, sign, chain.family), *pending), leaves, inner, then):
                return True
            del state.nodes[mark:]
        return False
    return _settle(state, chain, leaves, constants, then)


def _may_fold(producers: dict[str, Node], node: Node) -> bool:
    """A look at the inputs' ops, to spare most nodes the search for a constant."""
    for name in node.inputs:
        source = producers.get(name)
        if source is not None and source.op not in CONSTANT_OPS:
            return False
    return True


def _settle(
    state: State, chain: Chain, leaves: tuple[tuple[str, int], ...], constants: tuple[Any, ...], then: Next
) -> bool:
    """The tree is cut: compare the constants, then give each operand a leaf."""
    missing = len(chain.terms) - len(leaves)
    if missing == 0:
        return _compare(state, chain, leaves, constants, then)
    if missing < 0 or missing > sum(term.heads is None for term in chain.terms):
        found = ", ".join(state.found(name) for name, _ in leaves) if state.trace is not None else ""
        return state.missed(chain.where, f"wanted {len(chain.terms)} operands in {_spelled(chain)}, found {found}")
    for chosen in combinations([item for item in constants if item[5]], missing):
        rest = tuple(item for item in constants if not any(item is one for one in chosen))
        more = tuple((item[5], item[4]) for item in chosen)
        if _compare(state, chain, (*leaves, *more), rest, then):
            return True
    return False


def _compare(
    state: State, chain: Chain, leaves: tuple[tuple[str, int], ...], constants: tuple[Any, ...], then: Next
) -> bool:
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
        if not _agrees(chain, total, eps, constants):
            if state.trace is None:
                return False
            found = ", ".join(f"{item[0]:.10g}" for item in constants if item[5]) or "none"
            return state.missed(
                chain.where, f"wanted the constant {chain.number:.10g} in {_spelled(chain)}, found {found}"
            )
    elif not any(item[5] for item in constants):
        return state.missed(chain.where, f"wanted a constant for {chain.capture!r} in {_spelled(chain)}, found none")
    if not is_float and is_product and not _is_float(state, chain, leaves, divides, len(constants)):
        return False
    if (state.scope.opset or LEGACY) < LEGACY and any(node.attribute("axis") for node in state.nodes):
        return state.missed(chain.where, "before opset 7 an operation with an axis broadcasts along it")
    if rank and not _keeps_rank(state, chain, leaves, rank):
        return False
    if chain.capture is not None:
        rest = combine(chain.family, total, chain.number, -1)
        rest = int(rest) if not is_float and rest == rest // 1 else rest
        held = state.bound.get(chain.capture)
        if held is not None:
            return close(held[0], rest, None, 0.0) and _assign(state, chain, 0, leaves, then)
        state.bound[chain.capture] = (rest,)
        if _assign(state, chain, 0, leaves, then):
            return True
        del state.bound[chain.capture]
        return False
    return _assign(state, chain, 0, leaves, then)


def _agrees(chain: Chain, total: float, eps: float, constants: tuple[Any, ...]) -> bool:
    if chain.number == chain.identity:
        # 1e-12 is not zero, and +c and -c do not cancel in floating point: each constant must change nothing itself.
        return all(item[0] == chain.identity for item in constants)
    allowed = chain.rtol if chain.rtol is not None else max(RTOL, eps)
    most = CANCELS * abs(chain.number)
    if len(constants) > 1 and chain.family is SUM and any(abs(item[0]) > most for item in constants):
        return False  # large constants that nearly cancel take digits away from what is added between them
    return abs(total - chain.number) <= allowed * abs(chain.number)


def _is_float(state: State, chain: Chain, leaves: tuple[tuple[str, int], ...], divides: bool, constants: int) -> bool:
    """Division is no multiplication in integers; sums and products wrap the same way in any order."""
    if not divides and all(sign > 0 for _, sign in leaves):
        return True
    if chain.is_division and len(leaves) + constants == 2 and state.made[chain.key].op == "Div":
        return True
    types = state.index.types
    if any(types.is_float(state.scope, name) for name, _ in leaves):
        return True
    return state.missed(chain.where, f"{leaves[0][0]!r} is not known to hold floats, and integers divide differently")


def _keeps_rank(state: State, chain: Chain, leaves: tuple[tuple[str, int], ...], rank: int) -> bool:
    """A constant of shape [1] must not raise the rank of the result."""
    ranks = [found for found in (state.rank(name) for name, _ in leaves) if found is not None]
    if ranks and max(ranks) >= rank:
        return True
    why = "it would raise the rank of the result" if ranks else "whether it raises the rank of the result is unknown"
    return state.missed(chain.where, f"a constant in {_spelled(chain)} has rank {rank}: {why}")


def _assign(state: State, chain: Chain, position: int, leaves: Sequence[tuple[str, int]], then: Next) -> bool:
    """Give the operands leaves one by one, most constrained operand first, with backtracking."""
    if position == len(chain.terms):
        return then()
    state.steps += 1
    if state.steps > STEP_LIMIT:
        return state.missed(chain.where, f"gave up after {STEP_LIMIT} steps; the chain is too ambiguous")
    term = chain.terms[position]
    if position + 1 == len(chain.terms) and len(leaves) == 1 and term.heads is None:
        name, sign = leaves[0]
        return sign == term.sign and term.matcher(state, name, then)
    tried: set[str] = set()
    fitting = False
    for place, (name, sign) in enumerate(leaves):
        if sign != term.sign or name in tried or (term.heads is not None and not _made_by(state, name, term.heads)):
            continue
        fitting = True
        tried.add(name)
        rest = (*leaves[:place], *leaves[place + 1 :])
        if term.matcher(state, name, partial(_assign, state, chain, position + 1, rest, then)):
            return True
    if not fitting and state.trace is not None:
        found = " and ".join(state.found(name) for name, _ in leaves)
        state.missed(chain.where, f"wanted {term.label} in {_spelled(chain)}, found {found}")
    return False


def _made_by(state: State, name: str, ops: frozenset[str]) -> bool:
    node = state.producers.get(name)
    if node is None:
        return False
    return node.op in ops or (node.op in TRANSPARENT and _producer(state, name, ops, []) is not None)


def _spelled(chain: Chain) -> str:
    return "a product" if chain.family is PRODUCT else "a sum"


def ordered(terms: Iterator[Term]) -> tuple[Term, ...]:
    """Operands that few nodes can fill first, plain variables last."""
    return tuple(sorted(terms, key=lambda term: (term.heads is None, len(term.heads or ()))))
