"""Recipes: what they do, in which order, what is the same the next time, and where they are wrong."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

import surgeon
from surgeon.edits import AddOutput, PrependImage, Rename, StripDoc
from surgeon.file.temporary_model import temporary_path
from tests.command_line import files_in, run

MODEL = Path(__file__).resolve().parents[1] / "notebooks" / "models" / "tiny_distilbert.onnx"
TEXT = """\
target = "ort"

[variables]
name = "y"
best = 3

[[step]]
rename = ["logits=${name}", "input_ids=tokens"]
strip-doc = true

[[step]]
rules = ["gelu", "layer_norm"]
expect = { gelu = 4 }

[[step]]
append-topk = { output = "${name}", k = "${best}" }
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "deploy.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_a_recipe_does_what_it_says_in_order(recipe, tmp_path):
    out = tmp_path / "out.onnx"
    _, report = surgeon.run(recipe, MODEL, out, variables={"best": 2})
    made = onnx.load(out)
    assert [value.name for value in made.graph.input] == ["tokens", "attention_mask"]
    assert [value.name for value in made.graph.output] == ["y_values", "y_indices"]
    assert sum(node.op_type == "Gelu" for node in made.graph.node) == 4
    assert report.outcome == "proved"
    assert report.counts == {"gelu": 4}
    assert files_in(tmp_path) == {"deploy.toml", "out.onnx"}


def test_a_recipe_is_the_same_in_python(recipe):
    loaded = surgeon.load_recipe(recipe)
    steps = [Rename("logits", "y"), Rename("input_ids", "tokens"), StripDoc()]
    assert loaded.steps[:3] == tuple(steps)
    assert loaded.steps[3] == surgeon.Rules("gelu,layer_norm", expect={"gelu": 4})
    again = recipe.with_name("again.toml")
    loaded.save(again)
    assert surgeon.load_recipe(again) == loaded


@pytest.mark.parametrize("kind", [onnx.ModelProto, gs.Graph])
def test_a_model_in_memory_comes_back_as_it_was_given(recipe, kind):
    model = onnx.load(MODEL)
    made, report = surgeon.run(recipe, model if kind is onnx.ModelProto else gs.import_onnx(model))
    assert isinstance(made, kind)
    assert report.outcome == "proved"


def test_a_dry_run_writes_nothing(recipe, tmp_path):
    made, report = surgeon.run(recipe, MODEL, tmp_path / "out.onnx", dry_run=True)
    assert made == MODEL
    assert [len(part.edits) for part in (report.parts[0], report.parts[2])] == [3, 1]
    assert files_in(tmp_path) == {"deploy.toml"}


def test_what_was_done_has_to_be_the_same(recipe, tmp_path):
    out = tmp_path / "out.onnx"
    done = run("run", recipe, MODEL, out, "--expect-same")
    assert done.exit_code == 2
    assert "Run the recipe once with --lock" in done.output
    assert run("run", recipe, MODEL, out, "--lock").exit_code == 0
    assert run("run", recipe, MODEL, out, "--expect-same").exit_code == 0
    out.unlink()
    lock = tmp_path / "deploy.toml.lock"
    held = json.loads(lock.read_text())
    held["parts"][1]["rules"]["layer_norm"] = 8
    lock.write_text(json.dumps(held))
    done = run("run", recipe, MODEL, out, "--expect-same")
    assert done.exit_code == 3
    said = "The rewrite differs from the lock file: layer_norm was applied 0 times, but 8 were expected"
    assert said in done.output
    held["parts"][1]["rules"].update(layer_norm=0, gelu=5)
    lock.write_text(json.dumps(held))
    assert "gelu was applied 4 times, but 5 were expected" in run("run", recipe, MODEL, out, "--expect-same").output
    held["parts"][1]["rules"]["gelu"] = 4
    held["parts"][0]["edits"][1]["changes"] = []
    lock.write_text(json.dumps(held))
    done = run("run", recipe, MODEL, out, "--expect-same")
    assert done.exit_code == 3
    assert "rename differs from the lock file: input_ids, tokens instead of nothing" in done.output
    for text in ("{}", '{"parts": [1]}', '{"parts": [{"edits": [["rename"]]}]}'):
        lock.write_text(text)
        assert "is not the lock file of a recipe" in run("run", recipe, MODEL, out, "--expect-same").output
    assert not out.exists()


