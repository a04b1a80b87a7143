"""What cannot be exported is refused, each in one sentence that says what to do."""

import subprocess
import sys

import pytest
import torch

import surgeon
import surgeon.torch
from surgeon.errors import ExportError, UsageError
from tests.from_torch.operators import Block, MyAdd, addandround, blind, both, export, module
from tests.versions import NEWEST_OF_DYNAMO

X = torch.arange(6.0).reshape(2, 3)


def refused(kind, function, names="x", args=(X,), exporter="dynamo", **options):
    """The message, which is one sentence."""
    with pytest.raises(kind) as raised:
        export(function, names, args, exporter, **options)
    message = str(raised.value)
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) < 420
    return message


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("aten::gelux", "torch has no operator aten::gelux. Did you mean aten::gelu"),
        ("nobody::op", "torch has no operator nobody::op. Define it with torch.library.custom_op, or load the library"),
        ("addandround", "'addandround', but it must have two names with '::' between, as in 'mylibrary::op'"),
        ("aten::add.Tensors", "aten::add has no overload 'Tensors'. It has Tensor, Scalar"),
        (torch.asinh, "asinh is not an operator that an exporter sees. Give 'aten::asinh'"),
        (Block(3), "A placeholder is a module class, not a module. Give Block itself"),
        (3, "3 is not an operator that an exporter sees"),
    ],
    ids=lambda item: str(item)[:30],
)
def test_what_is_no_operator(named, words):
    """Refused before anything is exported."""
    assert words in refused(UsageError, torch.relu, placeholders=[named])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"placeholders": {addandround: "Round"}}, "The name for exports::addandround"),
        ({"placeholders": {addandround: "ai.onnx::Round"}}, "ai.onnx"),
        (
            {"placeholders": "aten::gelu"},
            "Give placeholders as a list or a mapping, such as placeholders=['aten::gelu']",
        ),
        ({"placeholders": ["aten::add", "aten::add.Tensor"]}, "placeholders for the same operator. Give it once"),
        ({"exporter": "script"}, "Unknown exporter 'script'. Choose dynamo or torchscript"),
        ({"version": 0}, "an integer of at least 1, not 0"),
        (
            {"opset": 7},
            f"The dynamo exporter writes opsets 17 to {NEWEST_OF_DYNAMO}, not 7. "
            "Choose one of these or exporter='torchscript'",
        ),
        ({"opset": 13}, "not 13"),
        ({"opset": 99}, "not 99. Choose one of these."),
        ({"opset": 24, "exporter": "torchscript"}, "The torchscript exporter writes opsets 7 to 23, not 24"),
        ({"opset": 6, "exporter": "torchscript"}, "not 6. Choose one of these."),
        ({"dynamic_shapes": {"y": {0: "n"}}}, "dynamic_shapes has 'y', which is not an input. The inputs are x"),
        ({"dynamic_shapes": {"x": {2: "n"}}}, "has axis 2 for 'x', which has 2 axes"),
        ({"dynamic_shapes": {"x": 0}}, "dynamic_shapes is 0 for 'x'. Give sizes by axis"),
        ({"dynamic_shapes": ({0: "n"}, {0: "n"})}, "a sequence with one entry for each of the 1 arguments"),
        ({"input_names": ["a", "b"]}, "There are 2 input names for 1 tensors"),
        ({"path": "/nowhere/at/all/out.onnx"}, "Directory not found: /nowhere/at/all"),
    ],
    ids=str,
)
def test_arguments_that_do_not_fit(options, words):
    """Refused before anything is exported."""
    path = options.pop("path", None)
    given = {"exporter": "dynamo", **options}
    if path:
        with pytest.raises(UsageError, match=words):
            surgeon.torch.export(module(torch.relu), X, path)
        return
    assert words in refused(UsageError, torch.relu, **given)


def test_what_is_no_module_or_takes_other_arguments():
    """A function is to be wrapped; arguments are those of forward."""
    with pytest.raises(UsageError, match=r"Only an nn\.Module can be exported, not builtin"):
        surgeon.torch.export(torch.relu, (X,))
    assert "does not accept these arguments (too many positional arguments)" in refused(
        UsageError, torch.relu, args=(X, X)
    )


def test_what_no_node_can_stand_for():
    """A list of results, and a change in place, which would be lost."""
    said = refused(UsageError, torch.relu, placeholders=["aten::split"])
    assert said.startswith("aten::split returns a list or a number, but a node returns tensors")
    said = refused(UsageError, torch.relu, placeholders=["aten::add_"])
    assert said == (
        "aten::add_ changes its arguments in place, which a node cannot do. Use the operator that returns the result "
        "instead."
    )


