"""What surgeon does before its work begins, counted: modules that are imported, packs that are looked for, patterns."""

import importlib.metadata
import os
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import surgeon
from surgeon.entry_points import points_of
from surgeon.proof.check_options import CheckOptions
from surgeon.rules import op_table
from surgeon.rules.catalogue import resolve, unique_rules
from surgeon.rules.rule import Rule
from tests.benchmarks.startup import BARS, SHIPPED, commands, small_model
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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, which other tests have not."""
    monkeypatch.setenv("SURGEON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the rules whose patterns are traced."""
    found, plan = [], Rule.plan
    monkeypatch.setattr(Rule, "plan", lambda rule, *place: found.append(rule.name) or plan(rule, *place))
    return found


def rewritten(model: onnx.ModelProto, rules: object = "ort", **options: bool) -> bytes:
    out, _ = surgeon.rewrite(model, rules, check="none", options=CheckOptions(**options))
    return out.SerializeToString(deterministic=True)


def test_a_second_run_traces_only_rules_whose_ops_occur(folder: Path, planned: list[str]) -> None:
    """Its result is the same, and the table is one small file."""
    model = onnx.load(SHIPPED)
    first = rewritten(model)
    every = set(planned)
    (table,) = folder.rglob("*.ops")
    assert table.stat().st_size < 100_000
    planned.clear()
    assert rewritten(model) == first
    assert {"gelu", "attention"} <= set(planned) < every
    assert len(planned) < len(every) * 2 / 3
    assert len(planned) == len(set(planned))  # one opset: no rule is planned twice
    assert rewritten(onnx.load(SHIPPED), cache=False) == first


@pytest.mark.parametrize("damage", [b"", b"{}", b"0" * 32 + b"\n{}"])
def test_a_damaged_table_is_made_again(folder: Path, planned: list[str], damage: bytes) -> None:
    rewritten(small_model())
    (table,) = folder.rglob("*.ops")
    sound, every = table.read_bytes(), len(set(planned))
    table.write_bytes(damage)
    planned.clear()
    rewritten(small_model())
    assert len(set(planned)) == every
    assert table.read_bytes() == sound


def test_a_changed_source_has_another_table(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a file tells, as for Python's bytecode."""
    source = tmp_path / "sources" / "inner" / "rule.py"
    source.parent.mkdir(parents=True)
    source.write_text("1", encoding="utf-8")
    monkeypatch.setattr("surgeon.patterns.__path__", [str(tmp_path / "sources")])
    before = op_table._sources_key()
    assert op_table._sources_key() == before
    os.utime(source, ns=(0, 0))
    assert op_table._sources_key() != before


def test_named_rules_and_rules_of_others_are_in_no_table(folder: Path) -> None:
    """A built-in rule with a form of another package is traced in each run too."""
    rewritten(small_model(), "gelu")
    assert not folder.exists()
    (gelu,) = resolve("gelu:gelu")["gelu:gelu"]
    table = op_table.OpTable.open()
    assert table is not None
    assert table._name(gelu, "ort")
    other = replace(gelu, forms=[*gelu.forms], _compiled={}, _traceable={})
    other.on("acme")(lambda g, x: g.relu(x))
    assert not op_table.OpTable(folder / "table.ops")._name(other, "ort")
    table.learn(other, "ort", other.plan("ort", 17))
    table.save()
    assert not folder.exists()


def test_every_bar_has_its_command(tmp_path: Path) -> None:
    """The table measures what it promises."""
    assert set(commands(tmp_path)) == {"", *BARS}
    assert 50_000 < (tmp_path / "small.onnx").stat().st_size < 150_000
