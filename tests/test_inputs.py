"""Inputs made to fit a graph: ranges by how it uses them, sizes by name, and real exports that run on them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

from surgeon.analysis.input_roles import InputRoles
from surgeon.errors import UsageError
from surgeon.ir.index import Index
from surgeon.proof.check_result import Outcome
from surgeon.runtime.inputs.input_generator import InputsUnknown, generate_inputs
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.shapes.constraints.input_dims import evaluate, require_dims, required_inputs
from tests import exports
from tests.models import check_model

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
TABLE = "<float[7, 2] table = {1,2,3,4,5,6,7,8,9,10,11,12,13,14}>"


def read(text: str) -> ModelProto:
    """A model from ONNX text."""
    return parser.parse_model(HEAD + text)


def make(model: ModelProto, seed: int = 0, **dims: int) -> dict[str, np.ndarray]:
    """Inputs for a model, which ONNX Runtime must accept."""
    feeds = generate_inputs(model, seed=seed, dims=dims)
    with OrtSession(model) as session:
        session.run(feeds)
    return feeds


ROADS = {
    "direct": "y = Gather(table, ids)",
    "cast": "a = Cast<to = 6>(ids) y = Gather(table, a)",
    "reshape": "s = Constant<value_ints = [-1]>() a = Reshape(ids, s) y = Gather(table, a)",
    "transpose": "a = Transpose(ids) b = Identity(a) y = Gather(table, b)",
    "slice": "s = Constant<value_ints=[0]>() e = Constant<value_ints=[1]>() a = Slice(ids, s, e) y = Gather(table, a)",
    "concat": "a = Concat<axis = 1>(ids, ids) y = Gather(table, a)",
    "unsqueeze": "s = Constant<value_ints = [0]>() a = Unsqueeze(ids, s) b = Squeeze(a, s) y = Gather(table, b)",
    "table behind a cast": "t = Cast<to = 10>(table) y = Gather(t, ids)",
    "table transposed": "t = Transpose<perm = [1, 0]>(table) y = Gather<axis = 1>(t, ids)",
    "elements": "s = Constant<value_ints = [5, 2]>() i = Expand(ids, s) y = GatherElements(table, i)",
}


@pytest.mark.parametrize("road", ROADS)
def test_indices_stay_below_the_table(road: str) -> None:
    """Whatever lies between the input and Gather, indices are below 7 and not all alike."""
    shape = "5, 1" if road == "elements" else "batch, seq"
    model = read(f"g (int64[{shape}] ids) => (float y) {TABLE} {{ {ROADS[road]} }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    if road == "table behind a cast":
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    found = np.concatenate([make(model, seed)["ids"].ravel() for seed in range(8)])
    assert found.dtype == np.int64
    assert found.min() >= 0
    assert 3 <= found.max() <= 6


@settings(deadline=None, max_examples=40)
@given(rows=st.integers(1, 9), offset=st.integers(-3, 4), seed=st.integers(0, 5))
def test_an_offset_on_the_way_is_reckoned_with(rows: int, offset: int, seed: int) -> None:
    """ids + offset stays inside the table where any value can make it so."""
    table = numpy_helper.from_array(np.arange(rows, dtype=np.float32), "table")
    shift = numpy_helper.from_array(np.array(offset), "shift")
    model = read("g (int64[4] ids) => (float[4] y) { a = Add(ids, shift) y = Gather(table, a) }")
    model.graph.initializer.extend([table, shift])
    reached = generate_inputs(model, seed=seed, dims={})["ids"] + offset
    assert (reached >= 0).all()
    if offset < rows:
        assert (reached < rows).all()


def test_the_smallest_of_several_tables_counts() -> None:
    """Word ids that also index a smaller table obey the smaller one."""
    model = read(
        f"g (int64[b, s] ids) => (float y) {TABLE} {{ a = Gather(table, ids) y = Gather<axis = 1>(table, ids) }}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert max(make(model, seed)["ids"].max() for seed in range(8)) == 1


def test_a_table_that_is_cut_out_still_has_a_size() -> None:
    """The skeleton's dims are enough."""
    model = read("g (int64[b, s] ids) => (float[b, s, 4096] y) { y = Gather(table, ids) }")
    table = TensorProto(name="table", data_type=1, dims=[3, 4096], data_location=TensorProto.EXTERNAL)
    table.external_data.add(key="surgeon.payload", value="0")
    model.graph.initializer.append(table)
    assert set(generate_inputs(model, seed=0, dims={})["ids"].ravel()) == {0, 1, 2}


