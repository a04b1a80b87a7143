"""A name that the user gives and that matches nothing is refused with the nearest names, and nothing is written."""

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.text import close_matches, did_you_mean
from tests.command_line import CONSTANTS, EXACT, one_sentence, run

PLUGIN = """
[MyPlugin]
version = "1"
inputs = { x = "float32" }
outputs = { y = "x" }
fields = { "alpha?" = "float" }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model with two GELUs, one with a placeholder, and the files that commands name."""
    monkeypatch.chdir(tmp_path)
    gelu = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18]> g (float[batch, 4] x) => (float[batch, 4] y) <{CONSTANTS}> '
        "{ " + EXACT.format(i="h1", x="x", y="y") + " }"
    )
    for node in gelu.graph.node:
        node.name = f"/h1/{node.op_type}_{node.output[0]}"
    onnx.save(gelu, "m.onnx")
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18, "mylib": 1]> g (float[n, 4] x) => (float[n, 4] y) '
        "{ t = Relu(x)  y = mylib.fancyact <gain: float = 2.0> (t) }"
    )
    onnx.save(model, "placeholder.onnx")
    (tmp_path / "d.toml").write_text(PLUGIN)
    (tmp_path / "r.toml").write_text('[[step]]\nrules = "gelu"\n')
    (tmp_path / "e.toml").write_text('[[step]]\nrules = "gelu"\nexpect = { gleu = 2 }\n')
    np.savez("i.npz", nothing=np.zeros(3, np.float32))
    return tmp_path


@pytest.fixture
def forget_plugins():
    """What a table declares is for one test."""
    from surgeon.ops.plugins import plugin_declaration

    before = dict(plugin_declaration._own)
    yield
    plugin_declaration._own.clear()
    plugin_declaration._own.update(before)


