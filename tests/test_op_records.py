"""The records of operators: one each, and none that the schemas contradict."""

import operator

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, defs, helper

from surgeon.ir.folding_kernels import FOLDS
from surgeon.ops.schemas import history, schema
from surgeon.ops.traits import trait_lookup
from surgeon.ops.traits.op_traits import EVERY, GROUP_OF, NO_TRAITS, Axes, OpTraits, each, one
from surgeon.ops.traits.trait_lookup import OP_TRAITS, node_traits, traits_of
from surgeon.ops.traits.trait_table import OTHERS, STANDARD

# What a schema's text says of broadcasting and no record does: one input may have another shape than the result, the
# second names the shape to broadcast to, the others say that they do not.
BESIDE = {
    "LayerNormalization": "scale and bias, one way",
    "RMSNormalization": "the scale, one way",
    "Gemm": "the bias, one way",
    "Einsum": "the axes that an ellipsis stands for",
    "Expand": "to a shape that is a value",
    "Tile": "does not",
    "SwiGLU": "does not",
}
# Records of operators without a schema: plugins of others, and what ONNX Runtime knows under another domain alone.
FOREIGN = {"custom", "torchvision", "mmcv", "mmdeploy", "trt.plugins"}
NEWEST = 26  # the opset of the youngest operator that has a record


def split(name):
    domain, _, op = name.rpartition("::")
    return domain, op


NO_SLOTS = ("signs", "string_attributes", "regex_attributes", "norm_axis", "weighted_axis", "neutral")


def slots(item):
    """All inputs that a record speaks of."""
    for name, group in GROUP_OF.items():
        value = getattr(getattr(item, group), name)
        if name in NO_SLOTS or value is EVERY or isinstance(value, (bool, str)):
            continue
        if isinstance(value, Axes):
            yield value.slot
        elif name == "lookups":
            yield from (slot for look in value for slot in (look.indices, look.table))
        elif isinstance(value, tuple):
            yield from (slot for slot in value if slot is not None)
        elif value is not None:
            yield value


def test_each_operator_has_one_record():
    """Two records of one operator would be two places that know it."""
    assert len(OP_TRAITS) == len(STANDARD) + len(OTHERS)


@pytest.mark.parametrize("item", OP_TRAITS.values(), ids=OP_TRAITS)
def test_a_record_fits_the_schemas(item):
    """Its inputs, attributes and axes exist in some version, and what it says of types is so."""
    domain, op = split(item.name)
    versions = history(domain, op)
    if not versions:
        assert domain in FOREIGN or defs.onnx_opset_version() < NEWEST, "no such operator"
        return
    assert max(slots(item), default=-1) < max(version.max_inputs for version in versions)
    attributes = {name for version in versions for name in version.attributes}
    axes = {look.axis_attribute for look in item.indexing.lookups if look.axis_attribute}
    axes |= {item.numerics.norm_axis} if isinstance(item.numerics.norm_axis, str) else set()
    assert axes | set(item.strings.string_attributes[:1]) <= attributes
    assert set(item.strings.regex_attributes) <= set(item.strings.string_attributes)
    if item.dtype.one_type:
        newest = versions[-1]
        assert len({formal.type for formal in (*newest.inputs, *newest.outputs)}) == 1
    if item.algebra.neutral is not None:
        assert len(item.algebra.signs) == 2
        assert item.algebra.neutral == {"sum": 0, "product": 1}[item.algebra.family]
    if item.control.has_bodies:
        assert any(spec.type == defs.OpSchema.AttrType.GRAPH.value for spec in versions[-1].attributes.values())
    if item.dtype.returns_bool:
        assert versions[-1].allowed(versions[-1].outputs[0]) == {"tensor(bool)"}


def computed(op, *inputs, **attributes):
    """What ONNX Runtime computes of floats."""
    given = {f"x{place}": x for place, x in enumerate(inputs)}
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in given.items()]
    node = helper.make_node(op, list(given), ["y"], **attributes)
    graph = helper.make_graph([node], "one", ports, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, given)[0]


@pytest.mark.parametrize(
    "op", sorted(name for name in trait_lookup.ops_with("never_negative") if "::" not in name)
)
def test_what_is_never_negative_returns_no_number_below_zero(op):
    """Of numbers of both signs; a root of a negative number is no number."""
    x = np.random.default_rng(0).normal(0, 4, (1, 2, 6, 6)).astype(np.float32)
    found = computed(op, x, **({"kernel_shape": [2, 2]} if op == "LpPool" else {}))
    assert not (found < 0).any()
    assert (found > 0).any()


@pytest.mark.parametrize("op", sorted(trait_lookup.ops_with("comparison")))
def test_a_comparison_is_by_its_sign(op):
    """Its sign says what the operator returns below, at and above."""
    signs = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    x, y = np.array([1.0, 2.0, 3.0], np.float32), np.full(3, 2, np.float32)
    assert computed(op, x, y).tolist() == signs[traits_of(op).algebra.comparison](x, y).tolist()


@pytest.mark.parametrize("item", [item for item in OP_TRAITS.values() if item.shape.axes], ids=lambda item: item.name)
def test_axes_move_from_an_attribute_to_an_input(item):
    """Where a record says since when axes are an input, the schemas before have the attribute, and it has none."""
    first = item.shape.axes.since or 1
    for version in history(*split(item.name)):
        formal = version.input_at(item.shape.axes.slot)
        assert ("axes" in version.attributes) == (version.since_version < first and formal is None)
        assert formal is None or formal.name in ("axes", "axis")


def test_what_broadcasts_is_said_to():
    """By the texts of the schemas: what speaks of broadcasting does, but for what is listed with why."""
    said = {item.name for item in defs.get_all_schemas() if not item.domain and "broadcast" in (item.doc or "").lower()}
    assert said - BESIDE.keys() == trait_lookup.BROADCASTING & {item.name for item in defs.get_all_schemas()}
    assert trait_lookup.BROADCASTING.isdisjoint(BESIDE)


def test_what_folds_is_foldable():
    """What is computed for a match is what a search for constants may compute; neither is random."""
    assert FOLDS.keys() <= trait_lookup.FOLDABLE
    assert not trait_lookup.FOLDABLE & trait_lookup.RANDOM


@pytest.mark.parametrize("name", ["FusedConvRelu", "MyLayerNorm", "Softmax", "Gelu", "GridSample", "Multinomial"])
def test_nothing_follows_from_a_name(name):
    """An operator of another domain has no traits, even under the very name of one of ONNX's."""
    assert traits_of(f"mine::{name}") is NO_TRAITS
    assert node_traits(helper.make_node(name, ["x"], ["y"], domain="mine")) is NO_TRAITS
    assert not trait_lookup.is_random(helper.make_node(name, ["x"], ["y"], domain="mine"))


def test_the_default_domain_has_two_names():
    """A node may spell it out."""
    assert node_traits(helper.make_node("Softmax", ["x"], ["y"], domain="ai.onnx")).numerics.is_softmax


@pytest.mark.parametrize("name", sorted(trait_lookup.BROADCASTING))
def test_broadcasting_operators_take_two_inputs(name):
    """None of them has one input alone."""
    assert schema("", name).max_inputs > 1


def test_fields_belong_to_one_group():
    """A table may name a field without its group; an unknown field fails where the table is imported."""
    groups = [getattr(NO_TRAITS, group) for group in OpTraits._fields[1:]]
    assert sum(len(group._fields) for group in groups) == len(GROUP_OF)
    assert each("Add Mul", commutes=True)[1] == one("Mul", commutes=True)
    with pytest.raises(KeyError, match="comutes"):
        one("Add", comutes=True)
