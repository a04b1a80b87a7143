"""The choices among the forms of fusions: which there are, what the default is, and which rules a decision runs."""

from itertools import chain

import pytest

import surgeon
from surgeon.errors import RuleError
from surgeon.rules.catalogue import families, forms, groups, resolve, unique_rules
from surgeon.rules.choices import FormChoice, RuleChoices, choices_among

GROUPS = ("ort", "transformers")
DISTILBERT = "notebooks/models/tiny_distilbert.onnx"


def rules_of(names):
    return unique_rules(resolve(names, approximate=False))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("provider", ["cpu", "cuda"])
def test_the_default_forms_are_the_rules_of_the_group(group, provider):
    """So that a rewrite that measures starts from what a rewrite without a measurement writes."""
    rules = rules_of(group)
    found = choices_among(rules, provider)
    assert found.selectors(found.defaults) == []
    assert found.enabled == {rule.name for rule in rules if rule.ep in (None, provider)}


@pytest.mark.parametrize("group", GROUPS)
def test_a_rule_belongs_to_one_choice_and_a_form_has_one_name(group):
    found = choices_among(rules_of(group), "cpu")
    members = [name for choice in found.choices for name in choice.rules]
    assert len(members) == len(set(members))
    for choice in found.choices:
        assert len(set(choice.forms.values())) == len(choice.forms) > 1


def test_the_forms_name_rules_that_a_group_has():
    """A form whose rule was renamed would silently go."""
    known = {rule.name for rule in rules_of("ort,transformers")}
    assert {name for table in forms().values() for name in chain(*table.values())} <= known
    modules = {rule.module for rule in rules_of("ort,transformers")}
    for beginnings in families().values():
        assert all(any(module.startswith(one) for module in modules) for one in beginnings), beginnings
    assert groups()["ort"]


def test_a_cpu_sums_residuals_first_and_a_gpu_does_not():
    names = {provider: choices_among(rules_of("ort"), provider).defaults for provider in ("cpu", "cuda")}
    assert names["cpu"]["residual"] == "summed first"
    assert names["cuda"]["residual"] == "inside the norm"
    assert names["cuda"]["projections"] == "as one product"


def test_a_decision_adds_and_leaves_out_rules():
    found = choices_among(rules_of("transformers"), "cpu")
    decision = {**found.defaults, "residual": "as it is", "projections": "as one product"}
    assert found.selectors(decision) == [
        "separate_qkv_attention", "-residual_rms_sum", "-residual_sum", "-skip_layer_norm", "-skip_rms_norm",
    ]  # fmt: skip
    ran = rules_of(["transformers", *found.selectors(decision)])
    (packed,) = (rule for rule in ran if rule.name == "separate_qkv_attention")
    assert packed.ep is None
    assert "residual_sum" not in {rule.name for rule in ran}


def test_a_few_rules_have_few_choices():
    assert [choice.name for choice in choices_among(rules_of("gelu"), "cpu").choices] == ["activations"]


TWO = RuleChoices(
    [
        FormChoice("a", {"whole": frozenset({"p", "q"}), "part": frozenset({"q"}), "none": frozenset()}),
        FormChoice("b", {"none": frozenset(), "more": frozenset({"r"})}),
    ],
    frozenset({"p", "q", "z"}),
)


@pytest.mark.parametrize(
    ("decision", "fired", "expected"),
    [
        ({"a": "whole", "b": "none"}, {"p", "q"}, [("part", "none"), ("none", "none"), ("whole", "more")]),
        ({"a": "whole", "b": "none"}, {"q"}, [("none", "none"), ("whole", "more")]),  # without p nothing changes
        ({"a": "whole", "b": "none"}, set(), [("whole", "more")]),
        ({"a": "none", "b": "more"}, set(), [("whole", "more"), ("part", "more")]),  # r did not fire
    ],
)
def test_neighbours_differ_in_one_form_that_matters(decision, fired, expected):
    assert [tuple(one.values()) for one in TWO.neighbours(decision, fired)] == expected


def test_a_decision_leaves_a_rule():
    """Without any rule nothing would be written."""
    alone = RuleChoices([FormChoice("a", {"fused": frozenset({"p"}), "nodes": frozenset()})], frozenset({"p"}))
    assert [*alone.neighbours({"a": "fused"}, {"p"})] == []


def test_a_rule_runs_on_any_provider_by_its_own_name():
    """A group uses it only where it is faster by default."""
    by_group = {rule.name: rule.ep for rule in rules_of("ort")}
    by_name = {rule.name: rule.ep for rule in rules_of("ort,qkv_biases")}
    assert (by_group["qkv_biases"], by_name["qkv_biases"]) == ("cuda", None)
    assert by_name["separate_qkv_attention"] == by_group["separate_qkv_attention"] == "cuda"


def test_a_file_is_left_out_of_which_a_group_has_some_rules():
    """The file `attention` has an approximate rule, which the group leaves out."""
    names = {rule.name for rule in rules_of("transformers,-attention")}
    assert "attention" not in names
    assert "causal_attention" in names
    with pytest.raises(RuleError, match="is excluded, but --rules does not select it"):
        rules_of("gelu,-attention")


def test_measuring_needs_its_own_options():
    for given in ({"at": [{"sequence": 8}]}, {"threads": 2}, {"budget": 60.0}):
        with pytest.raises(surgeon.UsageError, match="measure=True"):
            surgeon.rewrite(DISTILBERT, "gelu", output="out.onnx", **given)
    with pytest.raises(surgeon.UsageError, match="dry run"):
        surgeon.rewrite(DISTILBERT, "gelu", output="out.onnx", measure=True, dry_run=True)
    for given in ({"threads": -1}, {"budget": 5.0}):
        with pytest.raises(surgeon.UsageError, match="Invalid"):
            surgeon.rewrite(DISTILBERT, "gelu", output="out.onnx", measure=True, **given)
