"""The algebra of sizes: whatever the normal form does, it evaluates as Python's integers do."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surgeon.errors import SurgeonError
from surgeon.shapes.algebra.size_expressions import (
    Expr,
    Size,
    SizeError,
    at_least,
    evaluate,
    exact_quotient,
    floor_div,
    lower_bound,
    parse_size,
    product,
    size_max,
    size_min,
    substitute,
    symbol,
    symbols,
)

NAMES = ("b", "p", "s")
B, P, S = map(symbol, NAMES)
sizes = st.fixed_dictionaries({name: st.integers(1, 50) for name in NAMES})

Term = tuple[Size, Callable[[dict[str, int]], int]]


def _combined(parts: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    """Pairs of a size and the same arithmetic on plain integers."""
    pairs = st.tuples(parts, parts)
    positive = st.integers(1, 12)
    return st.one_of(
        pairs.map(lambda p: (p[0][0] + p[1][0], lambda n: p[0][1](n) + p[1][1](n))),
        pairs.map(lambda p: (p[0][0] - p[1][0], lambda n: p[0][1](n) - p[1][1](n))),
        pairs.map(lambda p: (p[0][0] * p[1][0], lambda n: p[0][1](n) * p[1][1](n))),
        pairs.map(lambda p: (size_max(p[0][0], p[1][0]), lambda n: max(p[0][1](n), p[1][1](n)))),
        pairs.map(lambda p: (size_min(p[0][0], p[1][0]), lambda n: min(p[0][1](n), p[1][1](n)))),
        st.tuples(parts, positive).map(lambda p: (floor_div(p[0][0], p[1]), lambda n: p[0][1](n) // p[1])),
        st.tuples(parts, positive).map(lambda p: (p[0][0] % p[1], lambda n: p[0][1](n) % p[1])),
        parts.map(lambda p: (floor_div(p[0], B), lambda n: p[1](n) // n["b"])),
        parts.map(lambda p: (-p[0], lambda n: -p[1](n))),
    )


leaves: st.SearchStrategy[Term] = st.one_of(
    st.integers(-8, 64).map(lambda number: (number, lambda _: number)),
    st.sampled_from(NAMES).map(lambda name: (symbol(name), lambda n: n[name])),
)
terms = st.recursive(leaves, _combined, max_leaves=8)


@given(terms, sizes)
def test_a_size_evaluates_as_integers_do(term: Term, numbers: dict[str, int]) -> None:
    """Sums, products, quotients, remainders and extremes in any nesting."""
    size, wanted = term
    assert evaluate(size, numbers) == wanted(numbers)


@given(terms, sizes)
def test_what_is_printed_reads_back(term: Term, numbers: dict[str, int]) -> None:
    """The text of a size parses to a size that evaluates alike."""
    size, wanted = term
    assert evaluate(parse_size(str(size)), numbers) == wanted(numbers)


@given(terms, terms, sizes)
def test_bounds_hold(one: Term, other: Term, numbers: dict[str, int]) -> None:
    """A lower bound is never above the value, and what is said to be at least as large is."""
    least = lower_bound(one[0])
    assert least is None or least <= one[1](numbers)
    assert not at_least(one[0], other[0]) or one[1](numbers) >= other[1](numbers)


@given(terms, terms, sizes)
def test_substitution_is_evaluation_in_two_steps(term: Term, other: Term, numbers: dict[str, int]) -> None:
    """A symbol replaced by a size stands for what that size is."""
    inner = {**numbers, "s": max(other[1](numbers), 1)}
    assert evaluate(substitute(term[0], {"s": size_max(other[0], 1)}), numbers) == term[1](inner)


@given(terms, terms, terms)
def test_equal_polynomials_are_the_same(one: Term, two: Term, three: Term) -> None:
    """Commutative, associative and distributive: one normal form, one hash."""
    a, b, c = one[0], two[0], three[0]
    for left, right in ((a + b, b + a), (a * b, b * a), (a + (b + c), (a + b) + c), (a * (b + c), a * b + a * c)):
        assert left == right
        assert hash(left) == hash(right)
    assert a - a == 0
    assert size_max(a, b) == size_max(b, a)


@given(terms, terms)
def test_a_product_divides_by_its_factor(one: Term, two: Term) -> None:
    """(a · b) / b is a, also where b is a sum."""
    a, b = one[0], two[0]
    if b != 0:
        assert exact_quotient(a * b, b) == a
        assert floor_div(a * b, b) == a


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ((12 * S * 64) // 64, "12*s"),
        ((B * (S + P) * 768) // (B * (P + S) * 12), "64"),
        (2 * S + 1, "2*s + 1"),
        (1 - S, "-s + 1"),
        (S * S * B - B, "b*s**2 - b"),
        ((S + 1) // 2, "floor((s + 1)/2)"),
        (((S + 1) // 2 + 3) // 2, "floor((s + 3)/4) + 1"),
        ((4 * S + 6) // 4, "s + 1"),
        ((6 * S) // 4, "s + floor(s/2)"),
        ((B * S) // (2 * B), "floor(s/2)"),
        (S // P, "floor(s/p)"),
        (S % 2, "s - 2*floor(s/2)"),
        ((4 * S) % 2, "0"),
        (size_max(S, 0), "s"),
        (size_max(S, S + 1, S - 4), "s + 1"),
        (size_max(0, S - 1), "max(0, s - 1)"),
        (size_min(size_max(0, S - 1), S), "max(0, s - 1)"),
        (size_min(S, 1024), "min(1024, s)"),
        (size_max(S, size_min(S, 1024)), "s"),
        (size_min(size_min(S, P), P, S), "min(p, s)"),
        (product([]), "1"),
    ],
)
def test_normal_forms(size: Size, text: str) -> None:
    """What simplifies, and how it prints."""
    assert str(size) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("batch", symbol("batch")),
        ("12", 12),
        ("p + s", P + S),
        ("2*s", 2 * S),
        ("s + 1 - 1", S),
        ("floor(s/2)", S // 2),
        ("((s - 1)//2) + 1", (S - 1) // 2 + 1),
        ("s % 2", S % 2),
        ("Max(1, s)", size_max(1, S)),
        ("min(s, 2*p, 8)", size_min(S, 2 * P, 8)),
        ("s**2", S * S),
        ("-Max(0, 64 - s) + 64", size_min(64, S)),
        ("1 - Max(0, 1 - s)", size_min(1, S)),
        ("s - Max(p, 2*p - s)", size_min(S - P, 2 * S - 2 * P)),
        ("s - 2*Max(2, p)", S - 2 * size_max(2, P)),
        ("seq-len", symbol("seq-len")),
        ("seq-len + 1", symbol("seq-len") + 1),
        ("past.key + s", symbol("past.key") + S),
        ("unk__3", symbol("unk__3")),
        ("a +", symbol("a +")),
        ("f(s)", symbol("f(s)")),
        ("s0/0", symbol("s0/0")),
        ("s**s", symbol("s**s")),
        ("1.5*s", symbol("1.5*s")),
        ("Mul_output_0_dim_1", symbol("Mul_output_0_dim_1")),
    ],
)
def test_parse(text: str, size: Size) -> None:
    """A dim_param that is arithmetic is read as such; any other is one symbol."""
    assert parse_size(text) == size


def test_constants_are_plain_ints() -> None:
    """Nothing that has a number for its value is an Expr."""
    for size in (S - S, S * 0, S // S, size_max(3, 5), floor_div(7, 2), (2 * S) % 2, exact_quotient(4 * S, 2 * S)):
        assert type(size) is int


def test_symbols_are_found_inside_of_calls() -> None:
    """Every name that a value is needed for."""
    assert symbols(size_max(S // P, 2 * B)) == {"s", "p", "b"}
    assert symbols(7) == frozenset()


def test_sizes_are_values() -> None:
    """Sizes work as keys, and differ from numbers and texts."""
    assert {S + 1: "a", 1 + S: "b"} == {S + 1: "b"}
    assert S != 1
    assert S != "s"
    assert repr(S + 1) == "s + 1"


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda: evaluate(S + P, {"s": 1}), "'p' has no value"),
        (lambda: floor_div(S, 0), "divided by 0"),
        (lambda: evaluate(S // P, {"s": 1, "p": 0}), "divided by 0"),
        (lambda: product([S + 1] * 40), "size expression is too large"),
        (lambda: product([S * 2**40] * 2), "size expression is too large"),
        (lambda: product([size_max(symbol(f"a{i}"), P) + 1 for i in range(9)]), "size expression is too large"),
    ],
)  # fmt: skip
def test_errors(compute: Callable[[], Any], message: str) -> None:
    """A missing symbol, a division by 0, and growth without end are SizeErrors."""
    with pytest.raises(SizeError, match=message) as raised:
        compute()
    assert isinstance(raised.value, SurgeonError)


def test_exprs_can_be_sent_to_another_process() -> None:
    """Pickled and back they are equal."""
    size = size_max(S // 2, P) + 3
    assert isinstance(size, Expr)
    assert pickle.loads(pickle.dumps(size)) == size
