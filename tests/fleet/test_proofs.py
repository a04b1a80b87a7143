"""Proofs that models share: which experiments are the same, and who proved what."""

import onnx
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon.proof.cache.proof_key import use_proof_store
from tests.fleet import zoo


class Recorded:
    """A store that holds nothing, and notes what it is asked for and given."""

    def __init__(self):
        self.asked, self.kept = [], {}

    def find(self, key):
        self.asked.append(key)

    def keep(self, key, proof):
        self.kept[key] = proof


def cut_off(g, x, c):
    return g.relu(g.mul(x, c))


@surgeon.rule(patterns=[cut_off])
def as_maximum(g, x, c):
    """What: the same by another operator."""
    return g.max(g.mul(x, c), 0.0)


def keys(model, tmp_path, **settings):
    """What a model asks of a store of proofs."""
    store = Recorded()
    onnx.save(model, tmp_path / "in.onnx")
    with use_proof_store(store):
        out = tmp_path / "out.onnx"
        surgeon.rewrite(tmp_path / "in.onnx", ["gelu", as_maximum], output=out, keep_going=True, **settings)
    assert store.asked
    return store.asked


@pytest.fixture
def model(tmp_path):
    return onnx.load(zoo.gelus(tmp_path / "m.onnx"))


def renamed(model):
    """The same with all names others, among them those that dims have in a proof."""
    names = {name: f"d{place}" for place, name in enumerate("pdeam")}
    for node in model.graph.node:
        node.name = f"node of {node.name}"
        for side in (node.input, node.output):
            side[:] = [names.get(name[0], name[0]) if name.endswith("0") else name for name in side]
    for tensor in model.graph.initializer:
        tensor.name = "w" if tensor.name == "w0" else tensor.name
    return model


def test_names_make_no_difference(model, tmp_path):
    assert keys(model, tmp_path) == keys(renamed(model), tmp_path)


def test_weights_outside_of_a_site_make_none(model, tmp_path):
    before = keys(model, tmp_path)
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "w0")
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) + 1, "w0"))
    assert keys(model, tmp_path) == before


def scaled(path):
    """A model on which `as_maximum` fires."""
    nodes = [helper.make_node("Mul", ["x", "c"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    return onnx.load(zoo.save(nodes, [zoo.number("c", 3)], path))


def dtype(model):
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("f8"), tensor.name))


def constant(model):
    model.graph.initializer[0].CopyFrom(zoo.number("c", 3 + 1e-6))


def width(model):
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.shape.dim[1].dim_value = 6


def opset(model):
    model.opset_import[0].version = 18


@pytest.mark.parametrize("change", [dtype, constant, width, opset])
def test_what_a_proof_rests_on_makes_a_difference(tmp_path, change):
    model = scaled(tmp_path / "s.onnx")
    before = keys(model, tmp_path)
    change(model)
    assert set(keys(model, tmp_path)).isdisjoint(before)


@pytest.mark.parametrize("options", [{"seed": 7}, {"dims": {"n": 3}}, {"rtol": 1e-3}, {"proof_time": 60.0}], ids=str)
def test_how_it_is_checked_makes_a_difference(model, tmp_path, options):
    before = keys(model, tmp_path)
    assert keys(model, tmp_path, options=surgeon.CheckOptions(**options)) != before


def test_bodies_keep_their_names(tmp_path):
    """Of a node with a body more than its tensors has names: equal ones may not be found, and others never are."""
    from surgeon.proof.cache.proof_key import _Canonical

    def model(first, second):
        ports = f"bool c, float[2] {first}, float[2] {second}"
        text = f"""<ir_version: 8, opset_import: ["" : 17]> g ({ports}) => (float[2] y)
            {{ y = If (c) <then_branch = t () => (float[2] a) {{ a = Neg (x) }},
                          else_branch = e () => (float[2] b) {{ b = Abs (x) }}> }}"""
        return onnx.parser.parse_model(text)

    one, other = model("x", "z"), model("z", "x")
    assert _Canonical((one,)).anonymous(one) != _Canonical((other,)).anonymous(other)


def test_a_fleet_proves_equal_regions_once(tmp_path):
    """And says in which model; each its own where that is asked for."""
    for count in (1, 2, 3):
        zoo.gelus(tmp_path / "zoo" / f"m{count}.onnx", count)
    recipe = surgeon.Recipe([surgeon.Rules("gelu")])
    found = surgeon.run_many(recipe, f"{tmp_path}/zoo/*.onnx", to=tmp_path / "out")
    assert [(row.proofs, row.proved_in) for row in found] == [
        ({"proved": 1}, {"m3.onnx": 1}),
        ({"proved": 2}, {"m3.onnx": 1}),
        ({"proved": 3}, {}),
    ]
    again = surgeon.run_many(recipe, f"{tmp_path}/zoo/*.onnx", to=tmp_path / "own", own_proofs=True)
    assert [row.proved_in for row in again] == [{}, {}, {}]
    for name in ("m1.onnx", "m2.onnx", "m3.onnx"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "own" / name).read_bytes()
    assert not (tmp_path / "own/.surgeon/proofs").exists()


def test_what_fails_is_not_shared(tmp_path):
    """Why is a matter of the model at hand."""
    rule = tmp_path / "wrong.py"
    rule.write_text(
        "from surgeon import Graph, Tensor, rule\n"
        "def pattern(g: Graph, x: Tensor) -> Tensor:\n    return g.mul(g.relu(x), 2.0)\n"
        "@rule(patterns=[pattern])\n"
        'def wrong(g: Graph, x: Tensor) -> Tensor:\n    """What: wrong."""\n    return g.mul(g.abs(x), 2.0)\n',
        encoding="utf-8",
    )
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Mul", ["r", "two"], ["y"])]
    for name in "ab":
        zoo.save(nodes, [zoo.number("two", 2)], tmp_path / "zoo" / f"{name}.onnx")
    recipe = surgeon.Recipe([surgeon.Rules(str(rule))])
    found = surgeon.run_many(recipe, f"{tmp_path}/zoo/*.onnx", to=tmp_path / "out")
    assert [(row.outcome, row.rolled_back, row.proved_in) for row in found] == [("failed", 1, {})] * 2
    assert not (tmp_path / "out/.surgeon/proofs").exists()
