"""transposed_keys_cache: keys that GPT-2 appends to a past, whole attentions with a sliced mask, and look-alikes."""

import numpy as np
import onnx
import pytest
from surgeon.patterns.attention.attention import masked_attention
from surgeon.patterns.attention_canonicalization.transposed_keys_cache import transposed_keys_cache

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, 4, s, 8] q, float[b, s, 4, 8] x, float[b, 4, p, 8] past, float[b, 4, t, 8] v"
CONSTANTS = (
    "<float root = {2.8284}, float low = {-1e4}, int64[1] first = {0}, int64[1] two = {2}, int64[1] three = {3}, "
    "int64[1] one = {1}, int64[1] last = {-1}, int64[1] before = {-2}, int64[1] end = {9223372036854775807}>"
)
KEYS = "pk = Transpose<perm = [0, 1, 3, 2]>(past) xk = Transpose<perm = [0, 2, 3, 1]>(x) k = Concat<axis = -1>(pk, xk)"
BACK = "c = Transpose<perm = [0, 1, 3, 2]>(k)"
SCORES = "a = MatMul(q, k) y = Relu(a)"
HEADS = f"{KEYS} {BACK} {SCORES}"
# As an exporter writes buffer[:, :, keys - rows : keys, : keys] for scores of [batch, head, rows, keys].
SLICED = (
    "a = MatMul(q, k) w = Div(a, root) z1 = Shape(w) n = Slice(z1, before, last, first) "
    "z2 = Shape(w) t = Slice(z2, last, end, first) f = Sub(t, n) r = Slice(buffer, f, t, two, one) "
    "m = Slice(r, first, t, three, one) h = Cast<to = 9>(m) o = Where(h, w, low) u = Softmax<axis = 3>(o) "
    "y = MatMul(u, v)"
)


def graph(body, inputs=INPUTS, output="float[b, 4, s, t] y, float[b, 4, t, 8] c"):
    header = '<ir_version: 9, opset_import: ["" : 11, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output}) {CONSTANTS} {{ {body} }}")


KEYS_AS_VALUES = f"{KEYS} {BACK} {SLICED.replace('MatMul(u, v)', 'MatMul(u, c)')}"


def with_buffer(rows, columns, body=KEYS_AS_VALUES, more=""):
    """Attention with a causal mask from a stored triangle."""
    inputs = INPUTS.replace(", float[b, 4, t, 8] v", more)
    model = graph(body, inputs, f"float[b, 4, s, 8] y, float[b, 4, t, 8] c{', float[b, 4, t, 8] e' if more else ''}")
    ones = np.tril(np.ones((1, 1, rows, columns), np.float32))
    model.graph.initializer.append(onnx.numpy_helper.from_array(ones, "buffer"))
    return model


# fmt: off
FIRES = [
    Case(transposed_keys_cache, "new keys after the rows", graph(HEADS)),
    Case(transposed_keys_cache, "new keys as heads", graph(
        HEADS.replace("[0, 2, 3, 1]", "[0, 1, 3, 2]"), INPUTS.replace("[b, s, 4, 8] x", "[b, 4, s, 8] x"))),
    Case(transposed_keys_cache, "the last axis counted from the first", graph(HEADS.replace("axis = -1", "axis = 3"))),
    Case(masked_attention, "a mask of the last rows of a square buffer", with_buffer(16, 16)),
]
NEGATIVES = [
    Case(transposed_keys_cache, "keys that are not transposed back", why="expected",
         model=graph(f"{KEYS} {SCORES}", output="float[b, 4, s, t] y")),
    Case(transposed_keys_cache, "transposed back in another order", why="expected",
         model=graph(HEADS.replace("c = Transpose<perm = [0, 1, 3, 2]>", "c = Transpose<perm = [0, 3, 1, 2]>"),
                     output="float[b, 4, s, t] y, float[b, t, 4, 8] c")),
    Case(transposed_keys_cache, "new heads behind the old ones", why="expected axis",
         model=graph(HEADS.replace("axis = -1", "axis = 1"), INPUTS.replace("[b, 4, s, 8] q", "[b, 8, s, 8] q"),
                     "float[b, 8, s, s] y, float[b, 8, s, 8] c")),
    Case(transposed_keys_cache, "another order of the past", why="expected",
         model=graph(HEADS.replace("pk = Transpose<perm = [0, 1, 3, 2]>", "pk = Transpose<perm = [0, 2, 3, 1]>"),
                     INPUTS.replace("[b, 4, p, 8] past", "[b, p, 4, 8] past"))),
    Case(masked_attention, "a buffer with fewer rows than columns", why="rows, but the queries have s",
         model=with_buffer(8, 16)),
    Case(masked_attention, "a buffer with more rows than columns", why="rows, but the queries have s",
         model=with_buffer(16, 8)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_attention_takes_the_past_and_hides_the_future_itself():
    values = "new = Transpose<perm = [0, 2, 1, 3]>(xv) v = Concat<axis = 2>(old, new) e = Identity(v)"
    model = with_buffer(16, 16, f"{KEYS} {BACK} {values} {SLICED}", ", float[b, 4, p, 8] old, float[b, s, 4, 8] xv")
    after, report = surgeon.rewrite(model, "ort")
    assert report.proved
    (node,) = (node for node in after.graph.node if node.op_type == "MultiHeadAttention")
    assert next(item.i for item in node.attribute if item.name == "unidirectional") == 1
    assert list(node.input[6:]) == ["past", "old"]
    assert {"Where", "Softmax", "Concat"}.isdisjoint(item.op_type for item in after.graph.node)
