"""Two models made one: what both have stays apart, and it answers as the two do one after the other."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.file.protobuf.byte_edits import MAX_SIZE
from tests import sampling
from tests.command_line import run
from tests.edits.samples import random_models, sample
from tests.edits.test_cut_data import LAYERS, WIDTH, chain, external, weights

few = settings(max_examples=sampling.examples(20), deadline=None)
ROOT = Path(__file__).resolve().parents[2]


def merge(first, second, **rest):
    made, report = surgeon.merge(first, second, **rest)
    onnx.checker.check_model(made, full_check=True)
    return made, report


def model(text, ir_version=9, opset=18):
    return onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]> g {text}')


def names(values):
    return [value.name for value in values]


def sizes(value):
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def said(report):
    return report.edits[0].said


def test_what_both_have_stays_apart():
    made, report = merge(sample(), sample(), connect={"y": "x"})
    assert report.outcome == "proved"
    assert names(made.graph.input) == ["x", "z", "c", "z_1", "c_1"]
    assert names(made.graph.output) == ["left", "y_1", "left_1"]
    assert names(made.graph.initializer) == ["w", "v", "w_1", "v_1"]
    assert [function.name for function in made.functions] == ["half", "times"]
    assert "the input 'z' of the second model is renamed to 'z_1'" in said(report)
    made_names = [name for node in made.graph.node for name in node.output]
    bodies = [graph.g.node[0].output[0] for node in made.graph.node for graph in node.attribute if graph.HasField("g")]
    assert len({*made_names, *bodies}) == len(made_names) + len(bodies)
    assert [entry.value for entry in made.metadata_props] == ["me"]


def test_it_computes_what_the_two_do():
    """Told without surgeon's check."""
    made, _ = merge(sample(), sample(), connect={"y": "x"}, check="none")
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=(3, 4)).astype(np.float32) for name in ("x", "z", "z_1")}
    feeds |= {"c": np.array(True), "c_1": np.array(False)}
    one = ort.InferenceSession(sample().SerializeToString())
    y, left = one.run(None, {name: feeds[name] for name in "xzc"})
    last = one.run(None, {"x": y, "z": feeds["z_1"], "c": feeds["c_1"]})
    found = ort.InferenceSession(made.SerializeToString()).run(None, feeds)
    for wanted, array in zip([left, *last], found, strict=True):
        np.testing.assert_array_equal(wanted, array)


def test_prefixes_stand_before_all_names():
    made, report = merge(sample(), sample(), connect={"y": "x"}, prefix=("a_", "b_"))
    assert report.outcome == "proved"
    assert names(made.graph.input) == ["a_x", "a_z", "a_c", "b_z", "b_c"]
    assert names(made.graph.output) == ["a_left", "b_y", "b_left"]
    assert names(made.graph.initializer) == ["a_w", "a_v", "b_w", "b_v"]
    assert said(report) == ("'y' feeds 'x'",)


@pytest.mark.parametrize("version", [9, 3])
def test_an_output_may_feed_an_input_that_has_a_default(version):
    """The second model is run on what feeds it, where its IR version lets anybody give it another value."""
    first = model(
        "(float[n, 4] x) => (float[n, 4] y, float[4] k) <int64[1] z = {0}> "
        "{ y = Exp (x)  k = ReduceMax <keepdims = 0> (x, z) }"
    )
    second = model(
        "(float[n, 4] y, float[4] k = {1.0, 2.0, 3.0, 4.0}) => (float[n, 4] t) { t = Mul (y, k) }", version
    )
    made, report = merge(first, second, connect={"y": "y", "k": "k"})
    assert report.outcome == ("proved" if version == 9 else "unproved")
    assert version == 9 or "'k' always has its stored value" in report.check.reason
    assert names(made.graph.input) == ["x"]
    left, report = merge(first, second, connect={"y": "y"})
    assert report.outcome == "proved"
    assert names(left.graph.output) == ["k", "t"]


