"""Limits of the ops that TensorRT's parser reads, according to its documentation."""

from collections.abc import Iterator, Sequence

from onnx import ValueInfoProto

from surgeon.ops.traits.trait_lookup import TRAINING_HELP, WITH_BODIES, ops_with
from surgeon.printed_commands import command
from surgeon.targets.lint.finding import CONSTANT
from surgeon.targets.op_limits import Limit, NodeFacts
from surgeon.targets.tensorrt.support_matrix import CONTRIB_EQUIVALENTS

# Ops whose first input does not decide whether TensorRT takes their data: indices, conditions, sources of casts.
EXEMPT = WITH_BODIES.union(
    ("Cast", "CastLike", "Constant", "ConstantOfShape", "DequantizeLinear", "NonZero", "OneHot", "QuantizeLinear"),
    ("Shape", "Size"),
)
HANDED_ON = ("Identity", "Cast")  # behind these the parser still knows a constant; behind all others it does not
MAX_K = 3840
HALVES = ("float16", "bfloat16")
MIN_HEAD, MAX_HEAD = 9, 256
RESIZES = ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric", "align_corners")


Found = Iterator[tuple[str, str]]


def _attention(site: NodeFacts) -> Found:
    # Dtypes and head sizes of the builder's kernels, as tried with TensorRT-RTX 1.7; the parser does not check them.
    if site.dtype(0) not in (None, *HALVES):
        yield (
            f"TensorRT builds Attention only in float16 and bfloat16, but here it is {site.dtype(0)}",
            "split it with the rule expand; TensorRT fuses the parts",
        )
    query, key, value = (site.shape(place) for place in range(3))
    rank = site.rank(0)
    heads = site.attribute("q_num_heads", 0)
    width = query[-1] if query and rank == 4 else None
    if rank == 3 and query and heads and isinstance(query[-1], int):
        width = query[-1] // heads
    if isinstance(width, int) and not MIN_HEAD <= width <= MAX_HEAD:
        why = f"TensorRT builds Attention only for head sizes of {MIN_HEAD} to {MAX_HEAD}, but here it is {width}"
        yield why, "split it with the rule expand"
    if rank == 4 and None not in (key, value) and key != value:
        yield "TensorRT needs keys and values of the same shape", ""
    if site.attribute("is_causal", 0) and site.has(3):
        yield "TensorRT supports a mask or is_causal, but not both", "merge the causal mask into the mask"
    if site.attribute("softmax_precision", 0):
        yield "TensorRT does not support softmax_precision", "leave it out if you mean float32"
    if any(map(site.has, range(4, 7))) or any(map(site.makes, range(1, 4))):
        yield "TensorRT does not support past and present keys and values", "concatenate them outside"
    if site.attribute("softcap", 0.0):
        yield "TensorRT does not support softcap", ""


def _rotary(site: NodeFacts) -> Found:
    given, cosines = site.shape(0), site.shape(1)
    if given and cosines and not site.has(3) and len(cosines) == 3 and cosines[0] != given[0]:
        yield "TensorRT needs cosines and sines with the batch size of the input", "expand them"


def _pool(site: NodeFacts) -> Found:
    if any(size != 1 for size in site.attribute("dilations", ())):
        yield "TensorRT does not support dilations in pooling", ""
    if site.rank(0) not in (None, 4, 5):
        yield "TensorRT pools only over two or three axes", "add an axis of size 1 (Unsqueeze), and remove it after"
    if site.makes(1):
        yield "TensorRT does not produce the second output, Indices", ""


def _deform_conv(site: NodeFacts) -> Found:
    pads = list(site.attribute("pads", ()))
    half = len(pads) // 2
    if pads[:half] != pads[half:]:
        yield "TensorRT needs equal pads at both ends of an axis", "add the difference with a Pad before it"
    if site.rank(0) not in (None, 3, 4):
        yield "TensorRT supports DeformConv only over one or two axes", ""


def _grid_sample(site: NodeFacts) -> Found:
    if site.rank(0) not in (None, 4):
        yield "TensorRT samples only inputs of four axes", ""


def _layer_norm(site: NodeFacts) -> Found:
    if site.makes(1) or site.makes(2):
        yield "TensorRT produces only the first output, not Mean and InvStdDev", ""


