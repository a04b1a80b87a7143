"""What is said of a tensor where a sum or product was wanted and the model has another one."""

from collections.abc import Sequence
from typing import Any

from surgeon.indexing.scope import Node, split_op
from surgeon.matching.advice import fixed, other_domain, other_value
from surgeon.matching.chain import Chain, Folded, Term, spelled
from surgeon.matching.flatten import PRODUCT, combine
from surgeon.matching.state import STEP_LIMIT, State, shown
from surgeon.matching.trace import Finding, Kind
from surgeon.ops.attributes import dtype_word
from surgeon.shapes.indexed import shapes_of


def _finding(
    kind: Kind, chain: Chain, wanted: str, found: tuple[str, str], told: str = "", change: str = "", at: str = ""
) -> Finding:
    return Finding(kind, chain.where, wanted, *found, told, change, chain.op, at)


def no_chain(state: State, chain: Chain, name: str) -> Finding:
    """The tensor is no sum or product."""
    return _finding("op", chain, spelled(chain), state.sighting(name))


def namesake(chain: Chain, node: Node) -> Finding:
    """A node of an op of the chain, but of another domain."""
    domain, op = split_op(node.op)
    spot = f"at {node.label!r}"
    told = f"wanted {op} in {spelled(chain)}, found {node.op} {spot}, whose domain is {domain}"
    wanted, change = f"{op} in {spelled(chain)}", other_domain(node, "")
    return Finding("domain", chain.where, wanted, node.op, spot, told, change, op, node.label)


def gave_up(chain: Chain) -> Finding:
    told = f"gave up after {STEP_LIMIT} steps; the chain is too ambiguous"
    return _finding("limit", chain, "a chain of fewer operands", ("too many", ""), told)


def number_of_operands(state: State, chain: Chain, leaves: Sequence[tuple[str, int]]) -> Finding:
    wanted = f"{len(chain.terms)} operand{'s' * (len(chain.terms) != 1)} in {spelled(chain)}"
    found = ", ".join(state.found(name) for name, _ in leaves) or "none"
    return _finding("operand", chain, wanted, (str(len(leaves)), ""), f"wanted {wanted}, found {found}")


def no_operand(state: State, chain: Chain, term: Term, leaves: Sequence[tuple[str, int]]) -> Finding:
    wanted = f"{term.label} in {spelled(chain)}"
    found = [state.sighting(name) for name, _ in leaves]
    told = f"wanted {wanted}, found {' and '.join(' '.join(filter(None, item)) for item in found)}"
    return _finding("operand", chain, wanted, (" and ".join(what for what, _ in found), ""), told)


def other_number(state: State, chain: Chain, constants: tuple[Folded, ...]) -> Finding:
    """The constants of a chain come to another number; where there is one alone, it is told what it should be."""
    named = [item for item in constants if item.name]
    wanted = f"the constant {chain.number:.10g} in {spelled(chain)}"
    found = ", ".join(shown(item.number, item.eps) for item in named) or "none"
    if len(named) != 1:
        return _finding("value" if named else "operand", chain, wanted, (found, ""))
    right, name = _right(chain, constants, named[0].sign), named[0].name
    if right != right:
        return _finding("value", chain, wanted, (found, f"({name!r})"))
    if named[0].sign < 0:
        wanted = f"the constant {right:.10g} to {'divide by' if chain.family is PRODUCT else 'subtract'}"
    return _finding("value", chain, wanted, (found, f"({name!r})"), "", other_value(state, name, f"{right:.10g}"), name)


def _right(chain: Chain, constants: tuple[Folded, ...], sign: int) -> float:
    """What the one named constant of a chain should be.  sign: -1 where it divides or is subtracted."""
    rest = chain.identity
    for item in constants:
        if not item.name:
            rest = combine(chain.family, rest, item.number, item.sign)
    right = combine(chain.family, chain.number, rest, -1)
    return right if sign > 0 else combine(chain.family, chain.identity, right, -1)


def not_fixed(state: State, chain: Chain, name: str) -> Finding:
    """An operand stands where the constant should."""
    wanted = f"the constant {chain.number:.10g} in {spelled(chain)}"
    return _finding("operand", chain, wanted, state.sighting(name), "", fixed(state, name), name)


def no_number(chain: Chain) -> Finding:
    return _finding("operand", chain, f"a constant for {chain.capture!r} in {spelled(chain)}", ("none", ""))


def not_float(state: State, chain: Chain, leaves: Sequence[tuple[str, int]]) -> Finding:
    name = leaves[0][0]
    dtype = shapes_of(state.index).dtype(state.scope, name)
    found = "an unknown dtype" if dtype is None else dtype_word(dtype)
    known = "" if dtype is None else f" ({found})"
    told = f"{name!r} is not known to hold floats{known}, and integers divide differently"
    return _finding("dtype", chain, "floats", (found, f"in {name!r}"), told, "", name)


def legacy(chain: Chain) -> Finding:
    told = "before opset 7 an operation with an axis broadcasts along it"
    return _finding("opset", chain, f"opset {7}", ("an operation with an axis", ""), told)


def raised(chain: Chain, rank: int, why: str) -> Finding:
    told = f"a constant in {spelled(chain)} has rank {rank}: {why}"
    return _finding("rank", chain, "a constant that does not raise the rank", (f"one of rank {rank}", ""), told)


def held_already(chain: Chain, held: Any, found: Any) -> Finding:
    return _finding("value", chain, f"{chain.capture!r} to be {held} again", (str(found), ""))
