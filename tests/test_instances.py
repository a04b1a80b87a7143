"""Instances of patterns: the ways to write them, their dtypes, shapes and values, and that onnx takes each."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from surgeon import Constant, Graph, Tensor
from surgeon.authoring.rule_proof.instances import CannotInstantiate, build_instance
from surgeon.authoring.rule_proof.pattern_arguments import argument_sets
from surgeon.authoring.rule_proof.variants import MAX_VARIANTS, PatternVariant, operations_of, parameters_of, variants
from surgeon.rules.catalogue import all_rules
from surgeon.rules.tracing.tracer import trace
from tests import sampling

FLOAT, HALF, INT64, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL


def traced(function):
    (pattern,) = trace(function)
    return pattern


def build(function, shapes, opset=20, dtype=FLOAT, variant=None, **values):
    return build_instance(traced(function), variant or PatternVariant(), opset, dtype, shapes, values)


def dtypes(model):
    """The dtype of each input and constant by name."""
    found = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    return found | {tensor.name: tensor.data_type for tensor in model.graph.initializer}


def nested(g: Graph, x: Tensor, bias: Tensor | None = None) -> Tensor:
    y = g.any_of(g.tanh(x), g.any_of(g.relu(x), g.sigmoid(x)), g.neg(x))
    return g.clip(g.abs(y), bias)


def written(pattern):
    """The ops of every variant, with its label."""
    return {
        variant.label: [operation.op for operation in operations_of(pattern, variant)] for variant in variants(pattern)
    }


def test_each_form_is_written_once_and_nested_ones_too():
    found = written(traced(nested))
    ops = [names[2] for label, names in found.items() if "bias" not in label]
    assert sorted(ops) == ["Neg", "Relu", "Sigmoid", "Tanh"]
    assert found[""] == ["Clip", "Abs", "Tanh"]


def test_an_optional_input_is_written_and_left_out():
    pattern = traced(nested)
    absent = [variant for variant in variants(pattern) if "bias" in variant.absent]
    assert absent
    assert all("bias" not in parameters_of(pattern, variant) for variant in absent)
    assert "bias" in parameters_of(pattern, variants(pattern)[0])


def test_what_an_op_needs_is_not_left_out():
    """A capture may be absent as another form does without it, where the op of this form does not."""

    def maybe_added(g: Graph, x: Tensor, other: Tensor | None = None) -> Tensor:
        return g.relu(g.any_of(g.add(x, other), x))

    assert not [variant for variant in variants(traced(maybe_added)) if variant.absent]


def test_an_optional_node_is_written_and_left_out():
    pattern = traced(lambda g, x: g.neg(g.optional(g.relu(x))))
    assert sorted(map(tuple, written(pattern).values())) == [("Neg",), ("Neg", "Relu")]


def test_a_rest_is_two_tensors_and_one():
    pattern = traced(lambda g, *xs: g.neg(g.concat(*xs, axis=0)))
    assert [list(parameters_of(pattern, variant)) for variant in variants(pattern)] == [["xs_0", "xs_1"], ["xs_0"]]
    model = build(lambda g, *xs: g.neg(g.concat(*xs, axis=0)), {"xs_0": (2,), "xs_1": (3,)})
    assert list(model.graph.node[0].input) == ["xs_0", "xs_1"]


def test_the_number_of_variants_is_bounded():
    def wide(g, x):
        for _ in range(12):
            x = g.any_of(g.relu(x), g.tanh(x), g.neg(x))
        return g.abs(x)

    found = variants(traced(wide))
    assert 12 * 2 <= len(found) - 1 <= MAX_VARIANTS + 1
    assert len({tuple(variant.forms.items()) for variant in found}) == len(found)


def test_a_constant_parameter_is_an_initializer_and_a_tensor_an_input():
    def pattern(g: Graph, x: Tensor, w: Constant) -> Tensor:
        return g.relu(g.add(x, w))

    model = build(pattern, {"x": ("n", 4), "w": (4,)})
    assert [value.name for value in model.graph.input] == ["x"]
    (weight,) = model.graph.initializer
    assert weight.name == "w"
    assert numpy_helper.to_array(weight).shape == (4,)
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "n"


@pytest.mark.parametrize("dtype", [FLOAT, HALF, TensorProto.DOUBLE, TensorProto.BFLOAT16])
def test_literals_take_the_dtype_asked_for(dtype):
    model = build(lambda g, x: g.mul(g.pow(x, 3), 0.5), {"x": (2, 3)}, dtype=dtype)
    assert set(dtypes(model).values()) == {dtype}
    assert model.graph.output[0].type.tensor_type.elem_type == dtype


def test_tensors_that_cannot_be_floats_become_what_the_schema_wants():
    found = dtypes(build(lambda g, x, i: g.gather(g.relu(x), i), {"x": (3, 4), "i": (2,)}, dtype=HALF))
    assert found == {"x": HALF, "i": INT64}
    found = dtypes(build(lambda g, c, x, y: g.relu(g.where(c, x, y)), {"c": (3,), "x": (3,), "y": (3,)}))
    assert found == {"c": BOOL, "x": FLOAT, "y": FLOAT}
    found = dtypes(build(lambda g, x, y: g.bitwise_not(g.bitwise_and(x, y)), {"x": (3,), "y": (3,)}))
    assert set(found.values()) == {INT64}


def test_a_cast_ends_the_dtype_asked_for():
    model = build(lambda g, x: g.neg(g.cast(g.relu(x), to="float16")), {"x": (3,)})
    assert dtypes(model)["x"] == FLOAT
    assert model.graph.output[0].type.tensor_type.elem_type == HALF


def test_a_parameter_is_an_attribute_or_an_input_as_the_opset_has_it():
    def pattern(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
        return g.neg(g.reduce_mean(x, axes))

    old, new = (build(pattern, {"x": (2, 3)}, opset=opset, axes=[-1]) for opset in (17, 18))
    assert [item.name for item in old.graph.node[0].attribute] == ["axes"]
    assert len(old.graph.node[0].input) == 1
    assert len(new.graph.node[0].input) == 2
    assert numpy_helper.to_array(new.graph.initializer[0]).tolist() == [-1]


def test_what_the_opset_or_the_dtype_lacks_is_no_instance():
    with pytest.raises(CannotInstantiate, match="ai.onnx has no Gelu at opset 19"):
        build(lambda g, x: g.gelu(x), {"x": (3,)}, opset=19)
    with pytest.raises(CannotInstantiate, match="float16 cannot represent"):
        build(lambda g, x: g.relu(g.mul(x, 1e6)), {"x": (3,)}, dtype=HALF)
    with pytest.raises(CannotInstantiate):
        build(lambda g, x, y: g.relu(g.matmul(x, y)), {"x": (3, 4), "y": (3, 4)})


def test_several_outputs_are_several_outputs():
    model = build(lambda g, x: (g.relu(x), g.tanh(x)), {"x": (3,)})
    assert len(model.graph.output) == 2
    with pytest.raises(CannotInstantiate, match="an output is an input"):
        build(lambda g, x: (g.relu(x), x), {"x": (3,)})


def test_shapes_broadcast_in_every_way():
    pattern = traced(lambda g, x, y: g.relu(g.sub(x, y)))
    found = {arguments.shapes["x"]: set() for arguments in argument_sets(pattern, PatternVariant(), 20, ranks=(2,))}
    for arguments in argument_sets(pattern, PatternVariant(), 20, ranks=(2,)):
        found[arguments.shapes["x"]].add(arguments.shapes["y"])
    assert {("a", "b"), ("b",), (1, "b"), ("a", 1), ()} <= found[("a", "b")]
    assert any(len(shape) < 2 for shape in found), "the first tensor is never the smaller one"
    kinds = {arguments.kind for arguments in argument_sets(pattern, PatternVariant(), 20, ranks=(2,))}
    assert kinds == {"shapes", "ones", "empty"}


def test_ranks_from_zero_to_four():
    pattern = traced(lambda g, x: g.relu(g.neg(x)))
    shapes = [arguments.shapes["x"] for arguments in argument_sets(pattern, PatternVariant(), 20)]
    assert {len(shape) for shape in shapes} == {0, 1, 2, 3, 4}
    assert {shape[0] for shape in shapes if shape} == {"a", 1, 0}


def test_weights_get_shapes_that_their_ops_take():
    def pattern(g: Graph, x: Tensor, w: Constant, b: Constant) -> Tensor:
        return g.add(g.matmul(x, w), b)

    first = argument_sets(pattern_ := traced(pattern), PatternVariant(), 20, ranks=(3,))[0]
    assert first.shapes == {"x": ("a", "b", 4), "w": (4, 4), "b": (4,)}
    onnx.checker.check_model(build_instance(pattern_, PatternVariant(), 20, FLOAT, first.shapes, {}), full_check=True)

    def convolution(g: Graph, x: Tensor, w: Constant, b: Constant) -> Tensor:
        return g.relu(g.conv(x, w, b))

    (first, *_) = argument_sets(traced(convolution), PatternVariant(), 20, ranks=(4,))
    assert first.shapes == {"x": ("a", 3, "c", "d"), "w": (3, 3, 1, 1), "b": (3,)}


def test_captured_values_are_those_that_the_op_takes_at_the_rank():
    def pattern(g: Graph, x: Tensor, perm: list[int]) -> Tensor:
        return g.transpose(g.relu(x), perm=perm)

    found = [arguments.values["perm"] for arguments in argument_sets(traced(pattern), PatternVariant(), 20, ranks=(3,))]
    assert found[:3] == [[0, 2, 1], [2, 1, 0], [1, 2, 0]]
    assert all(sorted(perm) == [0, 1, 2] for perm in found)

    def limits(g: Graph, x: Tensor, low: float, high: float) -> Tensor:
        return g.relu(g.clip(x, low, high))

    for arguments in argument_sets(traced(limits), PatternVariant(), 20, ranks=(2,)):
        assert arguments.values["low"] < arguments.values["high"]


def first_arguments(pattern, variant):
    """The first shapes and values at which a variant can be written at opset 20, or None."""
    try:
        by_rank = (argument_sets(pattern, variant, 20, ranks=(rank,), most_shapes=1) for rank in (3, 2, 4, 1, 0))
        return next((one for found in by_rank for one in found), None)
    except CannotInstantiate:
        return None


RULES = [rule for *_, rule in all_rules() if rule.search is None]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_onnx_takes_the_instances_of_every_rule(rule):
    """The first form of each pattern, or all of them, in float32 at the first shapes, pass onnx's own checker."""
    most = MAX_VARIANTS if sampling.is_whole() else 1
    for pattern in (compiled.pattern for function in rule.patterns for compiled in rule.compiled(function)[:1]):
        for variant in variants(pattern, pairs=False)[:most]:
            arguments = first_arguments(pattern, variant)
            if arguments is None:
                continue
            model = build_instance(pattern, variant, 20, FLOAT, arguments.shapes, arguments.values)
            has_shapes = all(value.type.tensor_type.HasField("shape") for value in model.graph.output)
            if has_shapes and not any(item.domain for item in model.opset_import):
                onnx.checker.check_model(model, full_check=True)
            names = [tensor.name for tensor in model.graph.initializer]
            assert len(names) == len(set(names))


def test_constants_are_the_same_each_time():
    def pattern(g: Graph, x: Tensor, w: Constant) -> Tensor:
        return g.relu(g.add(x, w))

    one, two = (build(pattern, {"x": (2, 4), "w": (4,)}).graph.initializer[0] for _ in range(2))
    assert one == two
    assert np.all(numpy_helper.to_array(one) >= 0.5)
