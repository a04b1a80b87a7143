"""A model of onnx_ir goes in and comes out: by reference, with everything that no rewrite touched."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.errors import UsageError
from surgeon.file.external_data.held_tensors import LOCATION, HeldTensors
from surgeon.file.model import Model
from surgeon.file.model_like import resolve_model

ir = pytest.importorskip("onnx_ir", reason="onnx_ir is not installed")

from onnx_ir.passes.common import RemoveUnusedNodesPass  # noqa: E402

from surgeon.integrations.onnx_ir import RewritePass  # noqa: E402 - it imports onnx_ir
from tests.integrations.samples_of_ir import WIDTH, chain, ops, tensors, weight  # noqa: E402

TINY = "notebooks/models/tiny_distilbert.onnx"


def plain(count=2):
    return chain(*(ir.tensor(weight(seed), name=f"w{seed}") for seed in range(count)))


def bytes_of(model):
    return ir.to_proto(model).SerializeToString(deterministic=True)


def rebuilt(model, *arguments, **options):
    """What the same rewrite makes of the serialised model."""
    made, report = surgeon.rewrite(ir.to_proto(model), *arguments, **options)
    return bytes_of(ir.from_proto(made)), report


@pytest.fixture
def stored(tmp_path):
    """A model whose tensors of all sizes are in a data file."""
    ir.save(plain(), tmp_path / "a.onnx", external_data="a.data", size_threshold_bytes=0)
    return ir.load(tmp_path / "a.onnx")


# The obstacles that were met when this was first tried.


def test_external_tensors_below_the_size_limit(stored):
    """1: each becomes a reference, however small it is."""
    assert all(isinstance(tensor, ir.ExternalTensor) for tensor in tensors(stored).values())
    scalar = {"shape": ir.Shape([]), "name": "c", "base_dir": tensors(stored)["w0"].base_dir}
    small = ir.Value(name="c", const_value=ir.ExternalTensor("a.data", 0, 4, ir.DataType.FLOAT, **scalar))
    stored.graph.register_initializer(small)
    made, report = surgeon.rewrite(stored, "gelu", check="both")
    assert (report.count("gelu"), report.outcome) == (2, "proved")
    assert tensors(made)["w0"] is tensors(stored)["w0"]


def test_the_next_save_of_the_user(stored, tmp_path):
    """2: `ExternalTensor.release()` closes its map, so nothing of surgeon may look into it."""
    held = [surgeon.rewrite(stored, "gelu", check="both"), surgeon.inspect(stored), surgeon.check(stored)]
    made = held[0][0]
    next(iter(tensors(made).values())).numpy()
    ir.save(made, tmp_path / "a.onnx", external_data="a.data", size_threshold_bytes=0)
    for tensor in tensors(made).values():
        tensor.release()
    assert surgeon.compare(tmp_path / "a.onnx", plain()).outcome.value == "proved"


def test_a_lazy_tensor_is_evaluated_once():
    """3: onnx_ir evaluates it at each access."""
    counts = [0, 0]

    def evaluate(place):
        counts[place] += 1
        return ir.tensor(weight(place))

    lazy = [ir.LazyTensor(lambda place=place: evaluate(place), dtype=ir.DataType.FLOAT, shape=ir.Shape([WIDTH, WIDTH]))
            for place in (0, 1)]
    made, report = surgeon.rewrite(chain(*lazy), "ort", check="both")
    assert report.proved
    assert max(counts) == 1
    assert list(tensors(made).values()) == lazy


def test_a_large_attribute_is_not_copied():
    """4: the tensor of a Constant stays the same object, in a node that stays and in one that is written anew."""
    large = ir.tensor(weight(3))
    model = plain()
    constant = ir.node("Constant", [], {"value": large}, name="large")
    constant.outputs[0].name = "large_out"
    model.graph.insert_before(model.graph[0], constant)
    model.graph[1].replace_input_with(1, constant.outputs[0])
    held = resolve_model(model)
    assert held.proto.ByteSize() < 4096
    assert constant.attributes["value"].as_tensor() is large
    made, _ = surgeon.rewrite(model, "gelu")
    assert [node for node in made.graph if node.name == "large"] == [constant]
    renamed, _ = surgeon.edit(made, surgeon.edits.Rename("large_out", "wide"))
    (node,) = (node for node in renamed.graph if node.outputs[0].name == "wide")
    assert node.attributes["value"].as_tensor() is large


class Written:
    """The data files that were written, and whether a runtime read them."""

    def __init__(self, monkeypatch):
        self.count = 0
        real = HeldTensors._write

        def write(held, path):
            before = held._written.get(path, 0)
            real(held, path)
            self.count += held._written.get(path, 0) > before

        monkeypatch.setattr(HeldTensors, "_write", write)


@pytest.fixture
def written(monkeypatch):
    return Written(monkeypatch)


def test_whole_models_run_from_a_file_that_is_written_once(written, tmp_path):
    """5: the load check, the comparison, the target check, conversion and benchmark all get the weights."""
    model = plain()
    surgeon.rewrite(model, "gelu", dry_run=True)
    assert surgeon.inspect(model).nodes
    assert list(surgeon.find(model, "gelu"))
    assert written.count == 0
    made, report = surgeon.rewrite(model, "gelu")
    assert (report.outcome, report.refused, written.count) == ("proved", "", 1)
    made, report = surgeon.rewrite(model, "gelu", check="model", require_proof=True)
    assert (report.outcome, report.check.runs > 0, written.count) == ("proved", True, 2)
    assert surgeon.compare(model, made).outcome.value == "proved"
    assert written.count == 4
    assert not surgeon.check(made, "ort")
    half, report = surgeon.convert(model)
    assert report.outcome == "proved"
    assert report.converted
    assert {tensor.dtype for tensor in tensors(half).values()} == {ir.DataType.FLOAT16}
    np.testing.assert_array_equal(tensors(half)["w0"].numpy(), weight(0).astype(np.float16))
    assert surgeon.bench(model, made, dims={"n": 2}, rounds=1, loads=1, seconds=0).samples
    path, report = surgeon.rewrite(model, "gelu", output=tmp_path / "out.onnx")
    assert report.outcome == "proved"
    assert report.written
    assert [file.name for file in tmp_path.iterdir()] == ["out.onnx"]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[1]), weight(1))


def test_weights_in_one_folder_are_not_copied_to_be_loaded(written, stored):
    """The load check refers to their file."""
    made, report = surgeon.rewrite(stored, "gelu")
    assert (report.outcome, report.refused, written.count) == ("proved", "", 0)
    tensors(stored)["w0"].base_dir = "/nowhere"
    _, report = surgeon.rewrite(stored, "quick_gelu")
    assert report.outcome == "unchanged"
    with pytest.raises(surgeon.ModelFileError, match=r"^/nowhere.a.data with the data of tensor 'w0' does not exist"):
        surgeon.rewrite(stored, "gelu")


def test_forms_are_chosen_by_measurement(monkeypatch):
    from tests.test_measure import FREE, SLOW, FakeMachine

    FakeMachine(monkeypatch, {"Gelu": FREE, "FastGelu": SLOW})
    made, report = surgeon.rewrite(plain(), "gelu", measure=True, at=[{"n": 4}], threads=1)
    assert ops(made) == ["MatMul", "Gelu"] * 2
    assert report.measurement.outcome == "not slower"


def test_nothing_passes_on_references(monkeypatch):
    """5: a runtime that cannot read the weights has proved nothing."""
    monkeypatch.setattr(HeldTensors, "_write", lambda held, path: path.write_bytes(b""))
    _, report = surgeon.rewrite(plain(), "gelu")
    assert "neither the original nor the result" in report.refused
    assert surgeon.compare(plain(), plain()).outcome.value != "proved"


def test_the_same_object_if_nothing_changed(stored):
    """6: a copy would lose `meta["path"]`; a changed model has to lose it, for it is not in that file."""
    stored.meta["path"] = "a.onnx"
    made, report = surgeon.rewrite(stored, "quick_gelu")
    assert made is stored
    assert report.outcome == "unchanged"
    assert stored.meta["path"] == "a.onnx"
    assert surgeon.rewrite(stored, "gelu", dry_run=True)[0] is stored
    made, _ = surgeon.rewrite(stored, "gelu")
    assert made is not stored
    assert "path" not in made.meta
    assert stored.meta["path"] == "a.onnx"


def test_what_no_rewrite_touched_is_the_same_object():
    """7: nodes with their `meta`, values, tensors, and the model's `meta`."""
    model = plain(3)
    before = {node.name: node for node in model.graph}
    meta, weights, first = model.meta["note"], tensors(model), bytes_of(model)
    values = {node.name: node.outputs[0] for node in model.graph}
    made, report = surgeon.rewrite(model, "gelu")
    kept = [node for node in made.graph if node.name in before]
    assert [node.op_type for node in made.graph] == ["MatMul", "Gelu"] * 3
    assert [before[node.name] for node in kept] == kept
    assert [node.op_type for node in kept] == ["MatMul"] * 3
    assert all(node.meta["origin"] == node.name and node.outputs[0] is values[node.name] for node in kept)
    assert made.meta["note"] is meta
    assert made.producer_name == "a test"
    assert all(made_tensor is weights[name] for name, made_tensor in tensors(made).items())
    assert bytes_of(model) == first  # the given model computes what it did, with copies of its nodes
    assert len(model.graph) == 27
    assert not set(model.graph) & set(made.graph)


