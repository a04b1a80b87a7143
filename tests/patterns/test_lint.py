"""What holds for every built-in rule."""

import re
from pathlib import Path

import pytest

import surgeon
from surgeon.errors import Unavailable
from surgeon.rules.catalogue import all_rules
from surgeon.rules.rule import Rule
from surgeon.target_registry import names, takers

RULES = [rule for pack, _, rule in all_rules() if pack == "builtin"]
TESTS = Path(__file__).parent


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
class TestEachRule:
    """One rule at a time."""

    def test_is_documented(self, rule):
        """The docstring is the manual: a summary, and what happens to the numbers."""
        assert rule.doc.splitlines()[0].endswith(".")
        assert "Numerics:" in rule.doc

    def test_every_pattern_is_documented(self, rule):
        """A pattern function says what it computes."""
        assert all(pattern.__doc__ for pattern in rule.patterns)

    def test_patterns_compile_and_bind_what_the_forms_ask_for(self, rule):
        """The first pattern is the reference of the operation: it can be built, too."""
        rule.require_sense()
        for form in rule.forms:
            assert any(takers(form.kind))
            for pattern in rule.recognised(form):
                assert rule.compiled(pattern)

    def test_is_tested_both_ways(self, rule):
        """Its file of tests has cases that fire and cases where it does not."""
        texts = [path.read_text(encoding="utf-8") for path in TESTS.glob("test_*.py")]
        text = next(text for text in texts if re.search(rf"Case\(\s*\[?{rule.name}\b", text))
        fires, negatives = text.split("NEGATIVES = ")
        assert re.search(rf"Case\(\s*\[?{rule.name}\b", fires.split("FIRES = ")[1])
        assert re.search(rf"Case\(\s*{rule.name}\b", negatives)

    def test_has_a_plan_for_each_target_it_names(self, rule):
        """No target gives an error in place of a plan or a reason."""
        for target in names():
            plan = rule.plan(target, 24)
            assert isinstance(plan, Unavailable) or plan.needs is None


def test_names_are_unique():
    """One name, one rule."""
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)


def test_packs_use_only_public_names():
    """patterns/ stands beside surgeon/ as any third party's pack would."""
    for path in Path(__file__).resolve().parents[2].joinpath("patterns").glob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "surgeon" in line and "import" in line:
                found = re.fullmatch(r"from surgeon import (.*)", line)
                assert found, f"{path.name}: {line}"
                assert set(found.group(1).split(", ")) <= set(surgeon.__all__), line


def test_every_rule_is_a_rule():
    """The catalogue finds the shipped files."""
    assert {"gelu", "gelu_tanh", "quick_gelu", "bias_gelu"} <= {rule.name for rule in RULES}
    assert all(isinstance(rule, Rule) for rule in RULES)