def test_what_feeds_what_is_reported_so_that_it_can_be_understood():
    first = model("(float[n] x, float[n] m) => (float[n] y) { y = Add (x, m) }")
    second = model("(float[n] y, float[n] m, float[n] o) => (float[n] z) { t = Add (y, m)  z = Add (t, o) }")
    assert said(merge(first, second)[1]) == (
        "the output 'y' of the first model feeds the input of that name",
        "the input 'm' of the first model is also that of the second",
    )
    assert said(merge(first, second, connect={"y": "m", "m": ["y", "o"]})[1]) == (
        "'y' feeds 'm'",
        "the input 'm' of the first model is also 'y' of the second",
        "the input 'm' of the first model is also 'o' of the second",
    )


def test_functions_of_one_name_and_another_body_stay_apart():
    other = sample()
    other.functions[0].node[0].attribute[0].f = 0.25
    made, report = merge(sample(), other, connect={"y": "x"})
    assert report.outcome == "proved"
    assert [function.name for function in made.functions] == ["half", "times", "half_1"]
    assert [node.op_type for node in made.graph.node if node.domain == "local"] == ["half", "half_1"]
    assert "the function 'half' of the second model is renamed to 'half_1'" in said(report)


def test_what_has_one_name_is_connected_where_nothing_is_said():
    first = model("(float[N] x) => (float[N] y) { y = Relu (x) }")
    second = model("(float[M] y) => (float[M] z) { z = Neg (y) }")
    made, report = merge(first, second)
    assert (names(made.graph.input), names(made.graph.output)) == (["x"], ["z"])
    assert sizes(made.graph.output[0]) == ["N"]
    assert report.outcome == "proved"
    with pytest.raises(surgeon.UsageError, match=r"No output of the first model \(z\) has the name of an input"):
        merge(second, second)


def test_inputs_of_one_name_are_one_where_an_output_feeds_another():
    """But not where their dtypes, ranks or fixed sizes say that they are two."""
    first = model("(float[N] x, float[4] w) => (float[N] y) { y = Identity (x) }")
    second = model("(float[M] y, float[M] x, float[5] w) => (float[M] z) { z = Add (y, x) }")
    made, report = merge(first, second)
    assert names(made.graph.input) == ["x", "w", "w_1"]
    assert report.outcome == "proved"


def test_one_output_feeds_several_inputs():
    first = model("(float[N] x) => (float[N] y) { y = Relu (x) }")
    second = model("(float[N] a, float[N] b) => (float[N] z) { z = Add (a, b) }")
    made, report = merge(first, second, connect={"y": ["a", "b"]})
    assert list(made.graph.node[1].input) == ["y", "y"]
    assert report.outcome == "proved"


def test_an_input_can_be_that_of_both():
    made, report = merge(sample(), sample(), connect={"y": "x", "z": "z", "c": "c"})
    assert names(made.graph.input) == ["x", "z", "c"]
    assert report.outcome == "proved"


def test_sizes_are_one_where_the_models_meet_and_apart_elsewhere():
    first = model("(float[batch, 4] x, float[K] k) => (float[batch, 4] y, float[K] l) { y = Relu (x) l = Neg (k) }")
    second = model(
        "(float[N, C] a, float[N] b, float[K] k) => (float[N, C] z, float[K] j) "
        "{ o = Constant <value_ints = [1]> () u = Unsqueeze (b, o) z = Add (a, u) j = Abs (k) }"
    )
    made, report = merge(first, second, connect={"y": "a"})
    assert [sizes(value) for value in made.graph.input] == [["batch", 4], ["K"], ["batch"], ["K_1"]]
    assert sizes(made.graph.output[1]) == ["batch", 4]
    assert report.outcome == "proved"


