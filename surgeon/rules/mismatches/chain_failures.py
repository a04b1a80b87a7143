"""Failures of a sum or product in words; the functions in REPORTED are as those of `node_failures`."""

from collections.abc import Callable
from typing import Any

from surgeon.ir.scope import Node, split_op
from surgeon.ops.schemas.attribute_values import dtype_word
from surgeon.rules.matching.associative.chain import Chain, ChainOperand, rank_objection
from surgeon.rules.matching.associative.chain_matcher import (
    ChainFault,
    Constants,
    ConstantTotal,
    Leaves,
    captured_number,
)
from surgeon.rules.matching.associative.flattening import PRODUCT, combine
from surgeon.rules.matching.match_state import MatchState
from surgeon.rules.mismatches.mismatch import MatchFailure
from surgeon.rules.mismatches.model_fixes import suggest_constant, suggest_domain, suggest_value
from surgeon.rules.mismatches.node_failures import (
    describe_tensor,
    describe_tensor_parts,
    format_number,
    other_number,
    value_label,
)
from surgeon.shapes.index_shapes import shapes_of
from surgeon.text import format_count


def spelled(chain: Chain) -> str:
    return "a product" if chain.family is PRODUCT else "a sum"


def not_a_chain(state: MatchState, chain: Chain, name: str) -> MatchFailure:
    """The tensor is not a sum or product."""
    return MatchFailure("op", spelled(chain), *describe_tensor_parts(state, name), at=_made_by(state, name))


def _made_by(state: MatchState, name: str) -> str:
    """The label of a tensor's producer; empty for a constant or an input."""
    node = state.producers.get(name)
    return "" if node is None or node.op == "Constant" else node.label


def namesake(state: MatchState, chain: Chain, node: Node) -> MatchFailure:
    """A node has an op of the chain, but another domain."""
    domain, op = split_op(node.op)
    wanted, seen = f"{op} in {spelled(chain)}", f"at {node.label!r}"
    message = f"expected {wanted}, found {node.op} {seen} (domain {domain})"
    return MatchFailure(
        "domain", wanted, node.op, seen=seen, message=message, change=suggest_domain(node, ""), op=op, at=node.label
    )


def number_of_operands(state: MatchState, chain: Chain, leaves: Leaves) -> MatchFailure:
    wanted = f"{format_count(len(chain.terms), 'operand')} in {spelled(chain)}"
    found = ", ".join(describe_tensor(state, name) for name, _ in leaves) or "none"
    return MatchFailure("operand", wanted, str(len(leaves)), seen="", message=f"expected {wanted}, found {found}")


def no_operand(state: MatchState, chain: Chain, term: ChainOperand, leaves: Leaves) -> MatchFailure:
    """No leaf fits an operand."""
    label, sign = value_label(term.value), term.sign
    how = ("multiplied", "divided by") if chain.family is PRODUCT else ("added", "subtracted")
    others = [own != sign for _, own in leaves]
    wanted = f"{label} {how[sign < 0]} in {spelled(chain)}" if any(others) else f"{label} in {spelled(chain)}"
    found = [describe_tensor_parts(state, name) for name, _ in leaves]
    seen = [" ".join(filter(None, item)) for item in found]
    seen = [f"{item}, {how[sign > 0]}" if is_other else item for item, is_other in zip(seen, others, strict=True)]
    message = f"expected {wanted}, found {' and '.join(seen)}"
    at = next((label for label in (_made_by(state, name) for name, _ in leaves) if label), "")
    return MatchFailure("operand", wanted, " and ".join(what for what, _ in found), seen="", message=message, at=at)


def not_fixed(state: MatchState, chain: Chain, name: str) -> MatchFailure:
    """A leaf takes the place of the constant."""
    wanted = f"the constant {chain.number:.10g} in {spelled(chain)}"
    return MatchFailure(
        "operand", wanted, *describe_tensor_parts(state, name), change=suggest_constant(state, name), at=name
    )


def chain_fault(
    state: MatchState, wrong: ChainFault, chain: Chain, leaves: Leaves, constants: Constants, held: Any
) -> MatchFailure:
    """A fault of a cut chain.  held: the value that its capture is bound to."""
    total = ConstantTotal.of(chain, constants)
    words: dict[ChainFault, Callable[[], MatchFailure]] = {
        "number": lambda: _other_number(state, chain, constants),
        "none": lambda: MatchFailure("operand", f"a constant for {chain.capture!r} in {spelled(chain)}", "none"),
        "dtype": lambda: _not_float(state, leaves[0][0]),
        "legacy": lambda: MatchFailure(
            "opset",
            "opset 7",
            "an op with an axis",
            message="before opset 7, an op with an axis broadcasts along that axis",
        ),
        "rank": lambda: _raised(chain, total.rank, rank_objection(state, leaves, total.rank)),
        "held": lambda: other_number(chain.capture or "", str(held[0]), str(captured_number(chain, total))),
    }
    return words[wrong]()


def _other_number(state: MatchState, chain: Chain, constants: Constants) -> MatchFailure:
    """The constants of a chain have another total; if there is only one, the sentence says its right value."""
    named = [item for item in constants if item.name]
    wanted = f"the constant {chain.number:.10g} in {spelled(chain)}"
    found = ", ".join(format_number(item.number, item.eps) for item in named) or "none"
    if len(named) != 1:
        return MatchFailure("value" if named else "operand", wanted, found)
    right, name = _right(chain, constants, named[0].sign), named[0].name
    if right != right:
        return MatchFailure("value", wanted, found, f"({name!r})")
    if named[0].sign < 0:
        wanted = f"the constant {right:.10g} to {'divide by' if chain.family is PRODUCT else 'subtract'}"
    change = suggest_value(state, name, f"{right:.10g}")
    return MatchFailure("value", wanted, found, f"({name!r})", change=change, at=name)


def _right(chain: Chain, constants: Constants, sign: int) -> float:
    """The right value of the only named constant of a chain.  sign: -1 for a subtrahend or divisor."""
    rest = chain.neutral
    for item in constants:
        if not item.name:
            rest = combine(chain.family, rest, item.number, item.sign)
    right = combine(chain.family, chain.number, rest, -1)
    return right if sign > 0 else combine(chain.family, chain.neutral, right, -1)


def _not_float(state: MatchState, name: str) -> MatchFailure:
    dtype = shapes_of(state.index).dtype(state.scope, name)
    found = "an unknown dtype" if dtype is None else dtype_word(dtype)
    known = f"the dtype of {name!r} is unknown" if dtype is None else f"{name!r} has dtype {found}"
    message = f"{known}, and integers divide differently"
    return MatchFailure("dtype", "floats", found, seen=f"in {name!r}", message=message, at=name)


def _raised(chain: Chain, rank: int, why: str | None) -> MatchFailure:
    message = f"a constant in {spelled(chain)} has rank {rank}: {why}"
    return MatchFailure(
        "rank", "a constant that does not raise the rank", f"one of rank {rank}", seen="", message=message
    )


REPORTED = (chain_fault, namesake, no_operand, not_a_chain, not_fixed, number_of_operands)
