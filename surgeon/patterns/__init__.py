"""The rules that come with surgeon: one operation per file, by family, in the repository's folder `patterns`.

A wheel carries them beside this file.  A checkout has them where they are, in a folder that is no package of its own:
whoever has a package or a folder `patterns`, on Python's path or where he works, is not in its way, nor it in his.

GROUPS names those that people want together, by file or as file:rule, in the order in which they run; a group may hold
others.  A rule by its name would import all files.
The norm of a group or an image has a layer norm in it, so it comes first.  Rules that change numbers beyond rounding
are in none; APPROXIMATE names those that join a group where approximate rules are asked for.  RENAMED gives the new
name for each old one, which the message about an unknown rule suggests.  PURPOSES has a line for each group.
"""

import pkgutil
from pathlib import Path

if not any(pkgutil.iter_modules(__path__)):
    __path__[:] = [str(Path(__file__).resolve().parents[2] / "patterns")]

_NORMS_AND_SCALES = "conv_batch_norm", "batch_norm_before", "matmul_batch_norm", "matmul_scale", "conv_scale"
_FOLDED = *_NORMS_AND_SCALES, "pad_conv", "pad_max_pool", "space_to_depth", "gemm"
GROUPS = {
    "placeholders": (
        "mixed_dtypes",
        "named_arguments",
        "deform_conv",
        "deformable_attention",
        "roi_align",
        "aten_elementwise",
    ),
    "cleanup": (
        "constant_if",
        "dead_nodes",
        "constant_folding",
        "no_ops",
        "cast_like",
        "no_op_shapes",
        "no_op_slices",
        "no_op_scatter",
        "split_to_sequence",
        "sequences",
        "slice_of_concat",
        "no_op_zeros",
        "expanded_scalars",
        "redundant_expand",
        "no_op_conditions",
        "conditions",
        "gather_by_range",
        "gather_of_parts",
        "consecutive_ops",
        "reduced_axes",
        "scatter_to_concat",
        "consecutive_casts",
        "consecutive_reshapes:cancelling_reshapes",
        "flattened_batch_matmul",
        "flattened_linear",
        "transpose_between_reshapes",
        "consecutive_reshapes",
        "unit_dim_transpose",
        "transposes_around_ops",
        "shape_reads",
        "static_reshape",
        "consecutive_clips",
        "duplicates",
        "duplicate_initializers",
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
        "rms_norm_from_l2",
        "rms_norm_channels_first",
        "rms_norm_from_l2_channels_first",
        "batch_norm",
        "half_precision_norm",
        "residual_sum",
        "skip_layer_norm",
        "skip_rms_norm",
    ),
    "attentions": (
        "softmax",
        "relaxed_softmax",
        "einsum",
        "rotate_half_matmul",
        "rotary_embedding",
        "rotary_partial",
        "expanded_scalar_where",
        "where_on_split_heads",
        "nested_where",
        "static_reshape",
        "repeat_kv_before_transpose",
        "multiplicative_mask",
        "subtracted_mask",
        "scale_after_mask",
        "window_attention",
        "transposed_keys_cache",
        "concatenated_values",
        "transposed_softmax",
        "channels_first_values",
        "reshaped_score_bias",
        "broadcast_kv_heads",
        "grouped_query_kv_cache:softcap_attention_kv_cache",
        "attention",
        "attention:masked_attention",
        "merged_heads_matmul",
        "kv_cache_length",
        "causal_attention",
        "grouped_query_attention",
        "grouped_query_attention:grouped_causal_attention",
        "grouped_query_attention:query_heads_as_rows",
        "heads_in_batch",
        "sequence_first",
        "transpose_before_linear",
        "cast_propagation",
        "norm_between_transposes",
        "attention_layout:attention_4d_kv",
        "rotary_3d_input",
        "attention_kv_cache",
        "attention_nan_guard",
        "broadcast_mask",
        "attention_layout:attention_3d_inputs",
        "fused_inputs",
        "attention_projections",
    ),
    "linear": (
        "vector_matmul:vector_product",
        *_FOLDED,
        "fused_matmul",
        "dynamic_quantize_matmul",
        "matmul_integer_to_float",
    ),
    "onnx": (
        "placeholders",
        "cleanup",
        "attentions",
        "group_norm",
        "instance_norm",
        "layer_norm",
        "layer_norm_channels_first",
        "rms_norm",
        "batch_norm",
        "activations",
        *_FOLDED,
        "lowering",
        "group_norm_node",
        "matmul_nbits",
        "blocked_weights",
    ),
    "transformers": (
        "mixed_dtypes",
        "cleanup",
        "attentions",
        "group_norm_silu",
        "group_norm",
        "layer_norm",
        "layer_norm_channels_first",
        "rms_norm",
        "rms_norm_from_l2",
        "rms_norm_channels_first",
        "rms_norm_from_l2_channels_first",
        "half_precision_norm",
        "residual_sum",
        "embed_layer_norm",
        "skip_layer_norm",
        "skip_rms_norm",
        "activations",
        "bias_gelu",
        "bias_fast_gelu",
        "linear",
    ),
    "tensorrt": (
        "half_celu",
        "counted_loops",
        "onnx",
        "qlinear_arithmetic",
        "qlinear_ops",
        "qlinear_pooling",
        "qlinear_softmax",
        "integer_matmul",
        "qgemm",
        "integer_conv",
        "dynamic_quantize_linear",
        "det",
        "cum_prod",
        "fourier",
        "col2im",
        "compress",
        "optionals",
        "bitwise_ops",
        "scatter_reductions",
        "max_pool_indices",
        "dilated_pooling",
        "max_unpool",
        "training_batch_norm",
        "resize_antialias",
        "resize_coordinates",
        "resize_axes",
        "max_roi_pool",
        "eye_like",
        "slice_axes",
        "vector_matmul:vector_matmul",
        "function_ops",
        "redundant_qdq",
        "quantize_linear",
        "unsupported_integers",
        "reduce_bool",
        "redundant_integer_casts",
    ),
    "ort": ("placeholders", "cleanup", "attentions", "norms", "activations", "bias_gelu", "bias_fast_gelu", "linear"),
    "decoder": ("placeholders", "cleanup", "static_reshape", "scale_after_mask", "sequence_attention", "ort"),
}