def _topk(site: NodeFacts) -> Found:
    if not site.attribute("sorted", 1):
        yield "TensorRT needs sorted=1", "set sorted=1, which is valid too"
    most = site.number(1)
    if most is not None and most >= MAX_K:
        yield f"TensorRT needs K below {MAX_K}, but it is {most:.0f}", "use the plugin TopkLastDim"


def _resize(site: NodeFacts) -> Found:
    mode = site.attribute("coordinate_transformation_mode", "half_pixel")
    if site.attribute("mode", "nearest") not in ("nearest", "linear"):
        yield "TensorRT resizes only in the modes nearest and linear", ""
    if mode not in RESIZES:
        yield f"TensorRT does not support coordinate_transformation_mode={mode}", ""
    if not site.fixed(2):
        yield "TensorRT needs scales to be a constant", "give sizes instead"
    axes = site.attribute("axes", None)
    if axes and site.has(2) and list(axes) != list(range(site.rank(0) or len(axes))):
        yield "TensorRT supports scales only for all axes in order", "set scales of 1 for the other axes"
    if axes and site.constant(3) and _is_free_beside(site, axes):
        yield "TensorRT supports fixed sizes of some axes only if the others are fixed", "give the sizes of all axes"
    if site.attribute("antialias", 0):
        yield "TensorRT does not support antialias", ""
    if site.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        yield "TensorRT supports only keep_aspect_ratio_policy=stretch", ""


def _is_free_beside(site: NodeFacts, axes: Sequence[int]) -> bool:
    """Whether an axis of the input other than these is dynamic."""
    shape = site.shape(0)
    named = {axis % len(shape) for axis in axes} if shape else set()
    return shape is not None and any(not isinstance(size, int) for at, size in enumerate(shape) if at not in named)


def _scatter_nd(site: NodeFacts) -> Found:
    if site.attribute("reduction", "none") != "none":
        yield "TensorRT scatters only without a reduction", ""


def _scatter_elements(site: NodeFacts) -> Found:
    if site.attribute("reduction", "none") != "none":
        yield "TensorRT scatters only without a reduction", "use the plugin ScatterElements, which has reductions"


def _lp_pool(site: NodeFacts) -> Found:
    yield from _pool(site)
    if site.attribute("p", 2) not in (1, 2):
        yield "TensorRT pools only with p=1 and p=2", ""


def _batch_norm(site: NodeFacts) -> Found:
    if site.attribute("training_mode", 0) or any(map(site.makes, range(1, 5))):
        yield "TensorRT has no training mode", TRAINING_HELP


def _clip(site: NodeFacts) -> Found:
    if site.dtype(0) == "int8":
        yield "TensorRT clips only floats, int32 and int64", "cast its input and output"


def _mod(site: NodeFacts) -> Found:
    if not site.attribute("fmod", 0) and site.dtype(0) in ("float", "float16", "bfloat16", "double", "int8"):
        yield f"TensorRT supports fmod=0 only for int32 and int64, but its data is {site.dtype(0)}", ""


def _range(site: NodeFacts) -> Found:
    if site.dtype(0) not in (None, "float", "int32", "int64"):
        yield f"TensorRT counts only in float32, int32 and int64, but here in {site.dtype(0)}", "cast around it"
    elif site.dtype(0) == "float" and not all(map(site.fixed, range(3))):
        yield "TensorRT counts in floats only between constants", "count in integers, and cast"


def _stft(site: NodeFacts) -> Found:
    if not site.fixed(1):
        yield "TensorRT needs frame_step to be a constant", CONSTANT
    if (site.shape(0) or (1,))[-1] != 1:
        yield "TensorRT transforms only real signals", ""


def _is_built_in(site: NodeFacts, position: int) -> bool:
    """Whether an input is a constant of the file, also through nodes that pass it on, or omitted."""
    name = site.node.inputs[position] if site.has(position) and site.node.scope.function is None else ""
    while name:
        home = site.node.scope.defining_scope(name)
        maker = None if home is None else home.producers.get(name)
        if home is None or maker is None:
            return home is None or name in home.all_initializers
        if maker.op not in HANDED_ON:
            return maker.op == "Constant"
        name = maker.inputs[0]
    return True


def _reduction(site: NodeFacts) -> Found:
    if not _is_built_in(site, 1):
        yield (
            "TensorRT needs the axes to be a constant, not the result of nodes",
            CONSTANT,
        )


