"""Einsum of two factors as the product of matrices that it mostly is."""

from math import prod
from typing import Any, NamedTuple

from surgeon import Graph, Tensor, require, rule

KINDS = ("float16", "bfloat16", "float32", "float64", "int32", "int64", "uint32", "uint64")  # that MatMul takes
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
Sizes = dict[str, Any]


class Terms(NamedTuple):
    """A letter for each axis of two factors, and of what is made of them."""

    left: str
    right: str
    made: str


def terms_of(equation: str, a: Tensor, b: Tensor) -> Terms:
    """The letters of an equation, also where it has an ellipsis."""
    sides, _, made = equation.replace(" ", "").partition("->")
    left, right = sides.split(",")
    require(a.rank is not None and b.rank is not None, "the rank of a factor is unknown")
    require("->" in equation, "the equation does not name the result's axes")
    unused = [letter for letter in LETTERS if letter not in equation]
    counts = [x.rank + 3 - len(side) if "..." in side else 0 for x, side in ((a, left), (b, right))]
    require(len({count for count in counts if count}) < 2, "the ellipsis stands for other axes in each factor")
    others = ["".join(unused[:count]) for count in counts]
    whole = Terms(left.replace("...", others[0]), right.replace("...", others[1]), max(*others, key=len))
    whole = whole._replace(made=made.replace("...", whole.made))
    require(all(len(set(term)) == len(term) for term in whole), "an axis is named twice: a diagonal")
    require((len(whole.left), len(whole.right)) == (a.rank, b.rank), "the equation does not fit the factors")
    return whole


class Parts(NamedTuple):
    """The axes of a product: of the batch, of the rows (the first factor's), of the sum, of the columns."""

    batch: str
    rows: str
    summed: str
    columns: str


def parts_of(terms: Terms) -> Parts:
    """What each letter is to the product.  Refuses what no product of matrices is."""
    both = [letter for letter in terms.left if letter in terms.right]
    alone = set(terms.left + terms.right) - set(both)
    require(alone <= set(terms.made), "an axis of one factor alone is summed")
    require(set(terms.made) <= {*both, *alone}, "the equation names an axis of the result that no factor has")
    summed = "".join(letter for letter in both if letter not in terms.made)
    require(summed != "", "nothing is summed: it is no product of matrices")
    batch, rows, columns = (
        "".join(letter for letter in terms.made if letter in where)
        for where in (both, alone & set(terms.left), alone & set(terms.right))
    )
    return Parts(batch, rows, summed, columns)


def ordered(g: Graph, x: Tensor, have: str, want: str) -> Tensor:
    """x with its axes in another order."""
    return x if have == want else g.transpose(x, perm=[have.index(letter) for letter in want])


def merged(letters: str, sizes: Sizes) -> int:
    """The size of several axes as one."""
    fixed = all(isinstance(sizes[letter], int) and sizes[letter] for letter in letters)
    require(fixed, "several axes of a factor would be one, and their sizes are not fixed")
    return prod(sizes[letter] for letter in letters)


def left_of(g: Graph, x: Tensor, have: str, parts: Parts, sizes: Sizes) -> Tensor:
    """The first factor: its batch, rows, and what is summed."""
    ahead = parts.batch + parts.rows
    x = ordered(g, x, have, ahead + parts.summed)
    x = x if len(parts.summed) == 1 else g.reshape(x, [0] * len(ahead) + [merged(parts.summed, sizes)])
    return x if parts.rows else g.unsqueeze(x, [len(ahead)])


def right_of(g: Graph, x: Tensor, have: str, parts: Parts, sizes: Sizes) -> Tensor:
    """The second factor: its batch, an axis for each of the first's rows but one, what is summed, and columns."""
    ahead = len(parts.batch)
    x = ordered(g, x, have, parts.batch + parts.summed + parts.columns)
    if len(parts.summed) > 1 or len(parts.columns) > 1:
        height = 0 if len(parts.summed) == 1 else merged(parts.summed, sizes)
        x = g.reshape(x, [0] * ahead + [height] + [merged(parts.columns, sizes)] * bool(parts.columns))
    x = x if parts.columns else g.unsqueeze(x, [ahead + 1])
    more = len(parts.rows) - 1 if parts.batch else 0
    return g.unsqueeze(x, list(range(ahead, ahead + more))) if more > 0 else x


def product(g: Graph, a: Tensor, b: Tensor, equation: str) -> Any:
    """Einsum of two factors."""
    return g.einsum(a, b, equation=equation)


@rule(patterns=[product], target="any")
def einsum(g: Graph, a: Tensor, b: Tensor, equation: str) -> Tensor:
    """Write an Einsum of two factors as a MatMul, with the transposes and reshapes that it needs.

    What: sums of products in which each axis is one of the batch, of rows, of columns, or summed, as in
    bhid,bhjd->bhij.  No axis is named twice in a factor, and none is summed in one factor alone.
    Numerics: rounding only.
    """
    require(str(a.dtype) in KINDS, f"MatMul does not multiply {a.dtype}")
    terms = terms_of(equation, a, b)
    if terms.made and terms.made[-1] not in terms.right:
        a, b, terms = b, a, terms._replace(left=terms.right, right=terms.left)
    parts = parts_of(terms)
    require(a.shape is not None and b.shape is not None, "the shape of a factor is unknown")
    sizes, others = dict(zip(terms.left, a.shape, strict=True)), dict(zip(terms.right, b.shape, strict=True))
    same = all(sizes[letter] is not None and sizes[letter] == others[letter] for letter in parts.summed)
    require(same, "the sizes of what is summed are unknown or differ")
    made = g.matmul(left_of(g, a, terms.left, parts, sizes), right_of(g, b, terms.right, parts, others))
    ahead = parts.batch + parts.rows
    if len(parts.columns) > 1:
        made = g.reshape(made, [0] * max(len(ahead), len(parts.batch) + 1) + [others[one] for one in parts.columns])
    gone = ([] if parts.rows else [len(ahead)]) + ([] if parts.columns else [max(len(ahead), len(parts.batch) + 1)])
    made = g.squeeze(made, gone) if gone else made
    return ordered(g, made, ahead + parts.columns, terms.made)
