"""What TensorRT's parser does not take of the ops that it reads, as its documentation says."""

from collections.abc import Iterator

from surgeon.diagnosis.limits import Limit, NodeFacts
from surgeon.ops.records import WITH_BODIES, named
from surgeon.targets.tensorrt_ops import READ_RIGHT

# Ops whose first input does not tell whether TensorRT takes their data: indices, conditions, what they convert from.
EXEMPT = WITH_BODIES.union(
    ("Cast", "CastLike", "Constant", "ConstantOfShape", "DequantizeLinear", "NonZero", "OneHot", "QuantizeLinear"),
    ("Shape", "Size"),
)
MOST_K = 3840
RESIZES = ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric", "align_corners")


Found = Iterator[tuple[str, str]]


def _attention(site: NodeFacts) -> Found:
    if any(site.rank(place) not in (None, 4) for place in range(4)):
        yield "TensorRT takes Q, K, V and the mask with four axes only", "split the heads into an axis of their own"
    if any(map(site.has, range(4, 7))) or any(map(site.makes, range(1, 4))):
        yield "TensorRT takes no past keys and values, and gives no present ones", "concatenate them outside"
    if site.attribute("softcap", 0.0):
        yield "TensorRT has no softcap", ""


def _pool(site: NodeFacts) -> Found:
    if any(size != 1 for size in site.attribute("dilations", ())):
        yield "TensorRT pools without dilations only", ""
    if site.rank(0) not in (None, 4, 5):
        yield "TensorRT pools over two or three axes only", "add an axis of size 1 (Unsqueeze), and take it out after"
    if site.makes(1):
        yield "TensorRT does not give the second output, Indices", ""


def _deform_conv(site: NodeFacts) -> Found:
    pads = list(site.attribute("pads", ()))
    half = len(pads) // 2
    if pads[:half] != pads[half:]:
        yield "TensorRT wants the same pads at both ends of an axis", "put a Pad before it for what is more at one end"
    if site.rank(0) not in (None, 3, 4):
        yield "TensorRT deforms over one or two axes only", ""


def _grid_sample(site: NodeFacts) -> Found:
    if site.rank(0) not in (None, 4):
        yield "TensorRT samples inputs of four axes only", ""


def _layer_norm(site: NodeFacts) -> Found:
    if site.makes(1) or site.makes(2):
        yield "TensorRT gives the first output only, not Mean and InvStdDev", ""


def _topk(site: NodeFacts) -> Found:
    if not site.attribute("sorted", 1):
        yield "TensorRT wants sorted=1", "write sorted=1, which is right too"
    most = site.number(1)
    if most is not None and most >= MOST_K:
        yield f"TensorRT wants K below {MOST_K}, and it is {most:.0f}", "the plugin TopkLastDim takes more"


def _resize(site: NodeFacts) -> Found:
    mode = site.attribute("coordinate_transformation_mode", "half_pixel")
    if site.attribute("mode", "nearest") not in ("nearest", "linear"):
        yield "TensorRT resizes in the modes nearest and linear only", ""
    if mode not in RESIZES:
        yield f"TensorRT does not know coordinate_transformation_mode={mode}", ""
    if site.attribute("antialias", 0):
        yield "TensorRT resizes without antialias only", ""
    if site.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        yield "TensorRT knows keep_aspect_ratio_policy=stretch only", ""


def _scatter_nd(site: NodeFacts) -> Found:
    if site.attribute("reduction", "none") != "none":
        yield "TensorRT scatters without a reduction only", ""


def _constant_input(position: int, name: str) -> Limit:
    """TensorRT wants an input to be known when the network is built."""

    def limit(site: NodeFacts) -> Found:
        if not site.fixed(position):
            yield (
                f"TensorRT wants {name} to be a constant",
                "fold what makes it (surgeon rewrite --rules constant_folding)",
            )

    return limit


def _zero_point(site: NodeFacts) -> Found:
    if site.has(2) and not site.zeros(2):
        yield "TensorRT wants zero points of 0", "quantise symmetrically"


def _lstm(site: NodeFacts) -> Found:
    for name in ("layout", "input_forget"):
        if site.attribute(name, 0):
            yield f"TensorRT wants {name}=0", ""


def _constant(site: NodeFacts) -> Found:
    for name in ("sparse_value", "value_string", "value_strings"):
        if site.node.attribute(name) is not None:
            yield f"TensorRT takes no {name}", ""


def _dropout(site: NodeFacts) -> Found:
    if site.has(2) and site.number(2) != 0:
        yield "TensorRT wants training_mode to be a constant False", "export the model after model.eval()"


def _tensor_scatter(site: NodeFacts) -> Found:
    if site.attribute("axis", -2) != -2 or site.rank(0) not in (None, 4):
        yield "TensorRT scatters along axis -2 of four axes only", ""


def _if(site: NodeFacts) -> Found:
    names = [[value.name for value in item.g.output] for item in site.node.proto.attribute if item.HasField("g")]
    if len(names) == 2 and any(a == b for a, b in zip(*names, strict=False)):
        yield "TensorRT wants the outputs of both branches to have different names", "rename those of one branch"


LIMITS: dict[str, Limit] = {
    "Attention": _attention,
    "AveragePool": _pool,
    "Constant": _constant,
    "CumSum": _constant_input(1, "axis"),
    "DeformConv": _deform_conv,
    "DequantizeLinear": _zero_point,
    "Dropout": _dropout,
    "GridSample": _grid_sample,
    "If": _if,
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "LpPool": _pool,
    "MaxPool": _pool,
    "OneHot": _constant_input(1, "depth"),
    "QuantizeLinear": _zero_point,
    "Resize": _resize,
    "ScatterND": _scatter_nd,
    "Slice": _constant_input(3, "axes"),
    "Squeeze": _constant_input(1, "axes"),
    "TensorScatter": _tensor_scatter,
    "TopK": _topk,
    "Unsqueeze": _constant_input(1, "axes"),
    **dict.fromkeys(named(lambda op: op.reduces), _constant_input(1, "axes")),
}
LIMITS |= {f"com.microsoft::{name}": LIMITS[name] for name in sorted(READ_RIGHT & LIMITS.keys())}
