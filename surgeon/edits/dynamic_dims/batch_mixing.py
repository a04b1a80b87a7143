"""Which tensors hang on more than one place along what is free: where samples of a batch would see one another."""

from collections.abc import Callable, Iterator

from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Expr
from surgeon.shapes.hypothetical_shapes import Place
from surgeon.shapes.tensor_types import INTEGERS, NodeView, normalize_axis


def batch_mixing_tensors(walk: SizePropagation) -> set[Place]:
    """All such tensors, once a walk is through; what nothing is known of counts as one.

    A tensor in which what is free is the size of two axes, or is multiplied by itself, is one too.
    """
    found: set[Place] = set()
    for node in _in_order(walk):
        inside = [place for body in walk.shapes.bodies(node) for place in ((body, x.name) for x in body.proto.output)]
        read = [(home, name) for name in node.inputs if name and (home := node.scope.defining_scope(name)) is not None]
        if any(place in found for place in (*read, *inside)) or _mixes(walk, walk.shapes.site(node)):
            found.update((node.scope, name) for name in node.outputs if name)
    return found


def _in_order(walk: SizePropagation) -> Iterator[Node]:
    """The nodes of the main graph and of bodies, those inside of a node before it."""

    def below(node: Node) -> Iterator[Node]:
        for body in walk.shapes.bodies(node):
            for inner in body.nodes:
                yield from below(inner)
        yield node

    for node in walk.index.main.nodes:
        yield from below(node)


def _mixes(walk: SizePropagation, site: NodeView) -> bool:
    """Whether one node's results do, of inputs that do not."""
    node = site.node
    made = [walk.shapes.facts(site.scope, name) for name in node.outputs if name]
    if any(facts.shape is not None and _is_square(walk, facts.shape) for facts in made):
        return True
    told = traits_of(node.op)
    if not walk.reads_dynamic(site) or told.shape.returns_sizes or node in walk.position_readers:
        return False
    if node in walk.position_enumerators:
        return True
    if node.op in MIXING:
        return MIXING[node.op](walk, site)
    if any(facts.shape is None for facts in made) or walk.shapes.function(node) is not None:
        return True
    if all(facts.dtype in INTEGERS for facts in made) and all(
        walk.shapes.value(site.scope, name) is not None for name in node.outputs if name
    ):
        return False  # sizes are made of sizes
    if told.products.attention_inputs is not None:
        return _attends(walk, site)
    if told.numerics.is_softmax:
        return _softmax(walk, site)
    if told.numerics.reduces or told.numerics.norm_axis is not None or told.numerics.is_max_like:
        return _along(walk, site)
    return not (told.shape.broadcasts or told.keeps_shape or told.dtype.is_cast)


def _is_square(walk: SizePropagation, shape: object) -> bool:
    hanging = [size for size in shape if walk.is_dynamic([size])]  # type: ignore[attr-defined]  # a shape
    return len(hanging) > 1 and len(walk.fixed_sizes) < len(hanging)


def _hangs(walk: SizePropagation, site: NodeView, position: int, axes: "list[int] | range | None" = None) -> bool:
    """Whether some axes of an input hang on what is free; where its rank is unknown, they may."""
    shape = site.shape(position)
    if shape is None:
        return True
    chosen = range(len(shape)) if axes is None else [normalize_axis(axis, len(shape)) for axis in axes]
    return walk.is_dynamic([shape[axis] for axis in chosen])


def _along(walk: SizePropagation, site: NodeView) -> bool:
    """Ops along axes that are an input, or an attribute `axes` or `axis`."""
    told, rank = traits_of(site.node.op), len(site.shape(0) or ())
    if told.numerics.reduces:
        axes = site.axes(1)
        if axes is None and site.gives_axes(1):
            return True
        return _hangs(walk, site, 0, axes or (range(0) if site.attribute("noop_with_empty_axes", 0) else None))
    return _hangs(walk, site, 0, range(normalize_axis(site.attribute("axis", -1), max(rank, 1)), rank))


def _softmax(walk: SizePropagation, site: NodeView) -> bool:
    """Over one axis, before opset 13 over all from there on."""
    axis, rank = site.attribute("axis", -1 if site.opset >= 13 else 1), len(site.shape(0) or ())
    return _hangs(walk, site, 0, [axis] if site.opset >= 13 else range(normalize_axis(axis, max(rank, 1)), rank))


def _on_axis(default: int) -> Callable[[SizePropagation, NodeView], bool]:
    return lambda walk, site: _hangs(walk, site, 0, [site.attribute("axis", default)])


def _behind_first(walk: SizePropagation, site: NodeView) -> bool:
    """Ops on [N, C, ...] that see each sample by itself."""
    others = [place for place in range(1, len(site.inputs)) if site.has(place)]
    rank = len(site.shape(0) or ())
    if site.attribute("training_mode", 0) or len(site.node.outputs) > 1:
        return True  # means of a whole batch, and places counted in it, are further outputs
    return _hangs(walk, site, 0, range(1, rank)) or any(_hangs(walk, site, place) for place in others)


def _matmul(walk: SizePropagation, site: NodeView) -> bool:
    rank = len(site.shape(1) or ())
    return _hangs(walk, site, 0, [-1]) or _hangs(walk, site, 1, [-2 if rank > 1 else -1])


def _gemm(walk: SizePropagation, site: NodeView) -> bool:
    turned = site.attribute("transA"), site.attribute("transB")
    return _hangs(walk, site, 0, [0 if turned[0] else 1]) or _hangs(walk, site, 1, [1 if turned[1] else 0])


