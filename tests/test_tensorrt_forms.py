"""Which ops TensorRT has a layer for: what the manuals of the rules say, held against its parser."""


import pytest

from surgeon.rules.catalogue import resolve
from surgeon.runtime.processes.worker import Task, Worker
from surgeon.runtime.tensorrt.library import installed
from surgeon.runtime.tensorrt.parser_tasks import ParseRequest
from surgeon.testing import parse

LIBRARY = installed()
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")
AROUND = {"CONSTANT", "UNSQUEEZE", "SHUFFLE"}  # scales and biases in the rank that a layer wants
PICTURE = "float16[2, 8, 6, 6] x, float16[8] s, float16[8] b) => (float16[2, 8, 6, 6] y)"
ONE = {
    "layer_norm": ("float16[2, 64] x, float16[64] s) => (float16[2, 64] y)", "LayerNormalization(x, s)", 17),
    "group_norm": (PICTURE, "GroupNormalization<num_groups = 4>(x, s, b)", 21),
    "instance_norm": (PICTURE, "InstanceNormalization(x, s, b)", 17),
    "gelu": ("float16[2, 64] x) => (float16[2, 64] y)", "Gelu(x)", 20),
    "gelu_tanh": ("float16[2, 64] x) => (float16[2, 64] y)", 'Gelu<approximate = "tanh">(x)', 20),
    "softmax": ("float16[2, 64] x) => (float16[2, 64] y)", "Softmax(x)", 17),
}
KINDS = {"layer_norm": "NORMALIZATION", "group_norm": "NORMALIZATION", "instance_norm": "NORMALIZATION"}
KINDS |= {"gelu": "ACTIVATION", "gelu_tanh": "ACTIVATION", "softmax": "SOFTMAX"}


def layers(ends, call, opset):
    model = parse(f'<ir_version: 10, opset_import: ["" : {opset}]> g ({ends} {{ y = {call} }}')
    child = Worker()
    try:
        asked = Task("tests.tensorrt_layers:layers", ParseRequest(LIBRARY.module, model.SerializeToString()), 60.0)
        return child.run(asked).value["kinds"]
    finally:
        child.end()


@pytest.mark.parametrize("rule", ONE)
def test_one_node_is_one_layer(rule):
    assert [kind for kind in layers(*ONE[rule]) if kind not in AROUND] == [KINDS[rule]]
    if KINDS[rule] != "ACTIVATION":
        (found,) = [item for item in resolve(rule)[rule] if item.name == rule]
        assert " one " in found.doc.partition("TensorRT:")[2]


def test_attention_is_its_own_layer():
    ends = "float16[2, 4, 8, 64] q, float16[2, 4, 8, 64] k, float16[2, 4, 8, 64] v) => (float16[2, 4, 8, 64] y)"
    found = layers(ends, "Attention(q, k, v)", 23)
    assert found.count("ATTENTION_INPUT") == found.count("ATTENTION_OUTPUT") == 1
    assert not {"MATRIX_MULTIPLY", "SOFTMAX"} & set(found)


def test_the_root_mean_square_is_in_parts_and_in_float32():
    found = layers("float16[2, 64] x, float16[64] s) => (float16[2, 64] y)", "RMSNormalization(x, s)", 23)
    assert "NORMALIZATION" not in found
    assert {"REDUCE", "CAST"} <= set(found)
