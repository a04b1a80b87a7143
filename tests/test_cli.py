"""The command line: what each command writes, prints and returns."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import surgeon
from surgeon.display.content.rule_manual import targets_text
from surgeon.rules.catalogue import all_rules, groups, purposes, resolve
from surgeon.runtime.provider_support import shipped_version
from surgeon.versions import versions
from tests.command_line import gelus, one_sentence, ops, result_in, rule_file, run, with_data_file

FUSED = "com.microsoft::Gelu"


def test_rewrite_writes_and_says_what_it_did(tmp_path: Path) -> None:
    """The model is written; the console names model, nodes, rule, outcome, error and file, and with -v all else."""
    out = tmp_path / "out.onnx"
    result = run("rewrite", gelus(tmp_path), out, "--rules", "gelu")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert ops(out) == [FUSED, FUSED]
    first, done, verdict, wrote = result.stdout.splitlines()
    assert (first, done) == ("in.onnx  10 → 2 nodes", "  gelu 2")
    assert verdict.startswith("PROVED   2 of 2 sites; largest error ")
    assert "of the limit (gelu at /" in verdict
    assert wrote.startswith(f"wrote    {out} (")
    whole = run("rewrite", tmp_path / "in.onnx", out, "--rules", "gelu", "-v").stdout
    lines = whole.splitlines()
    assert lines[-4:-2] == [first, done]
    assert any(line.split()[:2] == ["gelu", "2"] and "/h1/Mul, /y/Mul" in line for line in lines)
    assert any(line.startswith("  differs  by ") and "float32" in line and "of the limit" in line for line in lines)
    assert all(phase in whole for phase in ("read", "match", "check", "write"))


def test_a_replaced_file_is_reported(tmp_path: Path) -> None:
    """The last line says so if OUT existed and is not IN."""
    path, out = gelus(tmp_path), tmp_path / "out.onnx"
    for target, label in ((out, "wrote   "), (out, "replaced"), (path, "wrote   ")):
        rewritten = run("rewrite", path, target, "--rules", "gelu", "--check", "none").stdout
        assert rewritten.splitlines()[-1].startswith(f"{label} {target} (")
    assert f"replaced {out} (" in run("edit", path, out, "--rename", "x=data").stdout


def test_in_and_out_may_be_the_same_file(tmp_path: Path) -> None:
    """Rewriting in place."""
    path = gelus(tmp_path)
    assert run("rewrite", path, path, "--rules", "gelu").exit_code == 0
    assert ops(path) == [FUSED, FUSED]


def test_nothing_matched_is_never_silent(tmp_path: Path) -> None:
    """The output is the same bytes, and each rule says why it found nothing."""
    path = gelus(tmp_path, constants="float sqrt2 = {1.415}, float one = {1}, float half = {0.5}")
    out = tmp_path / "out.onnx"
    result = run("rewrite", path, out, "--rules", "gelu")
    assert result.exit_code == 0
    assert out.read_bytes() == path.read_bytes()
    assert "\nUNCHANGED  no rule matched\n" in result.stdout
    near = [line for line in result.stdout.splitlines() if line.startswith("missed   gelu at ")]
    assert len(near) == 1
    assert "gelu.py:" in near[0]
    assert "matched" in near[0]
    assert "gelu_tanh" not in result.stdout, "the file of the name has come near"
    whole = run("rewrite", path, out, "--rules", "gelu", "-v").stdout
    assert "gelu_tanh: the model has no Tanh" in whole


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    """--quiet."""
    result = run("rewrite", gelus(tmp_path), tmp_path / "out.onnx", "--rules", "gelu", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    """--dry-run tells sites and leaves the folder alone."""
    path = gelus(tmp_path)
    before = sorted(tmp_path.iterdir())
    result = run("rewrite", path, tmp_path / "out.onnx", "--rules", "gelu", "--dry-run")
    assert result.exit_code == 0
    assert "wrote    nothing (" in result.stdout
    assert "10 → 2 nodes" in result.stdout
    assert sorted(tmp_path.iterdir()) == before


def test_diff_shows_each_site(tmp_path: Path) -> None:
    """--diff: nodes that go with a minus, nodes that come with a plus."""
    result = run("rewrite", gelus(tmp_path), tmp_path / "o.onnx", "--rules", "gelu", "--diff")
    lines = result.stdout.splitlines()
    assert "@@ 1/2 gelu at /h1/Mul (main graph) @@" in lines
    assert "- l0e = Erf(l0d)  # /l0e/Erf" in lines
    assert sum(line.startswith("+ ") and "com.microsoft::Gelu(x)" in line for line in lines) == 1
    assert sum(line.startswith("- ") for line in lines) == 10


@pytest.mark.parametrize(("option", "left"), [("--only", "h1"), ("--skip", "y")])
def test_only_and_skip_choose_by_node_name(tmp_path: Path, option: str, left: str) -> None:
    """Shell patterns over node names choose the first of the two sites."""
    out = tmp_path / "out.onnx"
    assert run("rewrite", gelus(tmp_path), out, "--rules", "gelu", option, f"/{left}/*").exit_code == 0
    assert ops(out).count(FUSED) == 1
    assert ops(out)[0] == FUSED


def test_a_pattern_that_matches_no_node_is_refused(tmp_path: Path) -> None:
    """A misspelt --skip would leave nothing alone, so nothing is written, at the console and in Python."""
    out = tmp_path / "o.onnx"
    args = ("rewrite", gelus(tmp_path), out, "--rules", "gelu", "--check", "none", "--skip", "/h9/*")
    message = "No node name matches '/h9/*' (--only, --skip); there are /l0d/Div, "
    assert message in one_sentence(run(*args, "--skip", "/h1/*"), 2)
    assert message in one_sentence(run(*args, "--dry-run"), 2)
    assert not out.exists()
    with pytest.raises(surgeon.UsageError, match=r"No node name matches '/h9/\*'"):
        surgeon.rewrite(args[1], "gelu", output=out, skip=["/h1/*", "/h9/*"], check="none")
    assert run(*args[:-1], "/h1/*").exit_code == 0


def test_a_recipe_reports_a_pattern_that_matches_no_node(tmp_path: Path) -> None:
    """It may be for other models too, so the result is written, and the first screen and the report say so."""
    recipe, out = tmp_path / "r.toml", tmp_path / "o.onnx"
    recipe.write_text('[[step]]\nrules = "gelu"\nskip = ["/h1/*", "/h9/*"]\n', encoding="utf-8")
    done = run("run", recipe, gelus(tmp_path), out, "--check", "none")
    assert done.exit_code == 0
    assert ops(out).count(FUSED) == 1
    said = "No node name matches '/h9/*' (--only, --skip); there are "
    assert said in done.stdout
    quiet = run("run", recipe, gelus(tmp_path), out, "--check", "none", "--quiet")
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    assert quiet.stderr.startswith(f"warning: {said}")
    _, report = surgeon.run(recipe, gelus(tmp_path), out, check="none")
    assert list(report.parts[0].unused) == report.parts[0].to_dict()["unused"] == ["/h9/*"]


def test_target_onnx_needs_its_opset_and_says_how_to_raise_it(tmp_path: Path) -> None:
    """The refusal names the command, and the command does what it says."""
    path, raised, out = gelus(tmp_path), tmp_path / "raised.onnx", tmp_path / "out.onnx"
    result = run("rewrite", path, out, "--rules", "gelu", "--target", "onnx")
    assert result.exit_code == 0
    assert "surgeon upgrade IN OUT --opset 20" in result.stdout
    assert run("upgrade", path, raised, "--opset", 20).exit_code == 0
    assert run("rewrite", raised, out, "--rules", "gelu", "--target", "onnx").exit_code == 0
    assert ops(out) == ["Gelu", "Gelu"]


def test_a_rule_can_be_left_out(tmp_path: Path) -> None:
    """--rules gelu,-quick_gelu does not run quick_gelu."""
    names = ("--rules", "gelu,-quick_gelu", "--rules", "bias_gelu")
    result = run("rewrite", gelus(tmp_path), tmp_path / "o.onnx", *names, "-v")
    assert result.exit_code == 0
    assert "quick_gelu" not in result.stdout
    assert "gelu_tanh" in result.stdout
    assert "bias_gelu" in result.stdout


@pytest.mark.parametrize(
    ("names", "words"), [("gelu,-bias_gelu", "does not select it"), ("gelu,-gelu", "excludes every rule")]
)
def test_leaving_out_what_is_not_there_is_refused(tmp_path: Path, names: str, words: str) -> None:
    """A minus must take something away, and leave something."""
    assert words in one_sentence(run("rewrite", gelus(tmp_path), tmp_path / "o.onnx", "--rules", names), 2)


def test_expect_that_holds_writes(tmp_path: Path) -> None:
    """--expect by the name that was asked for, and by that of a rule in it."""
    out = tmp_path / "out.onnx"
    result = run("rewrite", gelus(tmp_path), out, "--rules", "gelu", "--expect", "gelu=2", "--expect", "gelu_tanh=0")
    assert result.exit_code == 0
    assert ops(out) == [FUSED, FUSED]


def test_expect_that_fails_writes_nothing_and_exits_with_3(tmp_path: Path) -> None:
    """The report is printed and written all the same."""
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    result = run("rewrite", gelus(tmp_path), out, "--rules", "gelu", "--expect", "gelu=12", "--report", report)
    assert "gelu was applied 2 times, but 12 were expected" in one_sentence(result, 3)
    assert "wrote    nothing (" in result.stdout
    assert not out.exists()
    assert result_in(report.read_text())["written"] is False


def test_expect_of_a_rule_that_does_not_run_is_refused(tmp_path: Path) -> None:
    """A typing error must not pass for a zero."""
    result = run("rewrite", gelus(tmp_path), tmp_path / "o.onnx", "--rules", "gelu", "--expect", "gellu=0")
    assert "--expect has a count for 'gellu', but no such rule runs" in one_sentence(result, 2)


def test_report_holds_what_the_console_says(tmp_path: Path) -> None:
    """--report: rules, sites with nodes before and after, outcome, errors and seconds."""
    report = tmp_path / "report.json"
    args = ("--rules", "gelu", "--report", report, "--check", "both")
    result = run("rewrite", gelus(tmp_path), tmp_path / "o.onnx", *args)
    assert result.exit_code == 0
    found = result_in(report.read_text())
    assert found["rules"] == {"gelu": ["gelu", "gelu_tanh", "quick_gelu"]}
    assert found["counts"] == {"gelu": 2, "gelu_tanh": 0, "quick_gelu": 0}
    assert (found["nodes_before"], found["nodes_after"], found["written"]) == (10, 2, True)
    assert found["outcome"] == found["check"]["outcome"] == "proved"
    site = found["sites"][0]
    assert (site["rule"], site["scope"], site["root"], len(site["replaced"])) == ("gelu", "", "/h1/Mul", 5)
    assert [node["op"] for node in site["added"]] == [FUSED]
    assert found["check"]["outputs"][0]["max_abs"] <= found["check"]["outputs"][0]["allowed"]
    proof = found["proofs"][site["proof"]]
    assert (proof["outcome"], proof["oracle"], proof["independent"]) == ("proved", "ONNX Runtime", True)
    assert site["errors"]["rewritten"]["max_abs"] <= site["errors"]["allowed"]
    assert {miss["rule"] for miss in found["misses"]} == {"gelu_tanh", "quick_gelu"}


def test_report_must_not_replace_a_model(tmp_path: Path) -> None:
    """--report in.onnx is refused before any work, as is a folder that is not there."""
    path = gelus(tmp_path)
    before = path.read_bytes()
    result = run("rewrite", path, tmp_path / "o.onnx", "-r", "gelu", "--report", path)
    assert "would overwrite the model" in one_sentence(result, 2)
    assert path.read_bytes() == before
    missing = tmp_path / "no" / "report.json"
    result = run("rewrite", path, tmp_path / "o.onnx", "-r", "gelu", "--report", missing)
    assert "does not exist" in one_sentence(result, 2)
    assert not (tmp_path / "o.onnx").exists()


def test_report_must_not_replace_data(tmp_path: Path) -> None:
    """Neither a data file, nor its copy that is yet to come, nor any file that is no report; an older report may go."""
    source = with_data_file(tmp_path / "source")
    data = source.parent / "w.data"
    (tmp_path / "out").mkdir()
    before = data.read_bytes()
    other = tmp_path / "notes.json"
    other.write_text('{"mine": 1}')
    link = tmp_path / "hard"
    link.hardlink_to(source)
    for out in (tmp_path / "out" / "o.onnx", source):
        for path, words in (
            (data, "is not a report"),
            (out.parent / "w.data", "not a report" if out == source else "a data file of the model"),
            (tmp_path / "out" / ".." / "out" / "w.data", "a data file of the model" if out != source else None),
            (other, "is not a report"),
            (link, "would overwrite the model"),
        ):
            if words is not None:
                assert words in one_sentence(run("rewrite", source, out, "-r", "gelu", "--report", path), 2)
    assert (data.read_bytes(), other.read_text()) == (before, '{"mine": 1}')
    assert list((tmp_path / "out").iterdir()) == []
    report = tmp_path / "report.json"
    for _ in range(2):
        out = tmp_path / "out" / "o.onnx"
        assert run("rewrite", source, out, "-r", "gelu", "--report", report).exit_code == 0
    assert result_in(report.read_text())["written"] is True


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a file system that nobody can write")
def test_a_report_that_cannot_be_written_is_found_first(tmp_path: Path) -> None:
    """Before the model is written; a device is fine."""
    out = tmp_path / "o.onnx"
    result = run("rewrite", gelus(tmp_path), out, "-r", "gelu", "--report", "/proc/report.json")
    assert "Cannot write the report" in one_sentence(result, 2)
    assert not out.exists()
    assert run("rewrite", gelus(tmp_path), out, "-r", "gelu", "--report", "/dev/null").exit_code == 0


def test_quiet_does_not_hide_what_is_not_proved(tmp_path: Path) -> None:
    """One line on stderr, of rewrite and of upgrade."""
    out = tmp_path / "out.onnx"
    result = run("rewrite", gelus(tmp_path), out, "--rules", f"{rule_file(tmp_path)}:unknown", "-q", "--check", "model")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("UNPROVED: ")
    assert len(result.stderr.splitlines()) == 1
    result = run("upgrade", out, out, "--opset", 20, "-q")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("UNPROVED: ")


def test_a_dry_run_refuses_what_the_save_would(tmp_path: Path) -> None:
    """A data file that is too short, or missing."""
    source = with_data_file(tmp_path / "source")
    data = source.parent / "w.data"
    for words in ("truncated", "cannot be opened"):
        data.unlink() if words != "truncated" else data.write_bytes(b"short")
        result = run("rewrite", source, tmp_path / "o.onnx", "-r", "gelu", "--dry-run")
        assert words in one_sentence(result, 2)


def test_a_wrong_rule_fails_loudly(tmp_path: Path) -> None:
    """Exit 1; the report is printed and written, and the output is what is left: the input."""
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    rules = f"{rule_file(tmp_path)}:wrong"
    path = gelus(tmp_path)
    result = run("rewrite", path, out, "--rules", rules, "--report", report)
    assert (result.exit_code, result.stderr) == (1, ""), "the report says it"
    assert "\nFAILED   2 of 2 sites failed their proof and were rolled back\nundone   wrong at " in result.stdout
    assert f"\nwrote    {out} (identical to the input; " in result.stdout
    assert out.read_bytes() == path.read_bytes()
    found = result_in(report.read_text())
    assert (found["outcome"], found["written"], found["sites"]) == ("failed", True, [])
    assert found["rolled_back"][0]["undone"] == "it failed its proof"
    assert found["proofs"][0]["errors"][0]["ok"] is False
    assert run("rewrite", path, out, "--rules", rules, "--keep-going").exit_code == 0


def test_unproved_is_loud_and_written(tmp_path: Path) -> None:
    """An op that no runtime has: written with exit 0, and the console says why it is not proved."""
    out = tmp_path / "out.onnx"
    result = run("rewrite", gelus(tmp_path), out, "--rules", f"{rule_file(tmp_path)}:unknown", "--check", "model")
    assert result.exit_code == 0
    assert any(line.startswith("UNPROVED ") and "Thing" in line for line in result.stdout.splitlines())
    assert ops(out) == ["my.domain::Thing"] * 2


def test_require_proof_makes_unproved_a_failure(tmp_path: Path) -> None:
    """--require-proof: exit 1, nothing written where no site is to blame."""
    out, rules = tmp_path / "out.onnx", f"{rule_file(tmp_path)}:unknown"
    result = run("rewrite", gelus(tmp_path), out, "--rules", rules, "--require-proof", "--check", "model")
    assert (result.exit_code, result.stderr) == (1, "")
    assert "\nUNPROVED no runtime here runs" in result.stdout
    assert "wrote    nothing (" in result.stdout
    assert not out.exists()


def test_an_op_that_nobody_knows_is_run_as_its_own_pattern_which_proves_nothing(tmp_path: Path) -> None:
    """And is never called independent."""
    result = run("rewrite", gelus(tmp_path), tmp_path / "o.onnx", "--rules", f"{rule_file(tmp_path)}:unknown")
    assert result.exit_code == 0
    assert "so the order of inputs is not checked" in result.stdout


def test_check_none_says_so(tmp_path: Path) -> None:
    """--check none runs nothing and does not claim otherwise."""
    result = run("rewrite", gelus(tmp_path), tmp_path / "o.onnx", "--rules", "gelu", "--check", "none")
    assert result.exit_code == 0
    assert "\nNOT CHECKED  2 sites; --check none\n" in result.stdout


def test_a_refused_match_reports_its_reason(tmp_path: Path) -> None:
    """What `require` said, at which node, from which rule."""
    result = run("rewrite", gelus(tmp_path), tmp_path / "o.onnx", "--rules", f"{rule_file(tmp_path)}:refusing")
    assert result.exit_code == 0
    assert "refusing at /h1/Mul and 1 more like it: it is never wanted (my_rules.py:" in result.stdout


def test_dimensions_and_tolerances_reach_the_check(tmp_path: Path) -> None:
    """--dim with an unknown name is refused; --atol makes a wrong rule pass."""
    path, out = gelus(tmp_path), tmp_path / "o.onnx"
    assert run("rewrite", path, out, "-r", "gelu", "--dim", "n=3", "--seed", 5).exit_code == 0
    assert "m" in one_sentence(run("rewrite", path, out, "-r", "gelu", "--dim", "m=3"), 2)
    rules = f"{rule_file(tmp_path)}:wrong"
    assert run("rewrite", path, out, "-r", rules, "--check", "model", "--atol", 100, "--rtol", 1).exit_code == 0


def test_help_and_version() -> None:
    """-h, --help and --version; every command explains itself."""
    assert run("-h").stdout == run("--help").stdout
    for command in ("rewrite", "rules", "inspect", "upgrade"):
        assert command in run("--help").stdout
        assert run(command, "-h").exit_code == 0
    assert run("--version").stdout.startswith("surgeon 0.")


def test_help_and_a_rewrite_load_only_what_they_need(tmp_path: Path) -> None:
    """No runtime, but to ask it for kernels that no shipped table holds; no torch; rich where something is printed."""
    unwanted = {"onnxruntime", "torch", "rich", "hypothesis"}
    if versions()["onnxruntime"] != shipped_version():
        unwanted.remove("onnxruntime")
    code = "import sys; from surgeon.cli.app import main; main({}, standalone_mode=False); print(*sys.modules)"
    arguments = ["rewrite", str(gelus(tmp_path)), str(tmp_path / "o.onnx"), "-r", "gelu", "--check", "none", "-q"]
    for given in (["rules", "--help"], arguments):
        command = [sys.executable, "-c", code.format(given)]
        loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert "surgeon.cli.app" in loaded
        assert not unwanted.intersection(loaded)


def test_rules_lists_groups_and_families_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group with its size and purpose, each family with names of its files; --json has every rule."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("rules").stdout.splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 80
    assert lines[0] == "Groups:"
    assert lines.index("Families:") == len(groups()) + 2
    assert re.fullmatch(r"  ort +[0-9]+  all fusions for ONNX Runtime \(default\)", lines[1])
    assert set(purposes()) == set(groups())
    assert {rule["name"] for rule in result_in(run("rules", "--json").stdout)["rules"]} >= {"gelu", "bias_gelu"}


def test_rules_verbose_lists_every_rule() -> None:
    """By pack and file, with summary, targets and the opset they need."""
    result = run("rules", "--verbose")
    assert result.exit_code == 0
    assert "gelu (builtin: surgeon.patterns.activations.gelu):\n" in result.stdout
    text = " ".join(result.stdout.split())
    assert "Fuse the exact GELU into one Gelu node." in text
    assert "onnx (opset 20)" in text
    assert all(f" {rule.name} " in text for _, _, rule in all_rules())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("skiplayer", "skip_layer_norm"),  # an op that it writes
        ("vision", "roi_align"),  # a family
        ("residual and", "skip_layer_norm"),  # its summary
        ("QUICK_G", "quick_gelu"),  # its name
        ("norms", "layer_norm"),  # a group
        ("ORT", "gelu"),
    ],
)
def test_rules_searches_for_a_text(text: str, name: str) -> None:
    found = result_in(run("rules", text, "--json").stdout)["rules"]
    assert name in [rule["name"] for rule in found]
    assert len(found) < len(list(all_rules())) * 3 / 4
    assert f"\n  {name} " in run("rules", text).stdout


def test_rules_names_the_nearest_rules_if_no_text_matches() -> None:
    assert "Did you mean 'gelu'" in one_sentence(run("rules", "gleu"), 2)


def test_the_manual_of_a_rule_is_drawn_from_it() -> None:
    """Docstring, place, before, after by target, conditions."""
    lines = run("rules", "gelu:gelu").stdout.splitlines()
    assert lines[0].startswith("gelu  (gelu.py:")
    assert "    Mul(Mul(x, 0.5), Add(Erf(Div(x, 1.4142136)), 1))" in lines
    assert "  ort        com.microsoft::Gelu(x)" in lines
    assert "  onnx       Gelu(x)  (from opset 20)" in lines
    assert run("rules", "bias_gelu").stdout.count("is_bias_vector: ") == 1


def test_the_manual_does_not_offer_a_placeholder_as_decomposition(tmp_path: Path) -> None:
    """A rule that replaces the op of an unknown domain has no primitive form, in manual and list of targets."""
    path = tmp_path / "mine.py"
    path.write_text(
        '"""Mine."""\n'
        "from surgeon import Graph, Tensor, rule\n"
        "def placeholder(g: Graph, x: Tensor) -> Tensor:\n"
        "    return g.op('my::Thing', x)\n"
        "def half(g: Graph, x: Tensor) -> Tensor:\n"
        "    return g.op('my::Thing', g.relu(x))\n"
        "@rule(patterns=[placeholder])\n"
        "def thing(g: Graph, x: Tensor) -> Tensor:\n"
        "    return g.relu(x)\n"
        "@rule(patterns=[half])\n"
        "def other(g: Graph, x: Tensor) -> Tensor:\n"
        "    return g.neg(x)\n"
    )
    text = run("rules", f"{path}:thing").stdout
    assert "  ort        Relu(x)" in text
    assert "decomposed" not in text
    assert "decomposed my::Thing(Relu(x))" in run("rules", f"{path}:other").stdout
    assert targets_text(resolve(f"{path}:thing")[f"{path}:thing"][0]) == "ort, contrib"


def test_the_manual_of_a_rule_file(tmp_path: Path) -> None:
    """NAME is whatever --rules takes; a shared tensor gets a line of its own."""
    path = tmp_path / "mine.py"
    path.write_text(
        '"""Mine."""\n'
        "from surgeon import Graph, Tensor, rule\n"
        "def twice(g: Graph, x: Tensor, w: Tensor, axis: int) -> Tensor:\n"
        '    """A product and its root, added."""\n'
        "    product = g.matmul(x, w)\n"
        "    return g.add(g.sqrt(product), g.softmax(g.optional(g.cast(product, to=1)), axis=axis))\n"
        "@rule(patterns=[twice], approximate=1e-3)\n"
        "def mine(g: Graph, x: Tensor, w: Tensor) -> Tensor:\n"
        '    """Do mine."""\n'
        "    return g.op('my::Twice', x, w)\n"
    )
    text = run("rules", f"{path}:mine").stdout
    assert "t1 = MatMul(x, w)" in text
    assert "Add(Sqrt(t1), Softmax([Cast](t1), axis=axis))" in text
    assert "my::Twice(x, w)" in text
    assert "approximate" in text
    assert "Did you mean" in one_sentence(run("rules", "gellu"), 2)