@both
def test_an_operator_without_a_fake_kernel(exporter):
    """Shapes after it would be unknown."""
    said = refused(UsageError, blind, exporter=exporter, placeholders=["exports::blind"])
    assert said == (
        "exports::blind has no fake kernel, so the shapes after it would be unknown. Register one with "
        "torch.library.register_fake('exports::blind')."
    )


@both
def test_a_placeholder_that_the_module_does_not_call(exporter):
    """A registration without effect is an error, and the message says what is called."""
    said = refused(ExportError, torch.relu, exporter=exporter, placeholders=["aten::gelu"])
    assert said == "Module does not call aten::gelu, so it cannot be a placeholder. It calls aten::relu."
    said = refused(ExportError, torch.relu, exporter=exporter, placeholders=[MyAdd])
    assert said == "Module does not call MyAdd, so it cannot be a placeholder. Leave it out."


@both
def test_a_placeholder_that_comes_only_from_a_decomposition(exporter):
    """Exporters look for layer_norm, so native_layer_norm is never asked for."""

    def norm(x):
        return torch.nn.functional.layer_norm(x, (3,))

    said = refused(ExportError, norm, exporter=exporter, placeholders=["aten::native_layer_norm"])
    assert said == (
        "aten::native_layer_norm is only a part of aten::layer_norm, which is decomposed after the exporter has looked "
        "for placeholders. Use aten::layer_norm instead."
    )


@pytest.mark.parametrize(
    ("exporter", "named", "pieces"),
    [("torchscript", "aten::conv2d", "aten::_convolution"), ("dynamo", "aten::dropout", "aten::")],
)
def test_a_placeholder_that_an_exporter_takes_apart_too_early(exporter, named, pieces):
    """Tracing goes deeper than conv2d; the other exporter takes a training dropout apart first of all."""

    def both(x):
        return torch.nn.functional.dropout(torch.conv2d(x, torch.ones(1, 1, 2, 2)), 0.5, True)

    said = refused(ExportError, both, args=(torch.ones(1, 1, 4, 4),), exporter=exporter, placeholders=[named])
    assert said.startswith(f"Module calls {named}, but the {exporter} exporter decomposes it into {pieces}")
    assert said.endswith("before it looks for placeholders. Use one of these, or a module class that calls it.")


@both
def test_a_placeholder_of_which_nothing_is_used(exporter):
    """The exporter leaves the node out."""

    def idle(x):
        addandround(x, x)
        return x + 1

    said = refused(ExportError, idle, exporter=exporter, placeholders=[addandround])
    assert said == (
        "Module calls exports::addandround, but nothing uses the result, so the exporter leaves it out. Return the "
        "result from forward."
    )


@both
def test_an_operator_that_nobody_translates(exporter):
    """torch's own error, of many lines, is kept as the cause."""
    with pytest.raises(ExportError) as raised:
        export(lambda x: addandround(x, x), "x", (X,), exporter)
    assert str(raised.value).startswith(
        f"The {exporter} exporter cannot translate exports::addandround, which Module uses"
    )
    assert "placeholders=['exports::addandround']" in str(raised.value)
    assert raised.value.__cause__ is not None
    assert not isinstance(raised.value.__cause__, surgeon.SurgeonError)


@both
def test_a_module_that_raises(exporter):
    """One line of what it raised."""

    def broken(x):
        raise ValueError("no such thing\nand more")

    said = refused(ExportError, broken, exporter=exporter)
    assert said == f"The {exporter} exporter cannot export Module: ValueError: no such thing."


def test_a_size_that_the_exporter_fixes():
    """The torch exporter complains; the sentence says of which input and why."""

    def fixed(x):
        return x + torch.ones(2, 3)

    said = refused(ExportError, fixed, dynamic_shapes={"x": {0: "batch"}})
    assert "static shape of 2 for dimension inputs['x'].shape[0]" in said


def test_an_attribute_that_the_graph_computes():
    """A free size cannot be an attribute."""

    def flat(x):
        return torch.roll(x, x.shape[0], 0)

    said = refused(UsageError, flat, dynamic_shapes={"x": {0: "batch"}}, placeholders=["aten::roll"])
    assert "'shifts' of aten::roll is computed by the graph" in said


def test_several_lists_of_tensors_cannot_be_one_node():
    """Inputs could not be told apart."""
    said = refused(UsageError, lambda x: torch._foreach_add([x], [x])[0], placeholders=["aten::_foreach_add.List"])
    assert "aten::_foreach_add" in said


def test_without_torch_the_message_says_what_to_install():
    """And `import surgeon` works all the same."""
    code = (
        "import sys; sys.modules['torch'] = None; import surgeon, surgeon.torch\n"
        "try: surgeon.torch.export\n"
        "except surgeon.UsageError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == (
        'surgeon.torch needs torch, which is not installed. Install it: pip install "onnx-surgeon[torch]"'
    )
