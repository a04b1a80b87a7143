"""Assumptions that users declare: what they mean, where they hold, and that each result states them."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surgeon
from surgeon import CheckOptions
from surgeon.analysis.assumptions.assumption import Assumption, parse_all
from surgeon.analysis.assumptions.model_assumptions import assumption_lines, assumptions_of, declare
from surgeon.errors import UsageError
from surgeon.runtime.inputs import float_fills
from surgeon.runtime.inputs.fill import Fill
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.testing import parse
from tests.command_line import run
from tests.test_assumed_proofs import CONSTANTS, RIGHT_UNDER, clipped_rule, is_unit, model_of, rewritten

WORDS = [
    "0..1",
    "-3..-1.5",
    "100..1000",
    "0..0.3",
    "0..inf",
    "-inf..inf",
    "0..31999, sorted",
    "finite",
    "nonzero",
    "-1..0, nonzero",
    "sorted",
    "sorted, finite, nonzero",
    "mask",
    "mask, sorted",
    "left-padded",
    "right-padded",
    "no padding",
]
DTYPES = [
    *(np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn),
    *(np.int64, np.int32, np.uint8, ml_dtypes.int4, np.bool_),
]


# What the words mean


@pytest.mark.parametrize("words", WORDS)
def test_words_are_read_as_they_are_written(words):
    assert str(Assumption.parse(words)) == words
    assert Assumption.parse(f"  {words.replace(', ', ' ,')} ") == Assumption.parse(words)


@pytest.mark.parametrize(
    ("words", "shorter"),
    [
        ("0..1, finite", "0..1"),
        ("nonzero, 1..5", "1..5"),
        ("left-padded, sorted, 0..1", "left-padded"),
        ("right-padded, sorted", "no padding"),
        ("mask, 0..1, finite", "mask"),
        ("mask, left-padded", "left-padded"),
        ("mask, nonzero", "no padding"),
        ("right-padded, nonzero", "no padding"),
        ("1..1", "no padding"),
    ],
)
def test_what_others_imply_is_left_out(words, shorter):
    assert str(Assumption.parse(words)) == shorter


@pytest.mark.parametrize(
    ("one", "other"),
    [("0..1", "-1..1"), ("0..1", "finite"), ("1..2", "nonzero"), ("no padding", "sorted"), ("left-padded", "0..1")],
)
def test_some_follow_from_others(one, other):
    stronger, weaker = map(Assumption.parse, (one, other))
    assert stronger.implies(weaker)
    assert not weaker.implies(stronger)


@pytest.mark.parametrize(
    ("words", "good", "bad", "place"),
    [
        ("0..1", [0.0, 1.0, 0.5], [0.0, 1.5], (1,)),
        ("0..1", [-0.0], [np.nan], (0,)),
        ("0..inf", [np.inf, 0.0], [np.inf, -1e-30], (1,)),
        ("0..0.3", np.float32([0.3]), np.nextafter(np.float32([0.3]), np.float32(1)), (0,)),
        ("finite", [3e38], [1.0, -np.inf], (1,)),
        ("nonzero", [np.nan, 1e-45], [1.0, -0.0], (1,)),
        ("sorted", [[1.0, 1.0, 2.0], [-3.0, 0.0, 0.0]], [[1.0, 2.0], [3.0, 2.0]], (1, 1)),
        ("sorted", [1.0], [1.0, np.nan], (1,)),
        ("right-padded", [[1, 0, 0], [1, 1, 1]], [[1, 0, 1], [1, 1, 1]], (0, 2)),
        ("right-padded", [[True, False]], [[1, 0], [0, 0]], (1, 0)),
        ("right-padded", [[1.0, 0.0]], [[1.0, 0.5]], (0, 1)),
        ("left-padded", [[0, 0, 1], [1, 1, 1]], [[0, 1, 0]], (0, 2)),
        ("no padding", [[1, 1]], [[1, 1], [0, 1]], (1, 0)),
        ("0..3", np.uint8([0, 3]), np.uint8([3, 255]), (1,)),
    ],
)
def test_the_first_violation_has_its_place(words, good, bad, place):
    assumption = Assumption.parse(words)
    assert assumption.violation(np.asarray(good)) is None
    assert assumption.violation(np.asarray(bad)) == place


@given(st.sampled_from(WORDS), st.sampled_from(DTYPES), st.sampled_from([0.01, 1.0, 300.0, 1e30]), st.integers(0, 99))
def test_arrays_obey_after_obey(words, dtype, scale, seed):
    """Whatever they held; what obeys already stays the same object."""
    assumption, dtype = Assumption.parse(words), np.dtype(dtype)
    try:
        assumption.require_dtype(dtype)
    except UsageError:
        return
    random = np.random.default_rng(seed)
    shape = [(3, 7), (), (0, 3), (3, 0), (2, 1), (1, 5)][seed % 6]
    special = random.choice([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf], shape)
    with np.errstate(all="ignore"):
        array = np.where(random.random(shape) < 0.3, special, random.normal(0, scale, shape)).astype(dtype)
        made = assumption.obey(array)
    assert (made.dtype, made.shape) == (array.dtype, array.shape)
    assert assumption.violation(made) is None
    assert assumption.obey(made) is made


def test_values_spread_over_a_range():
    """So that the middle of a range far from zero is met too, and equal elements stay equal."""
    array = np.random.default_rng(0).normal(0, 1, 1000).astype(np.float32)
    made = Assumption.parse("100..1000").obey(np.concatenate([array, array]))
    assert np.histogram(made, 9, (100, 1000))[0].min() > 50
    assert (made[:1000] == made[1000:]).all()
    whole = Assumption.parse("5..31999").obey(np.arange(-1000, 5))
    assert np.histogram(whole, 9, (5, 31999))[0].min() > 50


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x", "Write NAME: WORDS"),
        (": 0..1", "Write NAME: WORDS"),
        ("x: sort", "did you mean 'sorted'?"),
        ("x: ", "write 'no padding', 'left-padded', 'right-padded', 'mask', 'sorted', 'finite', 'nonzero', or a range"),
        ("x: 31999..0", "'31999..0' has its bounds in the wrong order: write 0..31999"),
        ("x: 0..", "'0..' is not a range: write two numbers, such as 0..1 or 0..inf"),
        ("x: nan..1", "is not a range"),
        ("x: 0..1, 0..2", "0..1 and 0..2 are two ranges: give only one"),
        ("x: left-padded, right-padded", "left-padded and right-padded contradict each other"),
        ("x: 0..0, nonzero", "contradicts itself"),
    ],
)
def test_words_that_mean_nothing_are_refused(text, part):
    with pytest.raises(UsageError, match="x|NAME") as refused:
        parse_all([text])
    assert part in str(refused.value)


def test_a_name_may_hold_colons():
    assert parse_all(["scope/x:0: 0..1", "scope/x:0: nonzero"]) == {"scope/x:0": Assumption.parse("0..1, nonzero")}


# What a model carries


MODEL = """(float[n, 4] x, int64[n, s] ids, string[n] t) => (float[n, 4] y, int64[n, s] z, string[n] u) {
    y = Relu(x)  z = Abs(ids)  u = Identity(t) }"""


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("idx: 0..9", "No input named 'idx' for an assumption; did you mean 'ids'?"),
        ("ids: finite", "int64 has neither infinity nor NaN: remove 'finite'"),
        ("ids: 0.2..0.8", "no int64 satisfies 0.2..0.8"),
        ("t: 0..9", "it contains strings"),
    ],
)
def test_assumptions_that_do_not_fit_the_model_are_refused(text, part):
    with pytest.raises(UsageError) as refused:
        declare(parse(MODEL), [text])
    assert part in str(refused.value)


def test_a_model_carries_its_assumptions():
    model = parse(MODEL)
    assert declare(model, ["x: 0..5", "ids: sorted"])
    assert not declare(model, ["x: 0..5"])
    assert declare(model, ["ids: 0..9"])
    assert assumption_lines(model) == ("x: 0..5", "ids: 0..9, sorted")
    assert not declare(model, ["x: 0..100"])  # the narrower range stays
    with pytest.raises(UsageError, match=r"carries the assumption 'x: 0\.\.5', which contradicts 'x: 3\.\.9'"):
        declare(model, ["x: 3..9"])
    model.metadata_props.add(key="surgeon.assume.gone", value="0..1")
    assert list(assumptions_of(model)) == ["x", "ids"]
    model.metadata_props[0].value = "0..1.."
    with pytest.raises(UsageError, match=r"metadata 'surgeon\.assume\.x' is not valid"):
        assumptions_of(model)


# Inputs


FILLS = [item for item in vars(float_fills).values() if isinstance(item, Fill)]


@pytest.mark.parametrize("fill", FILLS, ids=lambda fill: fill.name)
def test_generated_inputs_obey(fill):
    model = parse(
        "(float[n, 4] x, int64[n, s] ids, int64[n, s] attention_mask, float[n, 4] free)"
        " => (float[n, 4] y, int64[n, s] z, int64[n, s] w, float[n, 4] v) {"
        " y = Relu(x)  z = Abs(ids)  w = Identity(attention_mask)  v = Relu(free) }"
    )
    words = {"x": "-0.5..2", "ids": "0..31999, sorted", "attention_mask": "right-padded"}
    declare(model, [f"{name}: {text}" for name, text in words.items()])
    plan = InputGenerator(model)
    for seed in range(6):
        feeds = plan.generate(seed, {"n": 3, "s": 7}, dict.fromkeys(("x", "free"), fill))
        for name, text in words.items():
            assert Assumption.parse(text).violation(feeds[name]) is None, name
    if fill is float_fills.USUAL:
        assert feeds["free"].min() < -0.5


def test_inputs_of_users_that_violate_are_refused(tmp_path):
    model = parse(MODEL)
    x, ids = np.zeros((2, 4), np.float32), np.zeros((2, 3), np.int64)
    bad = x.copy()
    bad[1, 2] = 1.5
    t = np.array(["a", "b"])
    np.savez(tmp_path / "good.npz", x=x, ids=ids, t=t)
    np.savez(tmp_path / "later.npz", x=bad, ids=ids, t=t)
    assert surgeon.compare(model, model, inputs=tmp_path, assume={"x": "0..2"}).proved
    with pytest.raises(UsageError) as refused:
        surgeon.compare(model, model, inputs=tmp_path, assume={"x": "0..1"})
    later = tmp_path / "later.npz"
    assert str(refused.value) == (
        f"Input 'x' in {later} violates the assumption 'x: 0..1', because x[1, 2] is 1.5. Give other inputs, or remove "
        "the assumption."
    )


# What results say


def test_the_first_screen_and_json_say_under_which_assumption(tmp_path):
    model, rules = tmp_path / "in.onnx", tmp_path / "rules.py"
    onnx.save(model_of("0..1")[2], model)
    rules.write_text(
        "from surgeon import Graph, Tensor, rule\n\n\n"
        "def clipped(g: Graph, x: Tensor) -> Tensor:\n    return g.clip(x, 0.0, 1.0)\n\n\n"
        "@rule(patterns=[clipped], target='any')\n"
        'def unclipped(g: Graph, x: Tensor) -> Tensor:\n    """What a Clip reads."""\n    return x\n'
    )
    out, again = tmp_path / "out.onnx", tmp_path / "again.onnx"
    shown = run("rewrite", model, out, "--rules", f"{rules}:unclipped", "--assume", "x: 0..1")
    assert shown.exit_code == 0
    assert "\nnote     proved only under the assumption x: 0..1\n" in shown.output
    shown = run("compare", model, out)
    assert shown.exit_code == 0
    assert "under the assumption x: 0..1" in shown.output
    # A model that carries assumptions keeps them, and further ones are joined to them.
    more = CheckOptions(assume=["x: nonzero"])
    surgeon.rewrite(out, "gelu", output=again, options=more)
    assert assumption_lines(onnx.load(again)) == ("x: 0..1",)  # nothing fired, so nothing relies on the new one
    _, report = surgeon.edit(out, surgeon.edits.Metadata("author", "me"), output=again, options=more)
    assert report.to_dict()["assumptions"] == ["x: 0..1, nonzero"]
    assert assumption_lines(onnx.load(again)) == ("x: 0..1, nonzero",)


@pytest.mark.parametrize("check", ["none", "sites", "model", "both"])
def test_data_files_stay_and_the_model_may_be_its_own_output(tmp_path, check):
    """The model that carries the assumptions exists as a file only when it is written."""
    model = parse(f"(float[n, 64] x) => (float[n, 64] y) <{CONSTANTS}> {{ c = Clip(x, zero, one)  y = MatMul(c, w) }}")
    weights = np.random.default_rng(0).normal(0, 1, (64, 64)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    path, options = tmp_path / "in.onnx", CheckOptions(assume="x: 0..1")
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=10)
    data = (tmp_path / "w.bin").read_bytes()
    _, report = surgeon.rewrite(path, clipped_rule(is_unit), output=path, check=check, options=options)
    assert report.outcome == ("unchecked" if check == "none" else "proved")
    assert [node.op_type for node in onnx.load(path).graph.node] == ["MatMul"]
    assert assumption_lines(onnx.load(path)) == ("x: 0..1",)
    assert (tmp_path / "w.bin").read_bytes() == data
    assert sorted(item.name for item in tmp_path.iterdir()) == ["in.onnx", "w.bin"]


def test_without_a_change_the_bytes_stay(tmp_path):
    model, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model_of("0..1")[2], model)
    surgeon.rewrite(model, "gelu", output=out, options=CheckOptions(assume="x: 0..1"))
    assert out.read_bytes() == model.read_bytes()


def test_whole_models_are_compared_under_the_assumption():
    pattern, replacement, model = model_of("0..1")
    after, _ = rewritten("0..1", pattern, replacement, model)
    other = parse("(float[n, 4] x) => (float[n, 4] y) { y = Identity(x) }")
    assert not surgeon.compare(model, other).proved
    assert surgeon.compare(model, other, assume={"x": "0..1"}).assumptions == ("x: 0..1",)
    assert surgeon.compare(model, other, assume=["x: 0..1"]).proved
    assert surgeon.compare(model, after).proved  # it carries the assumption
    assert not surgeon.compare(model, other, assume="x: 0..2").proved


@pytest.mark.parametrize("words", RIGHT_UNDER)
def test_whole_models_are_compared_under_each_assumption(words):
    """On all inputs that are made for them, also those that only inform."""
    pattern, replacement, model = model_of(words)
    after, _ = rewritten(words, pattern, replacement, model)
    del after.metadata_props[:]
    found = surgeon.compare(model, after)
    assert not found.proved or found.differs_on
    found = surgeon.compare(model, after, assume={"x": words})
    is_constant = "everywhere in the original" in found.reason  # the output of a mask that obeys
    assert (found.proved or is_constant, found.differs_on) == (True, ())


def test_renamed_inputs_keep_their_assumptions():
    model = parse(MODEL)
    after, _ = surgeon.edit(
        model, surgeon.edits.Rename("x", "pixels"), options=CheckOptions(assume={"x": "0..1", "ids": "sorted"})
    )
    assert assumption_lines(after) == ("pixels: 0..1", "ids: sorted")


def test_unknown_inputs_are_refused_before_anything_runs(tmp_path):
    model = tmp_path / "in.onnx"
    onnx.save(parse(MODEL), model)
    shown = run("rewrite", model, tmp_path / "out.onnx", "--rules", "gelu", "--assume", "y: 0..1")
    assert shown.exit_code == 2
    assert "No input named 'y' for an assumption; there are x, ids, t." in shown.output
    assert not (tmp_path / "out.onnx").exists()


def test_parts_carry_the_assumptions_on_their_inputs(tmp_path):
    whole = tmp_path / "in.onnx"
    onnx.save(parse(MODEL), whole)
    paths, report = surgeon.split(
        whole, tmp_path / "parts", at=["y"], check="model", options=CheckOptions(assume=["x: 0..1", "ids: sorted"])
    )
    assert report.to_dict()["assumptions"] == ["x: 0..1", "ids: sorted"]
    assert [assumption_lines(onnx.load(path)) for path in paths] == [("x: 0..1",), ("ids: sorted",)]


def test_a_merged_model_carries_those_of_both():
    one, other = (
        parse(f"(float[n, 4] x, float[n, 4] {name}) => (float[n, 4] {name}y) {{ {name}y = Add(x, {name}) }}")
        for name in "ab"
    )
    declare(one, ["x: 0..1", "a: finite"])
    declare(other, ["x: nonzero", "b: 0..2"])
    connect = {"x": "x"}
    made, _ = surgeon.merge(one, other, connect=connect)
    assert assumption_lines(made) == ("x: 0..1, nonzero", "a: finite", "b: 0..2")
    made, _ = surgeon.merge(one, other, connect=connect, prefix=("p/", "q/"), options=CheckOptions(assume="a: 3..4"))
    assert assumption_lines(made) == ("p/x: 0..1, nonzero", "p/a: 3..4", "q/b: 0..2")
    declare(other, ["x: 2..3"])
    with pytest.raises(UsageError, match="which contradicts 'x: 2..3'"):
        surgeon.merge(one, other, connect=connect)


def test_recipes_and_fleets_pass_assumptions_on(tmp_path):
    recipe, folder = tmp_path / "recipe.toml", tmp_path / "in"
    recipe.write_text('[[step]]\nmetadata = ["author=me"]\n\n[[step]]\nrules = "gelu"\n')
    folder.mkdir()
    onnx.save(parse(MODEL), folder / "one.onnx")
    options = CheckOptions(assume={"x": "0..1"})
    _, report = surgeon.run(recipe, folder / "one.onnx", tmp_path / "out.onnx", options=options)
    assert report.to_dict()["assumptions"] == ["x: 0..1"]
    assert assumption_lines(onnx.load(tmp_path / "out.onnx")) == ("x: 0..1",)
    surgeon.run_many(recipe, folder / "*.onnx", to=tmp_path / "all", options=options)
    assert assumption_lines(onnx.load(tmp_path / "all" / "one.onnx")) == ("x: 0..1",)


def test_converted_and_raised_models_carry_them(tmp_path):
    model, raised = tmp_path / "in.onnx", tmp_path / "raised.onnx"
    onnx.save(parse("(float[n, 4] x) => (float[n, 4] y) { a = Mul(x, x)  y = Tanh(a) }"), model)
    options = CheckOptions(assume={"x": "0..1"})
    made, report = surgeon.convert(onnx.load(model), to="float16", options=options)
    assert report.to_dict()["assumptions"] == ["x: 0..1"]
    assert assumption_lines(made) == ("x: 0..1",)
    report = surgeon.upgrade(model, 18, raised, options=options)
    assert report.assumptions == ("x: 0..1",)
    assert assumption_lines(onnx.load(raised)) == ("x: 0..1",)


def test_integers_fit_a_narrower_dtype_under_an_assumption():
    model = parse("(int64[n] time) => (int64[n] y) <int64 k = {1000000}> { a = Mul(time, k)  y = Neg(a) }")
    _, report = surgeon.convert(model, from_="int64", to="int32")
    assert "range" in {item.kind for item in report.kept}
    _, report = surgeon.convert(model, from_="int64", to="int32", options=CheckOptions(assume="time: 0..1000"))
    assert (report.outcome, [item.kind for item in report.kept]) == ("proved", [])
