"""Conversions to another precision: dtypes, Casts, weights from file to file, other pairs of dtypes."""

from itertools import pairwise, product

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.precision.planning.min_cut import INFINITE_CAPACITY, SINK, SOURCE, FlowNetwork, _Flow
from tests.command_line import files_in
from tests.half_models import converted, kept, model, ops
from tests.onnx_cases import onnx_cases


def test_casts_stand_only_at_the_ends():
    made, report = converted(model("a = Relu(x) b = Mul(a, a) y = Transpose(b)", "(float[4, 4] x) => (float[4, 4] y)"))
    assert (report.outcome, report.casts, report.converted) == ("proved", 2, 3)
    assert ops(made) == ["Cast", "Relu", "Mul", "Transpose", "Cast"]


def test_inputs_and_outputs_are_converted_where_asked():
    made, report = converted(model("a = Mul(x, x) y = Relu(a)"), io="convert")
    types = [value.type.tensor_type.elem_type for value in (*made.graph.input, *made.graph.output)]
    assert (types, report.casts, report.outcome) == ([TensorProto.FLOAT16] * 2, 0, "proved")


def test_what_rounds_nothing_is_of_the_dtype_around_it():
    body = "a = Exp(x) b = Reshape(a, s) c = Exp(b) y = Mul(c, c)"
    made, report = converted(model(body, weights="<int64[2] s = {0, -1}>"), keep=["op:Exp"])
    assert report.casts == 2
    assert report.followers == 1
    assert {item.reason for item in report.kept} == {"requested by op:Exp"}
    assert ops(made) == ["Exp", "Reshape", "Exp", "Cast", "Mul", "Cast"]


def test_a_tensor_is_cast_once_for_all_who_read_it():
    body = "a = Mul(x, x) b = Exp(a) c = Exp(a) d = Erf(a) e = Add(b, c) y = Add(e, d)"
    made, report = converted(model(body), keep=["op:Exp"])
    assert ops(made).count("Cast") == report.casts == 5  # x, a, b, c, y
    nothing_follows = {node.output[0]: node for node in made.graph.node if node.op_type == "Cast"}
    assert not any(node.input[0] in nothing_follows for node in nothing_follows.values())


def test_nodes_without_a_choice():
    """Shapes, indices, conditions, scales of a Resize, a Range: nothing of them changes, and no Cast stands there."""
    body = """
        s = Shape(x) r = Resize<mode = "nearest">(x, , scales) i = ArgMax<axis = -1>(r) c = Cast<to = 1>(i)
        m = Less(x, zero) w = Where(m, x, zero) k = ConstantOfShape<value = float[1] {0.5}>(s)
        e = Mul(w, k) y = Add(e, half)
    """
    weights = "<float[4] scales = {1.0, 1.0, 1.0, 1.0}, float zero = {0}, float half = {0.5}>"
    made, report = converted(model(body, "(float[1, 1, 4, 4] x) => (float[1, 1, 4, 4] y, float[1, 1, 4, 1] c)",
                                   weights=weights))
    assert report.outcome == "proved"
    stored = {tensor.name: tensor.data_type for tensor in made.graph.initializer}
    assert stored == {"scales": 1, "zero": 10, "half": 10}
    assert report.casts == 2  # x and y; c is made in float32 by the Cast that was there


def test_regions_of_a_resize_and_the_steps_of_a_range_stay():
    body = """a = Mul(x, x) n = Cast<to = 1>(count) i = Range(zero, n, one)
        r = Resize<mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize">(a, roi, scales)
        e = Exp(r) y = Mul(e, i)"""
    weights = """<float[8] roi = {0, 0, 0, 0, 1, 1, 1, 1}, float[4] scales = {1, 1, 2, 2}, float zero = {0},
        float one = {1}>"""
    made = model(body, "(float[1, 1, 4, 4] x, int64 count) => (float[1, 1, 8, 8] y)", weights=weights)
    result, report = converted(made, check="none")
    stored = {tensor.name: tensor.data_type for tensor in result.graph.initializer}
    assert stored == dict.fromkeys(("roi", "scales", "zero", "one"), TensorProto.FLOAT)
    assert ops(result) == ["Cast", "Mul", "Cast", "Range", "Cast", "Resize", "Exp", "Mul", "Cast"]


