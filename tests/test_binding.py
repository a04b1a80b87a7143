"""Arguments of helpers, sorted into inputs and attributes by schema and opset."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, defs

from surgeon.errors import RuleError
from surgeon.ops.plugins.builtin_plugins import names_plugin
from surgeon.ops.schemas import Schema, bind, check_node, domains, history, operators, schema

X, Y, Z = object(), object(), object()


def bound(name: str, *args: Any, opset: int | None = None, domain: str = "", **kwargs: Any) -> Any:
    """The inputs and attributes that a helper's arguments make."""
    call = bind(domain, name, args, kwargs, opset)
    return call.inputs, call.attributes


def error(name: str, *args: Any, opset: int | None = None, domain: str = "", **kwargs: Any) -> str:
    """The sentence with which arguments are refused."""
    with pytest.raises(RuleError) as caught:
        bind(domain, name, args, kwargs, opset)
    return str(caught.value)


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_a_moved_parameter_is_an_attribute_before_it_moved(opset: int) -> None:
    for inputs, kwargs in [((X,), {"axes": [-1]}), ((X, [-1]), {}), ((X, -1), {}), ((X,), {"axes": -1})]:
        assert bound("ReduceMean", *inputs, opset=opset, **kwargs) == ((X,), {"axes": [-1]})


@pytest.mark.parametrize("opset", [18, 20, None])
def test_a_moved_parameter_is_an_input_from_then_on(opset: int | None) -> None:
    for inputs, kwargs in [((X,), {"axes": [-1]}), ((X, [-1]), {}), ((X, -1), {}), ((X,), {"axes": -1})]:
        assert bound("ReduceMean", *inputs, opset=opset, **kwargs) == ((X, [-1]), {})


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "before", "as_attributes", "since", "as_inputs"),
    [
        ("Clip", (X, 0, 6), {}, 6, {"min": 0.0, "max": 6.0}, 11, (X, 0, 6)),
        ("Clip", (X,), {"max": 6}, 6, {"max": 6.0}, 11, (X, None, 6)),
        ("Squeeze", (X, [0]), {}, 11, {"axes": [0]}, 13, (X, [0])),
        ("Unsqueeze", (X, 1), {}, 11, {"axes": [1]}, 13, (X, [1])),
        ("Slice", (X, [0], [5], [1]), {}, 9, {"starts": [0], "ends": [5], "axes": [1]}, 10, (X, [0], [5], [1])),
        ("Slice", (X,), {"starts": 0, "ends": 5}, 9, {"starts": [0], "ends": [5]}, 10, (X, [0], [5])),
        ("Pad", (X, [0, 1], 2), {}, 10, {"pads": [0, 1], "value": 2.0}, 11, (X, [0, 1], 2)),
        ("Pad", (X,), {"pads": [0, 1], "value": 2}, 10, {"pads": [0, 1], "value": 2.0}, 11, (X, [0, 1], 2)),
        ("Pad", (X, [0, 1]), {"constant_value": 2}, 10, {"pads": [0, 1], "value": 2.0}, 11, (X, [0, 1], 2)),
        ("Dropout", (X, 0.5), {}, 10, {"ratio": 0.5}, 12, (X, 0.5)),
        ("TopK", (X, 5), {}, 9, {"k": 5}, 10, (X, [5])),
        ("TopK", (X,), {"k": 5}, 9, {"k": 5}, 10, (X, [5])),
        ("TopK", (X,), {"K": 5}, 9, {"k": 5}, 10, (X, [5])),
        ("Split", (X, [1, 2]), {}, 11, {"split": [1, 2]}, 13, (X, [1, 2])),
        ("Reshape", (X, [0, -1]), {}, 1, {"shape": [0, -1]}, 5, (X, [0, -1])),
        ("Upsample", (X, [1.0, 2.0]), {}, 7, {"scales": [1.0, 2.0]}, 9, (X, [1.0, 2.0])),
        ("DFT", (X, None, 1), {}, 17, {"axis": 1}, 20, (X, None, 1)),
        ("DFT", (X,), {"axis": 1}, 17, {"axis": 1}, 20, (X, None, 1)),
    ],
)
def test_every_parameter_that_moved(
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    before: int,
    as_attributes: dict[str, Any],
    since: int,
    as_inputs: tuple[Any, ...],
) -> None:
    assert bound(name, *args, opset=before, **kwargs) == ((X,), as_attributes)
    assert bound(name, *args, opset=since, **kwargs) == (as_inputs, {})