def test_onnx_ir_drops_sparse_initializers_on_reading():
    """8: as the page says; when this fails, onnx_ir keeps them, and the page can lose its sentence."""
    model = onnx.load(TINY)
    model.graph.sparse_initializer.add()
    model.training_info.add()
    back = ir.to_proto(ir.from_proto(model))
    assert not back.graph.sparse_initializer
    assert not back.training_info


def test_a_pass_in_place_and_one_that_is_not():
    """9: onnx_ir demands the same model of the one, and another of the other."""
    model = plain()
    result = RewritePass("gelu", in_place=True)(model)
    assert result.model is model
    assert result.modified
    assert ops(model) == ["MatMul", "Gelu"] * 2
    again = RewritePass("gelu", in_place=True)(result)
    assert again.model is model
    assert not again.modified
    other = RewritePass("gelu")(plain())
    assert other.modified
    assert ops(other.model) == ["MatMul", "Gelu"] * 2
    unchanged = RewritePass("gelu")(model)
    assert unchanged.model is not model
    assert not unchanged.modified
    model = plain()
    step = RewritePass("gelu")
    done = ir.passes.Sequential(RemoveUnusedNodesPass(), step)(model)
    assert done.model is not model
    assert step.report.count("gelu") == 2
    manager = ir.passes.PassManager([RewritePass("ort", in_place=True)], steps=3)
    assert manager(plain()).modified
    with pytest.raises(ir.passes.PassError) as raised:
        ir.passes.Sequential(RewritePass("no_such_rule"))(model)
    assert isinstance(raised.value.__cause__, surgeon.SurgeonError)


