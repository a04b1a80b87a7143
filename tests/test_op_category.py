"""The category of an operator follows from its traits."""

from typing import get_args

import onnx
import pytest

from surgeon.ops.traits.op_category import Category, op_category


@pytest.mark.parametrize(
    ("category", "ops"),
    [
        ("attention", ("Attention", "com.microsoft::MultiHeadAttention")),
        ("product", ("Conv", "Gemm", "MatMul", "LSTM", "com.microsoft::FusedMatMul")),
        ("norm", ("LayerNormalization", "BatchNormalization", "Softmax", "LogSoftmax")),
        ("reduction", ("ReduceMean", "MaxPool", "GlobalAveragePool", "TopK", "CumSum")),
        ("movement", ("Reshape", "Transpose", "Concat", "Gather", "Shape", "Expand")),
        ("dtype", ("Cast", "QuantizeLinear")),
        ("control", ("If", "Loop", "Scan")),
        ("arithmetic", ("Add", "Div", "Max", "Where", "Equal")),
        ("elementwise", ("Relu", "Erf", "Sqrt", "com.microsoft::Gelu")),
        ("other", ("NonMaxSuppression", "acme::Unknown")),
    ],
)
def test_categories(category, ops):
    assert {op: op_category(op) for op in ops} == dict.fromkeys(ops, category)


def test_every_operator_has_one():
    found = {op_category(schema.name) for schema in onnx.defs.get_all_schemas() if not schema.domain}
    assert found == set(get_args(Category))