PURPOSES = {
    "ort": "all fusions for ONNX Runtime (default)",
    "decoder": "for decoders of text, with attention that has a cache",
    "transformers": "for transformers: also EmbedLayerNorm, but no batch norms",
    "onnx": "fusions and lowerings to standard ops (--target onnx)",
    "tensorrt": "forms that TensorRT reads (--target tensorrt)",
    "attentions": "attention, with masks, caches and rotary embeddings",
    "norms": "layer, RMS, group, instance and batch norms",
    "activations": "GELU, SiLU, softmax and others as one node",
    "linear": "scales, biases and batch norms folded into weights",
    "cleanup": "constants, duplicates, and nodes without effect",
    "placeholders": "torch ops that an export left as custom ops",
}
"""The purpose of each group, in the order of `surgeon rules`."""

_NEAR = ("attention:padded_attention", "monotone_argmax")
_STANDARD = ("dynamic_quantize_lstm", *_NEAR)
APPROXIMATE = {"ort": _NEAR, "decoder": _NEAR, "transformers": _NEAR, "tensorrt": _STANDARD, "onnx": _STANDARD}

FAMILIES = {
    "attention": ("attention", "attention_canonicalization", "rotary"),
    "norms": ("norms",),
    "activations": ("activations",),
    "linear": ("linear_algebra", "convolution", "weight_folding", "quantization"),
}
"""Folders of fusions that a model may do without; the other rules prepare the model for them."""

_SKIP_NORMS = "skip_layer_norm", "skip_rms_norm"
FORMS = {
    "residual": {
        "summed first": ("residual_sum", "residual_rms_sum", *_SKIP_NORMS),
        "inside the norm": _SKIP_NORMS,
        "as it is": (),
    },
    "projections": {"as they are": (), "as one product": ("separate_qkv_attention",)},
    "attention biases": {"as they are": (), "inside the attention": ("qkv_biases",)},
    "activation bias": {"inside the activation": ("bias_gelu", "bias_fast_gelu"), "as it is": ()},
}
"""Other forms of one fusion, each with its rules.  A provider's default form has the rules that a group uses there."""

