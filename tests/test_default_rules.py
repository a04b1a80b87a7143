"""The rules that run if the user names none: the group for the target."""

import onnx
import pytest

import surgeon
from surgeon.rules.catalogue import default_group, groups
from surgeon.target_registry import OWN
from tests.command_line import gelus, result_in, run


@pytest.mark.parametrize(
    ("target", "group"),
    [("ort", "ort"), ("contrib", "ort"), ("decomposed", "ort"), ("onnx", "onnx"), ("tensorrt", "tensorrt")],
)
def test_each_target_has_a_group(target: str, group: str) -> None:
    assert target in OWN
    assert default_group(target) == group
    assert group in groups()


def test_a_rewrite_without_rules_runs_the_group_of_its_target(tmp_path) -> None:
    """The report has one line about it, and the JSON its name; the file is that of the named group."""
    path, out, named = gelus(tmp_path), tmp_path / "out.onnx", tmp_path / "named.onnx"
    result = run("rewrite", path, out)
    assert result.exit_code == 0
    assert "rules    ort, the default for target ort\n" in result.stdout
    assert "Gelu" in {node.op_type for node in onnx.load(out).graph.node}
    explicit = run("rewrite", path, named, "--rules", "ort")
    assert "the default" not in explicit.stdout
    assert out.read_bytes() == named.read_bytes()
    found = result_in(run("rewrite", path, out, "--target", "onnx", "--json").stdout)
    assert found["default_group"] == "onnx"
    assert list(found["rules"]) == ["onnx"]
    assert "default_group" not in result_in(run("rewrite", path, out, "--rules", "gelu", "--json").stdout)


def test_python_has_the_same_default(tmp_path) -> None:
    model = onnx.load(gelus(tmp_path))
    _, report = surgeon.rewrite(model)
    assert (report.default_group, list(report.selection)) == ("ort", ["ort"])
    assert report.count("gelu") == 2


def test_local_functions_are_inlined_without_rules(tmp_path) -> None:
    _, report = surgeon.rewrite(onnx.load(gelus(tmp_path)), inline="all")
    assert (report.default_group, list(report.selection)) == ("", [])


def test_no_rules_in_a_list_are_an_error(tmp_path) -> None:
    """Only rules that are left out have a default: an empty list is a mistake of a script."""
    with pytest.raises(surgeon.RuleError):
        surgeon.rewrite(onnx.load(gelus(tmp_path)), [])


def test_explain_has_the_same_default(tmp_path) -> None:
    path = gelus(tmp_path)
    assert run("explain", path).stdout == run("explain", path, "--rules", "ort").stdout
    assert surgeon.explain(path).explanations is not None