def test_a_size_that_the_second_fixes_is_fixed():
    first = model("(float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }")
    second = model("(float[2, 4] a) => (float[8] z) { s = Constant <value_ints = [8]> () z = Reshape (a, s) }")
    made, report = merge(first, second, connect={"y": "a"})
    assert sizes(made.graph.input[0]) == [2, 4]
    assert "the size 'N' of the first model is fixed at 2, as in the second" in said(report)
    assert report.outcome == "proved"


@pytest.mark.parametrize(
    ("second", "connect", "words"),
    [
        ("(float[N] a) => (float[N] z) { z = Neg (a) }", {"yy": "a"}, "In the first model: The model has no output"),
        ("(float[N] a) => (float[N] z) { z = Neg (a) }", {"y": "b"}, "In the second model: The model has no input"),
        ("(int64[N] a) => (int64[N] z) { z = Neg (a) }", {"y": "a"}, "'y' is float32, but 'a' is int64"),
        ("(float[N] a) => (float[N] z) { z = Neg (a) }", {"y": "a"}, "one has 2 dimensions, the other has 1"),
        ("(float[N, 5] a) => (float[N, 5] z) { z = Neg (a) }", {"y": "a"}, "on axis 1, the sizes are 4 and 5"),
        ("(float[N, N] a) => (float[N, N] z) { z = Neg (a) }", {"y": "a", "w": "a"}, "is connected twice"),
        ("(float[M, 4] a, float[M, 4] b) => (float[M, 4] z) { z = Add (a, b) }", {"f": "a", "h": "b"}, "both 3 and 2"),
        ("(float[2, 4] a, float[3, 4] b) => (float[2, 4] z, float[3, 4] v) { z = Neg (a) v = Neg (b) }",
         {"y": "a", "w": "b"}, "'N' would have to be both 2 and 3"),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_refused(second, connect, words):
    first = model("(float[N, 4] x, float[3, 4] p, float[2, 4] q) => (float[N, 4] y, float[N, 4] w, float[3, 4] f, "
                  "float[2, 4] h) { y = Relu (x) w = Neg (x) f = Neg (p) h = Neg (q) }")  # fmt: skip
    with pytest.raises(surgeon.UsageError, match=words):
        merge(first, model(second), connect=connect)


def test_the_lower_opset_is_raised():
    old = model("(float[N, 4] x) => (float[N] y) { y = ReduceSum <axes = [1], keepdims = 0> (x) }", 7, 12)
    new = model("(float[N] a) => (float[N] z) { z = Neg (a) }")
    for pair, connect in (((old, new), {"y": "a"}), ((new, old), None)):
        if connect is None:
            new.graph.input[0].type.tensor_type.shape.dim.add(dim_value=4)
            new.graph.output[0].type.tensor_type.shape.dim.add(dim_value=4)
            connect = {"z": "x"}
        made, report = merge(*pair, connect=connect)
        assert (made.opset_import[0].version, made.ir_version) == (18, 9)
        assert any("is raised from opset 12 to 18" in sentence for sentence in said(report))
        assert report.outcome == "proved"


def test_nodes_that_would_change_their_meaning_are_named():
    old = model("(float[2, 3, 4] x, float[3] s) => (float[2, 3, 4] y) { y = Resize(x, s) }", 7, 10)
    new = model("(float[2, 3, 4] y) => (float[2, 3, 4] z) { z = Neg (y) }")
    with pytest.raises(surgeon.GraphError, match="Resize at"):
        merge(old, new)


def test_other_domains_have_one_version_or_ops_that_did_not_change():
    def own(version, op):
        made = model("(float[N] y) => (float[N] y2) { y2 = Neg (y) }")
        made.opset_import.append(helper.make_opsetid("mine", version))
        made.graph.node[0].op_type, made.graph.node[0].domain = op, "mine"
        return made

    with pytest.raises(surgeon.GraphError, match="import versions 1 and 2 of mine, and Foo"):
        surgeon.merge(own(1, "Foo"), own(2, "Bar"), connect={"y2": "y"})
    made, _ = surgeon.merge(own(2, "Foo"), own(2, "Bar"), connect={"y2": "y"}, check="none")
    assert [node.op_type for node in made.graph.node] == ["Foo", "Bar"]


def test_metadata_of_both_is_kept():
    one, two = sample(), sample()
    two.metadata_props[0].value = "you"
    two.metadata_props.add(key="date", value="today")
    made, report = merge(one, two, connect={"y": "x"})
    held = {entry.key: entry.value for entry in made.metadata_props}
    assert held == {"author": "me", "author_1": "you", "date": "today"}
    assert "the metadata 'author' of the second model is renamed to 'author_1'" in said(report)


def test_a_wrong_join_is_found_out(monkeypatch):
    from surgeon.edits.merge_split import merge as merge_module

    def spoiled(draft, other, connect, prefix):
        made = real(draft, other, connect, prefix)
        draft.graph.node[-1].op_type = "Abs"
        return made

    real = merge_module.join
    monkeypatch.setattr(merge_module, "join", spoiled)
    with pytest.raises(surgeon.CheckFailed, match="The merged model differs from the two: Output 'left_1'"):
        merge(sample(), sample(), connect={"y": "x"})


def same_weights(path, *models):
    held = {item.name: numpy_helper.to_array(item) for one in models for item in one.graph.initializer}
    found = weights(path)
    assert set(found) == set(held)
    for name, array in found.items():
        np.testing.assert_array_equal(array, held[name])


@pytest.mark.parametrize("kinds", ["inline inline", "inline external", "external inline", "external external"])
@pytest.mark.parametrize("places", ["a a a", "a b a", "a b b", "a b c"])
def test_weights_come_along_from_wherever_they_are(tmp_path, kinds, places):
    """Where the models lie, and the result; data files of one name are of different content."""
    paths = []
    models = chain(prefix="p"), chain(prefix="q", seed=1)
    folders = [tmp_path / place for place in places.split()]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    for number, (kind, folder) in enumerate(zip(kinds.split(), folders, strict=False)):
        one = chain(prefix="pq"[number], seed=number)
        location = f"{number}.data" if folders[0] == folders[1] else "weights.data"
        paths.append(folder / f"{number}.onnx")
        if kind == "inline":
            onnx.save(one, paths[-1])
        else:
            external(paths[-1], one, location)
    before = {path: path.read_bytes() for folder in folders[:2] for path in folder.iterdir()}
    out = folders[2] / "out.onnx"
    made, report = surgeon.merge(*paths, connect={f"pt{LAYERS}": "qt0"}, output=out)
    assert (made, report.outcome) == (out, "proved")
    same_weights(out, *models)
    assert {path: path.read_bytes() for path in before} == before
    assert not [name for folder in folders for name in os.listdir(folder) if name.startswith(".")]
    if "external" not in kinds:
        assert not [name for name in os.listdir(out.parent) if name.endswith(".data")]


def test_weights_can_be_put_inside(tmp_path):
    (tmp_path / "b").mkdir()
    first = external(tmp_path / "a.onnx", chain(prefix="p"))
    second = external(tmp_path / "b" / "b.onnx", chain(prefix="q", seed=1))
    out, connect = tmp_path / "out.onnx", {f"pt{LAYERS}": "qt0"}
    surgeon.merge(first, second, connect=connect, output=out, external_data="inline")
    same_weights(out, chain(prefix="p"), chain(prefix="q", seed=1))
    assert out.stat().st_size > 2 * LAYERS * WIDTH * WIDTH * 4
    with pytest.raises(surgeon.UsageError, match="cannot be shared"):
        surgeon.merge(first, second, connect=connect, output=tmp_path / "o.onnx", external_data="share")
    assert sorted(os.listdir(tmp_path)) == ["a.onnx", "b", "out.onnx", "weights.data"]


def test_what_two_files_hold_and_one_cannot_goes_to_a_data_file(tmp_path, monkeypatch):
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    models = chain(prefix="p"), chain(prefix="q", seed=1)
    for path, one in zip(paths, models, strict=True):
        onnx.save(one, path)
    most = 1 + max(path.stat().st_size for path in paths) * 3 // 2
    assert most < MAX_SIZE
    for name in ("surgeon.file.patch.MAX_SIZE", "surgeon.file.protobuf.byte_edits.MAX_SIZE"):
        monkeypatch.setattr(name, most)
    surgeon.merge(*paths, connect={f"pt{LAYERS}": "qt0"}, output=tmp_path / "out.onnx")
    same_weights(tmp_path / "out.onnx", *models)
    assert (tmp_path / "out.onnx.data").stat().st_size == LAYERS * WIDTH * WIDTH * 4


def test_a_model_can_be_merged_in_its_place(tmp_path):
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, prefix in zip(paths, "pq", strict=True):
        onnx.save(chain(prefix=prefix), path)
    _, report = surgeon.merge(*paths, connect={f"pt{LAYERS}": "qt0"}, output=paths[0])
    assert report.outcome == "proved"
    assert len(onnx.load(paths[0]).graph.node) == 2 * LAYERS


def test_nothing_is_loaded_whole(tmp_path):
    """Two models that hold 100 MB of zeros each."""
    for name in "ab":
        node = helper.make_node("Add", [f"{name}x", f"{name}w"], [f"{name}y"])
        ends = [helper.make_tensor_value_info(f"{name}{end}", TensorProto.FLOAT, [25_000_000]) for end in "xy"]
        weight = TensorProto(name=f"{name}w", data_type=1, dims=[25_000_000], raw_data=bytes(100_000_000))
        made = helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:], [weight]), ir_version=9)
        (tmp_path / f"{name}.onnx").write_bytes(made.SerializeToString())
        del made, weight
    code = (
        "import resource, sys; import surgeon; from pathlib import Path; folder = Path(sys.argv[1])\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "whole = dict(connect={'ay': 'bx'}, check='none')\n"
        "both = folder / 'a.onnx', folder / 'b.onnx'\n"
        "surgeon.merge(*both, dry_run=True, **whole); before = peak()\n"
        "surgeon.merge(*both, output=folder / 'out.onnx', **whole); print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(done.stdout) < 50_000  # KiB
    assert (tmp_path / "out.onnx").stat().st_size > 200_000_000


def test_the_command_says_what_feeds_what(tmp_path):
    for name in "ab":
        onnx.save(sample(), tmp_path / f"{name}.onnx")
    paths = [tmp_path / f"{name}.onnx" for name in "abo"]
    done = run("merge", *paths, "--connect", "y=x", "--prefix", ",b_")
    assert done.exit_code == 0, done.output
    assert "'y' feeds 'x'" in done.stdout
    assert "PROVED" in done.stdout
    assert names(onnx.load(tmp_path / "o.onnx").graph.input) == ["x", "z", "c", "b_z", "b_c"]
    done = run("merge", *paths, "--connect", "y=z,a=x")
    assert done.exit_code == 2
    assert "no output 'a'" in done.stderr


def assert_no_doubt(report):
    """Proved, unless the models drawn always answer the same, as x - x does."""
    assert report.outcome == "proved" or report.check.reason.startswith("No output can show a difference")


def test_odd_models_are_refused_in_a_sentence(tmp_path):
    sound, odd = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(sample(), sound)
    arguments = "merge", sound, odd, tmp_path / "o.onnx", "--connect", "y=x"
    odd.write_bytes(sample().SerializeToString().replace(b"author", b"\xffuthor"))
    done = run(*arguments)
    assert done.exit_code == 2
    assert "not UTF-8" in done.stderr
    other = sample()
    other.opset_import[0].version = 1 << 31
    onnx.save(other, odd)
    done = run(*arguments)
    assert done.exit_code == 2
    assert "does not exist. The installed onnx" in done.stderr
    assert not (tmp_path / "o.onnx").exists()


@few
@given(random_models(), st.data())
def test_parts_merged_again_are_the_whole_up_to_names(model, data):
    made = [name for node in model.graph.node for name in node.output]
    try:
        parts, _ = surgeon.split(model, at=[data.draw(st.sampled_from(made))], check="none")
    except surgeon.UsageError:
        return  # told apart elsewhere
    outputs = names(model.graph.output)
    given, taken = names(parts[0].graph.output), names(parts[1].graph.input)
    assume(not set(given).isdisjoint(taken))  # else there is nothing to join
    whole, report = merge(*parts)
    assert_no_doubt(report)
    lost = [name for name in outputs if name not in names(whole.graph.output)]  # the first gives and the second takes
    if lost:
        whole, _ = surgeon.edit(whole, [surgeon.edits.AddOutput(name) for name in lost], check="none")
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=(3, 4)).astype(np.float32) for name in names(model.graph.input)}
    wanted = ort.InferenceSession(model.SerializeToString()).run(outputs, feeds)
    # An input that both parts take is one of each: that of the second has a name of its own.
    fed = {name: feeds[name if name in feeds else name.rpartition("_")[0]] for name in names(whole.graph.input)}
    found = ort.InferenceSession(whole.SerializeToString()).run(outputs, fed)
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(one, other)


