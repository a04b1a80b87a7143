"""2 · a + b as an autograd.Function and in C++: one node by either exporter, and back, at every dtype and rank."""

import pytest
import torch

import surgeon
import surgeon.torch
from surgeon import CheckFailed, Graph, Tensor, UsageError, rule
from surgeon.errors import ExportError
from tests import sampling
from tests.from_torch.beside_notebooks import load
from tests.from_torch.operators import both, module
from tests.models import ops

NODE = "mylib::MyAdd"
BUILD = "torch_ops/build"
A, B = torch.arange(6.0).reshape(2, 3), torch.tensor([[1.0, -2.0, 0.5]])
pytestmark = pytest.mark.usefixtures("forget_implementations")


class MyAdd(torch.autograd.Function):
    """With the symbolic of the tutorials."""

    @staticmethod
    def forward(ctx, a, b):
        return 2 * a + b

    @staticmethod
    def symbolic(g, a, b):
        two = g.op("Constant", value_t=torch.tensor([2]))
        return g.op("Add", g.op("Mul", a, two), b)


def written_out(g: Graph, a: Tensor, b: Tensor) -> Tensor:
    """2 · a + b."""
    return g.add(g.mul(a, 2), b)


@rule(patterns=[written_out])
def my_add(g: Graph, a: Tensor, b: Tensor) -> Tensor:
    """Write 2 · a + b as one MyAdd node."""
    return g.op(NODE, a, b)


MODULE = module(lambda a, b: MyAdd.apply(a, b), "a b")
ARGUMENTS = {
    "float32": (A, B),
    "float16": (A.half(), B.half()),
    "int32": (A.int(), B.int()),
    "int64": (A.long(), B.long()),
    "no axis": (torch.tensor(3.0), torch.tensor(4.0)),
    "int32 without an axis": (torch.tensor(3, dtype=torch.int32), torch.tensor(4, dtype=torch.int32)),
}


@pytest.fixture(scope="module")
def cpp():
    """The module and the operator in C++, built once."""
    return load(BUILD).load()


def by_torch(made, args, dynamo, path):
    """Export by torch alone."""
    torch.onnx.export(
        made.eval(), args, path, dynamo=dynamo, opset_version=18, input_names=["a", "b"], output_names=["y"]
    )
    return path


@both
@pytest.mark.parametrize("kind", ARGUMENTS)
def test_one_node_and_back(kind, exporter):
    """Neither a dtype nor a rank is changed on the way, in which torch's TorchScript exporter fails."""
    surgeon.torch.implement(MyAdd, NODE)
    args = ARGUMENTS[kind]
    exported = surgeon.torch.export(MODULE, args, placeholders={MyAdd: NODE}, exporter=exporter, opset=18)
    assert ops(exported.model.graph) == ["MyAdd"]
    assert surgeon.torch.compare(MODULE, exported, args).engine == f"Python implementation of {NODE}"
    back, report = surgeon.rewrite(exported.model, my_add, target="decomposed", require_proof=True)
    assert all(proof.independent for proof in report.proofs)
    assert ops(back.graph) == ["Mul", "Add"]
    result = surgeon.torch.compare(MODULE, back, args)
    assert (result.engine, result.outputs[0].max_abs) == ("ONNX Runtime", 0)
    again, _ = surgeon.rewrite(back, my_add, require_proof=True)
    assert ops(again.graph) == ["MyAdd"]


@both
def test_what_was_exported_without_a_placeholder_becomes_the_node(exporter, tmp_path):
    surgeon.torch.implement(MyAdd, NODE)
    path = by_torch(MODULE, (A, B), exporter == "dynamo", tmp_path / "a.onnx")
    after, _ = surgeon.rewrite(path, my_add, output=tmp_path / "b.onnx", require_proof=True)
    assert surgeon.torch.compare(MODULE, after, (A, B)).engine == f"Python implementation of {NODE}"


@pytest.mark.parametrize(
    ("kind", "words"), [("int32", "is int64, but int32 in torch"), ("no axis", r"has shape \[1\], but")]
)
def test_compare_names_the_trap_of_the_symbolic(kind, words, tmp_path):
    """An int64 constant of one axis: right for floats that have an axis, and for nothing else."""
    path = by_torch(MODULE, ARGUMENTS[kind], False, tmp_path / "a.onnx")
    with pytest.raises(CheckFailed, match=words):
        surgeon.torch.compare(MODULE, path, ARGUMENTS[kind])


in_cpp = pytest.mark.skipif(not sampling.is_whole(), reason="compiles against torch: pytest --whole")


@in_cpp
@both
def test_an_operator_in_cpp_is_the_same_node(cpp, exporter):
    """TORCH_LIBRARY: composite, so that one exporter would take it apart, and the other does not know it."""
    surgeon.torch.implement("mylib::my_add", NODE)
    made = module(lambda a, b: torch.ops.mylib.my_add(a, b), "a b")
    exported = surgeon.torch.export(made, (A, B), placeholders={"mylib::my_add": NODE}, exporter=exporter, opset=18)
    assert ops(exported.model.graph) == ["MyAdd"]
    back, _ = surgeon.rewrite(exported.model, my_add, target="decomposed", require_proof=True)
    assert surgeon.torch.compare(made, back, (A, B)).outputs[0].max_abs == 0


@in_cpp
@both
def test_a_python_module_in_cpp_is_the_same_node_within_a_function(cpp, exporter):
    """pybind11: no operator; what it calls is all that an exporter sees."""

    class Bound(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return cpp.my_add(a, b)

    bare = module(lambda a, b: cpp.my_add(a, b), "a b")
    with pytest.raises(ExportError, match="does not call mylib::my_add.* it calls aten::add"):
        surgeon.torch.export(bare, (A, B), placeholders=["mylib::my_add"], exporter=exporter)
    made = module(lambda a, b: Bound.apply(a, b), "a b")
    surgeon.torch.implement(Bound, NODE)
    exported = surgeon.torch.export(made, (A, B), placeholders={Bound: NODE}, exporter=exporter, opset=18)
    assert ops(exported.model.graph) == ["MyAdd"]
    back, _ = surgeon.rewrite(exported.model, my_add, target="decomposed", require_proof=True)
    assert surgeon.torch.compare(made, back, (A, B)).outputs[0].max_abs == 0


def test_the_build_says_why_it_fails(tmp_path, monkeypatch):
    build = load(BUILD)
    source = tmp_path / "bad.cc"
    source.write_text("int main( {\n")
    with pytest.raises(UsageError, match=r"The compiler refuses bad\.cc \(.*error"):
        build.build(tmp_path, source)
    assert not list(tmp_path.rglob("*.so"))
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    with pytest.raises(UsageError, match=r"No C\+\+ compiler was found"):
        build.build(tmp_path, source)