def _einsum(walk: SizePropagation, site: NodeView) -> bool:
    left, _, right = site.attribute("equation", "").replace(" ", "").partition("->")
    summed = [
        (position, axis)
        for position, term in enumerate(left.split(","))
        for axis, label in enumerate(term)
        if label not in right
    ]
    return "." in left or any(_hangs(walk, site, position, [axis]) for position, axis in summed)


def _gather(walk: SizePropagation, site: NodeView) -> bool:
    return _hangs(walk, site, 0, [site.attribute("axis", 0)])


def _beside(walk: SizePropagation, site: NodeView) -> bool:
    return _hangs(walk, site, 0, [site.attribute("axis", 0)])


def _by_tuples(walk: SizePropagation, site: NodeView) -> bool:
    indices, table = site.shape(1), site.shape(0)
    if indices is None or table is None or not isinstance(indices[-1], int):
        return True
    batch = site.attribute("batch_dims", 0)
    return walk.is_dynamic(table[batch : batch + indices[-1]])


def _slice(walk: SizePropagation, site: NodeView) -> bool:
    shape, made = site.shape(0), walk.shapes.facts(site.scope, site.node.outputs[0]).shape
    if shape is None or made is None or len(shape) != len(made):
        return True
    return any(walk.is_dynamic(pair) and pair[0] != pair[1] for pair in zip(shape, made, strict=True))


def _tile(walk: SizePropagation, site: NodeView) -> bool:
    shape, made = site.shape(0), walk.shapes.facts(site.scope, site.node.outputs[0]).shape
    if shape is None or made is None:
        return True
    return any(walk.is_dynamic(pair) and pair[0] not in (1, pair[1]) for pair in zip(shape, made, strict=True))


def _sums(walk: SizePropagation, site: NodeView) -> bool:
    return _hangs(walk, site, 0, site.numbers(1))


def _halves(walk: SizePropagation, site: NodeView) -> bool:
    return _hangs(walk, site, 0, [-2, -1])


def _always(walk: SizePropagation, site: NodeView) -> bool:
    """Ops that tell the places apart."""
    return True


def _concat(walk: SizePropagation, site: NodeView) -> bool:
    axis = site.attribute("axis", 0)
    return any(_hangs(walk, site, place, [axis]) for place in range(len(site.inputs)))


def _recurrent(walk: SizePropagation, site: NodeView) -> bool:
    batch = 0 if site.attribute("layout", 0) else 1
    return _hangs(walk, site, 0, [1 - batch, 2])


def _attends(walk: SizePropagation, site: NodeView) -> bool:
    """Attention sees each sample by itself, and all of its words."""
    ranks = [(place, len(site.shape(place) or ())) for place in range(len(site.inputs)) if site.has(place)]
    return any(_hangs(walk, site, place, range(1, rank)) for place, rank in ranks)


def _scan(walk: SizePropagation, site: NodeView) -> bool:
    """Scan goes along an axis of its last inputs, and its body is looked into by itself."""
    count = site.attribute("num_scan_inputs", 1)
    axes = site.attribute("scan_input_axes") or [0] * count
    first = len(site.inputs) - count
    return site.opset < 9 or any(_hangs(walk, site, first + place, [axis]) for place, axis in enumerate(axes))


def _cast(walk: SizePropagation, site: NodeView) -> bool:
    """A size as a float is a number to compute with: of samples, say, to take a mean of."""
    value, made = site.value(0), walk.shapes.facts(site.scope, site.node.outputs[0])
    sizes = [] if value is None else [item for item in value.flat if isinstance(item, Expr)]
    return walk.is_dynamic(sizes) and made.dtype not in INTEGERS


def _never(walk: SizePropagation, site: NodeView) -> bool:
    """Ops that see each place by itself, and have no record that says so."""
    return False


MIXING: dict[str, Callable[[SizePropagation, NodeView], bool]] = {
    **dict.fromkeys(("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand"), _never),
    **dict.fromkeys(("ConstantOfShape", "Clip", "DequantizeLinear", "QuantizeLinear"), _never),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    **dict.fromkeys(("OneHot", "Dropout", "If", "Loop"), _never),
    **dict.fromkeys(("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "QLinearConv"), _behind_first),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "LRN", "DeformConv"), _behind_first),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization", "GroupNormalization"), _behind_first),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth", "ConvInteger", "MaxUnpool"), _behind_first),
    **dict.fromkeys(("TopK", "Hardmax", "LpNormalization"), _on_axis(-1)),
    **dict.fromkeys(("ArgMax", "ArgMin", "Split"), _on_axis(0)),
    **dict.fromkeys(("GatherElements", "ScatterElements", "Scatter"), _beside),
    **dict.fromkeys(("GatherND", "ScatterND"), _by_tuples),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("Pad", "Resize", "Upsample"), _slice),
    **dict.fromkeys(("RotaryEmbedding", "com.microsoft::RotaryEmbedding"), _attends),
    **dict.fromkeys(("MeanVarianceNormalization", "ReverseSequence", "TensorScatter", "Range"), _always),
    **dict.fromkeys(("com.microsoft::GroupNorm", "com.microsoft::NhwcMaxPool"), _behind_first),
    **dict.fromkeys(("com.microsoft::Inverse", "com.microsoft::Trilu", "Trilu"), _halves),
    **dict.fromkeys(("com.microsoft::QLinearSoftmax", "com.microsoft::BiasSoftmax"), _always),
    **dict.fromkeys(("CumSum", "CumProd"), _sums),
    "Concat": _concat,
    "Einsum": _einsum,
    "Gather": _gather,
    "Gemm": _gemm,
    "LayerNormalization": _along,
    "LogSoftmax": _softmax,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "RMSNormalization": _along,
    "Scan": _scan,
    "Slice": _slice,
    "Tile": _tile,
}
