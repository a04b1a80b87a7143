"""Steps said as words of the vocabulary: x · x and Pow(x, 2) are both `g.square(x)`, so a form reads as its formula."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from surgeon.learning.terms import Fixed, Hole, Result, Term, Word, below, key_of, rebuilt, walk

_OVER_AXES = {"ReduceMean": "mean_over", "ReduceSum": "sum_over", "ReduceMax": "maximum_over"}


def worded(roots: Sequence[Term]) -> tuple[Term, ...]:
    """The terms with words in the place of steps that spell them out; a word swallows only what nothing else reads."""
    found = tuple(roots)
    for say in (_squares, _over_axes, _roots, _over_roots, _centred):
        uses = Counter(key_of(item) for term in walk(found) for item in below(term))
        uses.update(key_of(root) for root in found)
        once = {key for key, count in uses.items() if count == 1}
        found = _changed(found, say, once)
    return found


def _changed(roots: tuple[Term, ...], say: Callable[[Term, set[int]], Term], once: set[int]) -> tuple[Term, ...]:
    """The terms with one kind of word said; `once` follows the terms as they are rebuilt."""
    kept: set[int] = set()
    made: list[Term] = []  # keeps the ids in `kept` from being given again

    def change(old: Term, term: Term) -> Term:
        new = say(term, kept)
        made.append(new)
        if key_of(old) in once:
            kept.add(key_of(new))
        return new

    return rebuilt(roots, change)


def _step(term: Any, op: str, inputs: int) -> tuple[Term, ...] | None:
    """The inputs of a step of ai.onnx at its defaults, or None for anything else."""
    if not isinstance(term, Result) or (term.step.domain, term.step.op) != ("", op) or term.step.attributes:
        return None
    found = [item for item in term.step.inputs if item is not None]
    return tuple(found) if len(found) == len(term.step.inputs) == inputs else None


def _is_number(term: Any, number: float) -> bool:
    return isinstance(term, Fixed) and term.array.size == 1 and float(term.array.reshape(-1)[0]) == number


def _squares(term: Term, _: set[int]) -> Term:
    """x² and 1/√x as a power or a product."""
    power, product = _step(term, "Pow", 2), _step(term, "Mul", 2)
    if power is not None and _is_number(power[1], 2):
        return Word("square", power[:1])
    if power is not None and _is_number(power[1], -0.5):
        return Word("rsqrt", power[:1])
    if product is not None and product[0] is product[1]:
        return Word("square", product[:1])
    return term


def _over_axes(term: Term, _: set[int]) -> Term:
    """Means, sums and maxima over axes, which stay with size 1."""
    if not isinstance(term, Result) or term.step.domain or term.step.op not in _OVER_AXES:
        return term
    step = term.step
    axes = step.attributes.get("axes", step.inputs[1] if len(step.inputs) > 1 else None)
    if axes is None or set(step.attributes) - {"axes"} or not isinstance(axes, (list, Fixed, Hole)):
        return term
    if isinstance(axes, Fixed):
        axes = axes.array.reshape(-1).tolist()
    if axes == [-1] and step.op == "ReduceMean":
        return Word("mean_last", step.inputs[:1])
    return Word(_OVER_AXES[step.op], (step.inputs[0], axes))


def _roots(term: Term, once: set[int]) -> Term:
    """1/√x."""
    quotient, inverse = _step(term, "Div", 2), _step(term, "Reciprocal", 1)
    below_ = inverse[0] if inverse is not None else None
    if quotient is not None and _is_number(quotient[0], 1):
        below_ = quotient[1]
    root = _step(below_, "Sqrt", 1) if below_ is not None and key_of(below_) in once else None
    return Word("rsqrt", root) if root is not None else term


def _over_roots(term: Term, once: set[int]) -> Term:
    """x/√v, divided by a root or multiplied by the reciprocal of one."""
    quotient, product = _step(term, "Div", 2), _step(term, "Mul", 2)
    if quotient is not None and key_of(quotient[1]) in once:
        root = _step(quotient[1], "Sqrt", 1)
        if root is not None:
            return Word("over_root", (quotient[0], root[0]))
    for place, factor in enumerate(product or ()):
        if isinstance(factor, Word) and factor.name == "rsqrt" and key_of(factor) in once and product is not None:
            return Word("over_root", (product[1 - place], factor.arguments[0]))
    return term


def _centred(term: Term, once: set[int]) -> Term:
    """x less its mean."""
    difference = _step(term, "Sub", 2)
    if difference is None or not isinstance(difference[1], Word) or key_of(difference[1]) not in once:
        return term
    mean = difference[1]
    if mean.name not in ("mean_last", "mean_over") or mean.arguments[0] is not difference[0]:
        return term
    return Word("centred", (difference[0], [-1] if mean.name == "mean_last" else mean.arguments[1]))