@few
@given(random_models(), random_models())
def test_any_two_models_made_one_answer_as_the_two(first, second):
    source, name = first.graph.output[0].name, second.graph.input[0].name
    made, report = merge(first, second, connect={source: name})
    assert_no_doubt(report)
    count = len(first.graph.output) - 1 + len(second.graph.output)
    assert len(made.graph.output) == count


def test_what_is_no_connection_is_reported():
    with pytest.raises(surgeon.UsageError, match="connect must map outputs to inputs, for example .*, not 5"):
        surgeon.merge(onnx.ModelProto(), onnx.ModelProto(), connect=5)


def calling(factor, *bodies):
    """y = local.A(x), where A calls B, and B multiplies; without B it is an operator that nobody knows."""
    written = {
        "A": '<domain: "local", opset_import: ["" : 18, "local" : 1]> A (x) => (y) { y = local.B (x) }',
        "B": '<domain: "local", opset_import: ["" : 18]> B (x) => (y) '
        f"{{ k = Constant <value_float = {factor}> () y = Mul (x, k) }}",
    }
    head = '<ir_version: 9, opset_import: ["" : 18, "local" : 1]> g (float[N] x) => (float[N] y) '
    return onnx.parser.parse_model(f"{head} {{ y = local.A (x) }} {' '.join(written[name] for name in bodies)}")