# Other kinds of models and tensors.


def wrong():
    """A rule that is wrong: a Gelu by tanh instead of an exact one."""

    def exact(g, x):
        return g.mul(g.mul(x, g.add(g.erf(g.div(x, 2**0.5)), 1.0)), 0.5)

    @surgeon.rule(patterns=[exact], target="any")
    def wrong_gelu(g, x):
        """Write a wrong op."""
        return g.op("Elu", x)

    return wrong_gelu


def test_a_pass_goes_on_after_a_rollback():
    model, step = plain(), RewritePass([wrong()], in_place=True)
    result = step(model)
    assert result.model is model
    assert not result.modified
    assert len(step.report.rolled_back) == 2
    chain = ir.passes.Sequential(RewritePass([wrong()], in_place=True), RewritePass("gelu", in_place=True))
    assert ops(chain(model).model) == ["MatMul", "Gelu"] * 2
    with pytest.raises(surgeon.CheckFailed) as raised:
        surgeon.rewrite(plain(), [wrong()])
    assert isinstance(raised.value.result, ir.Model)


def test_the_result_equals_that_of_the_serialised_model():
    model = ir.load(TINY)
    for rules in ("gelu", "ort", "transformers"):
        wanted, expected = rebuilt(model, rules, check="none")
        made, report = surgeon.rewrite(model, rules, check="none")
        assert bytes_of(made) == wanted
        assert report.counts == expected.counts


