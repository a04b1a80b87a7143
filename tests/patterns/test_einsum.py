"""einsum: sums of products that are products of matrices, what does not match and why."""

import pytest
from onnx import TensorProto, helper
from surgeon.patterns.attention.attention import attention
from surgeon.patterns.linear_algebra.einsum import einsum, einsum_one_operand

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse


def graph(equation, a, b, y, kind="float", opset=17):
    header = f'<ir_version: 9, opset_import: ["" : {opset}]> g'
    return parse(
        f'{header} ({kind}[{a}] a, {kind}[{b}] b) => ({kind}[{y}] y) {{ y = Einsum<equation = "{equation}">(a, b) }}'
    )


def of_one(equation, a, y, kind="float", opset=17):
    header = f'<ir_version: 9, opset_import: ["" : {opset}]> g'
    return parse(f'{header} ({kind}[{a}] a) => ({kind}[{y}] y) {{ y = Einsum<equation = "{equation}">(a) }}')


CORE = (
    '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g '
    "(float[b, s, 4, 8] q, float[b, t, 4, 8] k, float[b, t, 4, 8] v) => (float[b, s, 4, 8] y) <float half = {0.35}> { "
    'p = Einsum<equation = "bqhd,bkhd->bhqk">(q, k) c = Mul(p, half) w = Softmax<axis = -1>(c) '
    'y = Einsum<equation = "bhqk,bkhd->bqhd">(w, v) }'
)
# fmt: off
FIRES = [
    Case(einsum_one_operand, "patches put together", of_one("nhwpqc->nchpwq", "n, h, w, 2, 2, 4", "n, 4, h, 2, w, 2")),
    Case(einsum_one_operand, "an ellipsis", of_one("...ij -> ...ji", "b, c, 3, n", "b, c, n, 3")),
    Case(einsum_one_operand, "sums of two axes, turned", of_one("bijk->kb", "b, 3, n, 4", "4, b")),
    Case(einsum_one_operand, "sums, below opset 13", of_one("ij->i", "n, 4", "n", opset=12)),
    Case(einsum_one_operand, "nothing moved", of_one("ij->ij", "n, 4", "n, 4")),
    Case(einsum, "scores", graph("bhid,bhjd->bhij", "b, 4, s, 8", "b, 4, t, 8", "b, 4, s, t")),
    Case(einsum, "weighted values", graph("bhij,bhjd->bhid", "b, 4, s, t", "b, 4, t, 8", "b, 4, s, 8")),
    Case(einsum, "scores of heads behind rows",
         graph("bqhd,bkhd->bhqk", "b, s, 4, 8", "b, t, 4, 8", "b, 4, s, t")),
    Case(einsum, "the factors in the other order",
         graph("bkhd,bqhd->bhqk", "b, t, 4, 8", "b, s, 4, 8", "b, 4, s, t")),
    Case(einsum, "spaces between letters, capitals", graph("B i d, B j d -> B i j", "b, s, 8", "b, t, 8", "b, s, t")),
    Case(einsum, "an ellipsis", graph("...id,...jd->...ij", "b, 4, s, 8", "b, 4, t, 8", "b, 4, s, t")),
    Case(einsum, "an ellipsis in one factor", graph("...d,de->...e", "b, s, 8", "8, 6", "b, s, 6")),
    Case(einsum, "a projection into heads", graph("bsh,hnd->bsnd", "b, s, 8", "8, 4, 3", "b, s, 4, 3")),
    Case(einsum, "a projection out of heads", graph("bsnd,hnd->bsh", "b, s, 4, 3", "8, 4, 3", "b, s, 8")),
    Case(einsum, "relative positions: rows of two axes beside a batch",
         graph("bhld,lrd->bhlr", "b, 4, s, 8", "s, t, 8", "b, 4, s, t")),
    Case(einsum, "columns that come before rows in the result",
         graph("besu,euw->bsew", "b, 4, s, 6", "4, 6, 5", "b, s, 4, 5")),
    Case(einsum, "a vector for each batch", graph("bd,bkd->bk", "b, 8", "b, t, 8", "b, t")),
    Case(einsum, "a vector for rows of several axes", graph("...d,d->...", "b, s, 8", "8", "b, s")),
    Case(einsum, "the vector first", graph("d,bsd->bs", "8", "b, s, 8", "b, s")),
    Case(einsum, "a vector for each head", graph("bhsd,hd->bhs", "b, 4, s, 8", "4, 8", "b, 4, s")),
    Case(einsum, "a product of vectors", graph("i,i->", "8", "8", "")),
    Case(einsum, "integers", graph("ij,jk->ik", "m, 4", "4, n", "m, n", "int64")),
    Case(einsum, "half precision", graph("bhid,bhjd->bhij", "b, 4, s, 8", "b, 4, t, 8", "b, 4, s, t", "float16")),
    Case(einsum, "all products of two vectors", graph("i,j->ij", "m", "n", "m, n")),
    Case(einsum, "products in a batch, turned", graph("bi,bj->jbi", "b, 3", "b, n", "n, b, 3")),
    Case(einsum, "products of elements", graph("ab,ba->ab", "m, n", "n, m", "m, n")),
    Case(einsum, "products with an ellipsis", graph("...,f->...f", "b, n", "4", "b, n, 4")),
    Case([einsum, attention], "an attention", parse(CORE)),
]
NEGATIVES = [
    Case(einsum_one_operand, "the diagonal of one factor", why="a diagonal", model=of_one("bii->bi", "b, 3, 3",
         "b, 3")),
    Case(einsum_one_operand, "no result of one factor named", why="give the axes", model=of_one("ij", "n, 4", "n, 4")),
    Case(einsum_one_operand, "a dtype that is not added up", why="ReduceSum does not support int16",
         model=of_one("ij->ji", "n, 4", "4, n", "int16")),
    Case(einsum, "a sum over one factor", why="only one factor", model=graph("ij,jk->k", "m, 4", "4, n", "n")),
    Case(einsum, "a diagonal", why="a diagonal", model=graph("iij,jk->ik", "3, 3, 4", "4, n", "3, n")),
    Case(einsum, "no result named", why="does not give the axes", model=graph("ij,jk", "m, 4", "4, n", "m, n")),
    Case(einsum, "a size that is broadcast", why="unknown or differ", model=graph("ij,jk->ik", "m, 1", "4, n", "m, n")),
    Case(einsum, "two sizes that may differ", why="unknown or differ",
         model=graph("ij,jk->ik", "m, p", "q, n", "m, n")),
    Case(einsum, "free columns of two axes", why="not fixed",
         model=graph("ibh,hnd->ibnd", "s, b, 8", "8, n, d", "s, b, n, d")),
    Case(einsum, "a dtype that MatMul does not have", why="does not support int16",
         model=graph("ij,jk->ik", "m, 4", "4, n", "m, n", "int16")),
    Case(einsum, "three factors", why="expected",
         model=parse('(float[m, 4] a, float[4, 5] b, float[5, n] c) => (float[m, n] y) '
                     '{ y = Einsum<equation = "ij,jk,kl->il">(a, b, c) }')),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_a_size_that_a_table_cuts_is_the_other():
    """Scores of as many keys as a mask of 32 rows has, so that these are all, as dynamo states it."""
    model = parse(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[b, s, s] a, float[b, s, 8] v) => (float[b, s, 8] y) '
        '{ p = Softmax<axis = -1>(a) y = Einsum<equation = "bij,bjd->bid">(p, v) }'
    )
    model.graph.value_info.append(helper.make_tensor_value_info("p", TensorProto.FLOAT, ["b", "s", "Min(32, s)"]))
    _, report = surgeon.rewrite(model, einsum)
    assert [site.outcome for site in report.sites] == ["proved"]