def test_positions_are_those_of_the_opset() -> None:
    assert bound("Resize", X, [1.0, 2.0], opset=10) == ((X, [1.0, 2.0]), {})
    assert bound("Resize", X, None, [1.0, 2.0], opset=13) == ((X, None, [1.0, 2.0]), {})
    assert bound("Resize", X, scales=[1.0, 2.0], opset=10) == ((X, [1.0, 2.0]), {})


def test_inputs_by_name_as_onnx_writes_it_or_in_snake_case() -> None:
    for key in ("B", "b"):
        assert bound("LayerNormalization", X, scale=Y, **{key: Z})[0] == (X, Y, Z)
    assert bound("LSTM", X, Y, Z, initial_h=X, P=Y)[0] == (X, Y, Z, None, None, X, None, Y)
    assert bound("MatMulNBits", domain="com.microsoft", A=X, B=Y, scales=Z, K=8, N=4) == ((X, Y, Z), {"K": 8, "N": 4})


def test_names_of_inputs_that_changed_between_versions() -> None:
    for opset in (9, 15):
        for mean, var in (("mean", "var"), ("input_mean", "input_var")):
            kwargs = {mean: Y, var: Z}
            assert bound("BatchNormalization", X, X, X, opset=opset, **kwargs)[0] == (X, X, X, Y, Z)


def test_a_name_that_python_keeps_gets_a_trailing_underscore() -> None:
    inputs, _ = bound("LongformerAttention", X, X, X, X, X, X, global_=Y, domain="com.microsoft", num_heads=2, window=4)
    assert inputs[6] is Y


def test_omitted_inputs() -> None:
    assert bound("Conv", X, Y, None)[0] == (X, Y)
    assert bound("Clip", X, None, 6.0)[0] == (X, None, 6.0)
    assert bound("Dropout", X, None, None)[0] == (X,)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "outputs", "several"),
    [
        ("Relu", (X,), {}, 1, False),
        ("TopK", (X, 3), {}, 2, True),
        ("LSTM", (X, Y, Z), {}, 1, False),
        ("LSTM", (X, Y, Z), {"outputs": 3}, 3, True),
        ("Dropout", (X,), {"outputs": 1}, 1, True),
        ("Split", (X,), {"outputs": 3}, 3, True),
        ("Split", (X,), {"num_outputs": 3}, 3, True),
        ("Split", (X, [1, 2, 3, 4]), {}, 4, True),
        ("Split", (X,), {"split": np.array([1, 2])}, 2, True),
        ("If", (X,), {"then_branch": onnx.GraphProto(output=[onnx.ValueInfoProto()])}, 1, True),
        ("Loop", (X, Y, Z), {"body": onnx.GraphProto(output=[onnx.ValueInfoProto()] * 3)}, 2, True),
    ],
)
def test_the_number_of_outputs(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: int, several: bool
) -> None:
    call = bind("", name, args, kwargs, None)
    assert (call.outputs, call.several) == (outputs, several)


def test_split_says_its_number_of_outputs_where_the_schema_wants_it() -> None:
    assert bound("Split", X, outputs=2, axis=1, opset=18) == ((X,), {"axis": 1, "num_outputs": 2})
    assert bound("Split", X, outputs=2, axis=1, opset=13) == ((X,), {"axis": 1})
    assert bind("", "Split", (X,), {"num_outputs": 2}, 13).outputs == 2
    assert bound("Split", X, num_outputs=2, opset=13) == ((X,), {})
    assert bound("Split", X, [1, 2], opset=18) == ((X, [1, 2]), {})
    assert bound("Split", X, outputs=2) == ((X,), {})


