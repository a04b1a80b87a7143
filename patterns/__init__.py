"""The rules that come with surgeon: one operation a file.

GROUPS names those that people want together, by file or rule, in the order in which they run; a group may hold others.
The norm of a group or an image has a layer norm in it, so it comes first.  Rules that change numbers beyond rounding
are in none.
"""

GROUPS = {
    "cleanup": (
        "constant_folding",
        "no_ops",
        "no_op_shapes",
        "no_op_parts",
        "chains",
        "chained_casts",
        "chained_reshapes",
        "chained_limits",
        "duplicates",
    ),
    "activations": (
        "gelu",
        "hard_swish",
        "mish",
        "selu",
        "celu",
        "hard_sigmoid",
        "softmax",
        "softplus",
        "elu",
        "leaky_relu",
        "prelu",
        "silu",
        "sigmoid",
        "clip",
    ),
    "norms": (
        "group_norm_silu",
        "group_norm",
        "instance_norm",
        "layer_norm",
        "layer_norm_channels_first",
        "rms_norm",
        "batch_norm",
        "skip_layer_norm",
        "skip_rms_norm",
    ),
    "linear": ("conv_batch_norm", "conv_scale", "pad_conv", "gemm", "fused_matmul"),
    "onnx": (
        "cleanup",
        "group_norm",
        "instance_norm",
        "layer_norm",
        "layer_norm_channels_first",
        "rms_norm",
        "batch_norm",
        "activations",
        "conv_batch_norm",
        "conv_scale",
        "pad_conv",
        "gemm",
    ),
    "ort": ("cleanup", "norms", "activations", "bias_gelu", "linear"),
}
