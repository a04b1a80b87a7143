"""What rules write for ONNX Runtime alone, taken apart again for every target that does not have it."""

import ast
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import compose, helper, numpy_helper
from surgeon.patterns.activations.bias_gelu import bias_gelu
from surgeon.patterns.activations.gelu import gelu
from surgeon.patterns.attention.grouped_query_attention import grouped_query_attention

import surgeon
from surgeon import CheckOptions, lowering
from surgeon.errors import RuleError
from surgeon.ops.schemas import only_ort_knows, operators
from surgeon.ops.schemas.helper_names import helper_name
from surgeon.rules.catalogue import resolve
from surgeon.rules.rule import RulePlan
from surgeon.testing import Case, check_fires
from tests.test_architecture import RULE_FILES

MS = "com.microsoft."
X, ROWS, SAME = "float[b, s, 16] x", "float[b, s, 16] x, float[b, s, 16] z", "float[b, s, 16] y"
VECTOR = "{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}"
NORM = f"<float[16] w = {VECTOR}, float[16] c = {VECTOR}>"
BYTES = "uint8[b, 4] x"
SCALES = (
    "<float one = {0.5}, float two = {0.25}, float three = {1.0}, uint8 a = {3}, uint8 d = {128}, uint8 e = {120}, "
    "int8[4, 3] m = {1, -2, 3, 4, 5, -6, 7, 8, -9, 1, 2, 3}, int8 z = {0}, uint8[4, 3] u = {1, 2, 3, 4, 5, 6, 7, 8, 9, "
    "1, 2, 3}>"
)
TABLES = "<float[9, 8] co = {@}, float[9, 8] si = {@}>".replace("@", ", ".join(str(i / 72) for i in range(72)))
HEADS = "float[b, s, 64] q, float[b, s, 32] k, float[b, s, 32] v, float[b, 2, p, 16] pk, float[b, 2, p, 16] pv"
EMBEDDED = (
    f"<float[5, 16] r = {{@}}, float[7, 16] l = {{@}}, float[16] w = {VECTOR}, float[16] c = {VECTOR}>".replace(
        "5, 16] r = {@}", f"5, 16] r = {{{', '.join(str(i / 80) for i in range(80))}}}"
    ).replace("7, 16] l = {@}", f"7, 16] l = {{{', '.join(str(i / 112) for i in range(112))}}}")
)
NODES = {  # inputs, outputs, constants, nodes
    "Gelu": (X, SAME, "", "y = @Gelu(x)"),
    "FastGelu": (f"{X}, float[16] k", SAME, "", "t = @FastGelu(x) y = @FastGelu(t, k)"),
    "BiasGelu": (f"{X}, float[16] k", SAME, "", "y = @BiasGelu(x, k)"),
    "QuickGelu": (X, SAME, "", "t = @QuickGelu(x) r = @QuickGelu<alpha = 1.0>(t) y = @QuickGelu<alpha = 0.5>(r)"),
    "SkipLayerNormalization": (
        ROWS.replace("b, s, 16] z", "1, s, 16] z"),
        f"{SAME}, float[b, s, 16] t",
        NORM,
        "y, , , t = @SkipLayerNormalization<epsilon = 1e-5>(x, z, w, c)",
    ),
    "SkipSimplifiedLayerNormalization": (ROWS, SAME, NORM, "y = @SkipSimplifiedLayerNormalization(x, z, w, c)"),
    "SimplifiedLayerNormalization": (X, SAME, NORM, "y = SimplifiedLayerNormalization<epsilon = 1e-5>(x, w)"),
    "EmbedLayerNormalization": (
        "int32[b, s] i, int32[b, s] g, int32[b, s] m",
        f"{SAME}, int32[b] n, float[b, s, 16] t",
        EMBEDDED,
        "y, n, t = @EmbedLayerNormalization(i, g, r, l, r, w, c, m)",
    ),
    "FusedMatMul": (
        "float[b, s, 4] x, float[b, s, 4] z",
        "float[b, 4, 4] y",
        "",
        "y = @FusedMatMul<alpha = 0.5, transA = 1>(x, z)",
    ),
    "DynamicQuantizeMatMul": (
        "float[b, 4] x, uint8[4, 3] r, float[3] k",
        "float[b, 3] y",
        SCALES,
        "y = @DynamicQuantizeMatMul(x, r, one, a, k)",
    ),
    "MatMulIntegerToFloat": (BYTES, "float[b, 3] y", SCALES, "y = @MatMulIntegerToFloat(x, m, one, two, a)"),
    "RotaryEmbedding": (
        "float[b, s, 64] x, int64[b, s] p",
        "float[b, s, 64] y",
        TABLES,
        "y = @RotaryEmbedding(x, p, co, si)",
    ),
    "Attention": (
        "float[b, s, 6] x, float[6, 24] w, float[24] c",
        "float[b, s, 8] y",
        "",
        "y = @Attention<num_heads = 2>(x, w, c)",
    ),
    "MultiHeadAttention": (
        HEADS.replace("32", "64").replace("b, 2, p", "b, 4, p"),
        "float[b, s, 64] y, float[b, 4, t, 16] n, float[b, 4, t, 16] o",
        "",
        "y, n, o = @MultiHeadAttention<num_heads = 4>(q, k, v, , , , pk, pv)",
    ),
    "GroupQueryAttention": (
        f"{HEADS}, int32[b] n, int32 t",
        "float[b, s, 64] y, float[b, 2, t, 16] h, float[b, 2, t, 16] i",
        TABLES,
        "y, h, i = @GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1, softcap = 3.0, "
        "local_window_size = 2>(q, k, v, pk, pv, n, t, co, si)",
    ),
    "GroupNorm": (
        "float[b, 4, 4, 16] x",
        "float[b, 4, 4, 16] y",
        NORM,
        "y = @GroupNorm<activation = 1, channels_last = 1, epsilon = 1e-5, groups = 4>(x, w, c)",
    ),
    "QLinearAdd": (BYTES, "uint8[b, 4] y", SCALES, "y = @QLinearAdd(x, one, a, x, two, d, three, e)"),
    "QLinearMul": (BYTES, "uint8[b, 4] y", SCALES, "y = @QLinearMul(x, one, a, x, two, d, three, e)"),
    "QLinearConcat": (BYTES, "uint8[b, 8] y", SCALES, "y = @QLinearConcat<axis = 1>(one, a, x, one, d, x, two, e)"),
    "QLinearSigmoid": (BYTES, "uint8[b, 4] y", SCALES, "y = @QLinearSigmoid(x, one, a, two, e)"),
    "QLinearLeakyRelu": (BYTES, "uint8[b, 4] y", SCALES, "y = @QLinearLeakyRelu(x, one, a, two, e)"),
    "QLinearSoftmax": (
        BYTES,
        "uint8[b, 4] y",
        "<float one = {0.5}, uint8 a = {3}, float least = {0.00390625}, uint8 none = {0}>",
        "y = @QLinearSoftmax<axis = 1, opset = 13>(x, one, a, least, none)",
    ),
    "QLinearWhere": (
        f"bool[b, 4] h, {BYTES}",
        "uint8[b, 4] y",
        SCALES,
        "y = @QLinearWhere(h, x, one, a, x, two, d, three, e)",
    ),
    "QLinearAveragePool": (
        "uint8[b, 2, 4, 4] x",
        "uint8[b, 2, 2, 2] y",
        SCALES,
        "y = @QLinearAveragePool<kernel_shape = [2, 2], strides = [2, 2]>(x, one, a, two, e)",
    ),
    "QLinearGlobalAveragePool": (
        "uint8[b, 2, 4, 4] x",
        "uint8[b, 2, 1, 1] y",
        SCALES,
        "y = @QLinearGlobalAveragePool(x, one, a, two, e)",
    ),
    "QGemm": (BYTES, "uint8[b, 3] y", SCALES, "y = @QGemm(x, one, a, u, two, d, , three, e)"),
    "MatMulNBits": (
        "float[b, 32] x",
        "float[b, 2] y",
        f"<uint8[2, 1, 16] w = {{{', '.join(str(7 * i % 256) for i in range(32))}}}, float[2] c = {{0.5, 0.25}}>",
        "y = @MatMulNBits<K = 32, N = 2, bits = 4, block_size = 32>(x, w, c)",
    ),
}
NODES["GatherBlockQuantized"] = (
    "int64[b] i",
    "float[b, 32] y",
    f"<uint8[2, 16] w = {{{', '.join(str(7 * i % 256) for i in range(32))}}}, float[2, 2] c = {{0.5, 0.25, 1, 2}}>",
    "y = @GatherBlockQuantized<block_size = 16>(w, i, c)",
)
APPROXIMATE = {"DynamicQuantizeLSTM"}  # in no group unless it is asked for: it has tests beside its rule


