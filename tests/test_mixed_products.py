"""Products of uint8 by int8: evened out, they come out right on any processor; all else stays as it is."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from surgeon.runtime.sessions import model_session, ort_session
from surgeon.runtime.sessions.int8_saturation import (
    PRODUCTS,
    has_uint8_int8_products,
    saturation_probe,
    with_uint8_factors,
)
from surgeon.runtime.sessions.ort_session import OrtSession
from surgeon.testing import parse

RANDOM = np.random.default_rng(5)
HEADER = '<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]> g '
SMALL = "(uint8[3, 6] x, int8[6, 4] w, uint8 z, int8[4] k, float s, float t, int32[4] c)"
IMAGE = "(uint8[1, 2, 5, 5] x, int8[3, 2, 3, 3] w, uint8 z, int8 k, float s)"
# Each with what its operator means, from numpy.
CASES = {
    "MatMulInteger": (
        f"{SMALL} => (int32[3, 4] y) {{ y = MatMulInteger(x, w, z, k) }}",
        lambda x, w, z, k, **_: product(x, w, z, k),
    ),
    "MatMulInteger without zero points": (
        f"{SMALL} => (int32[3, 4] y) {{ y = MatMulInteger(x, w) }}",
        lambda x, w, **_: product(x, w, 0, 0),
    ),
    "MatMulInteger in a body": (
        f"{SMALL} => (int32[3, 4] y) <bool b = {{1}}> "
        "{ y = If(b) <then_branch = g1 () => (int32[3, 4] p) { p = MatMulInteger(x, w, z) }, "
        "else_branch = g2 () => (int32[3, 4] q) { q = MatMulInteger(x, w) }> }",
        lambda x, w, z, **_: product(x, w, z, 0),
    ),
    "MatMulIntegerToFloat": (
        f"{SMALL} => (float[3, 4] y) {{ y = com.microsoft.MatMulIntegerToFloat(x, w, s, t, z, k) }}",
        lambda x, w, z, k, s, t, **_: product(x, w, z, k) * s * t,
    ),
    "QLinearMatMul": (
        f"{SMALL} => (uint8[3, 4] y) <float o = {{16}}, int8 l = {{3}}> "
        "{ y = QLinearMatMul(x, s, z, w, t, l, o, z) }",
        lambda x, w, z, s, t, **_: rounded(product(x, w, z, 3) * s * t / 16, z),
    ),
    "QGemm": (
        f"{SMALL} => (uint8[3, 4] y) <float o = {{16}}, int8 l = {{3}}> "
        "{ y = com.microsoft.QGemm(x, s, z, w, t, l, c, o, z) }",
        lambda x, w, z, s, t, c, **_: rounded((product(x, w, z, 3) + c) * s * t / 16, z),
    ),
    "ConvInteger": (
        f"{IMAGE} => (int32[1, 3, 3, 3] y) {{ y = ConvInteger(x, w, z, k) }}",
        lambda x, w, z, k, **_: windows(x, w, z, k),
    ),
    "QLinearConv": (
        f"{IMAGE} => (uint8[1, 3, 3, 3] y) <float o = {{64}}, int8 n = {{0}}> "
        "{ y = QLinearConv(x, s, z, w, s, n, o, z) }",
        lambda x, w, z, s, **_: rounded(windows(x, w, z, 0) * s * s / 64, z),
    ),
    "DynamicQuantizeMatMul": (
        "(float[3, 6] a, int8[6, 4] w, float t) => (float[3, 4] y) "
        "{ y = com.microsoft.DynamicQuantizeMatMul(a, w, t) }",
        lambda a, w, t, **_: product(a, w, 0, 0) * t,
    ),
}  # fmt: skip


def product(x, w, z, k):
    """Of two matrices less their zero points."""
    return (x.astype(np.int64) - z) @ (w.astype(np.int64) - k)


def windows(x, w, z, k):
    """A convolution of 3 × 3 windows, of a picture and kernels less their zero points."""
    cut = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - z, (3, 3), axis=(2, 3))
    return np.einsum("bchwij,ocij->bohw", cut, w.astype(np.int64) - k)


def rounded(numbers, zero):
    """As uint8."""
    return np.clip(np.rint(numbers) + zero, 0, 255)


def feeds():
    """Large numbers, of which sums of two are beyond 16 bits; powers of two scale them, so that all else is exact."""
    made = {
        "x": RANDOM.integers(200, 256, (3, 6)).astype(np.uint8),
        "a": RANDOM.choice([0.0, 255.0], (3, 6)).astype(np.float32),
        "w": RANDOM.choice([-128, 120, 127], (6, 4)).astype(np.int8),
        "z": np.array(7, np.uint8),
        "k": np.array([3, -128, 0, 127], np.int8),
        "c": np.array([5000, -3000, 0, 9], np.int32),
        "s": np.array(0.5, np.float32),
        "t": np.array(0.25, np.float32),
    }
    made["a"][0] = 0, 255, 255, 0, 255, 255  # so that all are whole steps of their own scale, which is 1
    return made


def pictures():
    """The same for windows."""
    return {
        "x": RANDOM.integers(200, 256, (1, 2, 5, 5)).astype(np.uint8),
        "w": RANDOM.choice([-128, 127], (3, 2, 3, 3)).astype(np.int8),
        "z": np.array(7, np.uint8),
        "k": np.array(-5, np.int8),
        "s": np.array(0.5, np.float32),
    }


def answer(model, given, **options):
    """What ONNX Runtime makes of it."""
    names = {port.name for port in model.graph.input}
    with OrtSession(model, **options) as session:
        (found,) = session.run({name: array for name, array in given.items() if name in names}).values()
    return found


@pytest.mark.parametrize("name", CASES)
def test_it_means_the_same_on_every_processor(name):
    text, meaning = CASES[name]
    model, given = parse(HEADER + text), pictures() if "Conv" in name else feeds()
    assert has_uint8_int8_products(model)
    expected = meaning(**given)
    before = model.SerializeToString()
    changed = with_uint8_factors(model)
    assert changed is not model
    assert model.SerializeToString() == before
    np.testing.assert_array_equal(answer(changed, given, exact=False), expected)
    np.testing.assert_array_equal(answer(model, given), expected)


def quantised(op, inputs, shapes, output, **attributes):
    """A node of one operator with random inputs, weights of 0 and 1 that no kernel saturates."""
    kinds = {np.dtype(np.int8): 2, np.dtype(np.uint8): 256}
    given = {}
    for name, (shape, dtype) in zip(inputs, shapes, strict=True):
        if np.dtype(dtype) in kinds:
            given[name] = np.asarray(RANDOM.integers(0, kinds[np.dtype(dtype)], shape), dtype)
        else:
            given[name] = np.asarray(RANDOM.random(shape) / 8, dtype)
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in given.items()}
    ports = [helper.make_tensor_value_info(name, types[name], array.shape) for name, array in given.items()]
    node = helper.make_node(op, inputs, ("y",), domain="com.microsoft", **attributes)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, output)
    graph = helper.make_graph((node,), "g", ports, (made,))
    imports = (helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=9), given


def test_attention_of_bytes():
    shapes = (((1, 4, 8), np.uint8), ((8, 24), np.int8), ((24,), np.float32), ((), np.float32), ((), np.float32))
    model, given = quantised("QAttention", ("x", "w", "b", "s", "t"), shapes, (1, 4, 8), num_heads=2)
    changed = with_uint8_factors(model)
    assert changed is not model
    np.testing.assert_array_equal(answer(changed, given, exact=False), answer(model, given, exact=False))


def test_recurrence_of_bytes():
    shapes = {
        "x": ((3, 1, 5), np.float32), "w": ((1, 5, 16), np.int8), "r": ((1, 4, 16), np.int8),
        "ws": ((1,), np.float32), "wz": ((1,), np.int8), "rs": ((1,), np.float32), "rz": ((1,), np.int8),
    }  # fmt: skip
    model, given = quantised("DynamicQuantizeLSTM", tuple(shapes), tuple(shapes.values()), (3, 1, 1, 4), hidden_size=4)
    node = model.graph.node[0]
    node.input[:] = ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"]
    changed = with_uint8_factors(model)
    assert len(changed.graph.node) == 1 + 4 * 4
    np.testing.assert_array_equal(answer(changed, given, exact=False), answer(model, given, exact=False))


def test_every_operator_is_tried():
    tried = {name.split()[0] for name in CASES} | {"QAttention", "DynamicQuantizeLSTM"}
    assert tried == {op for _, op in PRODUCTS}


@pytest.mark.parametrize(
    "text",
    [
        f"{SMALL} => (float[3, 4] y) {{ a = Cast<to = 1>(x)  b = Cast<to = 1>(w)  y = MatMul(a, b) }}",
        "(int8[3, 6] x, int8[6, 4] w) => (int32[3, 4] y) { y = MatMulInteger(x, w) }",
        "(uint8[3, 6] x, uint8[6, 4] w) => (int32[3, 4] y) { y = MatMulInteger(x, w) }",
    ],
)
def test_what_does_not_saturate_stays(text):
    model = parse(HEADER + text)
    assert with_uint8_factors(model) is model


def test_of_a_model_that_is_wrong_onnx_runtime_says_so(monkeypatch):
    """No dtypes are told of one that imports no opset."""
    model = parse(HEADER + CASES["MatMulInteger"][0])
    del model.opset_import[:]
    monkeypatch.setattr(ort_session, "int8_sums_saturate", lambda: True)
    assert with_uint8_factors(model) is model
    with pytest.raises(ort_session.SessionError):
        OrtSession(model)


def test_the_probe_reports_what_the_processor_does(monkeypatch):
    with OrtSession(saturation_probe(), exact=False) as session:
        (found,) = session.run({}).values()
    assert found.item() in (64_770, 32_767)
    assert ort_session.int8_sums_saturate() == (found.item() == 32_767)
    taken = []
    monkeypatch.setattr(ort_session, "int8_sums_saturate", lambda: False)
    monkeypatch.setattr(ort_session, "with_uint8_factors", taken.append)
    OrtSession(saturation_probe())
    assert not taken


@pytest.mark.parametrize("most", [1 << 30, 10])
def test_a_file_s_model_is_evened_too_unless_it_is_large(most, tmp_path, monkeypatch):
    text, meaning = CASES["MatMulInteger"]
    onnx.save(parse(HEADER + text), tmp_path / "net.onnx")
    monkeypatch.setattr(ort_session, "int8_sums_saturate", lambda: True)
    monkeypatch.setattr(model_session, "int8_sums_saturate", lambda: True)
    monkeypatch.setattr(model_session, "MAX_BYTES", most)
    taken = model_session._with_whole_sums(tmp_path / "net.onnx")
    assert isinstance(taken, onnx.ModelProto) == (most > 10)
    if most > 10:
        given = {name: array for name, array in feeds().items() if name != "a"}
        with model_session.open_model(tmp_path / "net.onnx") as opened:
            (found,) = opened.run(given).values()
        np.testing.assert_array_equal(found, meaning(**given))
