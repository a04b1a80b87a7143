"""conv_batch_norm and gemm_batch_norm: what is folded, what is not, and that the weights stay what they should."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from surgeon.patterns.weight_folding.conv_batch_norm import conv_batch_norm, gemm_batch_norm

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

NORM = ("scale", "shift", "mean", "variance")


def statistics(channels, seed=0, least=0.1, dtype=np.float32):
    """Scale, shift, mean and variance as training leaves them."""
    random = np.random.default_rng(seed)
    return {
        "scale": random.normal(1, 0.5, channels).astype(dtype),
        "shift": random.normal(0, 1, channels).astype(dtype),
        "mean": random.normal(0, 1, channels).astype(dtype),
        "variance": (random.random(channels) * 2 + least).astype(dtype),
    }


def model(x, y, w, nodes, constants=None, *, opset=17, ir=8, inputs=(), outputs=(), as_nodes=False):
    """A model of nodes over an input x and an output y; constants as initializers or, as_nodes, as Constant nodes.

    inputs: constants that are inputs too; outputs: further (name, shape) pairs.
    """
    random = np.random.default_rng(1)
    dtype = np.float32
    held = {"w": random.normal(0, 0.3, w).astype(dtype), **(constants or {})}
    element = helper.np_dtype_to_tensor_dtype(held["w"].dtype)
    tensors = [numpy_helper.from_array(value, name) for name, value in held.items()]
    values = [helper.make_tensor_value_info("x", element, x)]
    values += [helper.make_tensor_value_info(name, element, held[name].shape) for name in inputs]
    results = [helper.make_tensor_value_info(name, element, shape) for name, shape in (("y", y), *outputs)]
    constant_nodes = [helper.make_node("Constant", [], [item.name], value=item) for item in tensors if as_nodes]
    graph = helper.make_graph([*constant_nodes, *nodes], "g", values, results, [] if as_nodes else tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def small(nodes, constants, **settings):
    """A model of pictures of 8 by 8 and kernels of 3 by 3, from 3 channels to 6."""
    return model([2, 3, 8, 8], [2, 6, 6, 6], (6, 3, 3, 3), nodes, constants, **settings)


def conv(*more, out="c", **attributes):
    return helper.make_node("Conv", ["x", "w", *more], [out], **attributes)


def norm(source="c", outputs=("y",), **attributes):
    return helper.make_node("BatchNormalization", [source, *NORM], list(outputs), **attributes)


def vector(size, seed=3):
    return np.random.default_rng(seed).normal(0, 1, size).astype(np.float32)


BIAS = {"b": vector(6)}
PLAIN = [conv("b", pads=[1, 1, 1, 1]), norm()]

# fmt: off
FIRES = [
    Case(conv_batch_norm, "bias, padding, sizes unknown",
         model(["n", 3, "h", "w"], ["n", 6, "h", "w"], (6, 3, 3, 3), PLAIN, {**statistics(6), **BIAS})),
    Case(conv_batch_norm, "no bias, another epsilon, opset 9",
         small([conv(), norm(epsilon=1e-3, momentum=0.8)], statistics(6), opset=9)),
    Case(conv_batch_norm, "opset 7, spatial given",
         small([conv(), norm(spatial=1)], statistics(6), opset=7)),
    Case(conv_batch_norm, "opset 23",
         small([conv(), norm(training_mode=0)], statistics(6), opset=23, ir=10)),
    Case(conv_batch_norm, "depthwise",
         model([2, 3, 8, 8], [2, 6, 6, 6], (6, 1, 3, 3), [conv(group=3), norm()], statistics(6))),
    Case(conv_batch_norm, "one dimension, stride and dilation",
         model([2, 3, 12], [2, 6, 4], (6, 3, 3), [conv(strides=[2], dilations=[2]), norm()], statistics(6))),
    Case(conv_batch_norm, "three dimensions",
         model([2, 3, 4, 4, 4], [2, 6, 3, 3, 3], (6, 3, 2, 2, 2), [conv(), norm()], statistics(6))),
    Case(conv_batch_norm, "weights from Constant nodes",
         small([conv(), norm()], statistics(6), as_nodes=True)),
    Case(conv_batch_norm, "weights too large for a proof without them",
         model([1, 24, 5, 5], [1, 32, 3, 3], (32, 24, 3, 3), [conv(), norm()], statistics(32))),
    Case(conv_batch_norm, "weights spread out of one number, too large to be folded before", check="sites",
         model=parse('<ir_version: 8, opset_import: ["" : 17]> agraph (float[1, 32, 5, 5] x) => (float[1, 24, 3, 3] y) '
                     "<int64[4] shape = {24, 32, 3, 3}, int64[1] one = {24}> "
                     "{ w = ConstantOfShape<value = float[1] {0.02}>(shape) "
                     "s = ConstantOfShape<value = float[1] {2}>(one) b = ConstantOfShape(one) "
                     "c = Conv(x, w) y = BatchNormalization(c, s, b, b, s) }")),
    Case(conv_batch_norm, "variances down to 1e-5 and large scales",
         small([conv(), norm()],
               {**statistics(6, least=0.0), "variance": np.float32([1e-5, 2e-5, 1e-4, 1e-6, 1, 0]),
                "scale": np.float32([8, 1, -5, 2, 0, 1])})),
    Case(conv_batch_norm, "transposed, in groups",
         model([2, 4, 5, 5], [2, 6, 11, 11], (4, 3, 3, 3),
               [helper.make_node("ConvTranspose", ["x", "w", "b"], ["c"], strides=[2, 2], group=2), norm()],
               {**statistics(6), **BIAS})),
    Case(conv_batch_norm, "one weight behind two convolutions", sites=2,
         model=small([conv(), norm(outputs=["one"]), conv("b", out="d"), norm("d", ["two"]),
                      helper.make_node("Sub", ["one", "two"], ["y"])], {**statistics(6), **BIAS})),
    Case(conv_batch_norm, "float16 with statistics in float32",
         small([conv(), norm()],
               {**statistics(6), **{name: value.astype(np.float16) for name, value in statistics(6).items()
                                    if name in ("scale", "shift")}, "w": vector((6, 3, 3, 3)).astype(np.float16)})),
    Case(gemm_batch_norm, "a linear layer: transB, alpha and beta",
         model([3, 4], [3, 6], (6, 4), [helper.make_node("Gemm", ["x", "w", "b"], ["c"], transB=1, alpha=0.5, beta=2.0),
                                        norm()], {**statistics(6), **BIAS})),
    Case(gemm_batch_norm, "no bias",
         model(["n", 4], ["n", 6], (4, 6), [helper.make_node("Gemm", ["x", "w"], ["c"]), norm()], statistics(6))),
]
TRAINED = ["y", "m", "v", "sm", "sv"]
NEGATIVES = [
    Case(conv_batch_norm, "training mode", why="training_mode",
         model=small([conv(), norm(training_mode=1)], statistics(6))),
    Case(conv_batch_norm, "training mode of old", why="in training mode",
         model=small([conv(), norm(outputs=TRAINED)], statistics(6), opset=9)),
    Case(conv_batch_norm, "before opset 7", why="needs opset 7",
         model=small([conv(), norm()], statistics(6), opset=6)),
    Case(conv_batch_norm, "statistics of each place", why="spatial = 0",
         model=model([2, 3, 3, 3], [2, 6, 1, 1], (6, 3, 3, 3), [conv(), norm(spatial=0)], statistics(6), opset=7)),
    Case(conv_batch_norm, "weights that a caller may override", why="a caller may override",
         model=small([conv(), norm()], statistics(6), inputs=["w"])),
    Case(conv_batch_norm, "statistics that are inputs", why="a caller may override",
         model=small([conv(), norm()], statistics(6), inputs=["mean"])),
    Case(conv_batch_norm, "another reader of the convolution", why="is also read by",
         model=small([conv(), norm(outputs=["z"]), helper.make_node("Add", ["c", "z"], ["y"])], statistics(6))),
    Case(conv_batch_norm, "the convolution is an output", why="an output of the graph",
         model=small([conv(), norm()], statistics(6),
                     outputs=[("c", [2, 6, 6, 6])])),
    Case(conv_batch_norm, "statistics of another number of channels", why="6 output channels, but the constant has 3",
         model=small([conv(), norm()], statistics(3))),
    Case(conv_batch_norm, "groups that do not divide the channels", why="not a multiple of the groups",
         model=model([1, 3, 5, 5], [1, 4, 7, 7], (3, 2, 3, 3),
                     [helper.make_node("ConvTranspose", ["x", "w"], ["c"], group=2), norm()], statistics(4))),
    Case(conv_batch_norm, "statistics of several lengths", why="the same length",
         model=small([conv(), norm()], {**statistics(6), "mean": np.float32([0, 1])})),
    Case(conv_batch_norm, "a negative variance", why="would be infinite or NaN",
         model=small([conv(), norm()],
                     {**statistics(6), "variance": np.float32([1, 1, -1, 1, 1, 1])})),
    Case(conv_batch_norm, "float16 weights that would overflow", why="infinite or NaN in float16",
         model=small([conv(), norm()],
                     {**statistics(6, dtype=np.float16), "w": np.full((6, 3, 3, 3), 1000, np.float16),
                      "variance": np.full(6, 1e-4, np.float16)})),
    Case(conv_batch_norm, "a channel that training let die, as PP-OCRv3 has some", why="would round to 0 in float32",
         model=small([conv(), norm()],
                     {**statistics(6), "scale": np.float32([1, 1, 1e-40, 1, 1, 1]),
                      "w": vector((6, 3, 3, 3)) * np.float32([1, 1, 1e-30, 1, 1, 1]).reshape(-1, 1, 1, 1)})),
    Case(gemm_batch_norm, "a column that training let die", why="would round to 0 in float32",
         model=model([3, 4], [3, 6], (4, 6), [helper.make_node("Gemm", ["x", "w"], ["c"]), norm()],
                     {**statistics(6), "scale": np.float32([1, 1, 1e-40, 1, 1, 1]),
                      "w": vector((4, 6)) * np.float32([1, 1, 1e-30, 1, 1, 1])})),
    Case(conv_batch_norm, "another domain's norm", why="",
         model=small([conv(), helper.make_node("Relu", ["c"], ["y"])], statistics(6))),
    Case(gemm_batch_norm, "weights that are no constant", why="a constant for 'w'",
         model=model([4, 4], [4, 4], (4, 4), [helper.make_node("Gemm", ["x", "x"], ["c"]), norm()], statistics(4))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_nothing_of_the_old_weights_is_left():
    made, _ = surgeon.rewrite(FIRES[0].model, conv_batch_norm)
    assert [node.op_type for node in made.graph.node] == ["Conv"]
    assert sorted(tuple(item.dims) for item in made.graph.initializer) == [(6,), (6, 3, 3, 3)]


def test_a_shared_weight_stays_for_its_other_reader():
    both = small(
        [conv(), norm(outputs=["one"]), conv("b", out="two"), helper.make_node("Sub", ["one", "two"], ["y"])],
        {**statistics(6), **BIAS},
    )
    report = check_fires(Case(conv_batch_norm, "shared", both))
    made, _ = surgeon.rewrite(both, conv_batch_norm)
    assert sorted(tuple(item.dims) for item in made.graph.initializer) == [(6,), (6,), (6, 3, 3, 3), (6, 3, 3, 3)]
    assert {"w", "b"} <= {item.name for item in made.graph.initializer}
    assert report.outcome == "proved"


def test_the_numbers_are_those_of_double_precision_rounded_once():
    source = FIRES[1].model
    held = {item.name: numpy_helper.to_array(item).astype(np.float64) for item in source.graph.initializer}
    made, _ = surgeon.rewrite(source, conv_batch_norm)
    found = {len(item.dims): numpy_helper.to_array(item) for item in made.graph.initializer}
    ratio = held["scale"] / np.sqrt(held["variance"] + float(np.float32(1e-3)))
    np.testing.assert_array_equal(found[4], (held["w"] * ratio[:, None, None, None]).astype(np.float32))
    np.testing.assert_array_equal(found[1], (held["shift"] - held["mean"] * ratio).astype(np.float32))


def test_inside_a_body_with_weights_from_around_it():
    """The new weights belong to the body, the old ones go from the main graph."""
    source = small([conv(), norm(outputs=["t"])], statistics(6))
    body = helper.make_graph(list(source.graph.node), "then", [], [helper.make_tensor_value_info("t", 1, [2, 6, 6, 6])])
    other = helper.make_graph(
        [helper.make_node("Conv", ["x", "v"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", 1, [2, 6, 6, 6])],
        [numpy_helper.from_array(np.ones((6, 3, 3, 3), np.float32), "v")],
    )
    del source.graph.node[:]
    source.graph.node.append(helper.make_node("If", ["flag"], ["y"], then_branch=body, else_branch=other))
    source.graph.input.append(helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, []))
    onnx.checker.check_model(source, full_check=True)
    made, report = surgeon.rewrite(source, conv_batch_norm, check="both")
    assert report.outcome == "proved"
    then = next(item.g for item in made.graph.node[0].attribute if item.name == "then_branch")
    assert [node.op_type for node in then.node] == ["Conv"]
    assert len(then.initializer) == 2
    assert not made.graph.initializer


def test_weights_in_a_file_of_their_own(tmp_path):
    """Folding reads external data; the result has its new weights, and not the old ones."""
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    (large,) = [case.model for case in FIRES if case.title == "weights too large for a proof without them"]
    onnx.save_model(
        onnx.ModelProto.FromString(large.SerializeToString()),  # saving so moves the data out of what it is given
        source,
        save_as_external_data=True,
        location="in.bin",
        size_threshold=64,
        all_tensors_to_one_file=True,
    )
    _, report = surgeon.rewrite(source, conv_batch_norm, output=target, check="both")
    assert report.outcome == "proved"
    made = onnx.load(target)
    assert sorted(tuple(item.dims) for item in made.graph.initializer) == [(32,), (32, 24, 3, 3)]