REWRITE = "rewrite m.onnx o.onnx -r gelu"
PLUGINS = "rewrite placeholder.onnx o.onnx --target tensorrt --custom-ops d.toml --plugin"
CASES = [
    # placeholders and plugins
    (f"{PLUGINS} mylib::fancyct=MyPlugin", "The model has no node mylib::fancyct; did you mean 'mylib::fancyact'?"),
    (f"{PLUGINS} mylib::FancyAct=MyPlugin", "did you mean 'mylib::fancyact'?"),
    (f"{PLUGINS} fancyact::mylib=MyPlugin", "The model has no node fancyact::mylib; there are "),
    (f"{PLUGINS} mylib::fancyact=MyPlugn,gain=alpha", "TensorRT has no plugin 'MyPlugn'; did you mean 'MyPlugin'?"),
    (f"{PLUGINS} mylib::fancyact=MyPlugin:2,gain=alpha", "no version '2' of the plugin MyPlugin"),
    (f"{PLUGINS} mylib::fancyact=MyPlugin,gian=alpha", "the node has no attribute gian."),
    (f"{PLUGINS} mylib::fancyact=MyPlugin", "has no attribute 'gain'"),
    # patterns of node names
    (f"{REWRITE} --only h1/erf", "No node name matches 'h1/erf' (--only, --skip); did you mean"),
    (f"{REWRITE} --skip /H1/ERF_H1E", "did you mean '/h1/Erf_h1e'"),
    (f"{REWRITE} --skip /h1/* --skip */Gleu", "No node name matches '*/Gleu'"),
    ("convert m.onnx o.onnx --keep op:erf", "No node of the model matches 'op:erf'; did you mean 'Erf'?"),
    # sizes, also where nothing would run
    (f"{REWRITE} --dim bacth=2", "No input has a dynamic dimension 'bacth'; did you mean 'batch'?"),
    (f"{REWRITE} --dim BATCH=2 --check none", "did you mean 'batch'?"),
    (f"{REWRITE} --dim bacth=2 --dry-run", "did you mean 'batch'?"),
    ("rewrite m.onnx o.onnx -r mish --dim bacth=2", "did you mean 'batch'?"),
    ("convert m.onnx o.onnx --check none --dim bacth=2", "did you mean 'batch'?"),
    ("upgrade m.onnx o.onnx --opset 18 --dim bacth=2", "did you mean 'batch'?"),
    ("edit m.onnx o.onnx --metadata a=b --check-dim bacth=2", "did you mean 'batch'?"),
    (f"{REWRITE} --dim batch=0", "Dimension 'batch' has the size 0, so the model computes nothing. Give at"),
    ("compare m.onnx m.onnx --dim batch=0", "has the size 0"),
    ("edit m.onnx o.onnx --dim batch=0", "has the size 0"),
    ("convert m.onnx o.onnx --dim batch=0", "has the size 0"),
    # reports and files
    (f"{REWRITE} --report r.pdf", "--report r.pdf: a report is HTML (.html) or JSON (.json)."),
    ("compare m.onnx m.onnx --report r.txt", "--report r.txt: a report is HTML"),
    ("check m.onnx --report r.md", "--report r.md: a report is HTML"),
    ("inspect n.onnx", "n.onnx (did you mean m.onnx?)"),
    ("compare m.onnx m.onnx --inputs i.npz", "Array 'nothing' in i.npz is not an input of the model"),
    # rules
    ("rewrite m.onnx o.onnx -r GELU", "No rule named 'GELU'. Did you mean 'gelu'?"),
    ("rewrite m.onnx o.onnx -r ort,-Skip-Layer-Norm", "No rule named 'Skip-Layer-Norm'. Did you mean 'skip_layer"),
    ("rewrite m.onnx o.onnx -r Gelu_Tanh", "Did you mean 'gelu_tanh'?"),
    ("rules Ortt", "No rule named 'Ortt'. Did you mean 'ort"),
    (f"{REWRITE} --expect Gelu=2", "--expect has a count for 'Gelu', but no such rule runs; did you mean 'gelu'?"),
    ("record n.toml rewrite m.onnx o.onnx --rules gleu", "No rule named 'gleu'. Did you mean 'gelu"),
    ("record n.toml rewrite m.onnx o.onnx --rules gelu --expect gleu=2", "for 'gleu', but no such rule runs; did"),
    ("record n.toml rewrite m.onnx o.onnx --rules gelu --ep cdua", "Unknown execution provider 'cdua'"),
    ("run e.toml m.onnx o.onnx", "e.toml, line 2: --expect has a count for 'gleu', but no such rule runs; did you"),
    # recipes
    ("run m.onnx o.onnx", "No recipe given: m.onnx is not a TOML file. Put the recipe first: surgeon run RECIPE.toml"),
    ("run m.onnx", "first: surgeon run RECIPE.toml m.onnx; without a recipe: surgeon rewrite m.onnx OUT"),
    ("run m.onnx o.onnx r.toml", "Give a TOML file first, then the models: surgeon run RECIPE IN OUT"),
    ("run r.toml m.onnx", "Give IN and OUT for one model, or --over MODELS --to FOLDER for many."),
    ("run r.toml --over m.onnx placeholder.onnx --to out", "If the shell expanded a pattern to several files"),
]