@pytest.mark.parametrize(
    ("name", "given_value", "expected"),
    [
        (("LeakyRelu", "alpha"), 1, 1.0),
        (("LeakyRelu", "alpha"), True, 1.0),
        (("LeakyRelu", "alpha"), np.float16(0.5), 0.5),
        (("LeakyRelu", "alpha"), np.array([0.5]), 0.5),
        (("Softmax", "axis"), np.int64(1), 1),
        (("Softmax", "axis"), True, 1),
        (("Transpose", "perm"), (1, 0), [1, 0]),
        (("Transpose", "perm"), np.array([1, 0]), [1, 0]),
        (("MaxPool", "strides"), 2, [2]),
        (("Gelu", "approximate"), "tanh", "tanh"),
        (("Cast", "to"), "float16", TensorProto.FLOAT16),
        (("Cast", "to"), "bfloat16", TensorProto.BFLOAT16),
        (("Cast", "to"), "float32", TensorProto.FLOAT),
        (("Cast", "to"), "float8e4m3fn", TensorProto.FLOAT8E4M3FN),
        (("Cast", "to"), "int4", TensorProto.INT4),
        (("Cast", "to"), np.float32, TensorProto.FLOAT),
        (("Cast", "to"), np.dtype("int8"), TensorProto.INT8),
        (("Cast", "to"), bool, TensorProto.BOOL),
        (("Cast", "to"), TensorProto.INT64, TensorProto.INT64),
        (("EyeLike", "dtype"), "double", TensorProto.DOUBLE),
        (("QuantizeLinear", "output_dtype"), "uint8", TensorProto.UINT8),
        (("LayerNormalization", "stash_type"), "float", TensorProto.FLOAT),
    ],
)
def test_attributes_are_coerced_by_schema(name: tuple[str, str], given_value: Any, expected: Any) -> None:
    op, attribute = name
    needed = [X] * len([one for one in history("", op)[-1].inputs if not one.optional])
    found = bound(op, *needed, **{attribute: given_value})[1][attribute]
    assert found == expected
    assert type(found) is type(expected)


def test_numbers_given_for_a_tensor() -> None:
    value = bound("ConstantOfShape", X, value=0)[1]["value"]
    assert (value.shape, value.dtype) == ((1,), np.int64)
    value = bound("Constant", value=0.5)[1]["value"]
    assert (value.shape, value.dtype) == ((), np.float32)
    array = np.zeros((2, 2), np.float16)
    assert bound("Constant", value=array)[1]["value"] is array


def test_what_a_pattern_captures_goes_through_untouched() -> None:
    """A capture is known to the pattern alone, whatever the schema wants in its place."""
    for op, attribute in (("LeakyRelu", "alpha"), ("Transpose", "perm"), ("Cast", "to"), ("Gelu", "approximate")):
        assert bound(op, X, **{attribute: Y})[1][attribute] is Y
    assert bound("Transpose", X, perm=[0, Y])[1]["perm"] == [0, Y]
    assert bound("ReduceMean", X, axes=Y, opset=13)[1]["axes"] is Y


def test_attributes_of_older_versions_are_known_where_no_opset_is_set() -> None:
    assert bound("BatchNormalization", X, X, X, X, X, spatial=1)[1] == {"spatial": 1}
    assert "no attribute or input 'spatial'" in error("BatchNormalization", X, X, X, X, X, spatial=1, opset=15)


def test_onnxruntime_only_operators_bind() -> None:
    assert bound("SimplifiedLayerNormalization", X, Y, epsilon=1, opset=17) == ((X, Y), {"epsilon": 1.0})


REFUSED = [
    (("Gelu", X), {"opset": 17}, "ai.onnx has no Gelu at opset 17; Gelu needs opset 20."),
    (("Gelluu", X), {"domain": "com.microsoft"}, "com.microsoft has no op Gelluu; the nearest are Gelu"),
    (("Gelu", X), {"approximat": "tanh"}, "Gelu has no attribute or input 'approximat'; the nearest are approximate."),
    (("Reshape", X, Y), {"allowzero": 1, "opset": 13}, "'allowzero' at opset 13; it appears at opset 14."),
    (("Softplus", X), {"beta": 1}, "Softplus has no attribute or input 'beta'; it has X."),
    (("Relu",), {}, "Relu needs 1 input (X), but got 0."),
    (("Gemm", X), {}, "Gemm needs at least 2 inputs (A, B), but got 1."),
    (("Conv", None, Y), {}, "Input 1 of Conv is required, but is None."),
    (("Relu", X, Y), {}, "Relu has at most 1 input, but got 2."),
    (("Relu", X), {"outputs": 2}, "Relu has 1 output, not outputs=2."),
    (("Split", X), {}, "Split can have any number of outputs. Give the number with outputs=N."),
    (("LeakyRelu", X), {"alpha": "a"}, "The attribute 'alpha' of LeakyRelu must be a number, not 'a'."),
    (("Softmax", X), {"axis": 1.5}, "The attribute 'axis' of Softmax must be an integer, not 1.5."),
    (("Transpose", X), {"perm": [0, 1.5]}, "'perm' of Transpose must be a list of integers, not 1.5."),
    (("Gelu", X), {"approximate": 1}, "The attribute 'approximate' of Gelu must be a string, not 1."),
    (("Cast", X), {"to": "fla"}, "'fla' is not an ONNX dtype. Write a name such as 'float16', or a NumPy dtype."),
    (("Upsample", X, Y), {"opset": 10}, "Upsample is deprecated in ai.onnx since opset 10; use its replacement."),
    (("Gemm", X, Y), {"b": Z}, "The input 'B' of Gemm is given twice; give it once."),
    (("ReduceMean", X, [1]), {"axes": [1], "opset": 13}, "'axes' of ReduceMean is given twice; give it once."),
]


