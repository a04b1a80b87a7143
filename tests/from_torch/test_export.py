"""Exports with placeholders: both exporters write the same nodes, from operators, functions and module classes."""

import subprocess
import sys
import threading
from pathlib import Path

import onnx
import pytest
import torch

import surgeon
import surgeon.torch
from tests.from_torch.operators import (
    EXPORTERS,
    Block,
    MyAdd,
    NewStyle,
    Two,
    addandround,
    attributes,
    both,
    export,
    module,
    nodes,
    noise,
    registered,
    rows,
    types,
    versions,
)

X = torch.arange(6.0).reshape(2, 3)


def sums(x, y):
    """All ways to add, the in-place ones on something that is nobody else's."""
    a = torch.add(x, y, alpha=2)
    b = x + 1
    c = b.clone()
    c += 3
    c.add_(y, alpha=4)
    d = torch.ops.aten.add.Scalar(c, 2.5)
    return a * b * d * (x.to(torch.int32) + 1)


@both
def test_every_way_to_add_arrives_at_one_placeholder(exporter):
    """`aten::add.Tensor` also takes x + 1, the Scalar overload and in-place adds; a number is a constant input."""
    name = "custom.aten::custom_aten_add"
    made = export(sums, "x y", (X, X), exporter, placeholders={"aten::add.Tensor": name}, opset=18, version=3)
    assert made.placeholders == {name: 6}
    assert not [node for node in nodes(made) if node.op_type == "Add"]
    added = nodes(made, "custom.aten")
    assert {node.op_type for node in added} == {"custom_aten_add"}
    assert [attributes(node) for node in added] == [{"alpha": number} for number in (2, 1, 1, 4, 1, 1)]
    assert all(len(node.input) == 2 and all(node.input) for node in added)
    assert versions(made) == {"": 18, "custom.aten": 3}
    assert made.opset == 18
    known = types(made)
    assert [known[node.output[0]] for node in added] == [("FLOAT", (2, 3))] * 5 + [("INT32", (2, 3))]


@both
def test_a_number_beside_a_tensor_has_the_dtype_that_torch_gives_it(exporter):
    """An integer beside a half tensor is half; torch converts no tensor for it."""
    made = export(lambda x: x + 1, "x", (X.half(),), exporter, placeholders=["aten::add"])
    (added,) = nodes(made, "aten")
    constants = {item.name: item for item in made.model.graph.initializer}
    constants |= {node.output[0]: node.attribute[0].t for node in nodes(made) if node.op_type == "Constant"}
    assert constants[added.input[1]].data_type == onnx.TensorProto.FLOAT16


@both
def test_tensors_of_two_dtypes_are_brought_to_one(exporter):
    """int32 + float32: both exporters hand floats to the placeholder."""
    made = export(lambda x, y: x + y, "x y", (X.int(), X), exporter, placeholders=["aten::add.Tensor"])
    (added,) = nodes(made, "aten")
    casts = {node.output[0]: node for node in nodes(made) if node.op_type == "Cast"}
    assert [name in casts for name in added.input] == [True, False]


@both
def test_a_condition_is_not_brought_to_the_dtype_of_what_it_chooses_from(exporter):
    """Only arguments for which a number may stand are cast."""
    made = export(lambda c, x: torch.where(c, x, 1), "c x", (X > 1, X), exporter, placeholders=["aten::where"])
    (where,) = nodes(made, "aten")
    assert list(where.input)[:2] == ["c", "x"]


