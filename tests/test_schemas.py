"""Schemas as values: look-ups by opset, the history of an operator, parameters that moved."""

import subprocess
import sys

import onnx
import pytest
from onnx import AttributeProto, defs

from surgeon.ops.schemas import (
    VARIADIC,
    Schema,
    attributes_become_inputs,
    history,
    knows_domain,
    op_schema,
    operators,
    schema,
)


def found(domain: str, name: str, opset: int | None = None) -> Schema:
    """The schema, which must be there."""
    result = schema(domain, name, opset)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("name", "opset", "since"),
    [("ReduceMean", 17, 13), ("ReduceMean", 18, 18), ("ReduceMean", 1, 1), ("Gelu", 23, 20), ("Relu", 13, 13)],
)
def test_the_newest_version_that_the_opset_allows(name: str, opset: int, since: int) -> None:
    assert found("", name, opset).since_version == since


def test_an_operator_younger_than_the_opset_is_not_there() -> None:
    assert schema("", "Gelu", 19) is None
    assert schema("", "Gelluu") is None
    assert schema("my.domain", "Gelu") is None


def test_both_spellings_of_the_default_domain() -> None:
    assert schema("ai.onnx", "Relu", 13) is schema("", "Relu", 13)
    assert operators("ai.onnx") == operators("")


def test_versions_are_shared_between_opsets() -> None:
    assert schema("", "ReduceMean", 14) is schema("", "ReduceMean", 17)


def test_history_is_oldest_first() -> None:
    versions = [one.since_version for one in history("", "ReduceMean")]
    assert versions[:4] == [1, 11, 13, 18]
    assert history("", "Gelluu") == ()


def test_operators_that_only_onnxruntime_knows_in_the_default_domain() -> None:
    simplified = found("", "SimplifiedLayerNormalization", 17)
    assert [formal.name for formal in simplified.inputs] == ["X", "scale"]
    assert "SimplifiedLayerNormalization" in operators("")
    assert not defs.has("SimplifiedLayerNormalization")


def test_onnx_comes_before_onnxruntime_in_the_default_domain() -> None:
    """No operator of the table may replace one that onnx has."""
    for name in operators(""):
        if defs.has(name):
            assert found("", name).since_version == defs.get_schema(name).since_version


def test_operators_are_sorted_and_complete() -> None:
    for domain in ("", "ai.onnx.ml", "com.microsoft"):
        assert list(operators(domain)) == sorted(set(operators(domain)))
    assert {one.name for one in defs.get_all_schemas() if one.domain == "ai.onnx.ml"} == set(operators("ai.onnx.ml"))
    assert {"Gelu", "FastGelu", "QuickGelu", "BiasGelu", "MatMulNBits"} <= set(operators("com.microsoft"))
    assert len(operators("com.microsoft")) > 100


def test_known_domains() -> None:
    known = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview.training")
    assert all(map(knows_domain, known))
    assert not any(map(knows_domain, ("my.domain", "trt.plugins", "com.microsoft.nchwc")))


def test_schemas_of_every_version_agree_with_onnx() -> None:
    for theirs in defs.get_all_schemas_with_history():
        ours = found(theirs.domain, theirs.name, theirs.since_version)
        assert ours.since_version == theirs.since_version
        assert [one.name for one in ours.inputs] == [one.name for one in theirs.inputs]
        assert [one.type for one in ours.outputs] == [one.type_str for one in theirs.outputs]
        assert (ours.min_inputs, ours.max_inputs) == (theirs.min_input, theirs.max_input)
        assert (ours.min_outputs, ours.max_outputs) == (theirs.min_output, theirs.max_output)
        assert ours.deprecated == theirs.deprecated
        assert ours.attributes.keys() == theirs.attributes.keys()
        for name, attribute in theirs.attributes.items():
            mine = ours.attributes[name]
            assert mine.required == attribute.required
            assert AttributeProto.AttributeType.Name(mine.type) == attribute.type.name  # type: ignore[attr-defined]
            if attribute.default_value.type:
                assert mine.value == onnx.helper.get_attribute_value(attribute.default_value)
            else:
                assert mine.default is None
        for constraint in theirs.type_constraints:
            assert ours.types[constraint.type_param_str] == frozenset(constraint.allowed_type_strs)


def test_optional_variadic_and_heterogeneous_formals() -> None:
    clip = found("", "Clip", 13)
    assert [one.optional for one in clip.inputs] == [False, True, True]
    concat = found("", "Concat", 13)
    assert concat.max_inputs == VARIADIC
    assert concat.inputs[0].variadic
    assert concat.inputs[0].homogeneous
    loop = found("", "Loop", 13)
    assert not loop.inputs[-1].homogeneous


def test_a_variadic_formal_stands_for_all_that_follow() -> None:
    concat, relu = found("", "Concat", 13), found("", "Relu", 13)
    assert concat.input_at(7) is concat.inputs[0]
    assert relu.input_at(1) is None
    assert relu.output_at(0) is relu.outputs[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ReduceMean", {"axes": 1}),
        ("ReduceSum", {"axes": 1}),
        ("Squeeze", {"axes": 1}),
        ("Unsqueeze", {"axes": 1}),
        ("Clip", {"min": 1, "max": 2}),
        ("Slice", {"starts": 1, "ends": 2, "axes": 3}),
        ("Pad", {"pads": 1, "value": 2}),
        ("Dropout", {"ratio": 1}),
        ("TopK", {"k": 1}),
        ("Split", {"split": 1}),
        ("Reshape", {"shape": 1}),
        ("Upsample", {"scales": 1}),
        ("DFT", {"axis": 2}),
        ("Relu", {}),
        ("Resize", {}),
        ("GivenTensorFill", {}),
        ("Gelluu", {}),
    ],
)
def test_parameters_that_moved_from_attribute_to_input(name: str, expected: dict[str, int]) -> None:
    assert dict(attributes_become_inputs("", name)) == expected


def test_a_look_up_asks_for_one_operator_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening one small model must not pay for all operators."""

    def refuse() -> None:
        raise AssertionError("the whole registry was read")

    monkeypatch.setattr(defs, "get_all_schemas", refuse)
    monkeypatch.setattr(defs, "get_all_schemas_with_history", refuse)
    op_schema._ort_table.cache_clear()
    op_schema.schema.cache_clear()
    op_schema.history.cache_clear()
    assert found("", "Erf", 13).since_version == 13
    assert history("", "Softmax")
    assert op_schema._ort_table.cache_info().currsize == 0


def test_schemas_load_neither_onnxruntime_nor_torch() -> None:
    code = (
        "import sys; from surgeon.ops import schemas; from surgeon.ops.schemas import helper_names;"
        "schemas.schema('com.microsoft', 'Gelu'); helper_names.all_helpers();"
        "print(sorted({'onnxruntime', 'torch'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
