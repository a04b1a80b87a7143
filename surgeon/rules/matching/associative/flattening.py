"""A sum or product of a pattern as a chain: a multiset of signed operands, one number, and a capture of it."""

from dataclasses import dataclass

from surgeon.ops.traits.trait_lookup import ops_with, traits_of
from surgeon.rules.matching.pattern import LiteralValue, NodeOutput, Value, Var

SUM = ops_with("family", "sum")
# Negation is also a link of a product, as a factor of -1.
NEGATIONS = SUM & ops_with("signs", (-1,))
PRODUCT = ops_with("family", "product") | NEGATIONS
FAMILY = {**dict.fromkeys(SUM, SUM), **dict.fromkeys(PRODUCT, PRODUCT)}  # a negation begins a product
OPERAND_SIGNS = {name: traits_of(name).algebra.signs for name in FAMILY}  # -1 for a subtrahend or divisor
DIVISIONS = ops_with("family", "product") & ops_with("signs", (1, -1))


@dataclass(slots=True)
class FlatChain:
    """A chain of a pattern before its operands are compiled."""

    family: frozenset[str]
    """Ops that it consists of."""
    operands: list[tuple[Value, int]]
    """Value and sign of each operand."""
    neutral: float
    """1 for a product, 0 for a sum."""
    number: float
    """Its constant part."""
    rtol: float | None
    """Relative tolerance of `number`; None: the default of its dtype."""
    capture: Var | None
    """Variable that binds the number instead."""
    is_division: bool = False
    """Whether it is a single Div."""
    size: int = 0
    """Number of nodes that the pattern writes it in."""


def flatten(root: NodeOutput, uses: dict[int, int]) -> FlatChain | None:
    """The chain of a pattern value; None if it is not a sum or product."""
    operation = root.operation
    family = FAMILY.get(operation.op) if operation.domain == "" else None
    if family is None or operation.rest is not None:
        return None
    neutral = 1.0 if family is PRODUCT else 0.0
    flat = FlatChain(family, [], neutral, number=neutral, rtol=None, capture=None)
    _spread(root, 1, flat, uses=uses, is_root=True)
    nested = (isinstance(item, NodeOutput) and item.operation.op in family for item in operation.inputs)
    flat.is_division = operation.op in DIVISIONS and not any(nested)
    return flat


def _spread(value: Value, sign: int, flat: FlatChain, uses: dict[int, int], is_root: bool) -> None:
    if isinstance(value, NodeOutput) and value.operation.domain == "" and value.operation.op in flat.family:
        operation = value.operation
        if is_root or uses[id(operation)] == 1:
            flat.size += 1
            if operation.op in NEGATIONS and flat.family is PRODUCT:
                _fold(flat, -1.0, 1)
            for operand, operand_sign in zip(operation.inputs, _signs(operation.op, flat.family), strict=False):
                if operand is not None:
                    _spread(operand, sign * operand_sign, flat, uses=uses, is_root=False)
            return
    if isinstance(value, LiteralValue) and value.value.size == 1 and value.value.dtype.kind in "biuf":
        _fold(flat, float(value.value.reshape(-1)[0]), sign)
        flat.rtol = value.rtol if value.rtol is not None else flat.rtol
    elif isinstance(value, Var) and value.kind == "scalar" and flat.capture is None and sign == 1:
        flat.capture = value
    else:
        flat.operands.append((value, sign))


def _fold(flat: FlatChain, number: float, sign: int) -> None:
    flat.number = combine(flat.family, flat.number, number, sign)


def combine(family: frozenset[str], total: float, number: float, sign: int) -> float:
    """The total of a chain with one more constant."""
    if family is SUM:
        return total + sign * number
    if sign > 0:
        return total * number
    return total / number if number else float("nan")


def _signs(op: str, family: frozenset[str]) -> tuple[int, ...]:
    """The sign of each operand of a node in a chain."""
    return (1,) if family is PRODUCT and op in NEGATIONS else OPERAND_SIGNS[op]
