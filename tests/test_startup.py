"""What surgeon does before its work begins, counted: modules that are imported, packs that are looked for, patterns."""

import importlib.metadata
from pathlib import Path

import onnx

import surgeon
from surgeon.entry_points import points_of
from surgeon.rules.catalogue import resolve, unique_rules
from tests.benchmarks.startup import BARS, commands, small_model
from tests.command_line import process

IMPORTED = """
import sys
from surgeon.cli.app import main
try:
    main(sys.argv[1:], standalone_mode=False)
finally:
    print(*sys.modules, file=sys.stderr)
"""


def imported(*arguments: object) -> set[str]:
    """The modules that a command imports."""
    done = process("-c", IMPORTED, *arguments)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_the_version_needs_none_of_the_libraries() -> None:
    """Nor does the usage of a command that has no model to read."""
    for arguments in (["--version"], ["upgrade", "--help"]):
        assert not imported(*arguments) & {"onnx", "numpy", "onnxruntime", "onnx_graphsurgeon", "rich", "torch"}


def test_a_rewrite_without_proofs_imports_what_it_needs(tmp_path: Path) -> None:
    """Of the rule files that which is named, and no runtime, no prover, and no other command."""
    onnx.save(small_model(), tmp_path / "in.onnx")
    modules = imported("rewrite", tmp_path / "in.onnx", tmp_path / "out.onnx", "-r", "mish", "--check", "none")
    patterns = {name for name in modules if name.startswith("surgeon.patterns.")}
    assert patterns == {"surgeon.patterns.activations", "surgeon.patterns.activations.mish"}
    assert not modules & {"onnxruntime", "torch", "onnx.reference", "cloudpickle"}
    unwanted = "surgeon.authoring surgeon.display.pictures surgeon.rules.searches surgeon.runtime.timing surgeon.torch"
    assert not [name for name in modules if name.startswith((*unwanted.split(), "surgeon.targets.lint"))]
    assert not modules & {"surgeon.proof.site.site_prover", "surgeon.diagnostics.explanation"}


def test_packs_are_looked_for_once_for_a_whole_rewrite(monkeypatch, tmp_path: Path) -> None:
    """For the names of rules, and for whose helpers a rule sees."""
    asked = []
    found = importlib.metadata.distributions
    monkeypatch.setattr(importlib.metadata, "distributions", lambda **only: asked.append(only) or found(**only))
    points_of.cache_clear()
    surgeon.rewrite(small_model(), "ort", check="none")
    assert len(asked) == 1


def test_patterns_without_their_ops_in_the_model_are_not_compiled() -> None:
    """Of all rules' patterns, matchers are made for those alone that could start."""
    rules = unique_rules(resolve("ort"))
    for rule in rules:
        rule._compiled.clear()
    model = small_model()
    surgeon.rewrite(model, rules, check="none")
    there = {node.op_type for node in model.graph.node}
    compiled = [one for rule in rules for those in rule._compiled.values() for one in those]
    made = [one for one in compiled if "outputs" in vars(one)]
    assert len(compiled) > 200
    assert 0 < len(made) < 40
    assert all(group & there for one in made for group in one.required)


def test_every_bar_has_its_command(tmp_path: Path) -> None:
    """The table measures what it promises."""
    assert set(commands(tmp_path)) == {"", *BARS}
    assert 50_000 < (tmp_path / "small.onnx").stat().st_size < 150_000