def test_a_table_that_is_an_input_follows_its_free_dimension() -> None:
    """The bound is the size that the free dimension was given."""
    model = read("g (float[rows, 2] table, int64[k] ids) => (float[k, 2] y) { y = Gather(table, ids) }")
    assert max(make(model, seed, rows=4)["ids"].max() for seed in range(9)) == 3


def test_indices_are_followed_into_functions_and_bodies() -> None:
    """Into a local function whose table is an argument, through a capture, and through a Loop's body."""
    inside = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (int64[b, s] ids) => (float[b, s, 2] y) <float[4, 2] t = {1,2,3,4,5,6,7,8}> { y = l.embed(ids, t) }
        <domain: "l", opset_import: ["" : 17]> embed (i, w) => (o) { k = Identity(i) o = Gather(w, k) }"""
    )
    assert max(make(inside, seed)["ids"].max() for seed in range(9)) == 3
    outside = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (int64[b, s] ids) => (float[b, s, 2] y) <float[4, 2] t = {1,2,3,4,5,6,7,8}> {
            k = l.same(ids) y = Gather(t, k) }
        <domain: "l", opset_import: ["" : 17]> same (i) => (o) { o = Identity(i) }"""
    )
    assert max(make(outside, seed)["ids"].max() for seed in range(9)) == 3
    loop = read(
        """g (int64[3] ids) => (float[2] y) <float[4, 2] t = {1,2,3,4,5,6,7,8}> {
        n = Constant<value = int64 {3}>() c = Constant<value = bool {1}>() z = Constant<value_floats = [0.0, 0.0]>()
        y = Loop(n, c, z) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
            co = Identity(ci) j = Gather(ids, i) r = Gather(t, j) so = Add(s, r) }> }"""
    )
    assert max(make(loop, seed)["ids"].max() for seed in range(9)) == 3


BERT = """g (int64[batch, seq] input_ids, int64[batch, seq] attention_mask, int64[batch, seq] token_type_ids)
    => (float[batch, seq, 2] y)
    <float[7, 2] words = {1,2,3,4,5,6,7,8,9,10,11,12,13,14}, float[2, 2] kinds = {1,2,3,4}, float one = {1},
     float low = {-10000}> {
    w = Gather(words, input_ids) k = Gather(kinds, token_type_ids) e = Add(w, k)
    last = Constant<value_ints = [2]>() u = Unsqueeze(attention_mask, last) f = Cast<to = 1>(u) i = Sub(one, f)
    n = Mul(i, low) y = Add(e, n) }"""


def test_bert_like_inputs() -> None:
    """Word ids, token types and a mask: each in its range, all of one shape."""
    feeds = make(read(BERT))
    assert {array.shape for array in feeds.values()} == {(2, 5)}
    assert set(feeds["token_type_ids"].ravel()) == {0, 1}
    assert feeds["input_ids"].max() <= 6
    mask = feeds["attention_mask"]
    assert mask[0].tolist() == [1] * 5
    assert (np.diff(mask, axis=1) <= 0).all(), "ones lead"
    assert (mask.sum(axis=1) >= 1).all()


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        ("c = Cast<to = 9>(m) y = Where(c, x, z)", "int64"),
        ("y = Where(m, x, z)", "bool"),
        ("f = Cast<to = 1>(m) one = Constant<value_float = 1.0>() i = Sub(one, f) y = Add(x, i)", "int32"),
    ],
)
def test_masks_are_known_by_their_use(use: str, kind: str) -> None:
    """No name is needed: Where, Cast to bool and 1 - m tell a mask."""
    model = read(f"g (float[b, s] x, float[b, s] z, {kind}[b, s] m) => (float[b, s] y) {{ {use} }}")
    for seed in range(4):
        mask = make(model, seed)["m"]
        assert set(mask.ravel().tolist()) <= {0, 1}
        assert (mask.sum(axis=1) >= 1).all()