BRANCHES = """<ir_version: 10, opset_import: ["": 20, "local": 1]>
g (bool c, float[n, 4] x) => (float[n, 4] y, float[n, 4] z) <float[4, 4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}> {
  h = MatMul(x, w)
  y = If (c) <
    then_branch = t () => (float[n, 4] a) {
      root = Constant<value = float {1.4142135}>() one = Constant<value = float {1.0}>()
      half = Constant<value = float {0.5}>()
      d = Div(h, root) e = Erf(d) f = Add(e, one) m = Mul(h, f) a0 = Mul(m, half) a = Neg(a0) },
    else_branch = u () => (float[n, 4] b) { b = Neg(h) }>
  z = local.twice(h)
}
<domain: "local", opset_import: ["": 20]> twice (v) => (r) { k = Relu(v) r = Add(k, k) }
"""


def test_a_changed_body_and_a_function():
    model = ir.from_onnx_text(BRANCHES)
    branch = next(node for node in model.graph if node.op_type == "If")
    bodies = {name: list(branch.attributes[name].as_graph()) for name in ("then_branch", "else_branch")}
    function = next(iter(model.functions.values()))
    wanted, _ = rebuilt(model, "gelu")
    made, report = surgeon.rewrite(model, "gelu")
    assert report.outcome == "proved"
    assert bytes_of(made) == wanted
    assert branch in list(made.graph)
    assert next(iter(made.functions.values())) is function
    assert list(branch.attributes["else_branch"].as_graph()) == bodies["else_branch"]
    assert [node.op_type for node in branch.attributes["then_branch"].as_graph()] == ["Gelu", "Neg"]
    assert branch.attributes["then_branch"].as_graph()[1] is bodies["then_branch"][-1]
    assert all(use.node.graph is not None for value in made.graph[0].outputs for use in value.uses())
    inlined, _ = surgeon.rewrite(made, [], inline="all")
    assert not inlined.functions
    assert ops(inlined)[-2:] == ["Relu", "Add"]


def test_nodes_in_any_order():
    """onnx_ir clones no such graph."""
    model, sorted_one = plain(), plain()
    nodes = list(model.graph)
    model.graph.remove(nodes)
    model.graph.extend(reversed(nodes))
    with pytest.raises(RuntimeError):
        model.clone()
    first = bytes_of(model)
    made, report = surgeon.rewrite(model, "gelu")
    assert report.outcome == "proved"
    assert sorted(ops(made)) == ["Gelu", "Gelu", "MatMul", "MatMul"]
    assert set(made.graph) & set(nodes)
    assert all(tensors(made)[name] is tensor for name, tensor in tensors(model).items())
    assert bytes_of(model) == first
    assert all(node.meta["origin"] == node.name for node in model.graph)
    assert surgeon.compare(model, sorted_one).outcome.value == "proved"


EDITS = [
    [surgeon.edits.Rename("x", "tokens")],
    [surgeon.edits.Rename("c", "which"), surgeon.edits.Rename("z", "twice")],
    [surgeon.edits.Rename("h", "inner"), surgeon.edits.RenameDim("n", "batch")],
    [surgeon.edits.AddOutput("h"), surgeon.edits.DropOutput("z")],
    [surgeon.edits.OrderOutputs(["z", "y"])],
    [surgeon.edits.RaiseOpset(21), surgeon.edits.AppendSoftmax("y")],
]


@pytest.mark.parametrize("edits", EDITS, ids=str)
def test_edits_equal_those_of_the_serialised_model(edits):
    model = ir.from_onnx_text(BRANCHES)
    wanted, _ = surgeon.edit(ir.to_proto(model), edits)
    made, report = surgeon.edit(model, edits)
    assert bytes_of(made) == bytes_of(ir.from_proto(wanted))
    assert report.outcome == "proved"


