"""What a rule finds alone it finds in its pack too, whatever other rules there make of what is around."""

import pytest

import surgeon
from surgeon.testing import parse
from tests.models import ops

HEADER = '<ir_version: 9, opset_import: ["" : 17]> g'
ONE_BATCH = "(float[12, s, 8] q, float[12, t, 8] k, float[12, t, 8] v) => (float[3, s, 4, 8] y)"
HEADS = "(float[b, 4, s, 8] q, float[b, 4, 8, t] k, float[b, 4, t, 8] v) => (float[b, 4, s, 8] y)"
APART = "<float h = {0.25}, int64[4] heads = {3, 4, -1, 8}>"
BEHIND = "r = Reshape(o, heads) y = Transpose<perm = [0, 2, 1, 3]>(r)"
# Heads as part of the batch, which become an axis again behind the attention: as perceiver-pytorch and SAM have it.
FORMS = {
    "by Einsum": f"""{ONE_BATCH} {APART} {{ a = Einsum<equation = "bid,bjd->bij">(q, k) m = Mul(a, h)
        p = Softmax<axis = -1>(m) o = Einsum<equation = "bij,bjd->bid">(p, v) {BEHIND} }}""",
    "by MatMul": f"""{ONE_BATCH} {APART} {{ c = Mul(q, h) l = Transpose<perm = [0, 2, 1]>(k) a = MatMul(c, l)
        p = Softmax<axis = -1>(a) o = MatMul(p, v) {BEHIND} }}""",
    "a softmax in parts": f"""{HEADS} <float h = {{0.25}}, int64[1] last = {{-1}}> {{ a = MatMul(q, k) m = Mul(a, h)
        n = ReduceMax<axes = [-1]>(m) c = Sub(m, n) e = Exp(c) t = ReduceSum(e, last) p = Div(e, t)
        y = MatMul(p, v) }}""",
}


@pytest.mark.parametrize("form", FORMS)
def test_an_attention_is_found_in_the_pack(form):
    made, report = surgeon.rewrite(parse(f"{HEADER} {FORMS[form]}"), "ort")
    assert report.outcome == "proved"
    assert ops(made.graph).count("MultiHeadAttention") == 1


def test_what_is_fused_last_waits_for_all_others():
    """A product of matrices with a transposed factor is part of an attention first."""
    text = f"""{HEADS.replace("8, t] k", "t, 8] k")} <float h = {{0.25}}> {{ l = Transpose<perm = [0, 1, 3, 2]>(k)
        a = MatMul(q, l) m = Mul(a, h) p = Softmax<axis = -1>(m) y = MatMul(p, v) }}"""
    made, _ = surgeon.rewrite(parse(f"{HEADER} {text}"), "fused_matmul,attention")
    assert ops(made.graph).count("MultiHeadAttention") == 1


def test_what_is_asked_of_a_fixed_shape_depends_on_no_tensor():
    """Sizes of a mask are numbers: told by a shape, they would draw the Divs into the proof, and leave their floor out.

    As x-transformers has keys of length one, one of which is hidden.
    """
    head = "(float[2, 2, 3, 4] q, float[2, 2, 3, 4] k, float[2, 2, 3, 4] v, bool[2, 1, 1, 3] c) => (float[2, 3, 8] y)"
    constants = """<int64[1] last = {-1}, float floor = {1e-12}, float h = {8}, float low = {-3e38},
        int64[4] all = {2, 2, 3, 4}, int64[3] joined = {2, 3, 8}>"""
    of_one = """{0}n = ReduceL2({0}, last) {0}c = Clip({0}n, floor) {0}e = Expand({0}c, all) {0}d = Div({0}, {0}e) """
    body = f"""{of_one.format("q")} {of_one.format("k")} t = Transpose<perm = [0, 1, 3, 2]>(kd) a = MatMul(qd, t)
        m = Mul(a, h) w = Where(c, m, low) p = Softmax<axis = -1>(w) o = MatMul(p, v)
        r = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(r, joined)"""
    made, report = surgeon.rewrite(parse(f'{HEADER.replace("17", "18")} {head} {constants} {{ {body} }}'), "ort")
    assert report.outcome == "proved"
    assert ops(made.graph).count("MultiHeadAttention") == 1
    assert not [site for site in report.sites if {"redundant_expand", "masked_attention"} <= set(site.rules)]