@both
def test_sizes_that_are_free_keep_their_names_behind_placeholders(exporter):
    """Also for results of another rank and dtype, and in what follows from them."""

    def twice(x, mask):
        a, _ = rows(x, [2.0, 3.0], "first", mask)
        b, c = rows(a, [0.5, 1.0], "second")
        return b.relu(), c + 1

    made = export(
        twice,
        "x mask",
        (X, X),
        exporter,
        placeholders={"exports::rows": "my.rows::Rows"},
        dynamic_shapes={"x": {0: "batch"}, "mask": {0: "batch"}},
        output_names=["y", "n"],
    )
    first, second = nodes(made, "my.rows")
    assert attributes(first) == {"scales": [2.0, 3.0], "name": "first"}
    assert attributes(second) == {"scales": [0.5, 1.0], "name": "second"}
    assert list(first.input) == ["x", "mask"]
    assert len(second.input) == 1
    known = types(made)
    assert known["x"] == known["mask"] == ("FLOAT", ("batch", 3))
    assert [known[name] for name in second.output] == [("FLOAT", ("batch", 3)), ("INT64", ("batch",))]
    assert known["y"] == ("FLOAT", ("batch", 3))
    assert known["n"] == ("INT64", ("batch",))


@both
def test_an_absent_tensor_before_others_is_an_empty_input(exporter):
    """And what is left out at the end is dropped."""
    made = export(
        lambda x, w: torch.nn.functional.layer_norm(x, (3,), None, w),
        "x w",
        (X, torch.ones(3)),
        exporter,
        placeholders=["aten::layer_norm"],
    )
    (norm,) = nodes(made, "aten")
    assert list(norm.input) == ["x", "", "w"]
    assert attributes(norm) == {
        "normalized_shape": [3],
        "eps": pytest.approx(1e-5),
        "cudnn_enable": int(exporter == "torchscript"),  # as torch itself calls it
    }


@both
def test_a_dtype_is_written_as_onnx_numbers_it(exporter):
    """torch.float64 is 7 in torch and DOUBLE, 11, in ONNX; a None is left out."""
    made = export(
        lambda x: torch.softmax(x, 1, dtype=torch.float64), "x", (X,), exporter, placeholders=["aten::softmax"]
    )
    assert attributes(nodes(made, "aten")[0]) == {"dim": 1, "dtype": onnx.TensorProto.DOUBLE}
    made = export(lambda x: torch.softmax(x, 1), "x", (X,), exporter, placeholders=[torch.ops.aten.softmax.int])
    assert attributes(nodes(made, "aten")[0]) == {"dim": 1}


@both
def test_another_overload_than_the_one_that_was_named_is_left_to_the_exporter(exporter):
    """Only the sum over an axis becomes a placeholder."""
    made = export(lambda x: x.sum(1) + x.sum(), "x", (X,), exporter, placeholders=["aten::sum.dim_IntList"], opset=18)
    assert made.placeholders == {"aten::sum": 1}
    assert [node.op_type for node in nodes(made, "")].count("ReduceSum") == 1
    assert attributes(nodes(made, "aten")[0]) == {"dim": [1], "keepdim": 0}


@both
def test_a_list_of_tensors_is_that_many_inputs(exporter):
    """aten::cat takes a list."""
    made = export(lambda x, y: torch.cat([x, y, x], 1), "x y", (X, X), exporter, placeholders=[torch.ops.aten.cat])
    assert list(nodes(made, "aten")[0].input) == ["x", "y", "x"]
    assert types(made)[made.model.graph.output[0].name] == ("FLOAT", (2, 9))


@both
def test_equal_calls_that_may_differ_stay_apart(exporter):
    """A user's operator may draw numbers though no tag says so, and so does one of ATen with the tag."""
    made = export(lambda x: noise(x) - noise(x), "x", (X,), exporter, placeholders=["exports::noise"])
    assert made.placeholders == {"exports::noise": 2}
    made = export(
        lambda x: torch.rand_like(x) - torch.rand_like(x), "x", (X,), exporter, placeholders=["aten::rand_like"]
    )
    assert made.placeholders == {"aten::rand_like": 2}


