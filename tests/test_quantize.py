"""Weights that are rounded to integers: their data, the losses that the report states, and the nodes that stay."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.errors import CheckFailed, UsageError
from surgeon.precision.weights.weight_rounding import BlockRounding

VOCABULARY, WIDTH, INNER = 320, 128, 256
FLOATS = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16}


def values(*shape, dtype=np.float32, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) / np.sqrt(shape[-1])).astype(dtype)


def model(nodes, inputs, outputs, stored, opset=20, ir=9):
    """A model from nodes, the types of its inputs and outputs, and its initializers by name."""
    ports = [
        [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in side.items()]
        for side in (inputs, outputs)
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", *ports, tensors), opset_imports=imports, ir_version=ir)


def product(weight, op="MatMul", more=(), stored=None, **attributes):
    """One product with a stored weight."""
    dtype = FLOATS[weight.dtype.type]
    columns = weight.shape[1 if attributes.get("transB") else 0]
    domain = "com.microsoft" if op == "FusedMatMul" else ""
    node = helper.make_node(op, ["x", "w", *more], ["y"], "product", domain=domain, **attributes)
    return model([node], {"x": (dtype, ["n", columns])}, {"y": (dtype, ["n", "m"])}, {"w": weight, **(stored or {})})


def decoder(layers=2):
    """Tokens, an embedding, products, and scores by the same matrix as the embedding."""
    stored = {"table": values(VOCABULARY, WIDTH) * 8}
    nodes, x = [helper.make_node("Gather", ["table", "ids"], ["x0"], "embed")], "x0"
    for number in range(layers):
        stored[f"up{number}"] = values(WIDTH, INNER, seed=number)
        stored[f"down{number}"] = values(INNER, WIDTH, seed=9 + number)
        nodes += [
            helper.make_node("MatMul", [x, f"up{number}"], [f"a{number}"]),
            helper.make_node("Tanh", [f"a{number}"], [f"t{number}"]),
            helper.make_node("MatMul", [f"t{number}", f"down{number}"], [f"d{number}"]),
            helper.make_node("Add", [x, f"d{number}"], [f"x{number + 1}"]),
        ]
        x = f"x{number + 1}"
    nodes += [
        helper.make_node("Transpose", ["table"], ["head"], perm=[1, 0]),
        helper.make_node("MatMul", [x, "head"], ["scores"], "scores"),
    ]
    ports = {"ids": (TensorProto.INT64, ["b", "s"])}, {"scores": (TensorProto.FLOAT, ["b", "s", VOCABULARY])}
    return model(nodes, *ports, stored)


def stored(made):
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}


def unpacked(packed, bits, columns):
    """Integers of a row of bytes, as the schema of MatMulNBits describes them."""
    rows = packed.reshape(len(packed), -1)
    if bits == 4:
        rows = np.stack([rows & 15, rows >> 4], axis=-1).reshape(len(rows), -1)
    return rows[:, :columns].astype(np.float64)


def dequantized(made, bits, block, name="w"):
    """The rounded weight `[N, K]` from the tensors of a result, by the formula of the schema."""
    found = stored(made)
    scales = found[f"{name}_scales"].astype(np.float64)
    rows, blocks = scales.shape
    codes = unpacked(found[f"{name}_codes"], bits, blocks * block).reshape(rows, blocks, block)
    zeros = np.full_like(scales, 1 << bits - 1)
    if f"{name}_zeros" in found:
        zeros = unpacked(found[f"{name}_zeros"], bits, blocks)
    return ((codes - zeros[..., None]) * scales[..., None]).reshape(rows, -1)


def run(made, **feeds):
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def relative(array, other):
    return float(np.linalg.norm(array - other) / np.linalg.norm(array))


# Largest relative errors of normal weights, by bits, block, and whether there are zero points.
ERRORS = {
    (4, 16, False): 0.078, (4, 32, False): 0.089, (4, 128, False): 0.106,
    (4, 16, True): 0.072, (4, 32, True): 0.084, (4, 128, True): 0.103,
    (8, 16, False): 0.0049, (8, 32, False): 0.0056, (8, 128, False): 0.0067,
    (8, 16, True): 0.0043, (8, 32, True): 0.0050, (8, 128, True): 0.0062,
}  # fmt: skip


@pytest.mark.parametrize(("bits", "block", "asymmetric"), ERRORS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_product_reads_the_integers_of_its_weight(bits, block, asymmetric, dtype):
    """The op computes what numpy does with the same integers, and the report has the error of the weight."""
    weight = values(256, 48, dtype=dtype)
    made, report = surgeon.convert(product(weight), f"int{bits}", block=block, asymmetric=asymmetric, accuracy_level=0)
    (node,), (layer,) = made.graph.node, report.layers
    assert (node.op_type, node.domain, report.outcome) == ("MatMulNBits", "com.microsoft", "proved")
    near = dequantized(made, bits, block)
    x = values(5, 256, dtype=dtype, seed=1)
    assert relative(x.astype(np.float64) @ near.T, run(made, x=x)) < (1e-6 if dtype is np.float32 else 2e-3)
    error = relative(weight.T.astype(np.float64), near)
    assert layer.error == pytest.approx(error, rel=1e-3)
    most = ERRORS[bits, block, asymmetric]
    assert 0.85 * most < error < most
    assert layer.output_error == pytest.approx(error, rel=0.5)


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_a_last_block_is_padded(bits, asymmetric):
    weight = values(72, 48) + np.float32(asymmetric)
    made, report = surgeon.convert(product(weight), f"int{bits}", asymmetric=asymmetric, accuracy_level=0)
    assert report.outcome == "proved"
    assert made.graph.initializer[0].dims == [48, 3, 32 * bits // 8]
    near = dequantized(made, bits, 32)[:, :72]
    x = values(5, 72, seed=1)
    assert relative(x @ near.T, run(made, x=x)) < 1e-6


@pytest.mark.parametrize(
    ("op", "attributes"),
    [("Gemm", {}), ("Gemm", {"transB": 1}), ("FusedMatMul", {"transB": 1}), ("MatMul", {}), ("Gemm", {"beta": 1.0})],
)
def test_each_product_is_replaced(op, attributes):
    bias = {"c": values(48)} if op == "Gemm" else {}
    weight = values(48, 64) if attributes.get("transB") else values(64, 48)
    before = product(weight, op, tuple(bias), bias, **attributes)
    made, report = surgeon.convert(before, "int8")
    assert ([node.op_type for node in made.graph.node], report.outcome) == (["MatMulNBits"], "proved")
    assert list(made.graph.node[0].input)[3:] == (["", "", "c"] if bias else [])
    x = values(5, 64)
    assert 0 < relative(run(before, x=x), run(made, x=x)) < 0.01


def test_a_weight_without_finite_elements_is_refused():
    weight = values(64, 48)
    weight[3, 4] = np.nan
    with pytest.raises(CheckFailed, match="'w' of node 'product' has elements that are infinite or not numbers"):
        surgeon.convert(product(weight), "int8")


def test_wrong_integers_fail(monkeypatch):
    """The result is compared with the original on the rounded weights, so a loss does not hide an error."""
    right = BlockRounding.pack
    monkeypatch.setattr(BlockRounding, "pack", lambda self, codes: right(self, codes) ^ 1)
    with pytest.raises(CheckFailed, match="from that of the rounded weights as floats"):
        surgeon.convert(product(values(256, 48)), "int8")


def test_a_tied_embedding_is_stored_once(tmp_path):
    """The lookup reads the integers of the product; nothing else of the table is left."""
    before = decoder()
    made, report = surgeon.convert(before, "int4", asymmetric=True)
    ops = [node.op_type for node in made.graph.node]
    assert (ops.count("GatherBlockQuantized"), ops.count("Reshape"), ops.count("MatMulNBits")) == (1, 1, 5)
    assert {"Transpose", "Gather", "MatMul"}.isdisjoint(ops)
    cells = VOCABULARY * WIDTH + 4 * WIDTH * INNER
    assert report.bytes[0] == 4 * cells
    assert report.bytes[1] == cells // 2 + 4 * cells // 32 + cells // 64 + 2 * 8  # codes, scales, zero points, a shape
    assert report.bytes[1] == sum(array.nbytes for array in stored(made).values())
    assert report.outcome == "proved"
    assert 0.02 < report.error < 0.3


def test_a_table_by_itself_is_looked_up():
    node = helper.make_node("Gather", ["w", "ids"], ["y"])
    ports = {"ids": (TensorProto.INT32, ["n"])}, {"y": (TensorProto.FLOAT, ["n", 64])}
    made, report = surgeon.convert(model([node], *ports, {"w": values(40, 64)}), "int4")
    assert ([node.op_type for node in made.graph.node], report.outcome) == (["GatherBlockQuantized"], "proved")
    assert stored(made)["w_table"].shape == (40, 32)
    near = unpacked(stored(made)["w_table"], 4, 64) - 8
    near = (near.reshape(40, 2, 32) * stored(made)["w_scales"][..., None]).reshape(40, 64)
    ids = np.array([3, 39, 0], np.int32)
    np.testing.assert_allclose(run(made, ids=ids), near[ids], rtol=1e-6)


def test_scores_are_compared_as_scores():
    before = decoder()
    _, coarse = surgeon.convert(before, "int4")
    _, fine = surgeon.convert(before, "int8")
    assert 0 < fine.divergence < coarse.divergence < 1
    assert 0.5 < coarse.same_best <= fine.same_best <= 1
    assert coarse.best[1] == fine.best[1] > 5
    _, none = surgeon.convert(product(values(64, 48)), "int8")
    assert (none.divergence, none.same_best) == (None, None)


def test_layers_that_lose_most_stay_floats_within_a_limit():
    before = decoder()
    _, loose = surgeon.convert(before, "int4")
    most = loose.error / 2
    made, report = surgeon.convert(before, "int4", max_error=most)
    assert report.outcome == "proved"
    assert 0 < report.error <= most
    assert 0 < len(report.layers) < 6
    assert len(report.layers) + len(report.kept) == 6
    assert {item.kind for item in report.kept} <= {"error", "weight"}
    assert {"MatMul", "MatMulNBits"} < {node.op_type for node in made.graph.node}
    with pytest.raises(CheckFailed, match="no weight can be rounded within it"):
        surgeon.convert(before, "int4", max_error=1e-6)
    with pytest.raises(CheckFailed, match="add auto to --keep"):
        surgeon.convert(before, "int4", max_error=most, keep=["name:scores"])


def test_kernels_may_round_activations_too():
    before = decoder()
    made, report = surgeon.convert(before, "int4", accuracy_level=4)
    levels = {item.i for node in made.graph.node for item in node.attribute if item.name == "accuracy_level"}
    assert (levels, report.outcome) == ({4}, "proved")
    for to, level in (("int4", 0), ("int8", 4)):
        assert surgeon.convert(before, to, check="none")[1].accuracy_level == level
    assert report.kernel_error < 1e-5  # of the kernels that round nothing


def rotary():
    nodes = [
        helper.make_node("Gather", ["w", "ids"], ["rows"], "lookup"),
        helper.make_node("Mul", ["x", "rows"], ["y"]),
    ]
    inputs = {"ids": (TensorProto.INT64, ["n"]), "x": (TensorProto.FLOAT, ["n", 64])}
    return model(nodes, inputs, {"y": (TensorProto.FLOAT, ["n", 64])}, {"w": values(40, 64)})


def read_twice():
    made = product(values(64, 48))
    made.graph.node.append(helper.make_node("Relu", ["w"], ["z"], "other"))
    made.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [64, 48]))
    return made


def both_ways():
    made = product(values(64, 48))
    made.graph.node.append(helper.make_node("Gemm", ["y", "w"], ["z"], "back", transB=1))
    made.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 64]))
    return made


def first_factor():
    node = helper.make_node("MatMul", ["w", "x"], ["y"])
    ports = {"x": (TensorProto.FLOAT, [48, "n"])}, {"y": (TensorProto.FLOAT, [64, "n"])}
    return model([node], *ports, {"w": values(64, 48)})


def overridable():
    made = product(values(64, 48))
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 48]))
    return made


KEPT = {
    "its weight 'w' is also read by Relu other": read_twice,
    "its weight 'w' is also read by callers": overridable,
    "its rows are factors of 'x'": rotary,
    "its weight is not the second factor": first_factor,
    "it has a factor alpha": lambda: product(values(64, 48), "Gemm", alpha=2.0),
    "it transposes the first factor": lambda: product(values(64, 64), "Gemm", transA=1),
    "its bias is not a stored vector": lambda: product(values(64, 48), "Gemm", ["c"], {"c": values(1, 48)}),
    "rounded, its 48 by 3 float32 would not be smaller": lambda: product(values(3, 48)),
}


def test_a_weight_that_is_read_both_ways_stays():
    """Its blocks would lie along either axis."""
    _, report = surgeon.convert(both_ways(), "int4")
    reason = "its weight 'w' is also read by Gemm back, transposed"
    assert [(item.node, item.reason) for item in report.kept] == [("product", reason), ("back", reason)]
    assert report.outcome == "unchanged"


@pytest.mark.parametrize("reason", KEPT)
def test_a_weight_that_integers_do_not_fit_stays(reason):
    made, report = surgeon.convert(KEPT[reason](), "int4")
    (kept,) = report.kept
    assert kept.reason.startswith(reason)
    assert report.outcome == "unchanged"
    assert "w" in stored(made)


def test_weights_of_constants_and_in_branches_are_rounded():
    weight = numpy_helper.from_array(values(64, 48), "w")
    outputs = [helper.make_tensor_value_info("y1", TensorProto.FLOAT, None)]
    inner = [helper.make_node("MatMul", ["x", "w"], ["y1"], "inside")]
    branch = helper.make_graph(inner, "yes", [], outputs, [weight])
    other = helper.make_graph([helper.make_node("MatMul", ["x", "v"], ["y1"], "outside")], "no", [], outputs)
    nodes = [
        helper.make_node("Constant", [], ["v"], value=numpy_helper.from_array(values(64, 48, seed=3))),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other),
    ]
    ports = {"x": (TensorProto.FLOAT, ["n", 64]), "c": (TensorProto.BOOL, [])}, {"y": (TensorProto.FLOAT, ["n", 48])}
    made, report = surgeon.convert(model(nodes, *ports, {}), "int8")
    (node,) = made.graph.node
    assert {item.g.node[0].op_type for item in node.attribute} == {"MatMulNBits"}
    assert ({layer.node for layer in report.layers}, report.outcome) == ({"inside", "outside"}, "proved")
    assert not any(item.g.initializer for item in node.attribute)


BAD = {
    "No MatMul, Gemm or Gather of the model reads a stored matrix": lambda: (
        model(
            [helper.make_node("Relu", ["x"], ["y"])],
            {"x": (TensorProto.FLOAT, [2])},
            {"y": (TensorProto.FLOAT, [2])},
            {},
        ),
        {},
    ),
    "ONNX Runtime has no blocks of 24. Choose 16, 32": lambda: (decoder(), {"block": 24}),
    "The accuracy level must be 0": lambda: (decoder(), {"accuracy_level": 1}),
    "--clamp does not fit: int4 rounds only weights": lambda: (decoder(), {"clamp": True}),
    "The model has opset 4, but a table of integers needs 5": lambda: (old(4), {}),
    "No node of the model matches 'op:Conv'": lambda: (decoder(), {"keep": ["op:Conv"]}),
}


def old(opset):
    """A model from before IR version 4, in which each weight is an input."""
    made = overridable()
    made.ir_version, made.opset_import[0].version = 3, opset
    return made


def test_weights_that_have_to_be_inputs_are_rounded():
    made, report = surgeon.convert(old(8), "int8")
    assert ([value.name for value in made.graph.input], report.outcome) == (["x", "w_codes", "w_scales"], "proved")


@pytest.mark.parametrize("message", BAD)
def test_bad_input_gets_one_sentence(message):
    source, options = BAD[message]()
    with pytest.raises(UsageError) as caught:
        surgeon.convert(source, "int4", **options)
    assert str(caught.value).startswith(message)


def test_blocks_are_only_for_weights():
    with pytest.raises(UsageError, match="only int4 and int8 have blocks, not float16"):
        surgeon.convert(decoder(), "float16", block=64)


@pytest.mark.parametrize("to", ["int4", "float16"])
def test_trials_leave_no_data_files(tmp_path, to):
    """Neither do dry runs; and data of the original that nothing reads any more are not copied."""
    path, out = tmp_path / "m.onnx", tmp_path / "out" / "q.onnx"
    out.parent.mkdir()
    onnx.save(decoder(), path, save_as_external_data=True, location="m.data", size_threshold=0)
    names = {item.name for item in tmp_path.iterdir()}
    surgeon.convert(path, to, output=out, dry_run=True)
    assert {item.name for item in tmp_path.iterdir()} == names
    for folder in (out.parent, tmp_path):
        most = {"int4": 0.04, "float16": 3e-4}[to]
        _, report = surgeon.convert(path, to, output=folder / "q.onnx", max_error=most)
        assert report.kept
        assert report.outcome == "proved"
    assert {item.name for item in tmp_path.iterdir()} == {*names, "q.onnx", "q.onnx.data"}
    assert {item.name for item in out.parent.iterdir()} == {"q.onnx", "q.onnx.data"}


def test_weights_are_rounded_panel_by_panel(tmp_path):
    """The memory is bounded, and the bytes are those of a model in memory."""
    weights = {f"w{number}": values(3072, 3072, seed=number) for number in range(3)}
    nodes = [helper.make_node("MatMul", [f"y{number}", f"w{number}"], [f"y{number + 1}"]) for number in range(3)]
    ports = {"y0": (TensorProto.FLOAT, ["n", 3072])}, {"y3": (TensorProto.FLOAT, ["n", 3072])}
    before = model(nodes, *ports, weights)
    path = tmp_path / "m.onnx"
    onnx.save(before, path, save_as_external_data=True, location="m.data")
    code = (
        "import resource, sys, surgeon\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "surgeon.convert(sys.argv[1], 'int4', output=sys.argv[3], check='none'); before = peak()\n"
        "surgeon.convert(sys.argv[2], 'int4', output=sys.argv[3], check='none'); print(peak() - before)"
    )
    small, out = tmp_path / "small.onnx", tmp_path / "q.onnx"
    onnx.save(product(values(256, 48)), small)
    done = subprocess.run([sys.executable, "-c", code, small, path, out], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 90_000  # kilobytes; the weights have 113,246
    found = stored(onnx.load(out))
    near = dequantized(onnx.load(out), 4, 32, "w1")
    assert found["w1_codes"].nbytes == 3072 * 3072 // 2
    assert relative(weights["w1"].T, near) < 0.09
