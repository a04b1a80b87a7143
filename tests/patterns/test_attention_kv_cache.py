"""Attention with a past: who puts keys and values behind it, what does not match and why."""

import re

import onnx
import pytest
from surgeon.patterns.attention.attention import attention
from surgeon.patterns.attention.attention_kv_cache import attention_kv_cache
from surgeon.patterns.attention.attention_layout import attention_4d_kv
from surgeon.patterns.attention.grouped_query_attention import (
    grouped_onnx_attention,
    grouped_query_attention,
    query_heads_as_rows,
)
from surgeon.patterns.attention.grouped_query_kv_cache import repeated_heads_kv_cache, softcap_attention_kv_cache
from surgeon.patterns.attention.kv_cache_length import kv_cache_length
from surgeon.patterns.attention.sequence_attention import sequence_attention

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = (
    "float[b, s, 32] q, float[b, 4, s, 8] k, float[b, 4, s, 8] v, float[b, 4, p, 8] c, float[b, 4, p, 8] d, "
    "float[b, 1, s, p] mc, float[b, 1, s, s] mk"
)
FOUR = INPUTS.replace("float[b, s, 32] q", "float[b, 4, s, 8] q")
GROUPS = INPUTS.replace("[b, 4,", "[b, 2,")
CONSTANTS = (
    "<int64[1] two = {2}, int64[1] three = {3}, int64[1] four = {4}, int64[1] zero = {0}, int64[1] one = {1}, "
    "int64 second = {2}, int64 first = {0}, int64[5] times = {1, 1, 2, 1, 1}, int64[4] heads = {0, 4, -1, 8}, "
    "int64[4] short = {0, 4, -1, 4}, int64[3] rows = {0, 0, 32}, float scale = {0.35}, float cap = {3.0}, "
    "int64 unit = {1}, float low = {-1.0e9}, float none = {0.0}>"
)
CACHES = "keys = Concat<axis = -2>(c, k) values = Concat<axis = 2>(d, v)"
PRESENT = "float[b, 4, u, 8] keys, float[b, 4, u, 8] values"
NODE = "y = com.microsoft.MultiHeadAttention<num_heads = 4, scale = 0.35>(q, keys, values)"
MASK = "m = Concat<axis = 3>(mc, mk) "
MASKED = MASK + NODE.replace("values)", "values, , , m)")
JOINED = (
    "ka = Transpose<perm = [0, 2, 1, 3]>(keys) ke = Reshape(ka, rows) "
    "va = Transpose<perm = [0, 2, 1, 3]>(values) ve = Reshape(va, rows)"
)
COPIES = (
    "ka = Unsqueeze(keys, two) kb = Expand(ka, times) kc = Reshape(kb, heads) "
    "va = Unsqueeze(values, two) vb = Expand(va, times) vc = Reshape(vb, heads)"
)
SIZED = COPIES.replace("Expand(ka, times)", "Expand(ka, given)")
GIVEN = (
    "z = Shape(keys) n = Slice(z, zero, one) l = Slice(z, two, three) e = Slice(z, three, four) "
    "given = Concat<axis = 0>(n, two, two, l, e)"
)
OVER_COPIES = MASKED.replace("keys, values", "kc, vc")
STANDARD = f"{MASK} y = Attention<scale = 0.35>(q, keys, values, m)"
LIMIT = "i = Div(r, cap) j = Tanh(i) f = Mul(j, cap)"
CAPPED = (
    f"kt = Transpose<perm = [0, 1, 3, 2]>(kc) a = MatMul(q, kt) r = Mul(a, scale) {LIMIT} x = Add(f, m) "
    "w = Softmax<axis = -1>(x) y = MatMul(w, vc)"
)
ONE = re.sub(r"\bb\b", "1", GROUPS).replace("[1, s, 32] q", "[1, 4, s, 8] q")
CORE = [attention, attention_kv_cache]
LENGTH = "z = Shape(keys) n = Gather(z, second) o = Unsqueeze(n, zero) w = Expand(scale, o)"
LAST = "kt = Transpose<perm = [0, 1, 3, 2]>(keys) z = Shape(kt) o = Slice(z, three, four, zero)"
LATER = (
    "sk = Shape<start = 2, end = 3>(k) sc = Shape<start = 2, end = 3>(c) sn = Squeeze(sk) sp = Squeeze(sc) "
    "st = Add(sn, sp) kr = Range(first, st, unit) qr = Range(sp, st, unit) qc = Unsqueeze(qr, one) "
    "later = Greater(kr, qc) m = Where(later, low, none)"
)
PLAIN = CAPPED.replace(LIMIT, "").replace("Add(f", "Add(r").replace("kc", "keys").replace("vc", "values")
STEP = re.sub(r"\bs\b", "1", GROUPS).replace("float[", "float16[")