def test_upgrade_extract_merge_split_and_run(tmp_path):
    model = plain()
    raised, _ = surgeon.rewrite(model, "gelu", upgrade=21)
    assert raised.graph.opset_imports[""] == 21
    assert tensors(raised)["w0"] is tensors(model)["w0"]
    assert surgeon.upgrade(model, 21, tmp_path / "raised.onnx").opset == (20, 21)
    assert surgeon.compare(tmp_path / "raised.onnx", model).outcome.value == "proved"
    parts, report = surgeon.split(model, at=[model.graph[7].outputs[0].name])
    assert report.outcome == "proved"
    assert [type(part) for part in parts] == [ir.Model, ir.Model]
    whole, report = surgeon.merge(*parts)
    assert report.outcome == "proved"
    assert isinstance(whole, ir.Model)
    assert {id(tensor) for tensor in tensors(whole).values()} == {id(tensor) for tensor in tensors(model).values()}
    assert surgeon.compare(whole, model).outcome.value == "proved"
    onnx.save(ir.to_proto(parts[0]), tmp_path / "first.onnx")
    path, report = surgeon.merge(tmp_path / "first.onnx", parts[1], output=tmp_path / "whole.onnx")
    assert report.outcome == "proved"
    cut, _ = surgeon.extract(model, ["x"], [model.graph[0].outputs[0].name])
    assert ops(cut) == ["MatMul"]
    assert list(tensors(cut)) == ["w0"]
    recipe = surgeon.Recipe([surgeon.edits.Rename("x", "tokens"), surgeon.Rules("gelu")])
    done, report = surgeon.run(recipe, model)
    assert done.graph.inputs[0].name == "tokens"
    assert report.outcome == "proved"


def test_functions_that_only_read():
    model = plain()
    first = bytes_of(model)
    assert surgeon.inspect(model).nodes == len(model.graph)
    assert len(list(surgeon.find(model, "gelu"))) == 2
    assert surgeon.explain(model, "quick_gelu")
    assert not surgeon.diff(model, ir.to_proto(model)).changes
    assert surgeon.try_rule("quick_gelu", model).report.outcome == "unchanged"
    assert surgeon.capture(model, ["x"], [model.graph[0].outputs[0].name]).text
    assert surgeon.draw(model) is not None
    assert bytes_of(model) == first


@pytest.mark.parametrize("dtype", ["INT4", "BFLOAT16", "FLOAT8E4M3FN"])
def test_dtypes_that_numpy_lacks(dtype):
    kind = ir.DataType[dtype]
    array = (np.arange(4096).reshape(64, 64) % 7).astype(kind.numpy())
    tensor = ir.Tensor(array, dtype=kind, name="w")
    proto = onnx.TensorProto(data_type=kind.value, dims=array.shape, name="w")
    held = HeldTensors()
    held.refer(proto, tensor, tensor.numpy)
    np.testing.assert_array_equal(held.value(proto, 0), array)
    assert held.read(0, 0, tensor.nbytes) == tensor.tobytes()
    assert held.read(0, 5, 7) == tensor.tobytes()[5:12]


def test_a_model_that_onnx_ir_cannot_serialise():
    model = plain()
    model.graph[0].outputs[0].name = None
    with pytest.raises(UsageError, match="onnx_ir cannot serialise this model"):
        surgeon.inspect(model)


def test_data_files_are_not_trusted(stored, tmp_path):
    """A location of a model that leaves its folder, and a hard link, are refused as those of a file are."""
    (tmp_path / "inside").mkdir()
    secret = tensors(stored)["w0"]
    secret.base_dir = tmp_path / "inside"
    with pytest.raises(surgeon.ModelFileError, match="cannot be opened|does not exist"):
        surgeon.rewrite(stored, "gelu")
    (tmp_path / "inside" / "a.data").symlink_to(tmp_path / "a.data")
    with pytest.raises(surgeon.ModelFileError, match="is a link out of the model's folder"):
        surgeon.inspect(stored)
    (tmp_path / "inside" / "a.data").unlink()
    (tmp_path / "inside" / "a.data").hardlink_to(tmp_path / "a.data")
    with pytest.raises(surgeon.ModelFileError, match="has 2 hard links"):
        surgeon.inspect(stored)
    outside = ir.ExternalTensor("../a.data", 0, secret.length, secret.dtype, shape=secret.shape, name="w0",
                                base_dir=tmp_path / "inside")
    stored.graph.initializers["w0"].const_value = outside
    with pytest.raises(surgeon.ModelFileError, match="is outside the model's folder"):
        surgeon.inspect(stored)