@both
def test_equal_calls_of_a_pure_operator_may_be_merged(exporter):
    """Two equal calls of aten::asinh are one node, or two: never wrong."""
    made = export(lambda x: torch.asinh(x) * torch.asinh(x), "x", (X,), exporter, placeholders=["aten::asinh"])
    assert made.placeholders["aten::asinh"] in (1, 2)


@both
def test_an_alias_is_the_same_operator(exporter):
    """torch.special.i0 and torch.i0, torch.arcsinh and torch.asinh."""
    made = export(
        lambda x: torch.i0(x) + torch.special.i0(x) + torch.asinh(x) + torch.arcsinh(x),
        "x",
        (X,),
        exporter,
        placeholders=["aten::i0", "aten::asinh"],
    )
    assert made.placeholders == {"aten::i0": 2, "aten::asinh": 2}


@both
def test_an_operator_may_be_named_in_any_of_its_forms(exporter):
    """By name, as an OpOverload, as a packet, and as what torch.library.custom_op returns."""
    packet = torch.ops.exports.addandround
    for named in ("exports::addandround", packet.default, packet):
        (one,) = surgeon.torch.placeholders.placeholder.placeholders([named])
        assert (one.name, one.ops) == ("exports::addandround", (packet.default,))
    made = export(lambda x: addandround(x, x), "x", (X,), exporter, placeholders=[addandround])
    assert made.placeholders == {"exports::addandround": 1}
    assert [node.op_type for node in nodes(made)] == ["addandround"]


@both
def test_an_operator_that_torch_would_trace_through_stays_whole(exporter):
    """As `m.def(schema, fn)` of TORCH_LIBRARY makes them: composite, without a kernel for shapes of their own."""
    with torch.library._scoped_library("exports", "FRAGMENT") as library:
        library.define("doubled(Tensor a, Tensor b, float times=2.0) -> Tensor")
        library.impl("doubled", lambda a, b, times=2.0: times * a + b, "CompositeImplicitAutograd")
        made = export(
            lambda a, b: torch.ops.exports.doubled(a, b),
            "a b",
            (X, X),
            exporter,
            placeholders={"exports::doubled": "mylib::MyAdd"},
            output_names=["y"],
        )
    (node,) = nodes(made)
    assert (node.domain, node.op_type, attributes(node)) == ("mylib", "MyAdd", {"times": 2.0})
    assert types(made)["y"] == ("FLOAT", (2, 3))


@both
def test_a_function_is_one_node_with_its_numbers_as_attributes(exporter):
    """Its symbolic is not asked; int32 stays int32, and no axis is added to a tensor without axes."""
    made = export(
        lambda a, b: (MyAdd.apply(a, b, 3), MyAdd.apply(b, a)),
        "a b",
        (torch.tensor(4, dtype=torch.int32), torch.tensor(5, dtype=torch.int32)),
        exporter,
        placeholders={MyAdd: "mylib::MyAdd"},
        output_names=["y", "z"],
    )
    assert [node.op_type for node in nodes(made)] == ["MyAdd", "MyAdd"]
    assert [attributes(node) for node in nodes(made)] == [{"times": 3}, {}]
    assert types(made) == dict.fromkeys("abyz", ("INT32", ()))
    assert "apply" not in MyAdd.__dict__


@both
def test_a_function_without_a_symbolic_and_context_is_one_node(exporter):
    """By default the node is named for the class and the package that it is from."""
    made = export(lambda a, b: NewStyle.apply(a, b) + 1, "a b", (X, X), exporter, placeholders=[NewStyle])
    assert made.placeholders == {"tests::NewStyle": 1}


