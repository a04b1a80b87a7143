"""What ONNX Runtime does not take on CUDA though it has a kernel: rules do not write it, and check tells it."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.attention.grouped_query_attention import grouped_query_attention

import surgeon
from surgeon.testing import parse
from tests.models import ops
from tests.patterns.test_grouped_query_attention import BEFORE, CONSTANTS, NODE

# Two heads of keys and values of 8, rotated, each shared by two heads of queries, as Llama has them.
ROTATED = f"""qa = MatMul(h, wq) q = com.microsoft.RotaryEmbedding<num_heads = 4>(qa, start, cos, sin)
    kp = MatMul(h, wk) kq = com.microsoft.RotaryEmbedding<num_heads = 2>(kp, start, cos, sin)
    kr = Reshape(kq, split) k = Transpose<perm = [0, 2, 1, 3]>(kr)
    va_ = MatMul(h, wv) VALUES
    vr = Reshape(vp, split) v = Transpose<perm = [0, 2, 1, 3]>(vr)
    {BEFORE} {NODE}"""
PLAIN, BIASED = "vp = Identity(va_)", "vp = Add(va_, bv)"


def grouped(values=PLAIN, dtype="float16"):
    stored = ", ".join(f"{dtype}[{sizes}] {name} = {{0}}" for name, sizes in SIZES.items())
    constants = CONSTANTS[:-1] + f", int64[4] split = {{0, 0, 2, 8}}, int64[1] start = {{0}}, {stored}>"
    made = parse(
        f'<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> g ({dtype}[b, s, 32] h) '
        f"=> ({dtype}[b, s, 32] y) {constants} {{ {ROTATED.replace('VALUES', values)} }}"
    )
    random = np.random.default_rng(0)
    for tensor in made.graph.initializer:
        if tensor.name in SIZES:
            array = random.standard_normal([int(size) for size in SIZES[tensor.name].split(",")]) / 4
            of = np.float16 if dtype == "float16" else np.float32
            tensor.CopyFrom(numpy_helper.from_array(array.astype(of), tensor.name))
    return made


SIZES = {"wq": "32, 32", "wk": "32, 16", "wv": "32, 16", "bv": "16", "cos": "64, 4", "sin": "64, 4"}


@pytest.mark.parametrize(
    ("values", "ep", "fires"), [(PLAIN, "cpu", True), (PLAIN, "cuda", False), (BIASED, "cuda", True)]
)
def test_grouped_attention_that_its_optimiser_would_break_is_not_written(values, ep, fires):
    """It looks for rotary embeddings of plain products, and a bias hides one; seen on an H200: the process ends."""
    rewritten, report = surgeon.rewrite(grouped(values), grouped_query_attention, ep=ep)
    assert ("GroupQueryAttention" in ops(rewritten.graph)) == fires
    if not fires:
        (miss,) = [miss for miss in report.misses if miss.rule == "grouped_query_attention"]
        assert "merges rotary embeddings into GroupQueryAttention wrongly; use --target onnx" in str(miss)


def test_check_reports_it_of_what_is_there():
    there, _ = surgeon.rewrite(grouped(), grouped_query_attention, ep="cpu")
    assert surgeon.check(there) == []
    (found,) = surgeon.check(there, ep="cuda")
    assert (found.kind, found.op) == ("restriction", "com.microsoft::GroupQueryAttention")
    assert surgeon.check(surgeon.rewrite(grouped(BIASED), grouped_query_attention)[0], ep="cuda") == []


@pytest.mark.parametrize(
    ("body", "head", "message"),
    [
        (
            "y, , , z = Attention<qk_matmul_output_mode = 2>(q, q, q)",
            "(float[2, 4, 6, 8] q) => (float[2, 4, 6, 8] y, float[2, 4, 6, 6] z)",
            "supports only qk_matmul_output_mode=0",
        ),
        (
            "y = GRU<hidden_size = 4, layout = 1>(x, w, r)",
            "(float[2, 3, 5] x, float[1, 12, 5] w, float[1, 12, 4] r) => (float[2, 3, 1, 4] y)",
            "has no GRU with layout=1 on CUDA",
        ),
        (
            "y, , , = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 2>"
            "(q, q, q, , , l, t, , , , m, s)",
            "(float16[2, 4, 16] q, int32[2] l, int32 t, float16[2, 1, 4, 4] m, float16[2] s) => (float16[2, 4, 16] y)",
            "supports a mask or sinks, but not both",
        ),
        (
            "r = Slice(x, three, last, two) y = com.microsoft.RotaryEmbedding(r, one, c, c)",
            "(float[2, 4, s, 8] x, float[9, 4] c) => (float[2, 4, t, 8] y) <int64[1] one = {1}, int64[1] two = {2}, "
            "int64[1] three = {3}, int64[1] last = {9223372036854775807}>",
            "needs at least one row, but max(0, s - 3) may be 0",
        ),
        (
            "y, m, v = BatchNormalization<training_mode = 1>(x, s, s, s, s)",
            "(float[2, 3, 5] x, float[3] s) => (float[2, 3, 5] y, float[3] m, float[3] v)",
            "has no training mode on CUDA",
        ),
    ],
)
def test_what_attributes_ask_for(body, head, message):
    made = parse(f'<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]> g {head} {{ {body} }}')
    found = [one for one in surgeon.check(made, ep="cuda") if one.kind == "restriction"]
    assert [message in one.reason for one in found] == [True]
    assert [one for one in surgeon.check(made) if one.kind == "restriction"] == []


@pytest.mark.parametrize(("ep", "fires"), [("any", True), ("cuda", False)])
def test_they_hold_for_the_standard_s_ops_too_where_cuda_is_to_run_them(ep, fires):
    """A target without providers of its own is run by one of ONNX Runtime's."""

    @surgeon.rule(patterns=[lambda g, x: g.neg(x)], target="onnx", opset=23)
    def turned(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
        angles = np.zeros((2, 9, 4), np.float32)
        return g.rotary_embedding(x, angles, angles)

    made = parse(
        '<ir_version: 11, opset_import: ["" : 23]> g (float[2, 4, s, 8] x) => (float[2, 4, t, 8] y) '
        "<int64[1] two = {2}, int64[1] three = {3}, int64[1] last = {9223372036854775807}> "
        "{ r = Slice(x, three, last, two) y = Neg(r) }"
    )
    rewritten, _ = surgeon.rewrite(made, turned, target="onnx", ep=ep, check="none")
    assert ("RotaryEmbedding" in ops(rewritten.graph)) == fires
