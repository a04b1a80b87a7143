"""The letters of an Einsum of one or two factors: what each axis is to a product of matrices."""

from typing import NamedTuple

from surgeon import Captures, Tensor, dims, require

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Product(Captures):
    """Two factors, and the letters of their axes and of the result's."""

    a: Tensor = dims("...")
    b: Tensor = dims("...")
    equation: str


class Alone(Captures):
    """One factor, and the letters of its axes and of the result's."""

    a: Tensor = dims("...")
    equation: str


def letters_of(m: Alone) -> tuple[str, str]:
    """A letter for each axis of the factor and of the result, also where the equation has an ellipsis."""
    have, arrow, want = m.equation.replace(" ", "").partition("->")
    require(arrow != "", "the equation does not name the result's axes")
    unused = "".join(letter for letter in LETTERS if letter not in m.equation)
    others = unused[: m.a.rank + 3 - len(have)] if "..." in have else ""
    have, want = have.replace("...", others), want.replace("...", others)
    require(all(len(set(term)) == len(term) for term in (have, want)), "an axis is named twice: a diagonal")
    require(len(have) == m.a.rank and set(want) <= set(have), "the equation does not fit the factor")
    return have, want


class Terms(NamedTuple):
    """A letter for each axis of two factors, and of what is made of them."""

    left: str
    right: str
    made: str


def terms_of(m: Product) -> Terms:
    """The letters of an equation, also where it has an ellipsis."""
    sides, _, made = m.equation.replace(" ", "").partition("->")
    left, right = sides.split(",")
    require("->" in m.equation, "the equation does not name the result's axes")
    unused = [letter for letter in LETTERS if letter not in m.equation]
    counts = [x.rank + 3 - len(side) if "..." in side else 0 for x, side in ((m.a, left), (m.b, right))]
    require(len({count for count in counts if count}) < 2, "the ellipsis stands for other axes in each factor")
    others = ["".join(unused[:count]) for count in counts]
    whole = Terms(left.replace("...", others[0]), right.replace("...", others[1]), max(*others, key=len))
    whole = whole._replace(made=made.replace("...", whole.made))
    require(all(len(set(term)) == len(term) for term in whole), "an axis is named twice: a diagonal")
    require((len(whole.left), len(whole.right)) == (m.a.rank, m.b.rank), "the equation does not fit the factors")
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