_OLD_AND_NEW = """
    active_instance_norm_plugin:instance_norm_activation_plugin attention_cache:attention_kv_cache
    attention_of_heads:attention_4d_kv attention_of_one_projection:packed_qkv_attention
    attention_of_rows:attention_3d_inputs attention_of_three_projections:separate_qkv_attention
    average_pool:dilated_average_pool bits:bitwise_ops byte_arithmetic:integer_arithmetic
    byte_comparison:integer_comparison byte_ops:unsupported_integers cache_length:kv_cache_length
    capped_attention_cache:softcap_attention_kv_cache chained_casts:consecutive_casts
    chained_conditions:nested_where chained_limits:consecutive_clips chained_reshapes:consecutive_reshapes
    chains:consecutive_ops copied_rows:repeat_kv_before_transpose dilated_pools:dilated_pooling
    einsum_of_one:einsum_one_operand empty_parts:empty_concat_inputs expand:function_ops
    fixed_reshape:static_reshape float_conv_integer:cast_conv_integer float_matmul_integer:cast_matmul_integer
    gather_in_order:gather_by_range grouped_attention:grouped_onnx_attention
    grouped_attention_cache:repeated_heads_kv_cache grouped_cache:grouped_query_kv_cache
    grouped_rows:query_heads_as_rows half_norm:half_precision_norm heads_of_rows:sequence_first_heads
    idle_mask:no_op_mask integer_convolutions:integer_conv integer_products:integer_matmul
    joined_bytes:integer_joins joined_condition:where_on_split_heads joined_parts:slice_of_concat
    joined_streams:concat_between_transposes joined_values:concatenated_values joined_windows:window_attention
    length_norm:rms_norm_from_l2 length_norm_channels_first:rms_norm_from_l2_channels_first
    max_pool:dilated_max_pool mixed_layer_norm:mixed_dtype_layer_norm mixed_scale:mixed_dtype_scale
    moved_bytes:integer_moves moved_casts:cast_propagation moved_sizes:shape_reads
    multiplied_mask:multiplicative_mask narrow_celu:half_celu narrowed_before:hoist_narrowing_cast
    no_op_parts:no_op_slices no_op_spread:redundant_expand norm_of_heads:norm_between_transposes
    one_cast:consecutive_casts one_clip:consecutive_clips one_flatten:consecutive_flattens
    one_relu:consecutive_relus one_reshape:consecutive_reshapes one_slice:consecutive_slices
    one_transpose:consecutive_transposes one_unsqueeze:consecutive_unsqueezes parted_matmul:merged_heads_scores
    parted_weights:merged_heads_values qlinear_functions:qlinear_ops qlinear_pools:qlinear_pooling
    qlinear_sums:qlinear_arithmetic quantized_already:redundant_q_dq quantized_in_int8:uint8_qdq_to_int8
    quantized_once:qdq_around_relu reduced_truths:reduce_bool requantized:redundant_dq_q
    reshaped_transpose:transpose_between_reshapes resized_axes:resize_axes resized_by_products:resize_antialias
    resized_elsewhere:resize_coordinates rooted_length_norm:rms_norm_from_sum rotary_of_rows:rotary_3d_input
    rotation_matrix:rotate_half_matmul rounded_norm:half_precision_norm_rounded rows_first:sequence_first
    rows_of_heads:sequence_first_output sampled_deform_conv:deform_conv_grid_sample
    scalar_choice:expanded_scalar_where scaled_mask:scale_after_mask shared_keys:broadcast_kv_heads
    shifted_softmax:max_subtracted_softmax size_of_joined:shape_of_merged_axis size_of_reshaped:shape_of_reshape
    size_of_transposed:shape_of_transpose split_sum:reshaped_score_bias spread_mask:broadcast_mask
    spread_number:expanded_scalars spread_numbers:expanded_scalars stacked_projection:stacked_qkv_split
    swapped_linear:transpose_before_linear swapped_parts:transpose_before_split turned_ones:unit_dim_transpose
    turned_softmax:transposed_softmax undone_reshape:cancelling_reshapes unguarded_attention:attention_nan_guard
    unmerged_linear:flattened_linear unmerged_matmul:flattened_batch_matmul
    unshifted_log_softmax:naive_log_softmax unshifted_softmax:naive_softmax whole_casts:redundant_integer_casts
    widened_behind:sink_widening_cast written_parts:scatter_to_concat
"""
RENAMED = dict(pair.split(":") for pair in _OLD_AND_NEW.split())