def test_names_that_are_taken_are_not_given_again():
    body = "x_float16 = Mul(x, x) y_float16 = Exp(x_float16) y = Tanh(y_float16)"
    made = model(body, "(float[N, 4] x) => (float[N, 4] y, float[N, 4] y_float16)")
    _, report = converted(made)
    assert (report.outcome, report.casts) == ("proved", 3)


def test_a_plugin_is_of_the_dtypes_that_its_table_reports():
    """And so is what lies behind it, of which the file states nothing."""
    fixed = "(float[1, 2, 8, 8] x, float[1, 2, 8, 16] p, float[1, 2, 8, 16] q) => (float[1, 2, 8, 8] y)"
    body = "a = Mul(x, x) b = trt.DisentangledAttention_TRT<span = 8, factor = 0.1>(a, p, q) t = Tanh(b) y = Exp(t)"
    made = model(body, fixed, more=', "trt" : 1')
    made.graph.node[1].domain = made.opset_import[1].domain = "trt.plugins"
    result, report = surgeon.convert(made, check="none")
    assert (report.kept, ops(result)[3:]) == ([], ["Mul", "DisentangledAttention_TRT", "Tanh", "Exp", "Cast"])


LOOP = """
    a = Mul(x, x) n = Constant<value_int = 3>() go = Constant<value = bool {1}>()
    s = Loop(n, go, a) <body = step (int64 i, bool more, float[N, 4] before) => (bool more_, float[N, 4] after) {
        more_ = Identity(more)
        t = Exp(b)
        after = Add(before, t)
    }>
    y = Tanh(s)
"""


@pytest.mark.parametrize("ends", ["float[b, s, 16] y", "float[b, s, 16] y, float[b, 2, t, 8] pk, float[b, 2, t, 8] pv"])
def test_a_cache_that_begins_is_of_the_dtype_of_its_keys(ends):
    """GroupQueryAttention makes a cache though it was given none: its dtype follows from no cache."""
    body = """
        n = Shape<start = 1, end = 2>(q) w = Cast<to = 6>(n) t = Squeeze(w) l = Sub(t, one)
        m = Shape<start = 0, end = 1>(q) last = Expand(l, m) a = Mul(q, half)
        y, pk, pv = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 2>(a, k, v, , , last, t)
    """
    head = f"(float[b, s, 16] q, float[b, s, 16] k, float[b, s, 16] v) => ({ends})"
    weights = "<int32 one = {1}, float half = {0.5}>"
    made, report = converted(model(body, head, more=', "com.microsoft" : 1', weights=weights))
    assert report.outcome == "proved"
    assert not report.kept
    assert report.casts == 3 + len(made.graph.output)


@pytest.mark.parametrize("keep", ["op:Exp", "op:Tanh", "op:Add", "op:Mul", "auto"])
def test_loops_carry_one_dtype_and_capture_the_right_one(keep):
    made, report = converted(model(LOOP, weights="<float[4] b = {-1, -2, -3, -4}>"), keep=[keep])
    assert report.outcome == "proved"
    loop = next(node for node in made.graph.node if node.op_type == "Loop")
    body = loop.attribute[0].g
    assert body.input[2].type.tensor_type.elem_type == body.output[1].type.tensor_type.elem_type


BRANCHES = """
    a = Mul(x, w)
    e = If(c) <then_branch = yes () => (float[N, 4] e1) { t = Mul(a, w) e1 = Exp(t) },
               else_branch = no () => (float[N, 4] e2) { e2 = Sub(a, x) }>
    y = Relu(e)
"""


@pytest.mark.parametrize("keep", ["op:Exp", "op:Sub", "op:Relu", "name:a", "auto"])
def test_branches_agree(keep):
    weights = "<float[4] w = {1.0, 2.0, -1.0, 0.5}>"
    made = model(BRANCHES, "(float[N, 4] x, bool c) => (float[N, 4] y)", weights=weights)
    assert converted(made, keep=[keep])[1].outcome == "proved"


FUNCTIONS = """
<domain: "local", opset_import: ["" : 18, "local" : 1]> half (x) => (y)
    { h = Constant <value_float = 0.5> () z = local.times (x, h) y = Exp(z) }
<domain: "local", opset_import: ["" : 18]> times (x, k) => (y) { y = Mul (x, k) }
"""


