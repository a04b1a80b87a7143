"""Deformable convolution (Dai et al., arXiv:1703.06211; with a mask, Zhu et al., arXiv:1811.11168)."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from surgeon import Graph, Match, Tensor, require, rule

SIDES = [[f"{name}_{side}" for side in "hw"] for name in ("stride", "pad", "dilation")]
GROUPS = ("groups", "offset_groups")
TORCHVISION = (*(name for pair in SIDES for name in pair), *GROUPS, "use_mask")
LISTS = ("stride", "padding", "dilation")
MMCV = (*LISTS, "groups", "deform_groups")
PLUGIN = (*LISTS, "group", "deformable_group")
DIFFERS = {"non_finite": "for a NaN offset the kernel of ONNX Runtime gives numbers"}
VERSION: dict[str, Any] = {"plugin_version": "2", "plugin_namespace": ""}  # version 2 is in TensorRT 10.11 and newer


def torchvision(g: Graph, x: Tensor, weight: Tensor, offset: Tensor, *others: Tensor, **settings: Any) -> Any:
    """The placeholder of `torchvision::deform_conv2d`, with its tensors in the order of the C++ schema."""
    return g.op("*::deform_conv2d", x, weight, offset, *others, **settings)


def mmcv(g: Graph, x: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, *bias: Tensor, **settings: Any) -> Any:
    """The node that mmcv exports, with a mask."""
    return g.op("*::MMCVModulatedDeformConv2d", x, offset, mask, weight, *bias, **settings)


def plugin(g: Graph, x: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, *bias: Tensor, **settings: Any) -> Any:
    """The node of the TensorRT plugin."""
    return g.op("trt.plugins::ModulatedDeformConv2d", x, offset, mask, weight, *bias, **settings)


class DeformConvCall(NamedTuple):
    """A call in one form: optional tensors, and numbers for height and width."""

    mask: Tensor | None
    """Weight of each sample, None for 1."""
    bias: Tensor | None
    """Bias of each output channel."""
    strides: Any = ()
    """By height and width."""
    padding: Any = ()
    """By height and width, the same on both sides."""
    dilations: Any = ()
    """By height and width."""
    group: Any = 1
    """Groups of the weight."""
    offset_group: Any = 1
    """Groups of the offsets."""


def call_of(match: Match) -> DeformConvCall:
    """Return the matched call.  Refuse a call that lost arguments in the export: it would mean something else."""
    settings, is_torch = match["settings"], "others" in match.bound
    tensors = match["others" if is_torch else "bias"]
    names = TORCHVISION if is_torch else PLUGIN if "group" in settings else MMCV
    lost = [*(("mask", "bias")[len(tensors) :] if is_torch else ()), *(name for name in names if name not in settings)]
    require(not lost, f"the node lacks {', '.join(lost)}; export it again with every argument by name")
    if not is_torch:
        return DeformConvCall(match["mask"], next(iter(tensors), None), *[settings[name] for name in names])
    mask, bias = tensors[0] if settings["use_mask"] else None, tensors[1]
    sizes, groups = [[settings[name] for name in pair] for pair in SIDES], [settings[name] for name in GROUPS]
    return DeformConvCall(mask, bias, *sizes, *groups)


def ones_for(g: Graph, offset: Tensor, weight: Tensor, offset_group: int) -> Tensor:
    """Return a mask without effect.  It has half as many channels as the offsets."""
    require(all(isinstance(size, int) for size in weight.shape[1:]), "the size of the kernel is unknown")
    require(offset.dtype is not None, "the dtype of the offsets is unknown")
    half = g.slice(offset, [0], [offset_group * prod(weight.shape[2:])], [1])
    return g.expand(g.literal(np.ones(1, offset.dtype)), g.shape(half))


@rule(patterns=[torchvision, mmcv], target="onnx", opset=19, differs=DIFFERS)
def deform_conv(g: Graph, match: Match, x: Tensor, weight: Tensor, offset: Tensor) -> Tensor:
    """Write a deformable convolution that was exported as a placeholder as DeformConv, or as a TensorRT plugin.

    What: each output pixel is the weighted sum of the input at the positions of the kernel.  An offset moves each
    position, and an optional mask weights it.
    Numerics: rounding only.
    TensorRT: the plugin ModulatedDeformConv2d needs all five tensors, so a missing mask becomes ones and a missing bias
    zeros.  Version 2 of the plugin needs TensorRT 10.11.
    """
    call = call_of(match)
    return g.deform_conv(
        x,
        weight,
        offset,
        call.bias,
        call.mask,
        strides=call.strides,
        pads=call.padding * 2,
        dilations=call.dilations,
        group=call.group,
        offset_group=call.offset_group,
    )


deform_conv.on("decomposed")(deform_conv.forms[0].function)


@deform_conv.on("tensorrt", patterns=[plugin])
def _(g: Graph, match: Match, x: Tensor, weight: Tensor, offset: Tensor) -> Any:
    call = call_of(match)
    mask = call.mask if call.mask is not None else ones_for(g, offset, weight, call.offset_group)
    bias: Any = call.bias if call.bias is not None else np.zeros(weight.shape[0])
    return plugin(g, x, offset, mask, weight, bias, **dict(zip(PLUGIN, call[2:], strict=True)), **VERSION)
