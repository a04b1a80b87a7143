"""Whole attention layers: what becomes one Attention node, what does not match and why."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from surgeon.patterns.attention.attention_projections import (
    packed_qkv_attention,
    packed_qkv_kv_cache,
    separate_qkv_attention,
)
from surgeon.patterns.attention.fused_inputs import scaled_queries

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

SHIPPED = Path(__file__).resolve().parent.parent.parent / "notebooks" / "models" / "tiny_distilbert.onnx"

SHAPES = {
    "wq": (6, 8), "wk": (6, 8), "wv": (6, 8), "short": (6, 4), "odd": (6, 6), "turned": (8, 6), "bq": (8,), "bk": (8,),
    "bv": (8,), "short_bias": (4,), "one": (1,), "row": (1, 1, 8), "column": (1, 3, 1), "w": (6, 24), "b": (24,),
    "all_turned": (24, 6), "boxed": (1, 6, 24), "wide": (6, 20), "wide_bias": (20,),
}  # fmt: skip
INTS = {
    "flat": (-1, 6), "rows": (2, 3, 8), "short_rows": (2, 3, 4), "whole": (2, 3, 24), "heads": (0, 0, 2, 4),
    "four": (0, 0, 4, 2), "five": (0, 0, 3, 2, 4), "apart": (0, 0, 2, 3, 4), "thirds": (8, 8, 8), "uneven": (8, 8, 4),
    "ones": (1, 1, 1), "zero": (0,), "first": (1,), "second": (2,), "third": (3,), "eight": (8,), "sixteen": (16,),
    "end": (24,), "lifted": (1, 3, 2, 3, 8), "heads_of_all": (3, 4, 4), "by_batch": (2, 2, 3, 4),
    "columns": (2, 2, 4, 3),
    "fixed_heads": (2, 2, 3, 4), "mixed": (3, 2, 8), "three_rows": (0, 3, 2, 4),
    "last": (2,), "joined": (0, 0, 8), "two_ones": (1, 1), "overlap": (4,), "twelve": (12,),
}  # fmt: skip
NODE = "y = com.microsoft.MultiHeadAttention<num_heads = 2, scale = 0.4>"
PRODUCTS = "a = MatMul(x, wq) c = MatMul(x, wk) d = MatMul(x, wv)"
SUMS = "q = Add(a, bq) k = Add(bk, c) v = Add(d, bv)"
THREE = f"{PRODUCTS} {SUMS} {NODE}(q, k, v)"
ONE = "a = MatMul(x, w) p = Add(a, b)"
CUT = f"{ONE} q, k, v = Split<axis = 2>(p, thirds) {NODE}(q, k, v)"
GEMMS = (
    "r = Reshape(x, flat) e = Gemm(r, wq, bq) q = Reshape(e, rows) f = Gemm<transB = 1>(r, turned, bk) "
    f"k = Reshape(f, rows) h = Gemm(r, wv) v = Reshape(h, rows) {NODE}(q, k, v)"
)
FIVE = f"{ONE} s = Reshape(p, five)"
TURNED = f"{FIVE} t = Transpose<perm = [2, 0, 3, 1, 4]>(s)"
GATHERED = (
    "l = Gather<axis = 0>(t, i0) k = Gather<axis = 0>(t, i1) v = Gather<axis = 0>(t, i2) "
    f"m = Transpose<perm = [0, 2, 1, 3]>(l) q = Reshape(m, joined) {NODE}(q, k, v)"
)
FIXED = "float[2, 3, 6] x"
GATHERED_PAST = "pk = Gather<axis = 0>(past, i0) pv = Gather<axis = 0>(past, i1)"
SPLIT_PAST = "fk, fv = Split<axis = 0>(past, two_ones) pk = Squeeze(fk, zero) pv = Squeeze(fv, zero)"
CACHED = (
    f"{ONE} q, k, v = Split<axis = 2>(p, thirds) {GATHERED_PAST} y, nk, nv = com.microsoft.MultiHeadAttention"
    '<num_heads = 2, scale = 0.4>(q, k, v, "", "", "", pk, pv) uk = Unsqueeze(nk, zero) uv = Unsqueeze(nv, zero) '
    "present = Concat<axis = 0>(uk, uv)"
)
PAST, OUTPUTS = "float[b, s, 6] x, float[2, b, 2, t, 4] past", "float[2, b, 2, u, 4] present, float[b, s, 8]"
TIME_FIRST = (
    f"{ONE} s = Reshape(p, lifted) t = Transpose<perm = [3, 1, 2, 0, 4]>(s) u = Squeeze(t, third) "
    "e = Gather<axis = 0>(u, i0) f = Gather<axis = 0>(u, i1) h = Gather<axis = 0>(u, i2) "
    "qs = Reshape(e, heads_of_all) ks = Reshape(f, heads_of_all) vs = Reshape(h, heads_of_all) "
    "qt = Transpose<perm = [1, 0, 2]>(qs) kt = Transpose<perm = [1, 0, 2]>(ks) vt = Transpose<perm = [1, 0, 2]>(vs) "
    "qh = Reshape(qt, by_batch) k = Reshape(kt, by_batch) v = Reshape(vt, by_batch) "
    f"m = Transpose<perm = [0, 2, 1, 3]>(qh) q = Reshape(m, joined) {NODE}(q, k, v)"
)
TURNED_TWICE = (
    TIME_FIRST.replace("kt = Transpose<perm = [1, 0, 2]>(ks)", "kt = Transpose<perm = [1, 2, 0]>(ks)")
    .replace(
        "k = Reshape(kt, by_batch)",
        "kc = Reshape(kt, columns) kr = Transpose<perm = [0, 3, 1, 2]>(kc) k = Reshape(kr, joined)",
    )
    .replace(
        "v = Reshape(vt, by_batch)",
        "vh = Reshape(vt, by_batch) vr = Transpose<perm = [0, 2, 1, 3]>(vh) v = Reshape(vr, joined)",
    )
)
TIME, BATCH = "float[3, 2, 6] x", "float[2, 3, 8]"


def numbers(name, shape, dtype):
    values = np.sin(np.arange(np.prod(shape)) * 1.7 + sum(map(ord, name))).astype(np.float32)
    texts = map(str, values.astype(np.float16).view(np.uint16) if dtype == "float16" else values)
    return f"{dtype}[{', '.join(map(str, shape))}] {name} = {{{', '.join(texts)}}}"


def graph(body, inputs="float[b, s, 6] x", output="float[b, s, 8]", dtype="float", opset=17):
    read = set(re.findall(r"\w+", body))
    constants = [numbers(name, shape, dtype) for name, shape in SHAPES.items() if name in read]
    for name, values in INTS.items():
        constants += [f"int64[{len(values)}] {name} = {{{', '.join(map(str, values))}}}"] * (name in read)
    constants += [f"int64 i{place} = {{{place}}}" for place in range(3) if f"i{place}" in read]
    constants += ["float half = {0.5}"] * ("half" in read)
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) <{', '.join(constants)}> {{ {body} }}")


def slices(starts=("zero", "eight", "sixteen"), ends=("eight", "sixteen", "end")):
    cut = [f"{name} = Slice(p, {start}, {end}, last)" for name, start, end in zip("qkv", starts, ends, strict=True)]
    return f"{ONE} {' '.join(cut)} {NODE}(q, k, v)"


# fmt: off
FIRES = [
    Case(separate_qkv_attention, "three products with biases", graph(THREE), ep="cuda"),
    Case(separate_qkv_attention, "a mask", graph(THREE.replace("(q, k, v)", '(q, k, v, "", "", m)'),
                                                "float[b, s, 6] x, float[b, 1, s, s] m"), ep="cuda"),
    Case(separate_qkv_attention, "a bias for each head",
         graph(THREE.replace("(q, k, v)", '(q, k, v, "", "", m)'),
                                                              "float[b, s, 6] x, float[1, 2, s, s] m"), ep="cuda"),
    Case(separate_qkv_attention, "a mask that is spread to rows that queries and keys tell", graph(
        f"{PRODUCTS} {SUMS} qs = Shape<start = 1, end = 2>(q) ks = Shape<start = 1, end = 2>(k) "
        f'o = Concat<axis = 0>(first, first, qs, ks) l = Expand(m, o) {NODE}(q, k, v, "", "", l)',
        "float[b, s, 6] x, float[b, 1, 1, s] m"), ep="cuda"),
    Case(separate_qkv_attention, "the future hidden",
         graph(THREE.replace("= 2, s", "= 2, unidirectional = 1, s")), ep="cuda"),
    Case(separate_qkv_attention, "no scale of its own", graph(THREE.replace(", scale = 0.4", "")), ep="cuda"),
    Case(separate_qkv_attention, "without biases, as T5 has it",
         graph(f"{PRODUCTS} {NODE}(a, c, d)"), ep="cuda"),
    Case([separate_qkv_attention, scaled_queries], "no bias for the keys, the queries scaled, as Whisper has it",
         graph(f"{PRODUCTS} o = Add(a, bq) q = Mul(o, half) v = Add(d, bv) {NODE}(q, c, v)"), ep="cuda"),
    Case(separate_qkv_attention, "a bias of the attention itself",
         graph(f"{PRODUCTS} {NODE}(a, c, d, b)"), ep="cuda"),
    Case(separate_qkv_attention, "biases that are inputs",
         graph(THREE.replace("bq", "nq").replace("bk", "nk"), "float[b, s, 6] x, float[8] nq, float[8] nk"), ep="cuda"),
    Case(packed_qkv_attention, "a bias of the attention itself, and weights that are inputs", graph(
        CUT.replace("p = Add(a, b) ", "").replace("(p,", "(a,").replace("w)", "weights)")
        .replace("k, v)", "k, v, bias)"), "float[b, s, 6] x, float[6, 24] weights, float[24] bias")),
    Case(packed_qkv_attention, "a bias that is an input",
         graph(CUT.replace("Add(a, b)", "Add(a, bias)"), "float[b, s, 6] x, float[24] bias")),
    Case(packed_qkv_kv_cache, "a past by Gather, a bias of the attention itself, and Slices",
         graph(CACHED.replace(ONE, "p = MatMul(x, w)").replace('k, v, ""', "k, v, b"), PAST, OUTPUTS)),
    Case(packed_qkv_kv_cache, "a past by Split, and the future hidden",
         graph(CACHED.replace(GATHERED_PAST, SPLIT_PAST).replace("heads = 2,", "heads = 2, unidirectional = 1,"),
               PAST, OUTPUTS)),
    Case(separate_qkv_attention, "a bias of one number and one with more axes", graph(
        f"{PRODUCTS} q = Add(a, one) k = Add(c, row) {NODE}(q, k, d)"), ep="cuda"),
    Case(separate_qkv_attention, "values of another size", graph(
        f"{PRODUCTS.replace('wv', 'short')} {SUMS.replace('bv', 'short_bias')} {NODE}(q, k, v)",
        output="float[b, s, 4]"), ep="cuda"),
    Case(separate_qkv_attention, "keys and values as heads", graph(
        f"{PRODUCTS} {SUMS} kr = Reshape(k, heads) kh = Transpose<perm = [0, 2, 1, 3]>(kr) vr = Reshape(v, heads) "
        f"vh = Transpose<perm = [0, 2, 1, 3]>(vr) {NODE}(q, kh, vh)"), ep="cuda"),
    Case(separate_qkv_attention, "Gemms between Reshapes", graph(GEMMS, FIXED, "float[2, 3, 8]"), ep="cuda"),
    Case(packed_qkv_attention, "one product cut by Split", graph(CUT)),
    Case(packed_qkv_attention, "one product cut in three, from opset 18 on",
         graph(CUT.replace("axis = 2>(p, thirds)", "axis = -1, num_outputs = 3>(p)"), opset=18)),
    Case(packed_qkv_attention, "one product, uneven", graph(
        CUT.replace("w)", "wide)").replace("b)", "wide_bias)").replace("thirds", "uneven"), output="float[b, s, 4]")),
    Case(packed_qkv_attention, "one product without a bias", graph(
        CUT.replace("p = Add(a, b) ", "").replace("(p,", "(a,"))),
    Case(packed_qkv_attention, "one product cut by Slice", graph(slices())),
    Case(packed_qkv_attention, "one Gemm, as GPT-2 has it", graph(
        f"r = Reshape(x, flat) e = Gemm<transB = 1>(r, all_turned, b) p = Reshape(e, whole) "
        f"q, k, v = Split<axis = 2>(p, thirds) {NODE}(q, k, v)", FIXED, "float[2, 3, 8]")),
    Case(packed_qkv_attention, "an axis of three, turned to the front, and Gather",
         graph(f"{TURNED} {GATHERED}")),
    Case(packed_qkv_attention, "an axis of three and Split", graph(
        f"{TURNED} e, f, h = Split<axis = 0>(t, ones) l = Squeeze(e, zero) k = Squeeze(f, zero) v = Squeeze(h, zero) "
        + GATHERED.partition("(t, i2) ")[2])),
    Case(packed_qkv_attention, "an axis of three and Slice", graph(
        f"{TURNED} e = Slice(t, zero, first, zero) f = Slice(t, first, second, zero) h = Slice(t, second, third, zero) "
        "l = Squeeze(e, zero) k = Squeeze(f, zero) v = Squeeze(h, zero) " + GATHERED.partition("(t, i2) ")[2])),
    Case(packed_qkv_attention, "an axis of three where it is", graph(
        f"{FIVE} l = Gather<axis = 2>(s, i0) n = Gather<axis = 2>(s, i1) o = Gather<axis = 2>(s, i2) "
        "q = Reshape(l, joined) k = Transpose<perm = [0, 2, 1, 3]>(n) v = Transpose<perm = [0, 2, 1, 3]>(o) "
        f"{NODE}(q, k, v)")),
    Case(packed_qkv_attention, "an axis of three cut by Slice and taken out by Reshape", graph(
        f"{TURNED} e = Slice(t, zero, first, zero) f = Slice(t, first, second, zero) h = Slice(t, second, third, zero) "
        "l = Reshape(e, fixed_heads) k = Reshape(f, fixed_heads) v = Reshape(h, fixed_heads) "
        + GATHERED.partition("(t, i2) ")[2], FIXED, BATCH)),
    Case(packed_qkv_attention, "a mask behind one product",
         graph(CUT.replace("(q, k, v)", '(q, k, v, "", "", m)'),
                                                   "float[b, s, 6] x, float[1, 1, s, s] m")),
    Case(packed_qkv_attention, "a mask that is spread to rows that the parts of one product tell", graph(
        f"{ONE} q, k, v = Split<axis = 2>(p, thirds) qs = Shape<start = 1, end = 2>(q) ks = Shape<start = 1, end = 2>"
        f'(k) o = Concat<axis = 0>(first, first, qs, ks) l = Expand(m, o) {NODE}(q, k, v, "", "", l)',
        "float[b, s, 6] x, float[b, 1, 1, s] m")),
    Case([packed_qkv_attention, scaled_queries], "the queries of one product scaled", graph(
        f"{ONE} o, k, v = Split<axis = 2>(p, thirds) q = Mul(o, half) {NODE}(q, k, v)")),
    Case(packed_qkv_attention, "one product in float16",
         graph(CUT, "float16[b, s, 6] x", "float16[b, s, 8]", "float16")),
    Case(separate_qkv_attention, "float16",
         graph(THREE, "float16[b, s, 6] x", "float16[b, s, 8]", "float16"), ep="cuda"),
]
NEGATIVES = [
    Case(separate_qkv_attention, "three products on a CPU",
         graph(THREE), why="only the execution provider cuda"),
    Case(packed_qkv_attention, "three products", graph(THREE), why="no Slice or Split"),
    Case(separate_qkv_attention, "keys and values of another tensor", why="'x' must be the same tensor",
         model=graph(THREE.replace("MatMul(x, wk)", "MatMul(z, wk)").replace("MatMul(x, wv)", "MatMul(z, wv)"),
                     "float[b, s, 6] x, float[b, s, 6] z"), ep="cuda"),
    Case(separate_qkv_attention, "weights that are computed", why="the weights must be constants",
         model=graph(THREE.replace("wk", "wn"), "float[b, s, 6] x, float[6, 8] wn"), ep="cuda"),
    Case(separate_qkv_attention, "keys that are asked for too", why="is also read",
         model=graph(f"{THREE} z = Neg(k)", output="float[b, s, 8] z, float[b, s, 8]"), ep="cuda"),
    Case(separate_qkv_attention, "a rotary embedding behind the projection", why="expected perm",
         model=graph(f"{PRODUCTS} {SUMS} t = Transpose<perm = [1, 0, 2]>(k) {NODE}(q, t, v)", "float[2, 2, 6] x",
                     "float[2, 2, 8]"), ep="cuda"),
    Case(separate_qkv_attention, "a past", why="expected",
         model=graph(THREE.replace("y =", "y, pk, pv =").replace("(q, k, v)", '(q, k, v, "", "", "", u, w)'),
                     "float[b, s, 6] x, float[b, 2, t, 4] u, float[b, 2, t, 4] w"), ep="cuda"),
    Case(separate_qkv_attention, "a bias of the rows", why="along only the columns",
         model=graph(f"{PRODUCTS} q = Add(a, column) {NODE}(q, c, d)", "float[b, 3, 6] x", "float[b, 3, 8]"),
         ep="cuda"),
    Case(packed_qkv_attention, "weights with an axis too many", why="has 3 axes, expected inputs, outputs",
         model=graph(CUT.replace("MatMul(x, w)", "MatMul(x, boxed)"))),
    Case(packed_qkv_attention, "parts in another order", why="expected",
         model=graph(CUT.replace("q, k, v = Split", "k, q, v = Split"))),
    Case(packed_qkv_attention, "slices that overlap", why="at the end of the one before it",
         model=graph(slices(("zero", "overlap", "sixteen"), ("eight", "twelve", "end")))),
    Case(separate_qkv_attention, "heads of another attention", why="split into the heads of the attention",
         model=graph(f"{PRODUCTS} {SUMS} kr = Reshape(k, four) kh = Transpose<perm = [0, 2, 1, 3]>(kr) "
                     "vr = Reshape(v, four) vh = Transpose<perm = [0, 2, 1, 3]>(vr) "
                     f"{NODE}(q, kh, vh)", output="float[b, s, 8]"), ep="cuda"),
    Case(packed_qkv_attention, "heads that each have their three",
         why="five has an axis of size 2, expected 3",
         model=graph(f"{TURNED} {GATHERED}".replace("(p, five)", "(p, apart)"), "float[b, 2, 6] x", "float[b, 2, 8]")),
    Case(packed_qkv_attention, "rows in a number that the exporter wrote", why="the rows of k_apart is 3",
         model=graph(f"{ONE} q, kr, v = Split<axis = 2>(p, thirds) ks = Reshape(kr, three_rows) "
                     f"k = Transpose<perm = [0, 2, 1, 3]>(ks) {NODE}(q, k, v)")),
    Case(packed_qkv_attention, "heads that are joined in another way",
         why="the batch of q_joined is 3, but that of q_apart is 2",
         model=graph(f"{TURNED} {GATHERED}".replace("(m, joined)", "(m, mixed)"), FIXED, "float[3, 2, 8]")),
    Case(packed_qkv_attention, "a bias of the attention itself, and of the projection",
         why="and so do their projections", model=graph(CUT.replace("k, v)", "k, v, b)"))),
    Case(packed_qkv_attention, "a bias of unknown length", why="",
         model=graph(CUT.replace("Add(a, b)", "Add(a, bias)"), "float[b, s, 6] x, float[m] bias")),
    Case(packed_qkv_kv_cache, "a bias of the scores", why="attention_bias",
         model=graph(CACHED.replace('"", pk', "m, pk"), f"{PAST}, float[1, 1, s, u] m", OUTPUTS)),
    Case(packed_qkv_kv_cache, "keys and values in turn", why="",
         model=graph(CACHED.replace("past, i0", "past, i2").replace("past, i1", "past, i0")
                     .replace("past, i2", "past, i1"), PAST, OUTPUTS)),
    Case(packed_qkv_kv_cache, "values first for the next step", why="",
         model=graph(CACHED.replace("(nk, zero)", "(nv, first)").replace("(nv, zero)", "(nk, zero)")
                     .replace("(nv, first)", "(nv, zero)"), PAST, OUTPUTS)),
    Case(packed_qkv_kv_cache, "keys for the next step that are read again", why="is also read",
         model=graph(f"{CACHED} z = Neg(nk)", PAST, f"float[b, 2, u, 4] z, {OUTPUTS}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize("body", [TIME_FIRST, TURNED_TWICE], ids=["as torch's layer has them", "keys turned twice"])
def test_rows_before_the_batch(body):
    """One op, behind a transpose of its input, as other rules cut the projection and move the heads."""
    made, report = surgeon.rewrite(graph(body, TIME, BATCH), ["cleanup", "attentions"])
    assert [node.op_type for node in made.graph.node] == ["Transpose", "Attention"]
    assert report.outcome == "proved"


def test_weights_stay_where_they_are():
    model = graph(THREE)
    made, _ = surgeon.rewrite(model, separate_qkv_attention, ep="cuda")
    (concat,) = (node for node in made.graph.node if node.op_type == "Concat")
    assert list(concat.input) == ["wq", "wk", "wv"]
    before, after = ({item.name: item for item in graph.initializer} for graph in (model.graph, made.graph))
    assert all(after[name] == before[name] for name in concat.input)
    (fresh,) = (item for name, item in after.items() if name not in before)
    biases = [numpy_helper.to_array(before[name]) for name in ("bq", "bk", "bv")]
    np.testing.assert_array_equal(numpy_helper.to_array(fresh), np.concatenate(biases))


def test_the_weight_attention_of_one_projection_product_is_read_as_it_is():
    made, _ = surgeon.rewrite(graph(CUT), packed_qkv_attention)
    (node,) = made.graph.node
    assert node.input[1] == "w"


@pytest.mark.parametrize(
    ("body", "scale"),
    [
        (f"{PRODUCTS} q = Mul(half, a) {NODE}(q, c, d)", 0.5 * 0.4),
        (f"{PRODUCTS} q = Mul(half, a) {NODE.replace(', scale = 0.4', '')}(q, c, d)", 0.5 * 4**-0.5),
        (THREE, 0.4),
    ],
)
def test_a_number_on_the_queries_becomes_part_of_the_scale(body, scale):
    made, _ = surgeon.rewrite(graph(body), [scaled_queries, separate_qkv_attention], ep="cuda")
    found = {item.name: onnx.helper.get_attribute_value(item) for item in made.graph.node[-1].attribute}
    assert found["scale"] == pytest.approx(scale)


def test_columns_are_counted_where_they_differ():
    body = f"{PRODUCTS.replace('wv', 'short')} {NODE}(a, c, d)"
    made, _ = surgeon.rewrite(graph(body, output="float[b, s, 4]"), separate_qkv_attention, ep="cuda")
    found = {item.name: onnx.helper.get_attribute_value(item) for item in made.graph.node[-1].attribute}
    assert found["qkv_hidden_sizes"] == [8, 8, 4]


@pytest.mark.parametrize(("ep", "op"), [("cuda", "Attention"), ("cpu", "MultiHeadAttention")])
def test_layers_of_a_real_export(ep, op, tmp_path):
    """Each of the three layers is one op with its projections on CUDA, and its core alone on a CPU; the guard stays."""
    path, report = surgeon.rewrite(SHIPPED, "transformers", output=tmp_path / "out.onnx", ep=ep, check="both")
    counts = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert (counts[op], counts["Attention"] + counts["MultiHeadAttention"], counts["IsNaN"]) == (3, 3, 3)
    assert all(site.outcome == "proved" for site in report.sites)