@pytest.mark.parametrize("keep", ["op:Exp", "op:half", "op:Mul", "auto"])
def test_functions_are_converted_with_their_calls(keep):
    made = model("a = local.half(x) b = local.half(a) y = Tanh(b)", more=', "local" : 1', functions=FUNCTIONS)
    result, report = converted(made, keep=[keep])
    assert report.outcome == "proved"
    constant = result.functions[0].node[0].attribute[0]
    is_half = constant.name == "value" and constant.t.data_type == TensorProto.FLOAT16
    assert is_half == (keep not in ("op:half", "op:Mul"))


TWO_WAYS = """
<domain: "local", opset_import: ["" : 18]> twice (x) => (y) { y = Add (x, x) }
<domain: "local", opset_import: ["" : 18, "local" : 1]> four (x) => (y) { h = local.twice (x) y = local.twice (h) }
"""


@pytest.mark.parametrize(("op", "names"), [("twice", {"twice_other"}), ("four", {"twice_other", "four_other"})])
def test_a_function_that_is_called_with_two_dtypes_has_a_copy_for_each(op, names):
    """And so have those that it calls."""
    body = f"a = local.{op}(x) i = Cast<to = 7>(x) j = local.{op}(i) k = Cast<to = 1>(j) y = Mul(a, k)"
    result, report = converted(model(body, more=', "local" : 1', functions=TWO_WAYS))
    assert (report.outcome, list(report.kept)) == ("proved", [])
    assert {function.name for function in result.functions} == {"twice", "four"} | names
    assert [node.op_type for node in result.graph.node if node.domain == "local"] == [op, f"{op}_other"]


def test_sequences_keep_their_dtype():
    body = "a = Mul(x, x) s = SequenceConstruct(a, x) i = Constant<value_int = 0>() b = SequenceAt(s, i) y = Exp(b)"
    _, report = converted(model(body))
    assert report.outcome == "proved"
    assert {item.op for item in report.kept} == {"SequenceConstruct", "SequenceAt"}


def test_an_operator_whose_attributes_hold_the_dtype_keeps_it():
    """They are of the dtype of what it reads."""
    case = next(case for case in onnx_cases() if case.name.startswith("test_ai_onnx_ml_tree_ensemble_set_member"))
    assert case.model.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    result, report = surgeon.convert(case.model, keep=())
    assert (report.outcome, ops(result)) == ("unchanged", ["TreeEnsemble"])
    assert [item.reason for item in report.kept] == ["attributes of TreeEnsemble contain float32"]


@pytest.mark.parametrize(
    "body",
    [
        "s = Optional(a) b = OptionalGetElement(s) y = Exp(b)",
        "s = SplitToSequence<axis = 0>(a) b = ConcatFromSequence<axis = 0>(s) y = Exp(b)",
    ],
)
def test_what_comes_out_of_an_optional_or_a_joined_sequence_is_converted(body):
    result, report = converted(model(f"a = Mul(x, x) {body}"))
    assert report.outcome == "proved"
    assert ops(result)[-3:] == ["Cast", "Exp", "Cast"]
    assert "Exp" not in {item.op for item in report.kept}


def test_a_function_of_which_one_call_is_kept_is_given_the_old_dtype_by_all():
    """Inside it converts all the same, and both say what asked for it."""
    functions = '<domain: "local", opset_import: ["" : 18]> ex (x) => (y) { y = Exp (x) }'
    made = model("a = local.ex(x) b = Tanh(a) y = local.ex(b)", more=', "local" : 1', functions=functions)
    result, report = converted(made, keep=["name:a"])
    assert {(item.node, item.kind, item.reason) for item in report.kept} == {
        ("a", "asked", "requested by name:a"),
        ("y", "asked", "requested by name:a"),
    }
    assert [node.op_type for node in result.functions[0].node] == ["Cast", "Exp", "Cast"]


def test_what_the_opset_lacks_is_reported():
    body = "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Mul(d, d)"
    weights = "<float s = {0.1}, uint8 z = {128}>"
    _, report = converted(model(body, opset=13, weights=weights), max_error=0.1)
    assert {item.op for item in report.kept} == {"QuantizeLinear", "DequantizeLinear"}
    assert all("from opset 19 of ai.onnx" in item.reason for item in report.kept)
    _, report = converted(model(body, opset=19, weights=weights), max_error=0.1)
    assert report.kept == []