def test_a_lock_holds_values_and_no_sentences(recipe, tmp_path, monkeypatch):
    """Whoever rewords what an edit says breaks no lock; what it does otherwise is found under any wording."""
    out = tmp_path / "out.onnx"
    surgeon.run(recipe, MODEL, out, lock=True)
    lock = json.loads((tmp_path / "deploy.toml.lock").read_text())
    assert lock["parts"][0]["edits"][1] == {
        "edit": "rename",
        "value": "input_ids=tokens",
        "changes": [["input_ids", "tokens"]],
    }

    def reworded(edit, draft, apply=Rename.apply):
        apply(edit, draft)
        return (f"now {edit.new!r} is the name of what was {edit.old!r}",)

    monkeypatch.setattr(Rename, "apply", reworded)
    assert surgeon.run(recipe, MODEL, out, expect_same=True)[1].outcome == "proved"
    monkeypatch.setattr(Rename, "apply", lambda *given: (*reworded(*given), "the output 'y' is renamed too"))
    with pytest.raises(surgeon.ExpectationUnmet, match="rename differs from the lock file"):
        surgeon.run(recipe, MODEL, out, expect_same=True)


def test_a_lock_of_sentences_still_counts(recipe, tmp_path):
    """Earlier versions stored the flag and the sentences of each edit."""
    out, lock = tmp_path / "out.onnx", tmp_path / "deploy.toml.lock"
    _, report = surgeon.run(recipe, MODEL, out)
    old = [
        {"rules": part.counts} if part.sites else {"edits": [[done.edit.flag, list(done.said)] for done in part.edits]}
        for part in report.parts
    ]
    lock.write_text(json.dumps({"parts": old}))
    assert surgeon.run(recipe, MODEL, out, expect_same=True)[1].outcome == "proved"
    old[0]["edits"][1][1] = ["input 'input_ids' is renamed to 'words'"]
    lock.write_text(json.dumps({"parts": old}))
    with pytest.raises(surgeon.ExpectationUnmet, match="rename differs .*: tokens instead of words"):
        surgeon.run(recipe, MODEL, out, expect_same=True)


