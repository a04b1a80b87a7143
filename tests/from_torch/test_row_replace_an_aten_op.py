"""`aten::add.Tensor` written one's own way at every export, in all the ways in which torch adds and at every dtype."""

import pytest
import torch

import surgeon
import surgeon.torch
from surgeon import Graph, Tensor, rule
from tests.from_torch.operators import both, module
from tests.models import ops

ADD = "custom.aten::custom_aten_add"
pytestmark = pytest.mark.usefixtures("forget_implementations")


@surgeon.function(ADD)
def aten_add(g: Graph, x: Tensor, y: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x + alpha · y, y in the dtype of x."""
    return g.add(x, g.mul(g.cast_like(y, x), alpha))


@rule(patterns=[aten_add])
def add(g: Graph, x: Tensor, y: Tensor, alpha: float) -> Tensor:
    """Write custom_aten_add with ONNX's own operators."""
    return g.add(x, y) if alpha == 1 else aten_add.inline(g, x, y, alpha=alpha)


def sums(x, y):
    """With alpha, with a number, by the Scalar overload, in place."""
    x = torch.add(x, y, alpha=3)
    x = torch.ops.aten.add.Scalar(x + 1, 2)
    x += y
    return x.add_(y, alpha=2)


def inputs(dtype):
    """Two tensors of small numbers, of which sums are exact."""
    return torch.arange(6).reshape(2, 3).to(dtype), torch.tensor([[1, -2, 4]]).to(dtype)


@pytest.fixture
def registered():
    """Every export of this process writes additions as the function says."""

    def my_add(g, self, other, alpha):
        return aten_add(g, self, other, alpha=alpha)

    surgeon.torch.register("aten::add.Tensor", my_add)
    yield
    surgeon.torch.unregister("aten::add.Tensor")


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int64])
def test_kept_and_written_out_at_every_dtype(exporter, dtype):
    surgeon.torch.implement("aten::add.Tensor", ADD)
    made, args = module(sums, "x y"), inputs(dtype)
    held = surgeon.torch.export(made, args, placeholders={"aten::add.Tensor": ADD}, exporter=exporter, opset=18)
    assert held.placeholders == {ADD: 5}
    kept, _ = surgeon.rewrite(held.model, aten_add, require_proof=True)
    written, _ = surgeon.rewrite(held.model, add, require_proof=True)
    assert ops(kept.graph).count("custom_aten_add") == 5
    assert (ops(written.graph).count("Add"), ops(written.graph).count("Mul")) == (5, 2)
    for model in (kept, written):
        result = surgeon.torch.compare(made, model, args)
        assert result.engine == "ONNX Runtime"
        assert result.outputs[0].max_abs == 0


@both
def test_at_once_by_registering_the_function(exporter, registered):
    """As `register_op` did: no name of a placeholder at the export, and none in the model."""
    made, args = module(sums, "x y"), inputs(torch.float32)
    exported = surgeon.torch.export(made, args, exporter=exporter, opset=18)
    assert exported.placeholders == {}
    assert ops(exported.model.graph).count("custom_aten_add") == 5
    assert [function.name for function in exported.model.functions] == ["custom_aten_add"]
    assert surgeon.torch.compare(made, exported, args).outputs[0].max_abs == 0


@both
def test_taken_back_it_is_as_before(exporter):
    made, args = module(sums, "x y"), inputs(torch.float32)
    surgeon.torch.register("aten::add.Tensor", lambda g, self, other, alpha: aten_add(g, self, other, alpha=alpha))
    surgeon.torch.unregister("aten::add.Tensor")
    exported = surgeon.torch.export(made, args, exporter=exporter, opset=18)
    assert "custom_aten_add" not in ops(exported.model.graph)
    assert not exported.model.functions