def called(made):
    """By function what it calls, and what the main graph does."""
    found = {function.name: [node.op_type for node in function.node] for function in made.functions}
    return found, [node.op_type for node in made.graph.node]


def test_functions_that_are_written_alike_stay_apart_where_what_they_call_does():
    made, report = merge(calling(2.0, "A", "B"), calling(10.0, "A", "B"), connect={"y": "x"})
    assert report.outcome == "proved"
    assert called(made) == (
        {"A": ["B"], "B": ["Constant", "Mul"], "A_1": ["B_1"], "B_1": ["Constant", "Mul"]}, ["A", "A_1"]
    )
    assert "the function 'A' of the second model is renamed to 'A_1'" in said(report)
    session = ort.InferenceSession(made.SerializeToString())
    assert session.run(None, {"x": np.ones(1, np.float32)})[0].tolist() == [20.0]


def test_a_function_of_one_model_is_not_an_operator_of_the_other():
    """No body of the one may stand for what the other leaves to a runtime."""
    known, unknown = calling(2.0, "A", "B"), calling(2.0)
    made, report = surgeon.merge(known, unknown, connect={"y": "x"}, check="none")
    assert called(made) == ({"A_1": ["B"], "B": ["Constant", "Mul"]}, ["A_1", "A"])
    assert "the function 'A' of the first model is renamed to 'A_1'" in said(report)
    made, report = surgeon.merge(unknown, known, connect={"y": "x"}, check="none")
    assert called(made) == ({"A_1": ["B"], "B": ["Constant", "Mul"]}, ["A", "A_1"])
    assert "the function 'A' of the second model is renamed to 'A_1'" in said(report)
    made, _ = surgeon.merge(known, calling(2.0, "A"), connect={"y": "x"}, check="none")
    assert called(made) == ({"A": ["B_1"], "B_1": ["Constant", "Mul"], "A_1": ["B"]}, ["A", "A_1"])