@both
def test_a_module_class_is_one_node_for_each_call(exporter):
    """Weights and buffers are inputs after the arguments; keywords, None, nested results and a free size work."""
    torch.manual_seed(0)
    two = Two().eval()
    before = two(X)
    made = export(
        two,
        "",
        (X,),
        exporter,
        placeholders={Block: "mylib::Block"},
        dynamic_shapes={"x": {0: "batch"}},
        output_names=["y", "t"],
    )
    first, second = nodes(made, "mylib")
    assert attributes(first) == {"scale": 2.0}
    assert attributes(second) == {}
    assert list(first.input)[:3] == ["x", "first.linear.weight", "first.linear.bias"]
    assert list(second.input)[:4] == [first.output[0], "x", "second.linear.weight", "second.linear.bias"]
    assert types(made)["y"] == ("FLOAT", ("batch", 3))
    assert types(made)["t"] == ("FLOAT", ("batch",))
    assert Block.forward.__module__ == "tests.from_torch.operators"
    torch.testing.assert_close(two(X), before)


@both
@pytest.mark.parametrize("shapes", [({0: "batch"},), [{0: "batch", 1: None}], {"input": {0: "batch", 1: 3}}], ids=str)
def test_free_sizes_as_torch_takes_them(exporter, shapes):
    """In the order of the arguments, and with numbers or None for sizes that are fixed."""
    made = export(torch.nn.ReLU(), "", (X,), exporter, dynamic_shapes=shapes, output_names=["y"])
    assert types(made)["y"] == ("FLOAT", ("batch", X.shape[1]))


@both
def test_what_is_patched_is_put_back_after_a_failure(exporter):
    """The class, torch's own pass, and what was registered with torch before."""
    merge = torch._C._jit_pass_cse
    apply = MyAdd.apply
    with pytest.raises(surgeon.SurgeonError):
        export(lambda x: torch.linalg.svdvals(MyAdd.apply(x, x, 2)), "x", (X,), exporter, placeholders=[MyAdd])
    assert torch._C._jit_pass_cse is merge
    assert MyAdd.apply == apply
    assert "apply" not in MyAdd.__dict__
    assert not hasattr(torch.ops.surgeon_scoped, "MyAdd_0")


def test_the_first_export_of_a_process_finds_torch_s_own_mappings():
    """torch reads them as late as in its first export, and an overload that is no placeholder needs one."""
    code = (
        "import torch, surgeon.torch\n"
        "from tests.from_torch.operators import module\n"
        "made = surgeon.torch.export(module(lambda x: x.sum(1) + x.sum()), torch.ones(2, 3), exporter='torchscript',"
        "    placeholders=['aten::sum.dim_IntList'])\n"
        "print([node.op_type for node in made.model.graph.node])"
    )
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['sum', 'ReduceSum', 'Add']"


@both
def test_no_mapping_of_torch_is_changed_for_good(exporter):
    """Whatever an export registers is gone after it, also where torch had nothing of the name."""
    registry = surgeon.torch.exporters.torchscript.symbolics()

    def mappings():
        return {name: dict(group._functions._merged) for name, group in registry._registry.items()}

    before = mappings()
    export(lambda x: addandround(x, x) + 1, "x", (X,), exporter, placeholders=[addandround, "aten::add"])
    assert mappings() == before


def test_what_a_user_registered_with_torch_is_there_again_afterwards():
    """A symbolic of one's own at the same opset gives way to the placeholder for the time of the export."""

    def own(g, x):
        return g.op("mine::asinh", x).setType(x.type())

    with registered("aten::asinh", own, 17):
        plain = export(torch.asinh, "x", (X,), "torchscript", opset=17)
        made = export(torch.asinh, "x", (X,), "torchscript", opset=17, placeholders=["aten::asinh"])
        after = export(torch.asinh, "x", (X,), "torchscript", opset=17)
    assert [one.model.graph.node[0].domain for one in (plain, made, after)] == ["mine", "aten", "mine"]


def test_exports_in_threads_wait_for_one_another():
    """torch's exporters fail side by side; with the lock all of them are right."""
    made = {}

    def work(place):
        exporter = EXPORTERS[place % 2]
        made[place] = export(lambda x: addandround(x, x) * 2, "x", (X,), exporter, placeholders=[addandround])

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [made[place].placeholders for place in range(4)] == [{"exports::addandround": 1}] * 4


