"""Convolutions and poolings in float64: against onnx's evaluator, against ONNX Runtime, and what they do with NaN."""

import numpy as np
import onnx.reference.ops.op_average_pool
import onnx.reference.ops.op_conv
import onnx.reference.ops.op_max_pool
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from surgeon.runtime.kernels import convolution
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from tests import sampling
from tests.onnx_cases import array_of, cases_of
from tests.single_ops import by_formula, by_onnx, by_reference, by_runtime, one_node, require_same
from tests.versions import ONNX_COMPUTES_WELL

RANDOM = np.random.default_rng(0)
ONNXS = "onnx's ReferenceEvaluator"
INF, NAN = np.inf, np.nan
POOLINGS = ("MaxPool", "AveragePool", "LpPool")
OPS = ("Conv", "ConvTranspose", *POOLINGS, "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")


def normal(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


CONVOLUTIONS = {
    "1-D": ((2, 3, 9), (4, 3, 3), {}),
    "2-D with all attributes": (
        (2, 4, 9, 8),
        (6, 2, 3, 2),
        {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 3], "group": 2},
    ),
    "3-D": ((1, 2, 5, 4, 6), (3, 2, 2, 1, 3), {"pads": [1, 0, 0, 0, 1, 2], "strides": [1, 2, 2]}),
    "1x1": ((2, 5, 4, 4), (3, 5, 1, 1), {}),
    "1x1 with a stride": ((2, 5, 5, 4), (3, 5, 1, 1), {"strides": [2, 2]}),
    "depthwise": ((2, 6, 7, 7), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "depthwise, two filters a channel": ((2, 3, 7, 7), (6, 1, 3, 3), {"group": 3, "dilations": [2, 1]}),
    "depthwise, a long kernel": ((1, 3, 99), (3, 1, 80), {"group": 3, "pads": [7, 7]}),
    "long kernel": ((1, 1, 300), (5, 1, 256), {"strides": [16]}),
    "same, upper": ((1, 2, 7, 6), (3, 2, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 1]}),
    "same, lower": ((1, 2, 7, 6), (3, 2, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    "valid": ((1, 2, 7, 6), (3, 2, 4, 3), {"auto_pad": "VALID", "strides": [2, 1]}),
}
TRANSPOSED = {
    "1-D": ((2, 3, 5), (3, 2, 3), {}),
    "2-D with all attributes": (
        (2, 4, 3, 5),
        (4, 3, 3, 2),
        {"pads": [1, 0, 2, 1], "strides": [2, 3], "dilations": [1, 2], "group": 2, "output_padding": [1, 2]},
    ),
    "3-D": ((1, 2, 3, 2, 4), (2, 3, 2, 1, 3), {"strides": [1, 2, 2]}),
    "depthwise": ((2, 6, 3, 3), (6, 1, 3, 3), {"group": 6, "strides": [2, 2]}),
    "shape": ((1, 2, 3, 3), (2, 1, 3, 3), {"output_shape": [10, 8], "strides": [3, 2]}),
    "shape, upper": (
        (1, 2, 3, 3),
        (2, 1, 4, 3),
        {"output_shape": [7, 6], "strides": [3, 2], "auto_pad": "SAME_UPPER"},
    ),
    "same, lower": ((1, 2, 3, 4), (2, 1, 4, 4), {"strides": [2, 1], "auto_pad": "SAME_LOWER"}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_convolutions(name, bias):
    shape, weight, attributes = CONVOLUTIONS[name]
    feeds = {"x": normal(*shape), "w": normal(*weight), "b": normal(weight[0]) if bias else None}
    found = by_formula("Conv", feeds, **attributes)
    if ONNX_COMPUTES_WELL:
        require_same(found, by_onnx("Conv", feeds, **attributes), 1e-11, 1e-11)
    require_same(found, by_runtime("Conv", feeds, **attributes), 1e-4, 1e-4)


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name):
    """onnx's own evaluator knows neither dilations nor more than one group, and loses `output_shape`'s padding."""
    shape, weight, attributes = TRANSPOSED[name]
    feeds = {"x": normal(*shape), "w": normal(*weight), "b": normal(weight[1] * attributes.get("group", 1))}
    found = by_formula("ConvTranspose", feeds, **attributes)
    require_same(found, by_runtime("ConvTranspose", feeds, **attributes), 1e-4, 1e-4)
    if name in ("1-D", "3-D"):
        require_same(found, by_onnx("ConvTranspose", feeds, **attributes), 1e-11, 1e-11)


@pytest.mark.parametrize("room", [1, 100, 1000])
def test_columns_in_parts(monkeypatch, room):
    """However few are laid out at once, down to a row of one image."""
    feeds = {"x": normal(3, 2, 9, 5), "w": normal(4, 2, 3, 2)}
    whole = by_formula("Conv", feeds, strides=[2, 1])
    monkeypatch.setattr(convolution, "_COLUMNS", room)
    require_same(by_formula("Conv", feeds, strides=[2, 1]), whole, 1e-13, 1e-13)


numbers = st.integers(1, 3)


@st.composite
def placed(draw, *, pooling):
    """A kernel, sizes that it fits into, and the attributes that place it."""
    rank = draw(st.integers(1, 3))
    each = [[draw(numbers) for _ in range(rank)] for _ in range(3)]
    kernel, strides, dilations = each
    attributes = {"strides": strides}
    auto = draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto == "NOTSET":
        attributes["pads"] = [draw(st.integers(0, size - 1)) for size in kernel * 2]
    else:
        attributes["auto_pad"] = auto
    if not (pooling and auto.startswith("SAME")) and draw(st.booleans()):
        attributes["dilations"] = dilations
    spans = [(size - 1) * attributes.get("dilations", [1] * rank)[at] + 1 for at, size in enumerate(kernel)]
    sizes = [draw(st.integers(span, span + 4)) for span in spans]
    return kernel, sizes, attributes


@settings(max_examples=sampling.examples(150), deadline=None)
@given(placed(pooling=False), numbers, numbers, numbers, st.booleans())
def test_any_convolution(placing, group, inputs, filters, transposed):
    """Against ONNX Runtime; onnx's own is the second opinion where it knows all attributes."""
    kernel, sizes, attributes = placing
    op = "ConvTranspose" if transposed else "Conv"
    channels = (group * inputs, filters) if transposed else (group * filters, inputs)
    feeds = {"x": normal(2, group * inputs, *sizes), "w": normal(*channels, *kernel)}
    try:
        wanted = by_runtime(op, feeds, group=group, **attributes)
    except SessionError:
        assume(False)  # padding that leaves nothing of a transposed convolution
    found = by_formula(op, feeds, group=group, **attributes)
    require_same(found, wanted, 1e-4, 1e-4)
    if not transposed and ONNX_COMPUTES_WELL:
        require_same(found, by_onnx(op, feeds, group=group, **attributes), 1e-11, 1e-11)


@settings(max_examples=sampling.examples(250), deadline=None)
@given(placed(pooling=True), st.sampled_from(POOLINGS), st.data())
def test_any_pooling(placing, op, data):
    kernel, sizes, attributes = placing
    outputs = 1
    if op == "AveragePool":
        attributes["count_include_pad"] = data.draw(st.integers(0, 1))
    elif op == "LpPool":
        attributes["p"] = data.draw(numbers)
    elif data.draw(st.booleans()):
        outputs, attributes["storage_order"] = 2, data.draw(st.integers(0, 1))
    attributes["ceil_mode"] = data.draw(st.integers(0, 1))
    feeds = {"x": normal(2, 2, *sizes)}
    settled = {"kernel_shape": kernel, "outputs": outputs, **attributes}
    try:
        found = by_formula(op, feeds, **settled)
    except SessionError as refused:
        assume("disagree on SAME padding" not in str(refused))
        raise
    wanted = by_runtime(op, feeds, **settled)
    least = np.finfo(np.float32).min  # ONNX Runtime's for a window that sees padding alone
    wanted = [np.where(array == least, -INF, array) if array.dtype.kind == "f" else array for array in wanted]
    require_same(found, wanted, 1e-4, 1e-5)
    least = np.finfo(np.float64).min
    exact = [np.where(array == least, -INF, array) for array in by_reference(op, feeds, **settled)[1]]
    require_same(exact, found, 0, 0)


@pytest.mark.parametrize("op", POOLINGS)
def test_poolings_against_onnxs_evaluator(op):
    """Where that one is right: no ceil_mode, which it pads on both sides, and no negative padding."""
    feeds = {"x": normal(2, 3, 7, 8)}
    for attributes in (
        {"kernel_shape": [2, 3]},
        {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [2, 2], "dilations": [2, 3]},
        {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ):
        require_same(by_formula(op, feeds, **attributes), by_onnx(op, feeds, **attributes), 1e-11, 1e-11)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 2)])
def test_global_poolings(op, shape):
    feeds, attributes = {"x": normal(*shape)}, {"p": 3} if op == "GlobalLpPool" else {}
    attributes["opset"] = 13  # ONNX Runtime has no GlobalLpPool of the newest
    require_same(by_formula(op, feeds, **attributes), by_runtime(op, feeds, **attributes), 1e-5, 1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_the_maxima_of_integers(dtype):
    """Padding is less than all of them, and the dtype stays."""
    x = RANDOM.integers(np.iinfo(dtype).min, np.iinfo(dtype).min + 9, size=(1, 2, 6, 6)).astype(dtype)
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
    (found,) = by_formula("MaxPool", {"x": x}, **attributes)
    (wanted,) = by_runtime("MaxPool", {"x": x}, **attributes)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("group", [1, 2])
def test_infinite_weights_and_padding(group):
    """Zero times infinity is NaN also where the zero is padding, for ONNX Runtime as for Pad and Conv."""
    weight = np.ones((2, 2 // group, 3, 3), dtype=np.float32)
    weight[:, :, 0, 0] = INF
    feeds = {"x": np.abs(normal(1, 2, 4, 4)) + 1, "w": weight}
    attributes = {"pads": [1, 1, 1, 1], "group": group}
    found, wanted = by_formula("Conv", feeds, **attributes), by_runtime("Conv", feeds, **attributes)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    assert np.isnan(found).any()
    assert not np.isnan(found).all()


@pytest.mark.parametrize("group", [1, 2])
def test_nan_and_infinity_stay_where_they_are_seen(group):
    """Behind padding of any kind; a NaN taints the windows that see it and no other."""
    x = normal(1, 2, 6, 6)
    x[0, 0, 0, 0], x[0, 1, 5, 3] = NAN, INF
    feeds = {"x": x, "w": np.abs(normal(2, 2 // group, 3, 3))}
    attributes = {"pads": [1, 1, 1, 1], "group": group}
    require_same(by_formula("Conv", feeds, **attributes), by_runtime("Conv", feeds, **attributes), 1e-4, 1e-4)
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    found = by_formula("AveragePool", {"x": x}, **attributes)
    require_same(found, by_runtime("AveragePool", {"x": x}, **attributes), 1e-5, 1e-5)


@pytest.mark.parametrize("outputs", [1, 2])
def test_nan_in_a_maximum(outputs):
    """As in ONNX Runtime's float64: a NaN that comes first in its window stays, any other is passed over."""
    x = np.array([1, NAN, 2, 3, NAN, NAN, NAN, 5, NAN, -INF, -INF, -INF], dtype=np.float64)[None, None]
    attributes = {"kernel_shape": [3], "outputs": outputs}
    found = by_formula("MaxPool", {"x": x}, **attributes)
    require_same(found, by_runtime("MaxPool", {"x": x}, **attributes), 0, 0)
    np.testing.assert_array_equal(found[0][0, 0], [2, NAN, 3, 3, NAN, NAN, NAN, 5, NAN, -INF])


@pytest.mark.parametrize("shape", [(1, 1, 5, 3), (1, 1, 2, 6)])
def test_nan_in_a_maximum_over_two_axes(shape):
    """In the order of the whole window, not row by row."""
    x = RANDOM.choice([NAN, 1.0, 2.0, -INF], size=shape)
    attributes = {"kernel_shape": [2, 3]}
    require_same(by_formula("MaxPool", {"x": x}, **attributes), by_runtime("MaxPool", {"x": x}, **attributes), 0, 0)


REFUSED = {
    "does not fit into 2 elements": ("MaxPool", (1, 1, 2), {"kernel_shape": [3], "strides": [2]}),
    "SAME padding of dilated windows": (
        "MaxPool",
        (1, 1, 5),
        {"kernel_shape": [2], "dilations": [2], "auto_pad": "SAME_UPPER"},
    ),
    "do not cover an axis": ("LpPool", (1, 1, 6), {"kernel_shape": [1], "strides": [3], "auto_pad": "SAME_UPPER"}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused(reason):
    """Where the standard and ONNX Runtime disagree, nothing is the reference."""
    op, shape, attributes = REFUSED[reason]
    with pytest.raises(SessionError, match=reason):
        by_formula(op, {"x": normal(*shape)}, **attributes)


def test_weights_of_another_shape_are_refused():
    for op in ("Conv", "ConvTranspose"):
        model = one_node(op, {"x": normal(1, 1, 4), "w": normal(1, 1, 2)})
        with EvaluatorSession(model) as one, pytest.raises(SessionError, match="do not fit an input"):
            one.run({"x": normal(1, 3, 4), "w": normal(2, 2, 2)})


@pytest.mark.parametrize("activation", ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"])
@pytest.mark.parametrize("more", [True, False])
def test_fused_convolutions(activation, more):
    """Against ONNX Runtime's kernel; what is added to the convolution goes through the activation too."""
    parameters = {"LeakyRelu": [0.1], "Clip": [-0.5, 0.5], "HardSigmoid": [0.3, 0.4]}.get(activation)
    feeds = {
        "x": normal(2, 3, 6, 5),
        "w": normal(4, 3, 3, 3),
        "b": normal(4),
        "z": normal(2, 4, 4, 3) if more else None,
    }
    attributes = {"activation": activation, "domain": "com.microsoft"}
    attributes |= {"activation_params": parameters} if parameters else {}
    found = by_formula("FusedConv", feeds, **attributes)
    require_same(found, by_runtime("FusedConv", feeds, **attributes), 1e-4, 1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", OPS)
def test_onnxs_cases(op):
    """In the dtypes of the cases."""
    cases = cases_of(op)
    assert cases or op == "GlobalLpPool"  # which has none
    for case in cases:
        given_, wanted = ([array_of(item) for item in side] for side in case.data_sets[0])
        feeds = {port.name: array for port, array in zip(case.model.graph.input, given_, strict=True)}
        with EvaluatorSession(case.model) as one:
            answers = list(one.run(feeds).values())
        require_same(answers, wanted, 1e-3, 1e-5)  # some are written with four digits


@pytest.mark.parametrize("op", OPS)
def test_none_of_onnxs_own_is_used(op, monkeypatch):
    """Neither in a reference nor in the evaluator, in a body or without."""
    called = []
    for module in (
        onnx.reference.ops.op_conv.Conv,
        onnx.reference.ops.op_max_pool.MaxPool,
        onnx.reference.ops.op_average_pool.AveragePool_19,
    ):
        monkeypatch.setattr(module, "_run", lambda self, *_, **__: called.append(type(self)))
    feeds = {"x": normal(1, 2, 5, 5), "w": normal(2, 2, 3, 3)}
    attributes = {"kernel_shape": [3, 3]} if op in POOLINGS else {}
    if "Conv" not in op:
        del feeds["w"]
    by_formula(op, feeds, **attributes)
    name, _ = by_reference(op, feeds, **attributes)
    assert name == f"float64 under {'ONNX Runtime' if op == 'MaxPool' else ONNXS}"  # the one that has a kernel for it
    assert not called