@pytest.mark.usefixtures("forget_plugins")
@pytest.mark.parametrize(("command", "words"), CASES, ids=[command for command, _ in CASES])
def test_a_name_that_matches_nothing_is_refused(folder, command, words):
    """With exit code 2, one sentence, and no file."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert words in one_sentence(run(*command.split()), 2)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("optimize m.onnx o.onnx", "No command named 'optimize'. Did you mean surgeon rewrite?"),
        ("find m.onnx", "Did you mean surgeon explain or surgeon rules?"),
        ("version", "No command named 'version'. Did you mean surgeon --version?"),
        ("simplify m.onnx o.onnx", "Did you mean surgeon rewrite?"),
        ("convrt m.onnx o.onnx", "No command named 'convrt'. Did you mean surgeon convert?"),
        ("Rewrite m.onnx o.onnx", "No command named 'Rewrite'. Did you mean surgeon rewrite?"),
        ("m.onnx", "'m.onnx' is a file, not a command. Example: surgeon inspect m.onnx"),
        ("qqqqq", "No command named 'qqqqq'. surgeon --help lists all commands."),
        ("rewrite m.onnx o.onnx gelu", "Name rules with --rules, as in --rules gelu."),
        ("rewrite m.onnx o.onnx ort -r gelu", "Name rules with --rules, as in --rules ort."),
        ("inspect m.onnx placeholder.onnx", "If the shell expanded a pattern to several files, quote it"),
        ("run r.toml --over m.onnx m.onnx placeholder.onnx --to out", "If the shell expanded a pattern"),
    ],
)
def test_a_word_that_is_no_command_or_one_too_many(folder, command, words):
    """Click prints its own lines of usage above the sentence."""
    done = run(*command.split())
    assert done.exit_code == 2
    assert words in done.stderr.splitlines()[-1]
    assert not (folder / "o.onnx").exists()


def test_a_cache_may_be_empty():
    """0 is a size that a past has at the first token."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float[past, 4] x, float[n, 4] z) => (float[m, 4] y) '
        "{ y = Concat <axis = 0> (x, z) }"
    )
    _, report = surgeon.edit(model, surgeon.edits.Dim("past", 0))
    assert report.outcome == "proved"
    assert surgeon.compare(model, model, dims={"past": 0}).outcome.value == "proved"


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("GELU", ["elu", "gelu"], ["gelu"]),
        ("skip-layer-norm", ["skip_layer_norm", "layer_norm"], ["skip_layer_norm"]),
        ("gleu", ["gelu", "relu"], ["gelu"]),
        ("encoder", ["/bert/encoder/MatMul", "/bert/pooler"], ["/bert/encoder/MatMul"]),
        ("*encoder*", ["/bert/encoder/MatMul"], ["/bert/encoder/MatMul"]),
        ("ab", ["cab/dab/eab"], []),  # two letters are in too many names
        ("zzz", ["gelu"], []),
        ("a", [], []),
    ],
)
def test_the_nearest_names(name, known, found):
    assert close_matches(name, known) == found


def test_what_a_refusal_ends_in():
    assert did_you_mean("Batch", ["batch"]) == "did you mean 'batch'?"
    assert did_you_mean("batch", ["batch1", "batch2", "batch3"]) == "did you mean 'batch3', 'batch2' or 'batch1'?"
    assert did_you_mean("zzz", ["a", "b"]) == "there are a, b."
    assert did_you_mean("batch", ["batch1", "batch2", "batch3"]) == "did you mean 'batch3', 'batch2' or 'batch1'?"
    assert did_you_mean("zzz", []) == "there is none."


@pytest.mark.parametrize(
    ("op", "settings", "wanted"),
    [
        ("Reluu", {}, "the model has no Reluu (did you mean 'Relu'?)"),
        ("com.microsoft::Gellu", {}, "the model has no com.microsoft::Gellu (did you mean 'Gelu'?)"),
        ("ai.onnx.ml::Scalar", {}, "the model has no ai.onnx.ml::Scalar (did you mean 'Scaler'?)"),
        ("Relu", {}, "the model has no Relu"),
        ("mylib::reluu", {}, "the model has no mylib::reluu"),
        ("Erf", {"ep": "cudaa"}, "the rule supports only the execution provider cudaa (did you mean 'cuda'?)"),
        ("Erf", {"ep": "CUDA"}, "the rule supports only the execution provider CUDA (did you mean 'cuda'?)"),
        ("Erf", {"ep": "cuda"}, "the rule supports only the execution provider cuda"),
    ],
)
def test_a_name_in_a_rule_that_nothing_has_is_given_with_the_nearest(folder, op, settings, wanted):
    rule = surgeon.rule(patterns=[lambda g, x: g.op(op, x)], name="r", **settings)(lambda g, x: g.ms_gelu(x))
    _, report = surgeon.rewrite("m.onnx", rule, dry_run=True)
    (miss,) = report.misses
    assert miss.reason == wanted


@pytest.mark.parametrize(
    ("called", "wanted"),
    [
        (lambda: surgeon.upgrade("m.onnx", "o.onnx", 20), "Invalid opset='o.onnx'."),
        (lambda: surgeon.upgrade("m.onnx", None, "o.onnx"), "Invalid opset=None."),
        (lambda: surgeon.edit("m.onnx", "rename x=z"), "'rename x=z' is not an edit. Give values of surgeon.edits"),
    ],
)
def test_a_value_of_another_type_is_named(folder, called, wanted):
    with pytest.raises(surgeon.UsageError, match=f"^{wanted}"):
        called()
