"""Norms and scatterings as TensorRT's plugins: what is written, what does not match and why."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from surgeon.patterns.lowering.scatter_plugin import scatter_plugin
from surgeon.patterns.norms.group_norm_plugin import group_norm_plugin
from surgeon.patterns.norms.instance_norm_plugin import instance_norm_activation_plugin, instance_norm_plugin

import surgeon
from surgeon.ops.plugins.builtin_plugins import plugin_of
from surgeon.runtime.kernels.tensorrt_plugins import (
    tensorrt_group_norm,
    tensorrt_instance_norm,
    tensorrt_scatter_elements,
)
from surgeon.runtime.processes.worker import Task, Worker
from surgeon.runtime.tensorrt.library import installed
from surgeon.runtime.tensorrt.parser_tasks import PluginRequest
from surgeon.testing import Case, check_spares, parse
from tests.patterns.formulas import check_by_formula

OF_TORCH = """g = Reshape(x, split) i = InstanceNormalization<epsilon = 1e-4>(g, one, zero) f = Shape(x)
    r = Reshape(i, f) m = Mul(r, wide) y = Add(m, high)"""
STANDARD = "y = GroupNormalization<num_groups = 3, epsilon = 1e-4>(x, scale, bias)"
INSTANCES = "n = InstanceNormalization<epsilon = 1e-4>(x, scale, bias)"
ALONE = "y = InstanceNormalization<epsilon = 1e-4>(x, scale, bias)"
SCALE, BIAS = [1.5, -0.5, 2, 1, 3, 0.25], [1, 2, 3, 4, 5, 6]
CONSTANTS = {
    "one": np.ones(3),
    "zero": np.zeros(3),
    "split": np.array([0, 3, -1]),
    "along": np.array([0, 2, 3]),
    "scale": np.array(SCALE, float),
    "bias": np.array(BIAS, float),
    "wide": np.array(SCALE, float).reshape(6, 1, 1),
    "high": np.array(BIAS, float).reshape(6, 1, 1),
}
FOUR, FIVE, THREE = "n, 6, 4, 5", "n, 6, 2, 3, 4", "n, 6, 4"
TARGET = {"target": "tensorrt"}


def norm(body, sizes=FOUR, opset=21, dtype="float"):
    head = f'<ir_version: 10, opset_import: ["" : {opset}]> g (float[{sizes}] x) => (float[{sizes}] y)'
    model = parse(f"{head} {{ {body} }}".replace("float", dtype))
    floats = np.float16 if dtype == "float16" else np.float32
    for name, values in CONSTANTS.items():
        if f"{name}," in body or f"{name})" in body:
            array = values.astype(floats) if values.dtype.kind == "f" else values
            model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def scatter(reduction="add", axis=1, given="int64[2, 3] i = {1, 1, 0, 2, 0, 0}", more="", sizes="2, 4", put="2, 3",
            dtype="float"):
    head = f'<ir_version: 8, opset_import: ["" : 18]> g ({dtype}[{sizes}] x, {dtype}[{put}] u{more})'
    call = f'y = ScatterElements<axis = {axis}, reduction = "{reduction}">(x, i, u)'
    return parse(f"{head} => ({dtype}[{sizes}] y) {f'<{given}>' if given else ''} {{ {call} }}")


# fmt: off
FIRES = [
    Case(group_norm_plugin, "torch's parts", norm(OF_TORCH, opset=17), **TARGET),
    Case(group_norm_plugin, "the standard's node", norm(STANDARD), **TARGET),
    Case(instance_norm_plugin, "alone", norm(ALONE), **TARGET),
    Case(instance_norm_plugin, "of a volume", norm(ALONE, FIVE), **TARGET),
    Case(instance_norm_plugin, "in half precision", norm(ALONE, dtype="float16"), **TARGET),
    Case(instance_norm_activation_plugin, "with a Relu", norm(f"{INSTANCES} y = Relu(n)"), **TARGET),
    Case(instance_norm_activation_plugin, "with a LeakyRelu of a volume", **TARGET,
         model=norm(f"{INSTANCES} y = LeakyRelu<alpha = 0.2>(n)", FIVE)),
    *(Case(scatter_plugin, f"{how}, one index twice", scatter(how), **TARGET) for how in ("add", "mul", "max", "min")),
    Case(scatter_plugin, "indices that count from the end", **TARGET,
         model=scatter(given="int64[2, 3] i = {1, -1, 0, -4, 0, 0}")),
    Case(scatter_plugin, "indices that are an input, along the first axis of free size", **TARGET,
         model=scatter(axis=0, given="", more=", int64[k, 4] i", sizes="m, 4", put="k, 4")),
    Case(scatter_plugin, "integers", scatter(dtype="int32"), **TARGET),
]
NEGATIVES = [
    Case(group_norm_plugin, "three axes", norm(STANDARD, THREE), why="needs four axes", **TARGET),
    Case(group_norm_plugin, "half precision", norm(STANDARD, dtype="float16"), why="float32", **TARGET),
    Case(group_norm_plugin, "one scale for a group", why="before opset 21", **TARGET,
         model=norm("y = GroupNormalization<num_groups = 3, epsilon = 1e-4>(x, one, zero)", opset=18)),
    Case(instance_norm_plugin, "three axes", why="four or five axes", **TARGET,
         model=norm(ALONE, THREE)),
    Case(instance_norm_plugin, "a scale that is computed", why="constant", **TARGET,
         model=norm("s = ReduceMax<keepdims = 0>(x, along)  y = InstanceNormalization(x, s, bias)")),
    Case(instance_norm_activation_plugin, "a norm that others read too", why="", **TARGET,
         model=norm(f"{INSTANCES} r = Relu(n) y = Add(r, n)")),
    Case(scatter_plugin, "no reduction", scatter("none"), why="it has no reduction", **TARGET),
    Case(scatter_plugin, "some rows alone", why="must cover all other axes", **TARGET,
         model=scatter(given="int64[1, 3] i = {1, 1, 0}", put="1, 3")),
    Case(scatter_plugin, "doubles", scatter(dtype="double"), why="float64", **TARGET),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_by_formula(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


KINDS = {"int": "INT32", "float": "FLOAT32", "string": "CHAR"}


@pytest.mark.skipif(installed() is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")
@pytest.mark.parametrize("case", [FIRES[0], FIRES[2], FIRES[6], FIRES[7]], ids=str)
def test_what_is_written_reaches_a_creator_of_the_plugin(case):
    """TensorRT's own parser hands it each field, of the kind that the plugin declares."""
    made, _ = surgeon.rewrite(case.model, case.rules, check="none", **TARGET)
    (node,) = (node for node in made.graph.node if node.domain == "trt.plugins")
    plugin = plugin_of(node)
    graph = onnx.helper.make_graph([node], "g", [], [onnx.helper.make_tensor_value_info(node.output[0], 1, None)])
    for place, name in enumerate(node.input):
        dtype = onnx.TensorProto.INT64 if plugin.name == "ScatterElements" and place == 1 else onnx.TensorProto.FLOAT
        graph.input.append(onnx.helper.make_tensor_value_info(name, dtype, [2, 6, 4, 5][: 4 if place == 0 else 1]))
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("trt.plugins", 1)]
    alone = onnx.helper.make_model(graph, opset_imports=imports, ir_version=9)
    child = Worker()
    try:
        known = plugin.name, plugin.version, plugin.namespace, list(plugin.attributes)
        asked = PluginRequest(installed().module, alone.SerializeToString(), *known)
        result = child.run(Task("surgeon.runtime.tensorrt.parser_tasks:create", asked, 60.0)).value
    finally:
        child.end()
    assert result["is_called"]
    assert {name: kind for name, (kind, _) in result["fields"].items()} == {
        name: KINDS[field.kind] for name, field in plugin.attributes.items()
    }


