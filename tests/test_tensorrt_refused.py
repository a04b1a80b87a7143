"""Each op that TensorRT-RTX's parser refuses: what the rules make of it is built, or the check says why not."""

import onnx
import pytest

import surgeon
from surgeon.rules.searches.function_ops import RANDOM
from surgeon.runtime.tensorrt.library import installed
from surgeon.testing import parse
from tests.sampling import chosen

LIBRARY = installed()
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")

BYTES = "uint8[3, 2] w = {1, 2, 3, 4, 5, 6}, uint8 z = {1}, float s = {0.1}"
PAIR = "(float[2, 3] a, float[2, 3] b) => "
# The op, or ops, with the opset and a model; all of them are built after the rules.
BUILT = {
    "AffineGrid": (
        20,
        "(float[2, 2, 3] t) => (float[2, 4, 5, 2] y) <int64[4] s = {2, 2, 4, 5}> { y = AffineGrid(t, s) }",
    ),
    "BitShift": (11, "(uint8[3] x) => (uint8[3] y) <uint8 n = {2}> { y = BitShift<direction = \"LEFT\">(x, n) }"),
    "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor": (
        18,
        "(int32[3] x, int32[3] z) => (int32[3] y) "
        "{ a = BitwiseAnd(x, z) b = BitwiseOr(a, z) c = BitwiseXor(b, x) y = BitwiseNot(c) }",
    ),
    "CenterCropPad": (18, "(float[n, 8] x) => (float[6, 9] y) <int64[2] s = {6, 9}> { y = CenterCropPad(x, s) }"),
    "Col2Im": (
        18,
        "(float[1, 5, 5] x) => (float[1, 1, 5, 5] y) <int64[2] i = {5, 5}, int64[2] b = {1, 5}> "
        "{ y = Col2Im(x, i, b) }",
    ),
    "Compress": (11, "(float[3, 4] x) => (float[2, 4] y) <bool[3] c = {1, 0, 1}> { y = Compress<axis = 0>(x, c) }"),
    "ConvInteger": (
        10,
        "(uint8[1, 1, 3, 3] x) => (int32[1, 1, 2, 2] y) <uint8[1, 1, 2, 2] w = {1, 1, 1, 1}, uint8 z = {1}> "
        "{ y = ConvInteger(x, w, z) }",
    ),
    "CumProd": (26, "(float[n, 4] x) => (float[n, 4] y) <int64 a = {0}> { y = CumProd(x, a) }"),
    "DFT": (20, "(float[2, 16, 1] x) => (float[2, 9, 2] y) { y = DFT<onesided = 1>(x) }"),
    "DeformConv": (
        19,
        "(float[1, 1, 4, 4] x, float[1, 8, 3, 3] o) => (float[1, 1, 3, 3] y) <float[1, 1, 2, 2] w = {1, 2, 3, 4}> "
        "{ y = DeformConv(x, w, o) }",
    ),
    "Det": (11, "(float[2, 3, 3] x) => (float[2] y) { y = Det(x) }"),
    "DynamicQuantizeLinear MatMulInteger": (
        11,
        f"(float[n, 3] x) => (float[n, 2] y) <{BYTES}> {{ q, k, m = DynamicQuantizeLinear(x) "
        "i = MatMulInteger(q, w, m, z) f = Cast<to = 1>(i) y = Mul(f, k) }",
    ),
    "MaxRoiPool": (
        17,
        "(float[1, 2, 8, 8] x, float[n, 5] r) => (float[n, 2, 2, 2] y) { y = MaxRoiPool<pooled_shape = [2, 2]>(x, r) }",
    ),
    "MaxUnpool": (
        11,
        "(float[1, 1, 4, 4] x) => (float[1, 1, 4, 4] y) { p, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) "
        "y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(p, i) }",
    ),
    "MelWeightMatrix": (
        17,
        "(float[2, 9] x) => (float[2, 4] y) <int64 b = {4}, int64 l = {16}, int64 r = {8000}, float low = {0}, "
        "float high = {4000}> { m = MelWeightMatrix(b, l, r, low, high) y = MatMul(x, m) }",
    ),
    "NegativeLogLikelihoodLoss": (
        13,
        "(float[n, 5] x, int64[n] t) => (float y) { y = NegativeLogLikelihoodLoss(x, t) }",
    ),
    "Optional OptionalGetElement OptionalHasElement": (
        18,
        "(float[2, 3] a) => (float[2, 3] y) { o = Optional(a) h = OptionalHasElement(o) c = Cast<to = 1>(h) "
        "e = OptionalGetElement(o) y = Mul(e, c) }",
    ),
    "QLinearConv": (
        13,
        "(uint8[1, 1, 3, 3] x) => (uint8[1, 1, 2, 2] y) <uint8[1, 1, 2, 2] w = {1, 2, 3, 4}, uint8 z = {1}, "
        "float s = {0.1}> { y = QLinearConv(x, s, z, w, s, z, s, z) }",
    ),
    "QLinearMatMul": (
        13,
        f"(uint8[n, 3] x) => (uint8[n, 2] y) <{BYTES}> {{ y = QLinearMatMul(x, s, z, w, s, z, s, z) }}",
    ),
    "SequenceAt SequenceConstruct SequenceErase SequenceLength": (
        17,
        f"{PAIR} (float[2, 3] y) <int64 first = {{0}}> {{ s = SequenceConstruct(a, b) t = SequenceErase(s, first) "
        "e = SequenceAt(t, first) l = SequenceLength(t) f = Cast<to = 1>(l) y = Mul(e, f) }",
    ),
    "SequenceEmpty SequenceInsert ConcatFromSequence": (
        17,
        f"{PAIR} (float[4, 3] y) {{ e = SequenceEmpty() s = SequenceInsert(e, a) t = SequenceInsert(s, b) "
        "y = ConcatFromSequence<axis = 0>(t) }",
    ),
    "SoftmaxCrossEntropyLoss": (
        13,
        "(float[n, 5, m] x, int64[n, m] t) => (float y) { y = SoftmaxCrossEntropyLoss(x, t) }",
    ),
    "SplitToSequence": (
        17,
        "(float[4, 3] a) => (float[2, 3] y) <int64 two = {2}, int64 one = {1}> "
        "{ s = SplitToSequence<axis = 0>(a, two) y = SequenceAt(s, one) }",
    ),
    "SwiGLU": (28, "(float[2, 8] x, float[2, 8] w) => (float[2, 8] y) { y = SwiGLU(x, w) }"),
}
# What is not of the list, and the parser refuses in part.
BUILT |= {
    "MaxPool": (
        17,
        "(float[n, 1, 4, 4] x) => (float[n, 1, 2, 2] y, int64[n, 1, 2, 2] i) "
        "{ y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }",
    ),
    "BatchNormalization": (
        17,
        "(float[n, 2, 3] x) => (float[n, 2, 3] y) <float[2] s = {1, 2}, float[2] c = {0, 1}, float[2] m = {3, 1}, "
        "float[2] v = {1, 3}> { y, a, b = BatchNormalization<training_mode = 1>(x, s, c, m, v) }",
    ),
    "Resize": (
        18,
        "(float[n, 3, 8, 8] x) => (float[n, 3, 5, 4] y) <int64[2] s = {5, 4}> "
        "{ y = Resize<mode = \"linear\", antialias = 1, axes = [2, 3]>(x, , , s) }",
    ),
    "ScatterND ScatterElements": (
        18,
        "(float[n, 3] x, int64[k, 1] i, int64[k, 3] j, float[k, 3] u) => (float[n, 3] y) "
        "{ a = ScatterND<reduction = \"add\">(x, i, u) y = ScatterElements<axis = 0, reduction = \"add\">(a, j, u) }",
    ),
}
# What no rule writes otherwise, with words of what is said.
TOLD = {
    "Bernoulli": (15, "(float[2, 3] x) => (float[2, 3] y) { y = Bernoulli(x) }", "generates random numbers"),
    "BitCast": (26, "(float[2, 3] x) => (int32[2, 3] y) { y = BitCast<to = 6>(x) }", "reinterprets the bits"),
    "ImageDecoder": (20, "(uint8[n] x) => (uint8[h, w, 3] y) { y = ImageDecoder(x) }", "decodes image files"),
    "Multinomial": (15, "(float[2, 3] x) => (int32[2, 1] y) { y = Multinomial(x) }", "as an input"),
    "RegexFullMatch": (20, "(string[2] x) => (bool[2] y) { y = RegexFullMatch<pattern = \"a\">(x) }", "on strings"),
    "StringConcat": (20, "(string[2] x) => (string[2] y) { y = StringConcat(x, x) }", "works on strings"),
    "StringNormalizer": (10, "(string[2] x) => (string[2] y) { y = StringNormalizer(x) }", "outside the model"),
    "StringSplit": (20, "(string[2] x) => (string[2, n] y, int64[2] z) { y, z = StringSplit(x) }", "on strings"),
    "TfIdfVectorizer": (
        9,
        "(int32[12] x) => (float[3] y) { y = TfIdfVectorizer<max_gram_length = 2, max_skip_count = 0, "
        "min_gram_length = 2, mode = \"TF\", ngram_counts = [0, 4], ngram_indexes = [0, 1, 2], "
        "pool_int64s = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]>(x) }",
        "counts terms",
    ),
    "Unique": (11, "(float[6] x) => (float[n] y) { y = Unique(x) }", "its number of elements depends on its data"),
    "NonZero": (17, "(float[2, 4] x) => (int64[2, n] y) { y = NonZero(x) }", "does not support it, but TensorRT does"),
    "SequenceMap": (
        17,
        f"{PAIR} (float[4, 3] y) {{ s = SequenceConstruct(a, b) "
        "t = SequenceMap<body = g (float[2, 3] u) => (float[2, 3] v) { v = Relu(u) }>(s) "
        "y = ConcatFromSequence<axis = 0>(t) }",
        "works on a sequence of tensors",
    ),
    "Compress": (
        11,
        "(float[3, 4] x, bool[3] c) => (float[m, 4] y) { y = Compress<axis = 0>(x, c) }",
        "surgeon edit IN OUT --hold c=VALUE",
    ),
    "Det": (11, "(float[2, 5, 5] x) => (float[2] y) { y = Det(x) }", "5 rows, but at most 4 are supported"),
}
# fmt: off
REFUSED = {
    "AffineGrid", "Bernoulli", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
    "CenterCropPad", "Col2Im", "Compress", "ConcatFromSequence", "ConvInteger", "CumProd", "DFT", "DeformConv",
    "Det", "DynamicQuantizeLinear", "ImageDecoder", "MatMulInteger", "MaxRoiPool", "MaxUnpool", "MelWeightMatrix",
    "Multinomial", "NegativeLogLikelihoodLoss", "Optional", "OptionalGetElement", "OptionalHasElement",
    "QLinearConv", "QLinearMatMul", "RegexFullMatch", "SequenceAt", "SequenceConstruct", "SequenceEmpty",
    "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SoftmaxCrossEntropyLoss",
    "SplitToSequence", "StringConcat", "StringNormalizer", "StringSplit", "SwiGLU", "TfIdfVectorizer", "Unique",
}
# fmt: on


