"""Why TensorRT still refuses what it refuses after the rules: each by what is said at the node."""

import re
from collections.abc import Sequence

HELD = "a setting that the case leaves to an input of the model: one that is always alike is held (surgeon edit --hold)"
ENDS = "an input or output of a dtype that TensorRT has no tensors of: another is for the user (surgeon edit --retype)"
DATA = "how much it gives hangs on the data, and engines know their sizes from those of the inputs"
REASONS = (
    (r"^: the (?:input|output|initializer) .* which TensorRT does not support", ENDS),
    (r"^: the (?:input|output|initializer) .* is (?:no tensor|of type)", "sequences and optional values at the ends"),
    (r"^ai\.onnx\.ml::", "an op of classical models: trees, tables of words"),
    (r"^ai\.onnx\.preview\.training::", "a step of training"),
    (r"^ai\.onnx\.preview::FlexAttention", "a draft of ONNX's, which no exporter writes yet"),
    (r"^ai\.onnx::(?:Bernoulli|Multinomial|RandomUniformLike)\b", "random numbers"),
    (r"^ai\.onnx::Dropout: .*training_mode", "a Dropout that is told at run time whether to train: random numbers"),
    (r"^ai\.onnx::(?:Regex|String)", "text"),
    (r"^ai\.onnx::(?:ImageDecoder)", "files of pictures: what decodes them stands before the network"),
    (r"^ai\.onnx::TfIdfVectorizer", "counts of terms, which are made before the network"),
    (r"^ai\.onnx::BitCast", "the bits of a number, which no layer of TensorRT's reads"),
    (r"^ai\.onnx::LayerNormalization: it mixes", "no valid ONNX: a norm of two dtypes, by TorchScript"),
    (r"^ai\.onnx::Reshape: .*reshape changes volume", "it holds sizes that it was traced with (--dim gives them)"),
    (r"^ai\.onnx::BitShift", "bits of 64-bit integers"),
    (r"^ai\.onnx::(?:Unique|NonZero)\b", DATA),
    (r"^ai\.onnx::Compress", f"its condition is an input: {DATA}"),
    (r"needs (?:the )?(?:axes|axis|scales|depth|frame_step) to be", HELD),
    (r"determines sizes or axes|must know the axes", HELD),
    (r"^ai\.onnx::(?:Col2Im|MelWeightMatrix|Upsample)", HELD),
    (r"^ai\.onnx::CumProd", "its axis is an input"),
    (r"^ai\.onnx::DFT", "its length or axis is an input, or it goes back from one side"),
    (r"^ai\.onnx::MaxUnpool", "the size of its result is told by a further input"),
    (r"^ai\.onnx::(?:Resize): .*(?:scales to be|modes nearest|all axes|antialias)", HELD),
    (r"^ai\.onnx::Resize: .*(?:tf_crop|half_pixel_sym|keep_aspect)", "places or sizes that TensorRT does not know"),
    (r"^ai\.onnx::Loop: a size is computed from an input of", "how often it loops hangs on an input of floats"),
    (r"^ai\.onnx::Cast: TensorRT does not support .* tensors", "a dtype that TensorRT has not, inside of the model"),
    (r"^ai\.onnx::(?:Celu): The rank", "the case names no shape of its input, so no rank is known"),
    (r"^ai\.onnx::DeformConv", "TensorRT reads it, TensorRT-RTX does not: rule deform_conv_grid_sample is for both"),
    (r"^ai\.onnx::DequantizeLinear: .*even number", "an odd number of four-bit elements"),
    (r"^ai\.onnx::DequantizeLinear: TensorRT does not dequantize uint8", "weights in blocks that are an input"),
    (r"^ai\.onnx::QuantizeLinear: TensorRT does not support int16 tensors", "quantised to int16 inside of the model"),
    (r"^ai\.onnx::QLinearMatMul", "scales of float16, whose products ONNX Runtime's kernel rounds in a way of its own"),
    (r"^ai\.onnx::QLinearConv", "weights that are an input, and with them what their zero point is"),
    (r"^ai\.onnx::Mod: .*fmod=0", "fmod=0 of numbers that are no integers of 32 or 64 bits"),
    (r"^ai\.onnx::(?:Average|Max)Pool: .*dilations", "gaps in windows of over 64 elements, or beyond the end"),
    (r"^ai\.onnx::MaxPool: .*Indices", "places that are counted by columns"),
    (r"^ai\.onnx::(?:Sequence|SplitTo|ConcatFrom)", "a sequence whose tensors are not known one by one"),
    (r"^ai\.onnx::Optional", "an optional value that may be missing"),
    (r"^ai\.onnx::TensorScatter", "TensorScatter in rings, or of three axes"),
    (r"^ai\.onnx::Attention", "a softmax in float64, which TensorRT has not"),
    (r"^com\.microsoft::DynamicQuantizeLSTM", "a recurrent net that quantises its state at every step"),
)
_REASONS = [(re.compile(pattern), reported) for pattern, reported in REASONS]


def explanation(found: Sequence[Sequence[str]]) -> str:
    """Why, in words for all models with this reason; "" where nothing explains it."""
    said = [f"{op}: {reason}" for op, reason in found]
    reported = (words for pattern, words in _REASONS if any(map(pattern.search, said)))
    return next(reported, "")