def test_how_the_first_is_trained_follows_its_prefix():
    first = model("(float[4] x) => (float[4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> { y = Mul (x, w) }")
    reported = first.training_info.add()
    reported.algorithm.CopyFrom(model("(float[4] by) => (float[4] new) { new = Add (w, by) }").graph)
    reported.update_binding.add(key="w", value="new")
    made, _ = merge(first, model("(float[4] y) => (float[4] z) { z = Neg (y) }"), prefix=("a_", ""))
    (reported,) = made.training_info
    assert [(entry.key, entry.value) for entry in reported.update_binding] == [("a_w", "new")]
    assert list(reported.algorithm.node[0].input) == ["a_w", "by"]


@pytest.mark.parametrize(
    ("maker", "domain", "name"), [("SplitToSequence", "", "e"), ("ZipMap", "ai.onnx.ml", "z")], ids=["sequence", "map"]
)
def test_sequences_and_maps_that_were_given_another_name_are_found_again(maker, domain, name):
    """What they hold is called by their name, as len(e) and keys(z[0])."""
    first = model(f"(float[N, 4] x) => (float[N, 4] y, float[N, 4] {name}) {{ y = Neg (x) {name} = Exp (x) }}")
    second = model("(float[N, 4] y) => (float[N, 4] o) { o = Softmax (y) }")
    labels = {"classlabels_int64s": [1, 2, 3, 4]} if domain else {}
    second.graph.node.append(helper.make_node(maker, ["o"], [name], domain=domain, **labels))
    if domain:
        second.opset_import.append(helper.make_opsetid(domain, 1))
    stated = onnx.shape_inference.infer_shapes(second).graph.value_info
    second.graph.output.append(next(value for value in stated if value.name == name))
    made, report = surgeon.merge(first, second, connect={"y": "y"})
    assert names(made.graph.output) == [name, "o", f"{name}_1"]
    assert report.outcome == "proved"


def test_a_tensor_that_is_named_like_a_part_of_another_is_no_part():
    first = model("(float[N] x) => (float[N] y, float[N] o) { y = Neg (x) o = Exp (x) }")
    second = model("(float[N] y) => (float[N] o, float[N] p) { o = Relu (y) p = Abs (y) }")
    second.graph.node[1].output[0] = second.graph.output[1].name = "o[0]"
    made, report = merge(first, second, connect={"y": "y"})
    assert names(made.graph.output) == ["o", "o_1", "o[0]"]
    assert report.outcome == "proved"


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ({"connect": {"y": 5}}, "connect must map outputs to inputs"),
        ({"connect": {"y": ["x", 3]}}, "connect must map outputs to inputs"),
        ({"prefix": "ab"}, "one for each model"),
        ({"prefix": None}, "one for each model"),
        ({"prefix": (1, 2)}, "one for each model"),
    ],
    ids=str,
)
def test_what_says_no_connection_and_no_prefix_is_refused(rest, words):
    with pytest.raises(surgeon.UsageError, match=words):
        surgeon.merge(sample(), sample(), **{"connect": {"y": "x"}, **rest})
