"""Images: convolutions, pooling, resizing, pads, and sampling.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

import numpy as np

from tests.mutation.sealing import control, counting, fault, normal

IMAGE = "images"
ONE = "(float[b, 1, h, w] x) => (float[b, 1, p, q] y)"
FOUR = "(float[b, 4, h, w] x) => (float[b, 4, p, q] y)"
KERNEL = normal(1, 1, 3, 3, seed=1)
GROUPS = normal(4, 2, 1, 1, seed=2)
DENSE = np.zeros((4, 4, 1, 1), np.float32)
DENSE[:2, 2:], DENSE[2:, :2] = GROUPS[:2], GROUPS[2:]
MIXED = normal(4, 4, 3, 3, seed=3)
FACTOR, OFFSET = normal(4, seed=4), normal(4, seed=5)

fault(
    IMAGE,
    "the dilation of a convolution is lost, its pads keep the size",
    ONE,
    right="y = Conv<dilations = [2, 2], pads = [2, 2, 2, 2]>(x, k)",
    wrong="y = Conv<pads = [1, 1, 1, 1]>(x, k)",
    x=normal(1, 1, 5, 5),
    k=KERNEL,
)
fault(
    IMAGE,
    "the groups of a convolution read the channels of each other",
    FOUR,
    right="y = Conv<group = 2>(x, k)",
    wrong="y = Conv(x, dense)",
    x=normal(1, 4, 3, 3),
    k=GROUPS,
    dense=DENSE,
)
fault(
    IMAGE,
    "pads at the end move to the beginning",
    ONE,
    right="y = Conv<pads = [0, 0, 1, 1], strides = [2, 2]>(x, k)",
    wrong="y = Conv<pads = [1, 1, 0, 0], strides = [2, 2]>(x, k)",
    x=normal(1, 1, 6, 6),
    k=KERNEL,
)
fault(
    IMAGE,
    "the odd pad of SAME goes to the other side",
    ONE,
    right='y = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, k)',
    wrong='y = Conv<auto_pad = "SAME_LOWER", strides = [2, 2]>(x, k)',
    x=normal(1, 1, 6, 6),
    k=KERNEL,
)
fault(
    IMAGE,
    "a transposed convolution by a convolution whose kernel is not reversed",
    ONE,
    right="y = ConvTranspose(x, k)",
    wrong="y = Conv<pads = [2, 2, 2, 2]>(x, k)",
    x=normal(1, 1, 4, 4),
    k=KERNEL,
)
fault(
    IMAGE,
    "the output padding of a transposed convolution is zeros",
    ONE,
    right="y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]>(x, k)",
    wrong="t = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, k) y = Pad(t, one)",
    x=normal(1, 1, 3, 3),
    k=KERNEL,
    one=[0, 0, 0, 0, 0, 0, 1, 1],
)
fault(
    IMAGE,
    "an average pool counts its pads",
    ONE,
    right="y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)",
    wrong="y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(x)",
    x=normal(1, 1, 4, 4) + 2,
)
fault(
    IMAGE,
    "the last window of an odd size is dropped",
    ONE,
    right="y = MaxPool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(x)",
    wrong="y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)",
    x=normal(1, 1, 5, 4),
)
fault(
    IMAGE,
    "a max pool pads with zeros",
    ONE,
    right="y = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)",
    wrong="t = Pad(x, around) y = MaxPool<kernel_shape = [3, 3]>(t)",
    x=-np.abs(normal(1, 1, 4, 4)) - 1,
    around=[0, 0, 1, 1, 0, 0, 1, 1],
)
fault(
    IMAGE,
    "corners of a linear resize are aligned",
    ONE,
    right='y = Resize<mode = "linear">(x, , twice)',
    wrong='y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x, , twice)',
    x=counting(1, 1, 3, 3),
    twice=[1.0, 1.0, 2.0, 2.0],
)
fault(
    IMAGE,
    "the nearest pixel is rounded and not the one before",
    ONE,
    right='y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , scales)',
    wrong="y = Resize(x, , scales)",
    x=counting(1, 1, 8, 8),
    scales=[1.0, 1.0, 0.25, 0.25],
)
fault(
    IMAGE,
    "the coefficient of a cubic resize is -0.5",
    ONE,
    right='y = Resize<mode = "cubic">(x, , twice)',
    wrong='y = Resize<mode = "cubic", cubic_coeff_a = -0.5>(x, , twice)',
    x=normal(1, 1, 4, 4),
    twice=[1.0, 1.0, 2.0, 2.0],
)
fault(
    IMAGE,
    "reflected pads repeat the edge",
    ONE,
    right='y = Pad<mode = "reflect">(x, around)',
    wrong='y = Pad<mode = "edge">(x, around)',
    x=normal(1, 1, 4, 4),
    around=[0, 0, 1, 1, 0, 0, 1, 1],
)
fault(
    IMAGE,
    "pads are read pair by pair",
    "(float[n, m] x) => (float[p, q] y)",
    right="y = Pad(x, pads)",
    wrong="y = Pad(x, pairs)",
    x=counting(2, 3) + 1,
    pads=[1, 0, 0, 2],
    pairs=[1, 0, 0, 2][::-1],
)
fault(
    IMAGE,
    "SpaceToDepth orders its output by channel",
    "(float[b, 2, h, w] x) => (float[b, 8, p, q] y)",
    right="y = SpaceToDepth<blocksize = 2>(x)",
    wrong="s = SpaceToDepth<blocksize = 2>(x) z = Shape(s) r = Reshape(s, blocks) "
    "t = Transpose<perm = [0, 2, 1, 3, 4]>(r) y = Reshape(t, z)",
    x=counting(1, 2, 4, 4),
    blocks=[0, 4, 2, 2, -1],
)
fault(
    IMAGE,
    "an offset before a padded convolution is put into its bias",
    FOUR,
    right="s = Mul(x, f) a = Add(s, o) y = Conv<pads = [1, 1, 1, 1]>(a, k)",
    wrong="y = Conv<pads = [1, 1, 1, 1]>(x, scaled, bias)",
    x=normal(1, 4, 4, 4),
    f=FACTOR.reshape(4, 1, 1),
    o=OFFSET.reshape(4, 1, 1),
    k=MIXED,
    scaled=MIXED * FACTOR.reshape(1, 4, 1, 1),
    bias=(MIXED * OFFSET.reshape(1, 4, 1, 1)).sum((1, 2, 3)),
)
fault(
    IMAGE,
    "a factor behind a convolution is put on its input channels",
    FOUR,
    right="c = Conv<pads = [1, 1, 1, 1]>(x, k) y = Mul(c, f)",
    wrong="y = Conv<pads = [1, 1, 1, 1]>(x, scaled)",
    x=normal(1, 4, 4, 4),
    f=FACTOR.reshape(4, 1, 1),
    k=MIXED,
    scaled=MIXED * FACTOR.reshape(1, 4, 1, 1),
)
fault(
    IMAGE,
    "a grid with aligned corners is sampled without",
    "(float[b, 1, h, w] x, float[b, p, q, 2] grid) => (float[b, 1, p, q] y)",
    right="y = GridSample<align_corners = 1>(x, grid)",
    wrong="y = GridSample<align_corners = 0>(x, grid)",
    x=normal(1, 1, 4, 4),
    grid=np.tanh(normal(1, 2, 3, 2, seed=1)),
    opset=18,
)
fault(
    IMAGE,
    "a grid outside the image reads the border instead of zeros",
    "(float[b, 1, h, w] x, float[b, p, q, 2] grid) => (float[b, 1, p, q] y)",
    right='y = GridSample<padding_mode = "zeros">(x, grid)',
    wrong='y = GridSample<padding_mode = "border">(x, grid)',
    x=normal(1, 1, 4, 4),
    grid=np.full((1, 1, 2, 2), 1.4),
)
fault(
    IMAGE,
    "the mean of an image is taken off before the division by 255",
    "(float[b, 3, h, w] x) => (float[b, 3, h, w] y)",
    right="d = Div(x, full) s = Sub(d, m) y = Div(s, r)",
    wrong="s = Sub(x, m) d = Div(s, r) y = Div(d, full)",
    x=np.abs(normal(1, 3, 2, 2, scale=90)),
    full=255.0,
    m=np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1),
    r=np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1),
)
fault(
    IMAGE,
    "an overlap of boxes is limited after the product of its sides",
    "(float[n] width, float[n] height) => (float[n] y)",
    right="a = Relu(width) c = Relu(height) y = Mul(a, c)",
    wrong="p = Mul(width, height) y = Relu(p)",
    width=[1.0, -1.0, -2.0],
    height=[2.0, 3.0, -4.0],
)
control(
    IMAGE,
    "the zeros around an image are those of the convolution",
    ONE,
    right="t = Pad(x, around) y = Conv(t, k)",
    same="y = Conv<pads = [1, 1, 1, 1]>(x, k)",
    x=normal(1, 1, 4, 4),
    k=KERNEL,
    around=[0, 0, 1, 1, 0, 0, 1, 1],
)
control(
    IMAGE,
    "DepthToSpace by a Transpose between two Reshapes",
    "(float[b, 8, 2, 3] x) => (float[b, 2, 4, 6] y)",
    right='y = DepthToSpace<blocksize = 2, mode = "CRD">(x)',
    same="r = Reshape(x, six) t = Transpose<perm = [0, 1, 4, 2, 5, 3]>(r) y = Reshape(t, four)",
    x=counting(1, 8, 2, 3),
    six=[-1, 2, 2, 2, 2, 3],
    four=[-1, 2, 4, 6],
)
