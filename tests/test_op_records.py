"""The records of operators: one each, and none that the schemas contradict."""

import pytest
from onnx import defs

from surgeon.ir.constants import FOLDS
from surgeon.ops.schemas import history, schema
from surgeon.ops.traits import trait_lookup
from surgeon.ops.traits.op_traits import EVERY, Axes, OpTraits
from surgeon.ops.traits.trait_lookup import RECORDS, UNTOLD, guess_traits, traits_of
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


NO_SLOTS = ("signs", "words", "patterns", "name", "norm", "neutral")


def slots(item):
    """All inputs that a record speaks of."""
    for name, value in item._asdict().items():
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
    assert len(RECORDS) == len(STANDARD) + len(OTHERS)


@pytest.mark.parametrize("item", RECORDS.values(), ids=RECORDS)
def test_a_record_fits_the_schemas(item):
    """Its inputs, attributes and axes exist in some version, and what it says of types is so."""
    domain, op = split(item.name)
    versions = history(domain, op)
    if not versions:
        assert domain in FOREIGN or defs.onnx_opset_version() < NEWEST, "no such operator"
        return
    assert max(slots(item), default=-1) < max(version.max_inputs for version in versions)
    attributes = {name for version in versions for name in version.attributes}
    named = {look.axis for look in item.lookups if look.axis} | ({item.norm} if isinstance(item.norm, str) else set())
    assert named | set(item.words[:1]) <= attributes
    assert set(item.patterns) <= set(item.words)
    if item.one_type:
        newest = versions[-1]
        assert len({formal.type for formal in (*newest.inputs, *newest.outputs)}) == 1
    if item.neutral is not None:
        assert len(item.signs) == 2
        assert item.neutral == {"sum": 0, "product": 1}[item.family]
    if item.has_bodies:
        assert any(spec.type == defs.OpSchema.AttrType.GRAPH.value for spec in versions[-1].attributes.values())
    if item.returns_bool:
        assert versions[-1].allowed(versions[-1].outputs[0]) == {"tensor(bool)"}


@pytest.mark.parametrize("item", [item for item in RECORDS.values() if item.axes], ids=lambda item: item.name)
def test_axes_move_from_an_attribute_to_an_input(item):
    """Where a record says since when axes are an input, the schemas before have the attribute, and it has none."""
    first = item.axes.since or 1
    for version in history(*split(item.name)):
        formal = version.input_at(item.axes.slot)
        assert ("axes" in version.attributes) == (version.since_version < first and formal is None)
        assert formal is None or formal.name in ("axes", "axis")


def test_what_broadcasts_is_said_to():
    """By the texts of the schemas: what speaks of broadcasting does, but for what is listed with why."""
    told = {item.name for item in defs.get_all_schemas() if not item.domain and "broadcast" in (item.doc or "").lower()}
    assert told - BESIDE.keys() == trait_lookup.BROADCASTING & {item.name for item in defs.get_all_schemas()}
    assert trait_lookup.BROADCASTING.isdisjoint(BESIDE)


def test_what_folds_is_foldable():
    """What is computed for a match is what a search for constants may compute; neither is random."""
    assert FOLDS.keys() <= trait_lookup.FOLDABLE
    assert not trait_lookup.FOLDABLE & trait_lookup.RANDOM


def test_what_has_no_record_is_likened_to_what_its_name_says():
    """Guesses are for where they cost little: nobody who asks for the record itself gets one."""
    assert traits_of("mine::FusedConvRelu") is UNTOLD
    assert guess_traits("mine::FusedConvRelu").product == "windows"
    assert guess_traits("mine::Softmax").softmax
    assert not traits_of("mine::Softmax").softmax
    assert guess_traits("mine::Blend") == OpTraits("mine::Blend")


@pytest.mark.parametrize("name", sorted(trait_lookup.BROADCASTING))
def test_broadcasting_operators_take_two_inputs(name):
    """None of them has one input alone."""
    assert schema("", name).max_inputs > 1