def test_conditions_take_both_values() -> None:
    """Two conditions of an If take all four combinations, and a check of models runs each of them."""
    bodies = "then_branch = t () => (float[2] a) { a = Relu(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }"
    text = f"p = If (first) <{bodies}> q = If (second) <{bodies}> y = Add(p, q)"
    model = read(f"g (float[2] x, bool first, bool second) => (float[2] y) {{ {text} }}")
    seen = {(bool(feeds["first"]), bool(feeds["second"])) for feeds in (make(model, seed) for seed in range(16))}
    assert len(seen) == 4
    assert check_model(model, model, model).runs == 12, "three usual, four of conditions, two wide, three not finite"


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2, 6] x, int64[3] shape) => (float[a, b, c] y) { y = Reshape(x, shape) }",
        "g (float[1, 6] x, int64[2] shape) => (float[a, b] y) { y = Tile(x, shape) }",
        "g (int64 stop) => (int64[a] y) <int64 s = {0}, int64 d = {1}> { y = Range(s, stop, d) }",
        "g (float[8] x, int64[1] from, int64[1] to) => (float[a] y) { y = Slice(x, from, to) }",
        "g (float[b, 8] x, int64[1] k) => (float[b, c] y, int64[b, c] i) { y, i = TopK(x, k) }",
        "g (int64[b] x) => (float[b, 4] y) <int64 d = {4}, float[2] v = {0, 1}> { y = OneHot(x, d, v) }",
        "g (float[5, b, 3] x, int64[b] n) => (float[5, b, 3] y) { y = ReverseSequence(x, n) }",
        "g (float x, int64 i) => (float y) <float[3] t = {1, 2, 3}> { u = Gather(t, i) y = Mul(x, u) }",
        "g (float[2, 3] x, int64[1] axes) => (float[a, b] y) { y = ReduceSum(x, axes) }",
        "g (string[2] x) => (string[2] y) { y = Identity(x) }",
        "g (uint8[b, 3, 8, 8] x) => (float[b, 3, 8, 8] y) { y = Cast<to = 1>(x) }",
        "g (bfloat16[b] x, float16[b] z, double[b] w) => (bfloat16[b] y) { y = Identity(x) }",
    ],
)
def test_shapes_counts_and_dtypes_that_run(text: str) -> None:
    """ONNX Runtime takes what is made, in the dtype that the model states."""
    model = read(text)
    feeds = make(model)
    for entry in model.graph.input:
        elem_type = entry.type.tensor_type.elem_type
        assert feeds[entry.name].dtype == np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))


def test_places_in_a_batch_stay_below_it() -> None:
    """RoiAlign says of each region which of the batch it lies in."""
    text = "g (float[3, 1, 8, 8] x, float[9, 4] r, int64[9] i) => (float[9, 1, 1, 1] y) { y = RoiAlign(x, r, i) }"
    found = np.concatenate([generate_inputs(read(text), seed=seed, dims={})["i"] for seed in range(8)])
    assert set(found) == {0, 1, 2}