@both
def test_the_model_is_written_and_reported_of(exporter, tmp_path):
    """A path in, a path out, and a line about it."""
    path = tmp_path / "out.onnx"
    made = export(lambda x: addandround(x, x), "x", (X,), exporter, placeholders=[addandround], opset=18)
    again = surgeon.torch.export(
        module(lambda x: addandround(x, x)), X, path, placeholders=[addandround], exporter=exporter, opset=18
    )
    assert made.path is None
    assert again.path == path
    assert onnx.load(path).graph.node[0].op_type == "addandround"
    assert repr(again) == (f"<exported {path}: opset 18 by {exporter}, placeholders: exports::addandround ×1>")


def test_where_a_node_comes_from_is_kept_at_an_opset_that_is_converted():
    """The dynamo exporter has functions from opset 18 on; a lower one is converted, also of placeholders alone."""
    made = export(torch.asinh, "x", (X,), "dynamo", placeholders=["aten::asinh"], opset=17)
    assert made.opset == versions(made)[""] == 17
    assert "pkg.torch.onnx.stack_trace" in {item.key for item in nodes(made)[0].metadata_props}


@both
def test_a_large_model_keeps_its_weights_beside_it(exporter, tmp_path, monkeypatch):
    """A protobuf ends at 2 GiB; above a limit below that the weights go to a file of their own."""
    monkeypatch.setattr(surgeon.torch.exporters.module_export, "LARGE", 100)
    path = tmp_path / "out.onnx"
    layer = torch.nn.Linear(64, 64)
    made = surgeon.torch.export(layer, torch.ones(2, 64), path, exporter=exporter)
    assert (tmp_path / "out.onnx.data").stat().st_size >= 64 * 64 * 4
    (weight,) = (item for item in onnx.load(path).graph.initializer if list(item.dims) == [64, 64])
    assert onnx.numpy_helper.to_array(weight).tolist() == layer.weight.tolist()
    assert onnx.numpy_helper.to_array(
        next(item for item in made.model.graph.initializer if item.name == weight.name)
    ).any()


@both
def test_a_function_takes_lists_strings_and_nothing(exporter):
    """Each by the name that forward gives it; tensors in a list are inputs, a None is left out."""

    class Mix(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensors, mode, weights=(1.0, 2.0), bias=None, exact=True):
            assert isinstance(weights, tuple)
            mixed = tensors[0] * weights[0] + tensors[1] * weights[1]
            return mixed if bias is None else mixed + bias, mixed.sum()

    made = export(
        lambda x, y: Mix.apply([x, y], "up", (3.0, 4.0), None, False)[0], "x y", (X, X), exporter, placeholders=[Mix]
    )
    (node,) = nodes(made, "tests")
    assert list(node.input) == ["x", "y"]
    assert attributes(node) == {"mode": "up", "weights": [3.0, 4.0], "exact": 0}


@both
def test_keywords_and_lists_of_tensors_are_inputs_by_name(exporter):
    """As `forward` calls them, with a number where one holds several."""

    class Mixed(torch.nn.Module):
        def forward(self, x, many, *, scale, bias=None):
            return addandround(x, many[0]) * scale + many[1] - bias

    made = surgeon.torch.export(
        Mixed(),
        (X, [X, X]),
        kwargs={"bias": X, "scale": X},
        exporter=exporter,
        placeholders=[addandround],
        dynamic_shapes={"x": {0: "n"}, "many": [{0: "n"}, {0: "n"}], "scale": {0: "n"}, "bias": {0: "n"}},
    )
    known = types(made)
    assert [info.name for info in made.model.graph.input] == ["x", "many_0", "many_1", "scale", "bias"]
    assert all(known[info.name] == ("FLOAT", ("n", 3)) for info in made.model.graph.input)