def convolution(folder):
    """A convolution with a BatchNormalization, its weights in a file beside it."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((512, 64, 3, 3)).astype(np.float32)
    rows = [rng.random(512).astype(np.float32) + 0.5 for _ in range(4)]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", *"abmv"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(weight, "w")]
    tensors += [numpy_helper.from_array(row, name) for row, name in zip(rows, "abmv", strict=True)]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *size, 8, 8]) for name, size in (("x", [64]),)
    ]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 512, 6, 6])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", ends, outs, tensors), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    external_data_helper.convert_model_to_external_data(model, location="in.data")
    onnx.save(model, folder / "in.onnx")
    return folder / "in.onnx"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_data_in_files_end_where_the_model_is(tmp_path, elsewhere):
    """New weights of a step in the middle are named after the result, and nothing is left over between."""
    source = convolution(tmp_path)
    folder = tmp_path / "other" if elsewhere else tmp_path
    folder.mkdir(exist_ok=True)
    recipe = surgeon.Recipe([Rename("x", "pixels"), surgeon.Rules("conv_batch_norm"), Rename("y", "features")])
    before = files_in(tmp_path)
    own = files_in(folder)
    _, report = surgeon.run(recipe, source, folder / "out.onnx")
    assert report.outcome == "proved"
    assert report.counts == {"conv_batch_norm": 1}
    made = onnx.load(folder / "out.onnx")
    assert [node.op_type for node in made.graph.node] == ["Conv", "Relu"]
    assert files_in(folder) - own == {"out.onnx", "out.onnx.data"}
    assert files_in(tmp_path) - before == (set() if elsewhere else {"out.onnx", "out.onnx.data"})
    assert surgeon.compare(source, source).proved


def test_what_fails_leaves_nothing(tmp_path):
    source = convolution(tmp_path)
    before = files_in(tmp_path)
    recipe = surgeon.Recipe([surgeon.Rules("conv_batch_norm"), Rename("z", "features")])
    with pytest.raises(surgeon.UsageError, match="no tensor 'z'"):
        surgeon.run(recipe, source, tmp_path / "out.onnx")
    assert files_in(tmp_path) == before


def test_what_a_killed_run_left_is_swept(tmp_path):
    """By the next run over the same source; what a run that still lives has there stays."""
    source = convolution(tmp_path)
    leave = "import sys; from pathlib import Path; from surgeon.file.temporary_model import temporary_path as p; "
    leave += "p(Path(sys.argv[1]).parent, Path(sys.argv[1])).touch()"
    subprocess.run([sys.executable, "-c", leave, source], check=True)
    own = temporary_path(tmp_path, source)
    assert len([name for name in files_in(tmp_path) if name.startswith(".")]) == 0
    subprocess.run([sys.executable, "-c", leave, source], check=True)
    own.touch()
    steps = [surgeon.Rules("conv_batch_norm"), StripDoc()]
    surgeon.run(surgeon.Recipe(steps), source, tmp_path / "out.onnx")
    assert [name for name in files_in(tmp_path) if name.startswith(".")] == [own.name]


WRONG = [
    ("targets = 'ort'", "line 1: a recipe has no 'targets'; did you mean 'target'?"),
    ("target = 3", "line 1: 'target' must be a string"),
    ("strip = 1\n", "line 1: a recipe has no 'strip'"),
    ("\ntarget = 'onxn'\n[[step]]\nrules = 'gelu'", "line 2: Unknown target 'onxn'. Choose one of ort"),
    ("\nep = 'gpu'\n[[step]]\nrules = 'gelu'", "line 2: Unknown execution provider 'gpu'. Choose one of cpu"),
    ("[step]\nrules = 'gelu'", "line 1: 'step' must be a list. Start each step with [[step]]"),
    ("[[step]]\nstrip-doc = true\nrename = ['input_ids=a', 'b=c']", "line 3: The model has no tensor 'b'"),
    ("[[step]]\nstrip-doc = true\n[[step]]\nrename = 'b=c'", "line 4: The model has no tensor 'b'"),
    ("[[step]]\n\nrenam = 'a=b'", "line 3: unknown edit 'renam'; did you mean 'rename'"),
    ("[[step]]\nrename = 'a'", "line 2: 'a' is not of the form OLD=NEW"),
    ("[[step]]\nrename = 'a=b'\n[[step]]\n# here\nrules = 3", "line 5: 'rules' must be a string or a list"),
    ("[[step]]\nrules = 'gelu'\nexpects = {}", "line 3: a step of rules has no 'expects'; did you mean 'expect'?"),
    ("[[step]]\nrules = 'gelu'\nupgrade = true", "line 3: 'upgrade' must be a number or a string"),
    ("[[step]]\nrename = { old = 'a' }", "line 2: rename missing 1 required positional argument: 'new'"),
    ("[[step]]\nappend-topk = { output = 'y', n = 3 }", "line 2: append-topk has no setting 'n'"),
    ("[[step]]\nstrip-doc = 'yes'", "line 2: strip-doc takes no value. Write strip-doc = true"),
    ("[[step]]\nrename = 'a=${b}'", "line 1: unknown variable 'b'; there is none."),
    ("[[step]]\nrename = 'a=b", "is not valid TOML"),
    ("[[step]]", "line 1: a step needs an edit or rules"),
    ("target = 'ort'", "has no step. Start one with [[step]]"),
    ("[[step]]\nrename = 'input_id=b'", "line 2: The model has no tensor 'input_id'; did you mean 'input_ids'?"),
    ("[[step]]\nstrip-doc = true\n[[step]]\nrules = 'gelo'", "line 4: No rule named 'gelo'"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=lambda item: item[:40])
def test_what_is_wrong_is_reported_with_its_line(tmp_path, text, message):
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    done = run("run", path, MODEL, tmp_path / "out.onnx")
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1
    assert files_in(tmp_path) == {"wrong.toml"}


def test_a_variable_that_there_is_not(recipe, tmp_path):
    done = run("run", recipe, MODEL, tmp_path / "out.onnx", "--set", "nam=z")
    assert done.exit_code == 2
    assert "has no variable 'nam'; did you mean 'name'" in done.output
    done = run("run", recipe, MODEL, tmp_path / "out.onnx", "--set", "window=3")
    assert done.exit_code == 2
    assert "has no variable 'window'; declare it under [variables] in the recipe" in done.output


def test_rule_files_are_found_beside_the_recipe(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine.py").write_text(
        "from surgeon import Graph, Tensor, rule\n\n\ndef exact(g: Graph, x: Tensor) -> Tensor:\n"
        '    """GELU."""\n    return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2**0.5)), 1.0))\n\n\n'
        '@rule(patterns=[exact], target="ort")\ndef mine(g: Graph, x: Tensor) -> Tensor:\n'
        '    """GELU as one node."""\n    return g.ms_gelu(x)\n'
    )
    (folder / "deploy.toml").write_text("[[step]]\nrules = './mine.py'\n")
    monkeypatch.chdir(tmp_path)
    _, report = surgeon.run("project/deploy.toml", MODEL, tmp_path / "out.onnx")
    assert report.counts == {"mine": 4}


def test_a_command_line_is_recorded(tmp_path):
    path = tmp_path / "made.toml"
    assert run("record", path, "edit", "a", "b", "--rename", "logits=y", "--add-output", "gelu").exit_code == 0
    settings = ["--rules", "gelu", "--rules", "layer_norm", "--expect", "gelu=4", "--upgrade", "auto"]
    assert run("record", path, "rewrite", "a", "b", *settings).exit_code == 0
    picture = ["--input", "x", "--mean", "0.5,0.5,0.5", "--resize", "64"]
    assert run("record", path, "prepend", "a", "b", "image", *picture).exit_code == 0
    assert run("record", path, "append", "a", "b", "softmax", "--output", "y").exit_code == 0
    loaded = surgeon.load_recipe(path)
    assert loaded.steps[:2] == (Rename("logits", "y"), AddOutput("gelu"))
    assert loaded.steps[2] == surgeon.Rules("gelu,layer_norm", expect={"gelu": 4}, upgrade="auto")
    assert loaded.steps[3] == PrependImage("x", mean=(0.5, 0.5, 0.5), resize=(64, 64))
    assert loaded.steps[4] == surgeon.edits.AppendSoftmax("y")
    done = run("record", path, "rewrite", "a", "b", "--rules", "gelu", "--target", "tensorrt")
    assert done.exit_code == 2
    assert "is for target ort" in done.output


def test_what_is_no_recipe_is_reported():
    with pytest.raises(surgeon.UsageError, match="A recipe must be a surgeon.Recipe or the path of a file, not None"):
        surgeon.run(None, "in.onnx", "out.onnx")


def test_a_recipe_is_not_lost_where_the_next_step_cannot_be_written(tmp_path, monkeypatch):
    path = tmp_path / "r.toml"
    assert run("record", path, "edit", "a", "b", "--rename", "logits=y").exit_code == 0
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("surgeon.file.io.atomic_file.write_all", full)
    done = run("record", path, "edit", "a", "b", "--rename", "logits=z")
    assert (done.exit_code, done.output) == (
        2,
        f"Error: The recipe {path} cannot be written: No space left on device.\n",
    )
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_mark_that_editors_put_first_is_no_part_of_a_recipe(tmp_path):
    (tmp_path / "r.toml").write_bytes(b'\xef\xbb\xbf[[step]]\r\nrules = "gelu"\r\n')
    assert surgeon.load_recipe(tmp_path / "r.toml").steps == (surgeon.Rules("gelu"),)