def test_data_that_cannot_be_read():
    """As those of a program that was exported with fake tensors."""

    def fail():
        raise TypeError("no values")

    lazy = ir.LazyTensor(fail, dtype=ir.DataType.FLOAT, shape=ir.Shape([WIDTH, WIDTH]), name="w0")
    with pytest.raises(surgeon.ModelFileError, match=r"The data of tensor 'w0' cannot be read \(no values\)"):
        surgeon.rewrite(chain(lazy), "gelu")
    assert surgeon.inspect(chain(lazy)).nodes


def test_a_data_file_that_is_gone(stored, tmp_path):
    (tmp_path / "a.data").unlink()
    with pytest.raises(surgeon.ModelFileError, match="a.data with the data of tensor 'w0' does not exist"):
        surgeon.compare(stored, stored)


def test_an_unknown_type_lists_the_kinds():
    with pytest.raises(UsageError, match=r"Give a path, a ModelProto, a gs.Graph, an onnx_ir.Model, .* or a"):
        surgeon.inspect(3)


def test_a_location_of_the_users_file_is_only_a_location(tmp_path):
    """The references of one model mean nothing in another."""
    model = onnx.load(TINY)
    onnx.save(model, tmp_path / "a.onnx", save_as_external_data=True, location=LOCATION)
    assert surgeon.compare(tmp_path / "a.onnx", TINY).outcome.value == "proved"
    proto = resolve_model(plain()).proto
    with pytest.raises(surgeon.ModelFileError, match="came from memory"), Model.open(proto) as opened:
        opened.value(opened.skeleton.graph.initializer[0])


def test_a_package_that_is_not_imported_costs_nothing(tmp_path):
    code = f"""if True:
        import sys, surgeon
        surgeon.rewrite({TINY!r}, "gelu", output=sys.argv[1], check="none")
        try:
            surgeon.inspect(3)
        except surgeon.UsageError:
            pass
        print(sorted({{"onnx_ir", "torch", "transformers"}} & set(sys.modules)))
    """
    ran = subprocess.run([sys.executable, "-c", code, tmp_path / "a.onnx"], capture_output=True, text=True)
    assert ran.stdout.strip() == "[]", ran.stderr


def test_memory_is_released():
    """Nothing keeps the arrays of a model after the run."""
    model = plain()
    arrays = [weakref.ref(tensor.raw) for tensor in tensors(model).values()]
    made, report = surgeon.rewrite(model, "ort", check="both")
    del model, made, report
    gc.collect()
    assert not [one for one in arrays if one() is not None]


SIZE, COUNT = 4096, 48  # 48 weights of 64 MiB: 3 GiB, of which only the touched pages are in memory


@pytest.mark.parametrize("check", ["none", "sites"])
def test_three_gibibytes_of_weights(check):
    """By reference: in a fresh process, the rewrite with its proofs and its load check takes little memory."""
    code = f"""if True:
        import resource, sys
        import numpy as np, onnx_ir as ir, surgeon
        from tests.integrations.samples_of_ir import chain, tensors
        weights = [np.zeros(({SIZE}, {SIZE}), np.float32) for _ in range({COUNT})]
        for number, array in enumerate(weights):
            array[0, 0] = number + 1
        model = chain(*(ir.tensor(array) for array in weights), gelus=2, width={SIZE})
        small = chain(*(ir.tensor(array[:32, :32].copy()) for array in weights), gelus=2)
        surgeon.rewrite(small, "gelu", check={check!r})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        made, report = surgeon.rewrite(model, "gelu", check={check!r})
        assert report.count("gelu") == 2 and report.outcome in ("proved", "unchecked"), report
        assert not report.refused, report.refused
        assert all(tensors(made)[name] is tensor for name, tensor in tensors(model).items())
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    size = SIZE * SIZE * 4 * COUNT
    assert int(ran.stdout) * 1024 < size / 25
