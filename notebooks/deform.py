"""`torchvision::deform_conv2d` without torchvision: the same schema and the same two fronts, computed by torch alone.

Where torchvision is loaded, its operator is the one that counts, and nothing is registered here.
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.utils import _pair

NAME = "torchvision::deform_conv2d"
SCHEMA = (
    "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask) -> Tensor"
)


def deform_conv2d(
    input: Tensor, offset: Tensor, weight: Tensor, bias=None, stride=1, padding=0, dilation=1, mask=None
) -> Tensor:
    """The front in Python, `torchvision.ops.deform_conv2d`: eight arguments, in an order of its own."""
    taps = weight.shape[2] * weight.shape[3]
    return torch.ops.torchvision.deform_conv2d(
        input,
        weight,
        offset,
        input.new_zeros(input.shape[0], 0) if mask is None else mask,
        input.new_zeros(weight.shape[0]) if bias is None else bias,
        *_pair(stride),
        *_pair(padding),
        *_pair(dilation),
        input.shape[1] // weight.shape[1],
        offset.shape[1] // (2 * taps),
        mask is not None,
    )


class DeformConv2d(nn.Conv2d):
    """The module, `torchvision.ops.DeformConv2d`: a convolution that is also given its offsets, and perhaps a mask."""

    def forward(self, input: Tensor, offset: Tensor, mask=None) -> Tensor:
        """input [N, C, H, W], offset [N, 2·G·kh·kw, H', W'], mask [N, G·kh·kw, H', W'] -> [N, M, H', W']."""
        return deform_conv2d(input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask)


def reference(input, weight, offset, mask, bias, *numbers) -> Tensor:
    """Look at the input where each tap is moved to, multiply by the mask, and convolve what was seen.

    Source: Zhu et al., arXiv:1811.11168, eq. 1.  `grid_sample` looks between pixels, and sees zeros beyond the edge.
    """
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask = numbers
    images, channels, tall, wide = input.shape
    filters, _, kernel_h, kernel_w = weight.shape
    taps, (height, width) = kernel_h * kernel_w, offset.shape[2:]
    moved = offset.reshape(images, offset_groups, taps, 2, height, width)
    tap = torch.arange(taps)[:, None, None]
    ys = tap // kernel_w * dilation_h + torch.arange(height)[:, None] * stride_h - pad_h + moved[:, :, :, 0]
    xs = tap % kernel_w * dilation_w + torch.arange(width) * stride_w - pad_w + moved[:, :, :, 1]
    grid = torch.stack([(2 * xs + 1) / wide - 1, (2 * ys + 1) / tall - 1], -1)  # -1 to 1 is from edge to edge
    grid = grid.clamp(-3, 3)  # also what is infinitely far out is seen as zero
    seen = nn.functional.grid_sample(
        input.reshape(images * offset_groups, channels // offset_groups, tall, wide),
        grid.reshape(images * offset_groups, taps * height, width, 2),
        align_corners=False,
    ).reshape(images, offset_groups, channels // offset_groups, taps, height, width)
    if use_mask:
        seen = seen * mask.reshape(images, offset_groups, 1, taps, height, width)
    seen = seen.reshape(images, groups, channels // groups, taps, height, width)
    kernels = weight.reshape(groups, filters // groups, channels // groups, taps)
    made = torch.einsum("ngctyx,gfct->ngfyx", seen, kernels)
    return made.reshape(images, filters, height, width) + bias[:, None, None]


def fake(input, weight, offset, mask, bias, *numbers) -> Tensor:
    """The size and dtype of the result, for exporters."""
    strides, pads, dilations = numbers[0:2], numbers[2:4], numbers[4:6]
    sizes = [
        (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, pad, dilation in zip(
            input.shape[2:], weight.shape[2:], strides, pads, dilations, strict=True
        )
    ]
    return input.new_empty(input.shape[0], weight.shape[0], *sizes)


library = torch.library.Library("torchvision", "FRAGMENT")  # what is defined stays defined as long as this is there
if not hasattr(torch.ops.torchvision, "deform_conv2d"):
    library.define(f"deform_conv2d{SCHEMA}")
    library.impl("deform_conv2d", reference, "CompositeExplicitAutograd")
    torch.library.register_fake(NAME, fake, lib=library)