def test_a_node_of_a_domain_that_nobody_knows_keeps_its_dtypes():
    made = model("a = Mul(x, x) b = foo.Bar(a) y = Mul(b, b)", more=', "foo" : 1')
    made.graph.value_info.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, ["N", 4]))
    result, report = surgeon.convert(made)
    assert (report.outcome, [item.reason for item in report.kept]) == ("unproved", [
        "the dtypes that Bar supports are unknown"
    ])
    assert ops(result) == ["Cast", "Mul", "Cast", "Bar", "Cast", "Mul", "Cast"]


def test_a_loop_still_counts_in_int64():
    body = """n = Constant<value_int = 3>() go = Constant<value = bool {1}>() z = Mod(ids, four)
        j = Loop(n, go, z) <body = step (int64 i, bool more, int64[N] before) => (bool more_, int64[N] after) {
            more_ = Identity(more)
            after = Add(before, i)
        }>"""
    made = model(body, "(int64[N] ids) => (int64[N] j)", weights="<int64 four = {4}>")
    made, report = converted(made, to="int32", io="convert")
    assert report.outcome == "proved"
    loop = next(node for node in made.graph.node if node.op_type == "Loop")
    assert loop.attribute[0].g.input[0].type.tensor_type.elem_type == TensorProto.INT64


def test_axes_of_a_pad_stay_int64():
    """ONNX Runtime refuses others where they are stored."""
    body = "p = Add(pads, pads) y = Pad(x, p, , axes) j = Sub(axes, axes)"
    head = "(float[N, 4] x) => (float[N, M] y, int64[1] j)"
    made = model(body, head, weights="<int64[2] pads = {1, 1}, int64[1] axes = {1}>")
    result, report = converted(made, to="int32")
    assert report.outcome == "proved"
    stored = {tensor.name: tensor.data_type for tensor in result.graph.initializer}
    assert stored["pads"] == stored["axes_int32"] == TensorProto.INT32
    assert stored["axes"] == TensorProto.INT64


def test_int32_where_nothing_wants_int64():
    """Bounds that mean "to the end" still do; a number that int32 has not stays with what reads it."""
    body = """a = Add(ids, one) s = Slice(x, start, end, axis) r = Reshape(s, shape) b = Mul(a, large) y = Gather(r, a)
              j = Sub(b, b)"""
    head = "(int64[N] ids, float[4, 4] x) => (float[N, 4] y, int64[N] j)"
    weights = """<int64 one = {1}, int64 large = {4294967296}, int64[1] start = {0},
                  int64[1] end = {9223372036854775807}, int64[1] axis = {0}, int64[2] shape = {-1, 4}>"""
    made, report = converted(model(body, head, weights=weights), to="int32")
    assert (report.outcome, kept(report)) == ("proved", [("Mul", "weight"), ("Sub", "range")])
    stored = {tensor.name: tensor.data_type for tensor in made.graph.initializer}
    assert [stored[name] for name in ("one", "large", "shape")] == [TensorProto.INT32, *[TensorProto.INT64] * 2]