@pytest.mark.parametrize(("args", "kwargs", "sentence"), REFUSED, ids=[sentence[:40] for *_, sentence in REFUSED])
def test_what_does_not_fit_is_refused_in_one_sentence(
    args: tuple[Any, ...], kwargs: dict[str, Any], sentence: str
) -> None:
    said = error(*args, **kwargs)
    assert sentence in said
    assert said.endswith(".")
    assert "\n" not in said


SAMPLES: dict[int, Any] = {
    AttributeProto.FLOAT: 1,
    AttributeProto.INT: 1,
    AttributeProto.STRING: "a",
    AttributeProto.TENSOR: 1.0,
    AttributeProto.GRAPH: onnx.helper.make_graph([], "body", [], [onnx.ValueInfoProto(name="o")]),
    AttributeProto.TYPE_PROTO: onnx.helper.make_tensor_type_proto(1, None),
    AttributeProto.FLOATS: 1,
    AttributeProto.INTS: (1, 2),
    AttributeProto.STRINGS: ("a", "b"),
}


def node_of(version: Schema, opset: int) -> onnx.NodeProto:
    """A node of an operator with the inputs and attributes that it needs, bound from Python arguments."""
    least = max(version.min_inputs, sum(not (one.optional or one.variadic) for one in version.inputs))
    names = [f"x{index}" for index in range(least)]
    kwargs: dict[str, Any] = {one.name: SAMPLES[one.type] for one in version.attributes.values() if one.required}
    if version.max_outputs > 1:
        kwargs["outputs"] = max(1, version.min_outputs)
    call = bind(version.domain, version.name, names, kwargs, opset)
    outputs = [f"y{index}" for index in range(call.outputs)]
    node = onnx.helper.make_node(version.name, call.inputs, outputs, domain=version.domain)
    for name, value in call.attributes.items():
        proto = onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        node.attribute.append(onnx.helper.make_attribute(name, proto))
    return node


def test_every_operator_at_every_version_binds_to_a_node_that_fits_its_schema() -> None:
    count = 0
    for domain in domains():
        for name in operators(domain):
            for version in history(domain, name):
                if version.deprecated or names_plugin(domain, name):  # a plugin's table says more than its schema
                    continue
                node = node_of(version, version.since_version)
                assert check_node(node, version.since_version, lambda _: None) == [], version
                count += 1
    assert count > 700


@given(st.data())
def test_keywords_and_positions_say_the_same(data: st.DataObject) -> None:
    """Whatever operator and opset: the inputs given by name and by position make the same call."""
    name = data.draw(st.sampled_from([name for name in operators("") if defs.has(name)]))
    opset = data.draw(st.integers(1, defs.onnx_opset_version()))
    version = schema("", name, opset)
    if version is None or version.deprecated or any(one.variadic for one in version.inputs):
        return
    if version.max_outputs > 2**30:
        return
    values = [object() for _ in version.inputs]
    clash = {one.name for one in version.inputs} & set(version.attributes)
    if clash:
        return
    by_position = bind("", name, values, {}, opset)
    shuffled = data.draw(st.permutations(list(zip(version.inputs, values, strict=True))))
    by_name = bind("", name, (), {formal.name: value for formal, value in shuffled}, opset)
    assert by_position == by_name