@pytest.mark.parametrize(
    ("columns", "call"),
    [
        (4, "y = RoiAlign(x, r, i)"),
        (5, "y = torchvision.roi_align(x, r)"),
        (5, "j, c = Split<axis = 1>(r, s) k = Squeeze(j, o) l = Cast<to = 7>(k) y = RoiAlign(x, c, l)"),
    ],
)
def test_boxes_are_of_a_picture_and_of_many_sizes(columns: int, call: str) -> None:
    """Some have no width, none is turned round, and what says which picture they are of is a whole number below it."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 22, "torchvision" : 1]> g '
        f"(float[3, 1, 8, 8] x, float[9, {columns}] r, int64[9] i) => (float[9, 1, 1, 1] y) "
        f"<int64[2] s = {{1, 4}}, int64[1] o = {{1}}> {{ {call} }}"
    )
    found = np.concatenate([generate_inputs(model, seed=seed, dims={})["r"] for seed in range(8)])
    wide, high = (found[:, -4:][:, 2:] - found[:, -4:][:, :2]).T
    assert (wide.min(), wide.max() > 16, high.min() > 0) == (0, True, True)
    assert (wide == 0).sum() < len(found) / 2
    assert columns == 4 or set(found[:, 0]) == {0, 1, 2}


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 5), (2, 3, 4), (2, 0, 5), (2, 3, 6)])
def test_boxes_of_any_rank_are_made(shape: tuple[int, ...]) -> None:
    """Nothing says that what a placeholder reads as boxes has two axes."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "torchvision" : 1]> g '
        f"(float[2, 3, 8, 8] x, float{list(shape) or ''} r) => (float y) {{ y = torchvision.roi_align(x, r) }}"
    )
    assert generate_inputs(model, seed=0, dims={})["r"].shape == shape


def test_what_is_added_to_scores_is_distinguished_from_what_is_not() -> None:
    """Input 5 is added to the scores of com.microsoft::Attention, and holds past values in ONNX's own."""
    call = "y = {}Attention(q, k, v, m, a, b)"
    own, contrib = (
        read(f"g (float[2] q, float[2] k, float[2] v, float[2] m, float[2] a, float[2] b) => (float[2] y) {{ {text} }}")
        for text in (call.format(""), call.format("com.microsoft."))
    )
    assert "scores" in InputRoles(Index.over(contrib)).of_input("b").flags
    assert "scores" in InputRoles(Index.over(own)).of_input("m").flags
    assert not InputRoles(Index.over(own)).of_input("b").flags


def test_loops_turn_a_few_times() -> None:
    """A trip count from outside is small, and 0 in some sets."""
    model = read(
        """g (int64 n, float[2] x) => (float[2] y) { c = Constant<value = bool {1}>() y = Loop(n, c, x)
        <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) { co = Identity(ci) so = Add(s, s) }> }"""
    )
    assert {int(make(model, seed)["n"]) for seed in range(32)} == {0, 2, 3, 7}


def test_a_number_that_a_loop_counts_to_is_zero_in_some_sets() -> None:
    """Then it does not run at all; what is no more than a length never is."""
    counted = "c = Less(n, k) y = Loop(, c, n, k, x) <body = b (int64 i, bool ci, int64 at, int64 last, float[2] s) => "
    counted += "(bool co, int64 j, int64 last, float[2] so) { one = Constant<value = int64 {1}>() j = Add(at, one) "
    model = read(
        f"""g (int64 k, float[2] x) => (float[2] z) {{ n = Constant<value = int64 {{0}}>()
        {counted.replace("y = Loop", "u, v, z = Loop")} co = Less(j, last) so = Add(s, s) }}> }}"""
    )
    made = [int(make(model, seed)["k"]) for seed in range(6)]
    assert 0 in made
    assert max(made) > 1


def test_sizes_follow_names_and_each_other() -> None:
    """Batch 2, sequence 5; expressions and totals follow; the caller's choice goes before all."""
    model = read(
        """g (int64[batch, seq] a_ids, float[batch, total] m, float[batch, 2, past_len, 4] past)
        => (float[batch, t] y) { y = Identity(m) }"""
    )
    assert make(model)["m"].shape == (2, 8), "a total is what was and what is new"
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "past_len + seq"
    feeds = make(model)
    assert [array.shape for array in feeds.values()] == [(2, 5), (2, 8), (2, 2, 3, 4)]
    feeds = make(model, batch=1, past_len=0)
    assert [array.shape for array in feeds.values()] == [(1, 5), (1, 5), (1, 2, 0, 4)]
    picture = make(read("g (float[n, 3, h, w] x) => (float[n, 3, h, w] y) { y = Relu(x) }"))
    assert picture["x"].shape == (2, 3, 32, 32)