@pytest.mark.parametrize(("to", "from_"), [("float32", "float64"), ("float32", "float16"), ("bfloat16", "float16")])
def test_other_pairs(to, from_):
    made = model("a = MatMul(x, w) b = Exp(a) y = Add(b, x)")
    made.graph.initializer.append(numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"))
    source = surgeon.convert(made, "float16", io="convert")[0] if from_ == "float16" else double(made)
    result, report = converted(source, to=to, from_=from_, max_error=0.05)
    assert (report.outcome, report.change) == ("proved", (from_, to))
    assert report.casts == 2


def double(made):
    """A model of float32 in float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(made)
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in wide.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    return wide


def test_a_model_that_is_half_already_is_the_same_bytes(tmp_path):
    made = model("a = Mul(x, x) y = Relu(a)", "(float16[N, 4] x) => (float16[N, 4] y)")
    onnx.save(made, tmp_path / "in.onnx")
    _, report = surgeon.convert(tmp_path / "in.onnx", output=tmp_path / "out.onnx")
    assert report.outcome == "unchanged"
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "in.onnx").read_bytes()


def test_what_a_model_casts_up_itself_stays_so():
    body = "a = Mul(x, x) u = Cast<to = 1>(a) e = Exp(u) d = Cast<to = 10>(e) y = Mul(d, x)"
    _, report = converted(model(body, "(float16[N, 4] x) => (float16[N, 4] y)"))
    assert report.outcome == "unchanged"


# Weights


def test_large_weights_are_converted_from_file_to_file(tmp_path):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(64, 64)).astype(np.float32)
    for external in (False, True):
        made = model("a = MatMul(x, w) b = MatMul(a, w) y = Tanh(b)", "(float[N, 64] x) => (float[N, 64] y)")
        made.graph.initializer.append(numpy_helper.from_array(weight / 16, "w"))
        source, output = tmp_path / f"in{external}.onnx", tmp_path / f"out{external}.onnx"
        onnx.save(made, source, save_as_external_data=external, location=f"in{external}.bin", size_threshold=0)
        path, report = surgeon.convert(source, output=output)
        assert (report.outcome, report.bytes) == ("proved", (4 * 64 * 64, 2 * 64 * 64))
        result = onnx.load(path)
        assert np.array_equal(numpy_helper.to_array(result.graph.initializer[0]), (weight / 16).astype(np.float16))


@pytest.mark.parametrize("external", [False, True])
def test_a_weight_beyond_half_precision_stays_or_saturates(tmp_path, external):
    weight = np.ones((64, 64), np.float32)
    weight[3, 4] = 1e6
    made = model("a = MatMul(x, w) b = Mul(a, k) y = Tanh(b)", "(float[N, 64] x) => (float[N, 64] y)",
                 weights="<float k = {0.0001}>")
    made.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(made, tmp_path / "in.onnx", save_as_external_data=external, location="in.bin", size_threshold=0)
    _, report = surgeon.convert(tmp_path / "in.onnx", output=tmp_path / "out.onnx", keep="op:Mul")
    assert report.outcome == "proved"
    assert "'w' reaches 1e+06" in report.told[0]
    assert any(item.op == "MatMul" for item in report.kept)
    _, report = surgeon.convert(tmp_path / "in.onnx", output=tmp_path / "out.onnx", clamp=True, check="none")
    assert "'w' saturates at 65,504" in report.told[0]
    stored = {tensor.name: tensor for tensor in onnx.load(tmp_path / "out.onnx").graph.initializer}
    assert numpy_helper.to_array(stored["w"]).max() == 65504
    assert files_in(tmp_path) == {"in.onnx", "out.onnx"} | ({"in.bin", "out.onnx.data"} if external else set())


def test_the_least_cut_is_the_least():
    """Against all ways there are, on small networks; of those that cost as much, what all have."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        count = int(rng.integers(2, 9))
        network = FlowNetwork()
        items = [SOURCE, SINK, *(network.item() for _ in range(count))]
        ends = rng.choice(items, (int(rng.integers(3, 28)), 2))
        edges = [(int(a), int(b), int(rng.integers(0, 6))) for a, b in ends if a != b]
        for edge in edges:
            network.edge(*edge)
        costs = {}
        for sides in product((0, 1), repeat=count):
            side = {SOURCE: 0, SINK: 1, **dict(zip(items[2:], sides, strict=True))}
            costs[frozenset(i for i in items if not side[i])] = sum(c for a, b, c in edges if side[a] < side[b])
        least = [found for found, cost in costs.items() if cost == min(costs.values())]
        assert network.cut() == frozenset.intersection(*least)
    assert INFINITE_CAPACITY > 1 << 30


@pytest.mark.parametrize("narrowest", [0, 500, 999])
def test_a_long_chain_takes_no_more_for_each_item_than_a_short_one(narrowest, monkeypatch):
    """However much each item has to send, and wherever it cannot pass."""
    sent = []
    send = _Flow._send
    monkeypatch.setattr(_Flow, "_send", lambda self, *rest: (sent.append(1), send(self, *rest)))
    network = FlowNetwork()
    items = [SOURCE, *(network.item() for _ in range(1000)), SOURCE]
    for place, (one, two) in enumerate(pairwise(items)):
        size = 2 if place == narrowest else 10_000
        network.edge(one, two, size)
        network.edge(two, one, size)
    for item in items[1:-1]:
        network.edge(item, SINK, 1)
    network.cut()
    assert len(sent) < 10 * len(items)


@pytest.mark.parametrize("step", range(3))
def test_cases_of_single_ops_stay_well_typed(step):
    """ONNX's own cases of every op and opset, a sample of them: the checker passes what it passed before."""
    for case in onnx_cases()[step * 7 :: 61]:
        result, _ = surgeon.convert(case.model, check="none")
        if is_checked(case.model):
            assert is_checked(result), case.name


def is_checked(made):
    """Whether onnx's checker and inference pass a model."""
    try:
        onnx.checker.check_model(made, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True