def one(name, opset=21):
    inputs, outputs, constants, nodes = NODES[name]
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return onnx.parser.parse_model(f"{header} ({inputs}) => ({outputs}) {constants} {{ {nodes.replace('@', MS)} }}")


@cache
def together():
    """All of them in one model, with names of its own for each."""
    parts = [compose.add_prefix(one(name), f"{name}.") for name in NODES]
    whole = parts[0]
    for part in parts[1:]:
        for field in ("node", "input", "output", "initializer"):
            getattr(whole.graph, field).extend(getattr(part.graph, field))
    return whole


def left(model):
    """The ops of a model that are ONNX Runtime's own."""
    return {node.op_type for node in model.graph.node if node.domain or only_ort_knows("", node.op_type, 21)}


def mentioned():
    """The ops of ONNX Runtime's own that the files of rules name, to write or to read them."""
    own = {helper_name("com.microsoft", name): name for name in operators("com.microsoft")}
    own["simplified_layer_normalization"] = "SimplifiedLayerNormalization"
    for path in RULE_FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", None)
            if isinstance(name, str) and name in own:
                yield own[name]


def test_every_op_that_rules_name_is_here():
    assert set(mentioned()) - APPROXIMATE == NODES.keys()


def lowered(group, target):
    """The rules of a group that are for what the target does not run; the others take long, and write nothing here."""
    rules = [(rule, rule.plan(target, 21)) for rule in resolve(group)[group]]
    return [rule for rule, plan in rules if isinstance(plan, RulePlan) and (plan.lacking or plan.form.kind == target)]