def run(model, **feeds):
    return ReferenceEvaluator(model).run(None, feeds)[0]


def test_the_formulas_are_the_definitions():
    """Each by onnx's own implementation of the standard's op."""
    rng = np.random.default_rng(0)
    x, scale, bias = (rng.normal(size=size).astype(np.float32) for size in ((2, 6, 4, 5), 6, 6))
    found = tensorrt_group_norm(x, scale, bias, num_groups=3, eps=1e-2)
    own = parse(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2, 6, 4, 5] x, float[6] s, float[6] b) => '
        "(float[2, 6, 4, 5] y) { y = GroupNormalization<num_groups = 3, epsilon = 1e-2>(x, s, b) }"
    )
    np.testing.assert_allclose(found, run(own, x=x, s=scale, b=bias), rtol=1e-5, atol=1e-5)
    found = tensorrt_instance_norm(x, scales=list(scale), bias=list(bias), epsilon=1e-2, relu=1, alpha=0.25)
    own = parse(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2, 6, 4, 5] x, float[6] s, float[6] b) => '
        "(float[2, 6, 4, 5] y) { n = InstanceNormalization<epsilon = 1e-2>(x, s, b)  y = LeakyRelu<alpha = 0.25>(n) }"
    )
    np.testing.assert_allclose(found, run(own, x=x, s=scale, b=bias), rtol=1e-5, atol=1e-5)
    indices = rng.integers(0, 4, size=(2, 6, 7, 5))
    updates = rng.normal(size=indices.shape).astype(np.float32)
    for how in ("add", "mul", "max", "min"):
        found = tensorrt_scatter_elements(x, indices, updates, axis=2, reduction=how)
        own = parse(
            '<ir_version: 8, opset_import: ["" : 18]> g (float[2, 6, 4, 5] x, int64[2, 6, 7, 5] i, '
            "float[2, 6, 7, 5] u) => (float[2, 6, 4, 5] y) "
            f'{{ y = ScatterElements<axis = 2, reduction = "{how}">(x, i, u) }}'
        )
        np.testing.assert_allclose(found, run(own, x=x, i=indices, u=updates), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="does not support negative indices"):
        tensorrt_scatter_elements(x, indices - 1, updates, axis=2, reduction="add")
