"""A program of torch.onnx.export goes in and comes out, or is changed in place."""

import numpy as np
import pytest

import surgeon

torch = pytest.importorskip("torch", "2.9", reason="torch 2.9 or newer is not installed")
ir = pytest.importorskip("onnx_ir", reason="onnx_ir is not installed")

from surgeon.integrations.torch import rewrite_  # noqa: E402 - it imports torch


class Network(torch.nn.Module):
    """Three layers; every second one has a Gelu of its parts behind it."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(48, 48) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return Network().eval()


INPUT = torch.linspace(-2, 2, 4 * 48).reshape(4, 48)


@pytest.fixture
def program(network):
    return torch.onnx.export(network, (INPUT,), dynamo=True, verbose=False, opset_version=18)


def ops(program):
    return [node.op_type for node in program.model.graph]


def test_a_program_goes_in_and_comes_out(program, network, tmp_path):
    before, stored = list(program.model.graph), dict(program.model.graph.initializers)
    weights = {name: value.const_value for name, value in stored.items()}
    made, report = surgeon.rewrite(program, "ort")
    assert type(made) is torch.onnx.ONNXProgram
    assert made is not program
    assert made.exported_program is program.exported_program
    assert report.outcome == "proved"
    assert report.sites
    kept = set(before) & set(made.model.graph)
    assert len(ops(made)) < len(before) == len(ops(program))
    assert all("node" in node.meta or node.metadata_props for node in kept)
    assert {value.const_value for value in made.model.graph.initializers.values()} <= set(weights.values())
    wanted = network(INPUT)
    torch.testing.assert_close(made(INPUT)[0], wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(program(INPUT)[0], wanted, atol=1e-5, rtol=1e-5)
    made.save(tmp_path / "made.onnx", external_data=True)
    assert surgeon.compare(tmp_path / "made.onnx", program).outcome.value == "proved"


def test_weights_are_applied_to_a_result(program, network):
    made, _ = surgeon.rewrite(program, "gelu")
    made.apply_weights({name: torch.zeros_like(value) for name, value in network.state_dict().items()})
    assert not made(INPUT)[0].any()
    assert program(INPUT)[0].any()


def test_nothing_changed_is_the_same_program(program):
    assert surgeon.rewrite(program, "quick_gelu")[0] is program


def test_in_place_a_called_program_answers_from_the_new_graph(program, network):
    """Its session is that of the graph before until it is released."""
    program(INPUT)
    model, session = program.model, program._inference_session
    assert session is not None
    report = rewrite_(program, "ort")
    assert report.outcome == "proved"
    assert program.model is model
    assert program._inference_session is None
    torch.testing.assert_close(program(INPUT)[0], network(INPUT), atol=1e-5, rtol=1e-5)
    again = program._inference_session
    assert rewrite_(program, "ort").outcome == "unchanged"
    assert program._inference_session is again


def test_weights_are_no_copies(program):
    """torch's tensors are views of the parameters; the references read the same memory."""
    from surgeon.file.model import Model
    from surgeon.file.model_like import resolve_model

    with Model.open(resolve_model(program)) as model:
        assert model.held
        for tensor in model.skeleton.graph.initializer:
            if list(tensor.dims) == [48, 48]:
                (value,) = (one for name, one in program.model.graph.initializers.items() if name == tensor.name)
                assert np.shares_memory(model.value(tensor), value.const_value.raw.detach().numpy())


def test_functions_that_take_a_program(program, network):
    import surgeon.torch

    assert surgeon.torch.compare(network, program, (INPUT,))
    assert surgeon.inspect(program).nodes == len(ops(program))
    half, report = surgeon.convert(program)
    assert type(half) is torch.onnx.ONNXProgram
    assert report.outcome == "proved"
    renamed, _ = surgeon.edit(program, surgeon.edits.Rename(program.model.graph.inputs[0].name, "tokens"))
    assert renamed.model.graph.inputs[0].name == "tokens"
    torch.testing.assert_close(renamed(INPUT)[0], program(INPUT)[0])