@pytest.mark.parametrize("target", ["onnx", "tensorrt", "decomposed"])
def test_no_op_is_left(target):
    made, report = surgeon.rewrite(together(), lowered("tensorrt", target), target=target, check="none")
    read = {"Gelu"} if target == "tensorrt" else set()  # by its name, as what it is
    assert left(made) == read, [miss for miss in report.misses if "com.microsoft" in miss.reason]
    if target == "tensorrt":
        assert {node.op_type for node in made.graph.node}.isdisjoint({"MatMulInteger", "DynamicQuantizeLinear"})


@pytest.mark.parametrize("name", ["Attention", "GroupQueryAttention", "MatMulNBits", "GatherBlockQuantized"])
def test_ops_of_further_rules_are_proved(name):
    """The ops of `lowering` itself are proved in tests/patterns/test_lowering.py."""
    rules = "lowering,grouped_query_attention,matmul_nbits,blocked_weights"
    made, report = surgeon.rewrite(one(name), rules, target="decomposed", options=CheckOptions(seed=1))
    assert report.outcome == "proved", report.doubts
    assert not left(made)


def test_group_ort_is_undone_by_its_own_rules():
    """What `--rules ort` writes the same rules take apart, without naming another group."""
    rules = [*lowered("ort", "decomposed"), *lowered("transformers", "decomposed")]
    made, _ = surgeon.rewrite(together(), rules, target="decomposed", check="none")
    read_only = ("QLinear", "QGemm", "MatMulNBits", "GatherBlockQuantized", "GroupNorm")
    assert not {name for name in left(made) if not name.startswith(read_only)}


@pytest.mark.parametrize("target", ["onnx", "tensorrt"])
def test_a_rule_that_writes_for_one_runtime_takes_it_apart_for_others(target):
    """Where the rule has no form for the target; what it is made of is left alone there."""
    made, report = surgeon.rewrite(one("BiasGelu"), bias_gelu, target=target)
    assert report.outcome == "proved"
    assert {node.op_type for node in made.graph.node} == {"Add", "Div", "Erf", "Mul"}
    _, report = surgeon.rewrite(made, bias_gelu, target=target)
    assert not report.sites


def test_what_the_target_has_is_written_first():
    """At an opset that has the standard op, nothing is taken apart; ONNX Runtime keeps its own."""
    parts = ["Add", "Div", "Erf", "Mul"]
    for opset, target, ops in ((20, "onnx", ["Gelu"]), (18, "ort", ["Gelu"]), (18, "onnx", parts)):
        made, _ = surgeon.rewrite(one("Gelu", opset), ["gelu:gelu", "lowering"], target=target, check="none")
        assert sorted({node.op_type for node in made.graph.node}) == ops, (opset, target)


