"""multiplicative_mask: scores multiplied by zeros and ones, what does not match and why."""

import pytest
from surgeon.patterns.attention.attention import masked_attention
from surgeon.patterns.attention_canonicalization.multiplicative_mask import multiplicative_mask

from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, 4, s, 8] q, float[b, 4, 8, 3] k, float[b, 4, 3, 8] v, bool[b, 1, 1, 3] c, float[b, 1, 1, 3] f"
CONSTANTS = (
    "float one = {1}, float high = {1e4}, float low = {-1e4}, float[1, 1, 3, 3] z = {1, 0, 0, 1, 1, 0, 1, 1, 1}, "
    "float[1, 1, 1, 3] half = {1, 0.5, 0}, int64[1] none = {0}, int64[1] two = {2}, int64[1] till = {1}"
)
SCORES = "a = MatMul(q, k)"
TAKEN = "w = Mul(a, m) i = Sub(one, m) j = Mul(i, high) x = Sub(w, j)"
ADDED = "w = Mul(m, a) i = Sub(one, m) j = Mul(i, low) x = Add(w, j)"
ROW = "m = Slice(z, none, till, two)"
SOFT, END = "y = Softmax<axis = -1>(x)", "o = Softmax<axis = -1>(x) y = MatMul(o, v)"


def graph(body, output="float[b, 4, s, 3] y"):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({INPUTS}) => ({output}) <{CONSTANTS}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(multiplicative_mask, "a part of a buffer, a number taken off, as GPT-1 has it",
         graph(f"{ROW} {SCORES} {TAKEN} {SOFT}")),
    Case(multiplicative_mask, "a number added", graph(f"{ROW} {SCORES} {ADDED} {SOFT}")),
    Case(multiplicative_mask, "a truth that is made a number", graph(f"m = Cast<to = 1>(c) {SCORES} {ADDED} {SOFT}")),
    Case(multiplicative_mask, "a mask that others read too", graph(
        f"m = Cast<to = 1>(c) {SCORES} {ADDED} {SOFT} n = Neg(m)", "float[b, 4, s, 3] y, float[b, 1, 1, 3] n")),
    Case(multiplicative_mask, "an input that is declared as a mask, as Megatron has it", assume=["f: mask"],
         model=graph(f"m = Slice(f, none, till, two) {SCORES} {TAKEN} {SOFT}")),
    Case([multiplicative_mask, masked_attention], "an attention", graph(
        f"{ROW} {SCORES} {TAKEN} {END}", "float[b, 4, s, 8] y")),
]
NEGATIVES = [
    Case(multiplicative_mask, "numbers that are given", why="other than 0 and 1",
         model=graph(f"m = Identity(f) {SCORES} {ADDED} {SOFT}")),
    Case(multiplicative_mask, "an input that is declared to be between 0 and 1", why="other than 0 and 1",
         model=graph(f"m = Identity(f) {SCORES} {ADDED} {SOFT}"), assume=["f: 0..1"]),
    Case(multiplicative_mask, "a number that is no truth", why="other than 0 and 1",
         model=graph(f"n = Cast<to = 7>(f) m = Cast<to = 1>(n) {SCORES} {ADDED} {SOFT}")),
    Case(multiplicative_mask, "a half", why="other than 0 and 1",
         model=graph(f"m = Identity(half) {SCORES} {TAKEN} {SOFT}")),
    Case(multiplicative_mask, "scores that another reads", why="",
         model=graph(f"{ROW} {SCORES} {TAKEN} {SOFT} n = Neg(w)", "float[b, 4, s, 3] y, float[b, 4, s, 3] n")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