def graph(body, inputs=INPUTS, present=PRESENT, opset=17, output="float[b, s, 32]"):
    outputs = f"{output} y, {present}" if present else f"{output} y"
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({outputs}) {CONSTANTS} {{ {body} }}")


def grouped(body, inputs=GROUPS, **options):
    present = PRESENT.replace("4,", "2,")
    return graph(body, inputs, present.replace("float", inputs.partition("[")[0]), **options)


# fmt: off
FIRES = [
    Case(attention_kv_cache, "keys and values behind a past", graph(f"{CACHES} {NODE}")),
    Case(attention_kv_cache, "with a mask", graph(f"{CACHES} {MASKED}")),
    Case(attention_kv_cache, "keys and values that are joined", graph(f"{CACHES} {JOINED} {NODE}".replace(
        "(q, keys, values)", "(q, ke, ve)"))),
    Case(attention_kv_cache, "no next step", graph(f"{CACHES} {NODE}", present="")),
    Case(attention_kv_cache, "a size of what is made is read too",
         graph(f"{CACHES} {MASKED} z = Shape(keys) n = Gather(z, second)", present=f"{PRESENT}, int64 n")),
    Case(attention_kv_cache, "a mask for each head",
         graph(f"{CACHES} {MASKED}", INPUTS.replace("[b, 1,", "[1, 4,"))),
    Case(attention_kv_cache, "half precision",
         graph(f"{CACHES} {MASKED}", INPUTS.replace("float[", "float16["), PRESENT.replace("float[", "float16["),
               output="float16[b, s, 32]")),
    Case(attention_kv_cache, "Attention with a past", target="onnx",
         model=graph(f"{CACHES} {STANDARD}", FOUR, opset=23, output="float[b, 4, s, 8]")),
    Case(attention_kv_cache, "Attention in ONNX Runtime",
         graph(f"{CACHES} {STANDARD}", FOUR, opset=24, output="float[b, 4, s, 8]")),
    Case(attention_kv_cache, "capped scores and fewer heads of keys", target="onnx",
         model=grouped(f"{CACHES} {STANDARD.replace('scale = 0.35', 'softcap = 3.0')}",
                       FOUR.replace("[b, 4, s, 8] k", "[b, 2, s, 8] k").replace("[b, 4, s, 8] v", "[b, 2, s, 8] v")
                       .replace("[b, 4, p", "[b, 2, p"), opset=23, output="float[b, 4, s, 8]")),
    Case(CORE, "from the core of an attention", sites=1,
         model=graph(f"{CACHES} kt = Transpose<perm = [0, 1, 3, 2]>(keys) a = MatMul(q, kt) e = Mul(a, scale) "
                     f"{MASK} x = Add(e, m) w = Softmax<axis = -1>(x) y = MatMul(w, values)", FOUR,
                     output="float[b, 4, s, 8]")),
    Case(query_heads_as_rows, "copies for several heads", grouped(f"{CACHES} {COPIES} {OVER_COPIES}")),
    Case(query_heads_as_rows, "copies without a mask",
         grouped(f"{CACHES} {COPIES} {NODE.replace('keys, values', 'kc, vc')}")),
    Case(query_heads_as_rows, "copies and a mask for each head",
         grouped(f"{CACHES} {COPIES} {OVER_COPIES}", GROUPS.replace("[b, 1,", "[b, 4,"))),
    Case([query_heads_as_rows, attention_kv_cache], "copies of what is behind a past", sites=1,
         model=grouped(f"{CACHES} {GIVEN} {SIZED} {OVER_COPIES}")),
    Case(repeated_heads_kv_cache, "GroupQueryAttention for one row",
         model=grouped(f"{CACHES} {COPIES} {OVER_COPIES}", STEP, output="float16[b, 1, 32]")),
    Case(repeated_heads_kv_cache, "GroupQueryAttention for a batch of one",
         model=grouped(f"{CACHES} {GIVEN} {SIZED} {OVER_COPIES}", GROUPS.replace("float[b,", "float16[1,"),
                       output="float16[1, s, 32]")),
    Case(softcap_attention_kv_cache, "capped scores of a batch of one",
         grouped(f"{CACHES} {COPIES} {MASK} {CAPPED}", ONE, output="float[1, 4, s, 8]")),
    Case(softcap_attention_kv_cache, "capped scores of one row, and a mask for all rows",
         grouped(f"{CACHES} {GIVEN} {SIZED} {CAPPED}",
                 re.sub(r"\bs\b", "1", GROUPS).replace("[b, 1, 32] q", "[b, 4, 1, 8] q") + ", float[1, 1] m",
                 output="float[b, 4, 1, 8]")),
    Case(softcap_attention_kv_cache, "capped scores without copies",
         graph(f"{CACHES} {MASK} {CAPPED.replace('kc', 'keys').replace('vc', 'values')}",
               re.sub(r"\bb\b", "1", FOUR), output="float[1, 4, s, 8]")),
    Case(sequence_attention, "a mask that hides later keys, computed from sizes",
         graph(f"{CACHES} {LATER} {PLAIN}", FOUR, output="float[b, 4, s, 8]")),
    Case(kv_cache_length, "the number of keys", graph(f"{CACHES} {LENGTH} y = Identity(w)", output="float[u]")),
    Case(kv_cache_length, "the number of keys as a slice",
         graph(f"{CACHES} z = Shape(keys) o = Slice(z, two, three, zero) y = Identity(o)", output="int64[1]")),
    Case(kv_cache_length, "the size of the batch as a slice",
         graph(f"{CACHES} z = Shape(keys) o = Slice(z, zero, one, zero) y = Identity(o)", output="int64[1]")),
    Case(kv_cache_length, "the size of the batch",
         graph(f"{CACHES} {LENGTH.replace('second', 'first')} y = Identity(w)", output="float[b]")),
    Case(kv_cache_length, "the number of keys as scores have it",
         graph(f"{CACHES} {LAST} y = Identity(o)", output="int64[1]")),
    Case(kv_cache_length, "the number of copied keys",
         grouped(f"{CACHES} {COPIES} {LAST.replace('(keys)', '(kc)')} y = Identity(o) x = Neg(kc)", output="int64[1]")),
    Case(kv_cache_length, "the number of copied keys, which are not transposed",
         grouped(f"{CACHES} {COPIES} z = Shape(kc) o = Slice(z, two, three, zero) y = Identity(o) x = Neg(kc)",
                 output="int64[1]")),
    Case([kv_cache_length, attention_kv_cache], "a mask that is spread to the number of keys", sites=2,
         model=graph(f"{CACHES} {LAST} sh = Concat<axis = 0>(one, one, r, o) w = Expand(f, sh) "
                     + NODE.replace("values)", "values, , , w)"), f"{INPUTS}, float[b, 1, s, 1] f, int64[1] r")),
]
NEGATIVES = [
    Case(attention_kv_cache, "more keys behind the past than values", why="may differ in length",
         model=graph(f"{CACHES} {NODE}", INPUTS.replace("float[b, 4, s, 8] v", "float[b, 4, r, 8] v")
                     .replace("float[b, 4, p, 8] d", "float[b, 4, o, 8] d"))),
    Case(attention_kv_cache, "wider values", why="different size",
         model=graph(f"{CACHES} {NODE}".replace("values", "w"),
                     INPUTS.replace("s, 8] v", "s, 6] v").replace("p, 8] d", "p, 6] d"),
                     "float[b, 4, u, 8] keys, float[b, 4, u, 6] w", output="float[b, s, 24]")),
    Case(attention_kv_cache, "another attribute", why="unidirectional",
         model=graph(f"{CACHES} {NODE.replace('num_heads', 'unidirectional = 1, num_heads')}")),
    Case(attention_kv_cache, "keys alone behind a past", why="expected",
         model=graph("keys = Concat<axis = 2>(c, k) " + NODE, INPUTS.replace("s, 8] v", "u, 8] values"),
                     "float[b, 4, u, 8] keys")),
    Case(attention_kv_cache, "other heads behind those of a past", why="expected axis",
         model=graph("keys = Concat<axis = 1>(c, k) values = Concat<axis = 1>(d, v) " + NODE,
                     INPUTS.replace("[b, 4,", "[b, 2,"), "float[b, 4, s, 8] keys")),
    Case(attention_kv_cache, "a mask made of the keys", why="outside the match",
         model=graph(f"{CACHES} j = ReduceSum<keepdims = 0>(keys, one) o = Mul(m, f) f = ReduceSum(j) "
                     .replace("o = Mul(m, f) f = ReduceSum(j)", "f = ReduceSum(j) o = Mul(m, f)")
                     + MASKED.replace(", m)", ", o)"))),
    Case(attention_kv_cache, "rows counted from the first key", target="onnx", why="is_causal",
         model=graph(f"{CACHES} {STANDARD.replace('scale', 'is_causal = 1, scale')}", FOUR, opset=23,
                     output="float[b, 4, s, 8]")),
    Case(query_heads_as_rows, "a mask of unknown heads", why="heads, but the queries have 4",
         model=grouped(f"{CACHES} {COPIES} {OVER_COPIES}", GROUPS.replace("[b, 1,", "[b, h,"))),
    Case(query_heads_as_rows, "rows that see no later ones", why="unidirectional",
         model=grouped(f"{CACHES} {COPIES} {OVER_COPIES.replace('num_heads', 'unidirectional = 1, num_heads')}")),
    Case(repeated_heads_kv_cache, "several rows of several sequences", why="one row of queries",
         model=grouped(f"{CACHES} {COPIES} {OVER_COPIES}")),
    Case(repeated_heads_kv_cache, "heads of four numbers", why="a multiple of 8",
         model=grouped(f"{CACHES} {COPIES} {OVER_COPIES}".replace("heads)", "short)"), STEP.replace(", 8]", ", 4]")
                       .replace("32]", "16]"), output="float16[b, 1, 16]")),
    Case(softcap_attention_kv_cache, "several rows of several sequences", why="raise the opset to 23",
         model=grouped(f"{CACHES} {COPIES} {MASK} {CAPPED}", GROUPS.replace("[b, s, 32] q", "[b, 4, s, 8] q"),
                       output="float[b, 4, s, 8]")),
    Case(softcap_attention_kv_cache, "scores that are not capped", why="not capped",
         model=grouped(f"{CACHES} {COPIES} {MASK} {CAPPED.replace(LIMIT, '').replace('Add(f', 'Add(r')}", ONE,
                       output="float[1, 4, s, 8]")),
    Case(sequence_attention, "a mask of which nothing is known", why="depends on the values",
         model=graph(f"{CACHES} {MASK} {PLAIN}", FOUR, output="float[b, 4, s, 8]")),
    Case(kv_cache_length, "a cache of unknown heads", why="the heads of x is h, not a fixed size",
         model=graph(f"{CACHES} {LENGTH} y = Identity(w)", INPUTS.replace("[b, 4,", "[b, h,"), output="float[u]",
                     present=PRESENT.replace("4,", "h,"))),
    Case(kv_cache_length, "two sizes as a slice", why="exactly one size",
         model=graph(f"{CACHES} z = Shape(keys) o = Slice(z, one, three, zero) y = Identity(o)", output="int64[2]")),
    Case(kv_cache_length, "the number of copies", why="the number of repeated heads",
         model=grouped(f"{CACHES} {COPIES} z = Shape(kc) o = Slice(z, one, two, zero) y = Identity(o) x = Neg(kc)",
                       output="int64[1]")),
    Case(kv_cache_length, "the length of anything else", why="expected axis",
         model=parse("(float[a, b] c, float[d, b] k) => (int64 y) <int64 first = {0}> "
                     "{ keys = Concat<axis = 0>(c, k) z = Shape(keys) y = Gather(z, first) }")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_no_copy_is_left_of_a_cache():
    rules = [grouped_query_attention, query_heads_as_rows, attention_4d_kv, attention_kv_cache]
    made, _ = surgeon.rewrite(grouped(f"{CACHES} {GIVEN} {SIZED} {OVER_COPIES}"), rules)
    assert not {"Expand", "Shape"} & {node.op_type for node in made.graph.node}
    (node,) = (node for node in made.graph.node if node.op_type == "MultiHeadAttention")
    assert list(node.input[6:8]) == ["c", "d"]
    assert list(node.output[1:3]) == ["keys", "values"]


def test_attention_shares_heads_and_takes_the_past():
    model = grouped(
        f"{CACHES} {COPIES} {STANDARD.replace('keys, values', 'kc, vc')}",
        GROUPS.replace("float[b, s, 32] q", "float[b, 4, s, 8] q"),
        opset=23,
        output="float[b, 4, s, 8]",
    )
    made, _ = surgeon.rewrite(model, [grouped_onnx_attention, attention_kv_cache], target="onnx")
    assert [node.op_type for node in made.graph.node] == ["Concat", "Attention"]
    assert list(made.graph.node[1].output) == ["y", "keys", "values"]


def test_a_total_of_its_own_name_is_past_and_new():
    """What the file calls the length of the keys behind the past is a sum, at sizes of 1 too."""
    text = """g (float[b, 4, s, 8] q, float[b, 4, s, 8] k0, float[b, 4, s, 8] v0, float[b, 4, p, 8] pk,
        float[b, 4, p, 8] pv, float[b, 1, s, total_sequence_length] m)
        => (float[b, 4, s, 8] y, float[b, 4, total_sequence_length, 8] k, float[b, 4, total_sequence_length, 8] v)
        <float c = {0.5}> { k = Concat<axis = 2>(pk, k0) v = Concat<axis = 2>(pv, v0)
        kt = Transpose<perm = [0, 1, 3, 2]>(k) s0 = MatMul(q, kt) z = Mul(s0, c) x = Add(z, m)
        w = Softmax<axis = -1>(x) y = MatMul(w, v) }"""
    imports = '["" : 17, "com.microsoft" : 1]'
    model = onnx.parser.parse_model(f"<ir_version: 10, opset_import: {imports}> {text}")
    _, report = surgeon.rewrite(model, "transformers")
    assert report.outcome == "proved"
    assert report.count("attention_kv_cache") == 1


def test_a_mask_of_past_and_new_fits_keys_of_a_total_of_its_own_name():
    """TorchScript computes the mask from sizes of the past and the ids, and the file names the size of the present."""
    text = """g (float[b, 4, s, 8] q, float[b, 4, s, 8] k0, float[b, 4, s, 8] v0, float[b, 4, past, 8] pk,
        float[b, 4, past, 8] pv) => (float[b, 4, s, 8] y, float[b, 4, total, 8] k, float[b, 4, total, 8] v)
        <float c = {0.5}, float lowest = {-10000.0}, float shown = {0.0}, int64 zero = {0}, int64 one = {1},
        int64[3] fronts = {0, 1, 3}> {
        k = Concat<axis = 2>(pk, k0) v = Concat<axis = 2>(pv, v0) before = Shape<start = 2, end = 3>(pk)
        new = Shape<start = 2, end = 3>(q) p = Squeeze(before) n = Squeeze(new) all = Add(p, n)
        own = Range(p, all, one) keys = Range(zero, all, one) row = Unsqueeze(own, fronts)
        column = Unsqueeze(keys, zero) later = Greater(column, row) m = Where(later, lowest, shown)
        kt = Transpose<perm = [0, 1, 3, 2]>(k) s0 = MatMul(q, kt) z = Mul(s0, c) x = Add(z, m)
        w = Softmax<axis = -1>(x) y = MatMul(w, v) }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> {text}')
    made, report = surgeon.rewrite(model, "ort")
    assert report.outcome == "proved"
    assert report.count("attention_kv_cache") == 1
    assert not {"Expand", "Concat"} & {node.op_type for node in made.graph.node}
