"""Names of helpers: readable, unique, and without shadowing."""

import keyword

import onnx_graphsurgeon as gs
import pytest

from surgeon.ops.builder.graph import Graph
from surgeon.ops.schemas import domains, operators
from surgeon.ops.schemas.helper_names import PREFIXES, RESERVED, all_helpers, helper_name, operator_of

NAMES = {
    "matmul": ("", "MatMul"),
    "matmul_integer": ("", "MatMulInteger"),
    "prelu": ("", "PRelu"),
    "isnan": ("", "IsNaN"),
    "isinf": ("", "IsInf"),
    "gelu": ("", "Gelu"),
    "layer_normalization": ("", "LayerNormalization"),
    "rms_normalization": ("", "RMSNormalization"),
    "reduce_mean": ("", "ReduceMean"),
    "reduce_l2": ("", "ReduceL2"),
    "reduce_log_sum_exp": ("", "ReduceLogSumExp"),
    "conv_transpose": ("", "ConvTranspose"),
    "lstm": ("", "LSTM"),
    "gru": ("", "GRU"),
    "rnn": ("", "RNN"),
    "lrn": ("", "LRN"),
    "dft": ("", "DFT"),
    "stft": ("", "STFT"),
    "gather_nd": ("", "GatherND"),
    "scatter_nd": ("", "ScatterND"),
    "one_hot": ("", "OneHot"),
    "non_zero": ("", "NonZero"),
    "top_k": ("", "TopK"),
    "cum_sum": ("", "CumSum"),
    "hard_swish": ("", "HardSwish"),
    "leaky_relu": ("", "LeakyRelu"),
    "log_softmax": ("", "LogSoftmax"),
    "lp_pool": ("", "LpPool"),
    "qlinear_conv": ("", "QLinearConv"),
    "qlinear_matmul": ("", "QLinearMatMul"),
    "tfidf_vectorizer": ("", "TfIdfVectorizer"),
    "col2im": ("", "Col2Im"),
    "bit_shift": ("", "BitShift"),
    "swiglu": ("", "SwiGLU"),
    "if_": ("", "If"),
    "and_": ("", "And"),
    "or_": ("", "Or"),
    "not_": ("", "Not"),
    "optional_": ("", "Optional"),
    "simplified_layer_normalization": ("", "SimplifiedLayerNormalization"),
    "ms_gelu": ("com.microsoft", "Gelu"),
    "ms_fast_gelu": ("com.microsoft", "FastGelu"),
    "ms_matmul_nbits": ("com.microsoft", "MatMulNBits"),
    "ms_matmul_bnb4": ("com.microsoft", "MatMulBnb4"),
    "ms_moe": ("com.microsoft", "MoE"),
    "ms_qmoe": ("com.microsoft", "QMoE"),
    "ms_fused_matmul": ("com.microsoft", "FusedMatMul"),
    "ms_ngram_repeat_block": ("com.microsoft", "NGramRepeatBlock"),
    "ms_ep_context": ("com.microsoft", "EPContext"),
    "ml_svm_classifier": ("ai.onnx.ml", "SVMClassifier"),
    "ml_one_hot_encoder": ("ai.onnx.ml", "OneHotEncoder"),
}


@pytest.mark.parametrize("name", NAMES)
def test_operators_are_named_as_people_write_them(name: str) -> None:
    assert helper_name(*NAMES[name]) == name


def test_the_longer_spelling_of_the_default_domain_gives_the_same_name() -> None:
    assert helper_name("ai.onnx", "Relu") == "relu"


def test_an_unknown_domain_is_the_prefix() -> None:
    assert helper_name("my.domain", "FooBar") == "my_domain_foo_bar"


def test_no_two_operators_share_a_helper() -> None:
    every = [(domain, op) for domain in domains() for op in operators(domain)]
    assert len(all_helpers()) == len(every) > 360
    assert set(all_helpers().values()) == set(every)


def test_every_helper_leads_back_to_its_operator() -> None:
    for domain in domains():
        for op in operators(domain):
            assert operator_of(helper_name(domain, op)) == (domain, op)
    assert operator_of("gelluu") is None


def test_every_name_can_be_called_in_python() -> None:
    for name in all_helpers():
        assert name.isidentifier()
        assert not keyword.iskeyword(name)
        assert name == name.lower()
        assert "__" not in name


def test_every_domain_with_helpers_has_a_prefix_of_its_own() -> None:
    assert set(domains()) <= set(PREFIXES)


@pytest.mark.parametrize("graph", [gs.Graph(), Graph()], ids=["onnx_graphsurgeon", "surgeon"])
def test_no_helper_hides_what_a_graph_has(graph: gs.Graph) -> None:
    """Checked against what this version of onnx_graphsurgeon has, not only against our list of it."""
    own = {name for name in {*dir(type(graph)), *vars(graph)} if not name.startswith("_")}
    assert own <= RESERVED
    assert not own & set(all_helpers())