def test_sound_is_as_long_as_its_input_is_called() -> None:
    """Where the name of the dimension tells nothing; of three samples most models of sound make no frame."""
    model = read(
        "g (float[batch, N] waveforms, int64[batch] waveforms_lens) => (float[batch, N] y, int64[batch] z) "
        "{ y = Relu(waveforms)  z = Identity(waveforms_lens) }"
    )
    assert make(model)["waveforms"].shape == (2, 1600)
    model.graph.input[0].name = model.graph.node[0].input[0] = "features"
    assert make(model)["features"].shape == (2, 3)


def test_an_unknown_dimension_is_refused_with_the_known_ones() -> None:
    """A slip in a dimension's name must not pass unnoticed."""
    with pytest.raises(UsageError, match=r"No input has a dynamic dimension 'bacth'; did you mean 'batch'\?"):
        generate_inputs(read("g (float[batch] x) => (float[batch] y) { y = Relu(x) }"), seed=0, dims={"bacth": 1})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("past + seq", 7),
        ("2*seq", 10),
        ("seq//2", 2),
        ("past - 1", 1),
        ("seq", None),
        ("a-b", None),
        ("f(seq) + 1", None),
        ("floor(seq/2) + unknown", 7),
        ("seq % (past - 2)", None),
    ],
)
def test_expressions_of_sizes(expression: str, value: int | None) -> None:
    """Arithmetic of sizes is evaluated; a name that looks like it, or a call, is not."""
    assert evaluate(expression, {"past": 2, "seq": 5}) == value


def test_the_seed_decides_and_inputs_differ() -> None:
    """The same seed gives the same arrays, another seed others; two inputs are never the same numbers."""
    model = read("g (float[64] x, float[64] z) => (float[64] y) { y = Add(x, z) }")
    one, same, other = make(model, 1), make(model, 1), make(model, 2)
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert not np.array_equal(one["x"], other["x"])
    assert not np.array_equal(one["x"], one["z"])
    assert 0.5 < one["x"].std() < 1.5


def test_initializers_that_are_inputs_are_left_out() -> None:
    """An input with a default needs no value."""
    model = read("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    assert set(make(model)) == {"x"}


def test_inputs_with_a_sparse_initializer_are_left_out_too() -> None:
    """Nobody has to give them, and their free dimensions are none to set."""
    model = read("g (float[n] x, float[m] s) => (float[n] y) { y = Neg(x) }")
    model.graph.sparse_initializer.add().values.name = "s"
    assert list(required_inputs(model.graph)) == ["x"]
    require_dims(model.graph, {"n": 3})
    with pytest.raises(UsageError, match="'m'"):
        require_dims(model.graph, {"m": 3})
    with pytest.raises(UsageError, match="-1"):
        require_dims(model.graph, {"n": -1})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g (seq(float[2]) x, int64 i) => (float[2] y) { y = SequenceAt(x, i) }", "input 'x' is a sequence"),
        ("g (optional(float[2]) x) => (float[2] y) { y = OptionalGetElement(x) }", "input 'x' is an optional"),
        ("g (float[100000, 100000] x) => (float[a, b] y) { y = Relu(x) }", "too large"),
    ],
)
def test_what_cannot_be_made_says_why(text: str, reason: str) -> None:
    """A reason, never a guess."""
    with pytest.raises(InputsUnknown, match=reason):
        generate_inputs(read(text), seed=0, dims={})


def test_an_unknown_rank_says_so() -> None:
    """Without a shape there is nothing to make."""
    model = read("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(InputsUnknown, match="the rank of input 'x' is unknown"):
        generate_inputs(model, seed=0, dims={})


def test_real_exports_run_on_their_inputs(real_export: tuple[exports.Case, Path, exports.Truth]) -> None:
    """What torch exported runs on what is made for it, and equals itself; what ORT cannot load is unproved."""
    _, path, _ = real_export
    result = check_model(path, path, onnx.load(path, load_external_data=False))
    if result.outcome is Outcome.UNPROVED:
        with pytest.raises(SessionError) as refused:
            OrtSession(path)
        assert result.reason == f"ONNX Runtime does not load the original: {refused.value.message}"
    else:
        assert result.outcome is Outcome.PROVED, result.reason
        assert result.runs >= 2