def _constant_input(position: int, name: str) -> Limit:
    """TensorRT needs an input to be known when the network is built."""

    def limit(site: NodeFacts) -> Found:
        if not site.fixed(position):
            yield f"TensorRT needs {name} to be a constant", CONSTANT

    return limit


def _dequantize(site: NodeFacts) -> Found:
    if site.dtype(0) in ("uint8", "int32"):
        yield f"TensorRT does not dequantize {site.dtype(0)}", "quantise to int8"
    last = (site.shape(0) or (0,))[-1]
    if site.dtype(0) in ("int4", "float4e2m1") and isinstance(last, int) and last % 2:
        yield "TensorRT needs an even number of 4-bit elements", ""
    yield from _zero_point(site)


def _zero_point(site: NodeFacts) -> Found:
    if site.has(2) and not site.zeros(2):
        yield "TensorRT needs zero points of 0", "quantise symmetrically"


def _lstm(site: NodeFacts) -> Found:
    for name in ("layout", "input_forget"):
        if site.attribute(name, 0):
            yield f"TensorRT needs {name}=0", ""
    yield from _recurrent(site)


def _recurrent(site: NodeFacts) -> Found:
    # The parser of TensorRT-RTX 1.7 selects between the steps and zeros of float32; it is not documented.
    if site.has(4) and site.dtype(0) in HALVES:
        reason = f"TensorRT supports sequence_lens only in float32, but here the node is {site.dtype(0)}"
        how = command("convert", "ORIGINAL", "OUT", "--ep", "tensorrt")
        yield reason, f"keep it in float32, by converting the original model again: {how}"


def _constant(site: NodeFacts) -> Found:
    for name in ("sparse_value", "value_string", "value_strings"):
        if site.node.attribute(name) is not None:
            yield f"TensorRT does not support {name}", ""


def _dropout(site: NodeFacts) -> Found:
    if site.has(2) and site.number(2) != 0:
        yield "TensorRT needs training_mode to be the constant False", TRAINING_HELP


def _tensor_scatter(site: NodeFacts) -> Found:
    if site.attribute("axis", -2) != -2 or site.rank(0) not in (None, 4):
        yield "TensorRT scatters only along axis -2 of four axes", ""
    if site.attribute("mode", "linear") != "linear":
        yield "TensorRT scatters only in the mode linear", ""


def _has_shape(value: ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.HasField("shape"))


def _if(site: NodeFacts) -> Found:
    branches = [item.g.output for item in site.node.proto.attribute if item.HasField("g")]
    for one, other in zip(*branches, strict=False) if len(branches) == 2 else ():
        ranks = [len(value.type.tensor_type.shape.dim) for value in (one, other) if _has_shape(value)]
        if len(set(ranks)) > 1:
            reason = f"TensorRT needs branches of the same rank, but they have {ranks[0]} and {ranks[1]} axes"
            yield reason, "reshape the output of one branch"
            return
    names = [[value.name for value in outputs] for outputs in branches]
    if len(names) == 2 and any(a == b for a, b in zip(*names, strict=False)):
        yield "TensorRT needs different output names in both branches", "rename those of one branch"


LIMITS: dict[str, Limit] = {
    "Attention": _attention,
    "AveragePool": _pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Constant": _constant,
    "CumSum": _constant_input(1, "axis"),
    "DeformConv": _deform_conv,
    "DequantizeLinear": _dequantize,
    "Dropout": _dropout,
    "GridSample": _grid_sample,
    "If": _if,
    "GRU": _recurrent,
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "LpPool": _lp_pool,
    "MaxPool": _pool,
    "Mod": _mod,
    "OneHot": _constant_input(1, "depth"),
    "QuantizeLinear": _zero_point,
    "Range": _range,
    "Resize": _resize,
    "RNN": _recurrent,
    "RotaryEmbedding": _rotary,
    "STFT": _stft,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Slice": _constant_input(3, "axes"),
    "Squeeze": _constant_input(1, "axes"),
    "TensorScatter": _tensor_scatter,
    "TopK": _topk,
    "Unsqueeze": _constant_input(1, "axes"),
    "Upsample": _constant_input(1, "scales"),
    **dict.fromkeys(ops_with("reduces"), _reduction),
}
LIMITS |= {f"com.microsoft::{name}": LIMITS[name] for name in sorted(CONTRIB_EQUIVALENTS & LIMITS.keys())}