def test_an_upgrade_is_preferred():
    made, report = surgeon.rewrite(one("Gelu", 18), ["gelu:gelu", "lowering"], target="onnx", upgrade="auto")
    assert [node.op_type for node in made.graph.node] == ["Gelu"]
    assert report.upgrade is not None


def test_nothing_to_take_apart():
    @surgeon.rule(patterns=[lambda g, x: g.mul(x, x)], target="any")
    def square(g, x):
        return g.pow(x, 2.0)

    with pytest.raises(RuleError, match="writes no op that surgeon can recognise and decompose"):
        lowering(square, __name__)
    assert lowering(gelu, __name__).lacking


GROUPED = {
    "in one, neighbours turned, a window": (
        {"packed": True, "past": True, "half": 8},
        ", do_rotary = 1, rotary_interleaved = 1, local_window_size = 2",
    ),
    "places of its own, sinks, all keys": (
        {"past": True, "half": 16, "places": True, "sink": True},
        ", do_rotary = 1, causal = 0, scale = 0.3",
    ),
    "a smooth softmax, a cap and a bias": ({"past": True, "bias": True}, ", smooth_softmax = 1, softcap = 2.0"),
    "half precision, no past": ({"kind": "float16"}, ""),
}


def grouped(attributes, packed=False, past=False, half=0, places=False, sink=False, bias=False, kind="float"):
    """A GroupQueryAttention of four heads of 32 over two."""
    inputs = [f"{kind}[b, s, {256 if packed else 128}] q"]
    inputs += [] if packed else [f"{kind}[b, s, 64] k", f"{kind}[b, s, 64] v"]
    inputs += [f"{kind}[b, 2, p, 32] pk", f"{kind}[b, 2, p, 32] pv"] if past else []
    inputs += ["int32[b] n", "int32 t"]
    inputs += ["int64[b, s] at"] if places else []
    inputs += [f"{kind}[1, 4, s, t] m"] if bias else []
    inputs += [f"{kind}[4] o"] if sink else []
    names = ["q", *(["", ""] if packed else ["k", "v"]), *(["pk", "pv"] if past else ["", ""]), "n", "t"]
    names += [*(["co", "si"] if half else ["", ""]), "at" * places, "m" * bias, "o" * sink]
    node = f"y, h, i = {MS}GroupQueryAttention<num_heads = 4, kv_num_heads = 2{attributes}>({', '.join(names)})"
    outputs = f"{kind}[b, s, 128] y, {kind}[b, 2, u, 32] h, {kind}[b, 2, u, 32] i"
    header = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> g'
    while ", )" in node:
        node = node.replace(", )", ")")
    model = onnx.parser.parse_model(f"{header} ({', '.join(inputs)}) => ({outputs}) {{ {node} }}")
    angles = np.linspace(0, 3, 64 * half).reshape(64, half) if half else None
    dtype = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    for name, function in (("co", np.cos), ("si", np.sin)) if half else ():
        model.graph.initializer.append(numpy_helper.from_array(function(angles).astype(dtype), name))
    return model


@pytest.mark.parametrize("title", GROUPED)
def test_grouped_attention_in_parts(title):
    sizes, reported = GROUPED[title]
    check_fires(Case(grouped_query_attention, title, grouped(reported, **sizes), target="decomposed", check="sites"))


@pytest.mark.parametrize("past", [0, 3, 6])
def test_sequences_of_different_lengths(past):
    """One new key each, behind pasts of different lengths, some of which have room for more."""
    model = grouped(", do_rotary = 1, local_window_size = 4", past=True, half=16)
    made, _ = surgeon.rewrite(model, grouped_query_attention, target="onnx", check="none")
    random = np.random.default_rng(past)
    widths = {"q": 128, "k": 64, "v": 64}
    rows = {name: random.normal(size=(3, 1, size)).astype(np.float32) for name, size in widths.items()}
    before = {name: random.normal(size=(3, 2, past, 32)).astype(np.float32) for name in ("pk", "pv")}
    last = random.integers(0, past + 1, 3).astype(np.int32)
    total = np.array(last.max() + 1, np.int32)
    report = surgeon.compare(model, made, inputs=[{**rows, **before, "n": last, "t": total}])
    assert report.outcome.value == "proved", report
