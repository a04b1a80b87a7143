"""`torchvision::deform_conv2d`: fourteen arguments, each by its name, whatever the exporter."""

import pytest
import torch

import surgeon.torch
from tests.from_torch.operators import EXPORTERS, attributes, export, nodes, types

SCHEMA = (
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt "
    "stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask) -> Tensor"
)
NUMBERS = {
    "stride_h": 11,
    "stride_w": 12,
    "pad_h": 13,
    "pad_w": 14,
    "dilation_h": 2,
    "dilation_w": 3,
    "groups": 5,
    "offset_groups": 7,
    "use_mask": True,
}


def sizes(x, weight, numbers):
    """The shape of the result."""
    stride, pad, dilation = numbers[0:2], numbers[2:4], numbers[4:6]
    out = [
        (x.shape[axis] + 2 * pad[axis - 2] - dilation[axis - 2] * (weight.shape[axis] - 1) - 1) // stride[axis - 2] + 1
        for axis in (2, 3)
    ]
    return x.shape[0], weight.shape[0], *out


@pytest.fixture
def deform_conv2d():
    """The operator with torchvision's schema, and kernels that know its shape alone."""
    if torch._C._jit_get_schemas_for_operator("torchvision::deform_conv2d"):
        yield torch.ops.torchvision.deform_conv2d
        return
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library:
        library.define(SCHEMA)

        def kernel(x, weight, offset, mask, bias, *numbers):
            return x.new_zeros(sizes(x, weight, numbers))

        library.impl("deform_conv2d", kernel, "CompositeExplicitAutograd")
        torch.library.register_fake("torchvision::deform_conv2d", kernel, lib=library)
        yield torch.ops.torchvision.deform_conv2d


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_fourteen_distinct_arguments(exporter, deform_conv2d):
    """Five tensors are inputs in order, nine numbers attributes by name; sizes and dtype are those of the kernel."""
    shapes = {
        "x": (2, 10, 20, 21),
        "weight": (15, 2, 3, 2),
        "offset": (2, 84, 4, 4),
        "mask": (2, 42, 4, 4),
        "bias": (15,),
    }
    made = export(
        lambda x, weight, offset, mask, bias: deform_conv2d(x, weight, offset, mask, bias, *NUMBERS.values()),
        " ".join(shapes),
        tuple(torch.ones(shape) for shape in shapes.values()),
        exporter,
        placeholders={"torchvision::deform_conv2d": "custom::deform_conv2d"},
        dynamic_shapes={name: {0: "batch"} for name in ("x", "offset", "mask")},
        output_names=["y"],
        opset=19,
    )
    (node,) = nodes(made, "custom")
    assert node.op_type == "deform_conv2d"
    assert list(node.input) == list(shapes)
    assert attributes(node) == NUMBERS
    assert [item.name for item in node.attribute] == list(NUMBERS)
    assert types(made)["y"] == ("FLOAT", ("batch", 15, 4, 4))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_symbolic_that_knows_three_arguments_is_refused(exporter, deform_conv2d):
    """It would drop all others."""
    surgeon.torch.register(
        "torchvision::deform_conv2d",
        lambda g, input, weight, offset: g.op("custom::deform_conv2d", input, weight, offset),
    )
    shapes = ((1, 10, 20, 21), (15, 2, 3, 2), (1, 84, 4, 4), (1, 42, 4, 4), (15,))
    try:
        with pytest.raises(surgeon.SurgeonError, match="has no parameter 'mask'"):
            export(
                lambda *given: deform_conv2d(*given, *NUMBERS.values()),
                "x weight offset mask bias",
                tuple(torch.ones(shape) for shape in shapes),
                exporter,
            )
    finally:
        surgeon.torch.unregister("torchvision::deform_conv2d")