def model(opset, text):
    """A model from ONNX text, of an op that the installed onnx may be too old for."""
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"onnx {onnx.__version__} has no opset {opset}")
    return parse(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')


def test_all_ops_that_the_parser_lacks_are_here():
    named = {name for key in (*BUILT, *TOLD) for name in key.split()}
    assert not REFUSED - named
    assert not {"Bernoulli", "Multinomial"} - RANDOM


@pytest.mark.parametrize("ops", chosen(lambda: list(BUILT)[::4], lambda: list(BUILT)))
def test_what_rules_write_otherwise_is_built(ops):
    """And the check names a rule, or the group, before."""
    made = model(*BUILT[ops])
    before = surgeon.check(made, "tensorrt")
    assert {one.op.removeprefix("ai.onnx::") for one in before if one.stops} <= {
        *ops.split(),
        "MaxPool",
        "SequenceAt",
    }
    helps = " ".join(help_ for one in before for help_ in one.helps)
    assert "fires: surgeon rewrite IN OUT --rules" in helps or "--rules" in helps
    rules = ["tensorrt"] if ops != "DeformConv" else ["deform_conv_grid_sample", "tensorrt"]
    ready, report = surgeon.rewrite(made, rules, target="tensorrt")
    assert report.outcome == "proved"
    assert not [one for one in surgeon.check(ready, "tensorrt", build=True) if one.stops]


@pytest.mark.parametrize("op", TOLD)
def test_what_no_rule_writes_otherwise_is_reported_in_words(op):
    opset, text, words = TOLD[op]
    found = [one for one in surgeon.check(model(opset, text), "tensorrt") if one.stops and one.op.endswith(op)]
    said = " ".join([*(one.reason for one in found), *(help_ for one in found for help_ in one.helps)])
    assert words in said
    assert all(one.helps for one in found)
