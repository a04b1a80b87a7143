"""The mutants of one replacement: small changes, enumerated in the same order whenever it is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs
from onnx import AttributeProto, helper

from surgeon.ops.schemas import schema
from surgeon.ops.traits.trait_lookup import COMMUTATIVE
from tests.mutation.canvas import Canvas
from tests.mutation.poisons import HALVES, poisons

OTHERS = {
    "Less": ("LessOrEqual", "Greater"), "LessOrEqual": ("Less", "GreaterOrEqual"),
    "Greater": ("GreaterOrEqual", "Less"), "GreaterOrEqual": ("Greater", "LessOrEqual"),
    "Add": ("Sub",), "Sub": ("Add",), "Mul": ("Div",), "Div": ("Mul",), "Max": ("Min",), "Min": ("Max",),
    "And": ("Or",), "Or": ("And", "Xor"), "Floor": ("Ceil", "Round"), "Ceil": ("Floor", "Round"),
    "Round": ("Floor", "Ceil"), "ReduceMean": ("ReduceSum",), "ReduceSum": ("ReduceMean",),
    "ReduceMax": ("ReduceMin",), "ReduceMin": ("ReduceMax",), "Gelu": ("FastGelu", "Sigmoid"), "FastGelu": ("Gelu",),
    "QuickGelu": ("Gelu",), "Softmax": ("LogSoftmax",), "LogSoftmax": ("Softmax",), "Relu": ("Abs", "Identity"),
    "Sigmoid": ("HardSigmoid", "Tanh"), "Tanh": ("Sigmoid", "Erf"), "Erf": ("Tanh",), "Exp": ("Softplus",),
    "Softplus": ("Relu", "Exp"), "Elu": ("Selu", "Celu"), "Celu": ("Elu",), "Selu": ("Elu",),
    "LayerNormalization": ("SimplifiedLayerNormalization",), "HardSwish": ("Mish",), "Mish": ("HardSwish",),
    "SimplifiedLayerNormalization": ("LayerNormalization",), "Sqrt": ("Identity",), "Abs": ("Relu", "Identity"),
    "LpNormalization": ("Softmax",), "MatMul": ("Mul",), "Sin": ("Cos",), "Cos": ("Sin",), "Not": ("Identity",),
}  # fmt: skip
"""Ops that take the same inputs, and the others that a slip might write."""
FLAGS = frozenset(
    ("allowzero", "keepdims", "noop_with_empty_axes", "interleaved", "is_causal", "unidirectional", "causal",
     "do_rotary", "is_packed_batching", "transA", "transB", "transBatchA", "transBatchB", "count_include_pad",
     "ceil_mode", "saturate", "exclusive", "reverse", "channels_last", "rotary_interleaved", "smooth_softmax",
     "use_smooth_softmax", "use_mask", "training_mode", "is_past_bsnh", "mask_index_type")
)  # fmt: skip
"""Attributes that are 0 or 1."""
FLOAT_TYPES = (1, 10, 11, 16)


@dataclass(frozen=True)
class Mutation:
    """One change.  kind: its class; detail: which of them; act: does it."""

    kind: str
    detail: str
    act: Callable[[], None]

    @property
    def name(self) -> str:
        """What tells it from the others of one replacement."""
        return f"{self.kind}: {self.detail}"


def mutations(canvas: Canvas) -> list[Mutation]:
    """All mutants of a replacement; of those with one name the first."""
    found: dict[str, Mutation] = {}
    for make in (_constants, _operands, _attributes, _nodes, _ops, _casts, _masks, _captures, _results):
        for one in make(canvas):
            found.setdefault(one.name, one)
    return list(found.values())


def mutate(name: str) -> Callable[[Canvas], None]:
    """The change of a canvas by the mutant of this name."""

    def change(canvas: Canvas) -> None:
        next(one for one in mutations(canvas) if one.name == name).act()
        settle(canvas)

    return change


def settle(canvas: Canvas) -> None:
    """Put the nodes of the graph behind what they read."""
    made = {id(out) for node in canvas.graph.nodes for out in node.outputs}
    left, ordered, known = list(canvas.graph.nodes), [], set[int]()
    while left:
        ready = [node for node in left if all(id(item) in known or id(item) not in made for item in node.inputs)]
        assert ready, "a mutant's nodes read each other"
        ordered += ready
        known.update(id(out) for node in ready for out in node.outputs)
        left = [node for node in left if not any(node is one for one in ready)]
    canvas.graph.nodes[:] = ordered


def _constants(canvas: Canvas) -> Iterator[Mutation]:
    """Constants by one unit, by 1 %, of the other sign; all of their elements, or one."""
    for at, constant in enumerate(canvas.constants):
        values = np.asarray(constant.values)
        if (values.dtype.kind not in "biuf" and values.dtype.name != "bfloat16") or not values.size:
            continue
        for how, made in _varied(values):
            if not np.array_equal(made, values, equal_nan=values.dtype.kind == "f"):
                yield Mutation("constant", f"{at} {how}", lambda constant=constant, made=made: _set(constant, made))


def _varied(values: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    changes: dict[str, Callable[[Any], Any]] = {"inverted": np.logical_not}
    if values.dtype.kind in "iu":
        changes = {"plus 1": lambda x: x + 1, "minus 1": lambda x: x - 1}
    elif values.dtype.kind != "b":
        changes = {"times 1.01": lambda x: x * 1.01, "plus 1": lambda x: x + 1, "negated": lambda x: -x}
    for how, change in changes.items():
        with np.errstate(all="ignore"):
            yield how, np.asarray(change(values)).astype(values.dtype)
            for name, place in (("first", 0), ("last", -1)) if values.size > 1 else ():
                one = values.copy()
                one.reshape(-1)[place] = np.asarray(change(one.reshape(-1)[place])).astype(values.dtype)
                yield f"{name} element {how}", one


def _set(constant: gs.Constant, values: np.ndarray[Any, Any]) -> None:
    constant.values = values


def _operands(canvas: Canvas) -> Iterator[Mutation]:
    """Inputs in another order, left out, or taken from another tensor of the match."""
    for at, node in enumerate(canvas.nodes):
        inputs = list(node.inputs)
        for one in range(len(inputs)):
            for other in range(one + 1, len(inputs)):
                if node.op not in COMMUTATIVE and inputs[one] is not inputs[other]:
                    detail = f"{at} {node.op} {one} and {other}"
                    yield Mutation("operands", detail, lambda n=node, a=one, b=other: _swap(n, a, b))
            if _may_lack(canvas, node, one):
                yield Mutation("left out", f"{at} {node.op} {one}", lambda n=node, a=one: _leave_out(n, a))


def _swap(node: gs.Node, one: int, other: int) -> None:
    node.inputs[one], node.inputs[other] = node.inputs[other], node.inputs[one]


def _may_lack(canvas: Canvas, node: gs.Node, place: int) -> bool:
    known = schema(node.domain or "", node.op, canvas.graph.version(node.domain or ""))
    formal = known.input_at(place) if known is not None else None
    return formal is not None and formal.optional and bool(node.inputs[place].name)


def _leave_out(node: gs.Node, place: int) -> None:
    node.inputs[place] = gs.Variable.empty()


def _attributes(canvas: Canvas) -> Iterator[Mutation]:
    """Attributes changed, set to their defaults, and from their defaults to something else."""
    for at, node in enumerate(canvas.nodes):
        known = schema(node.domain or "", node.op, canvas.graph.version(node.domain or ""))
        specs = known.attributes if known is not None else {}
        for name in sorted({*node.attrs, *specs}):
            spec = specs.get(name)
            default = _plain(spec.value) if spec is not None else None
            value = _plain(node.attrs.get(name, default))
            is_given = name in node.attrs
            if is_given and spec is not None and not spec.required and value != default:
                yield Mutation("attribute", f"{at} {node.op} {name} left out", lambda n=node, a=name: n.attrs.pop(a))
            for other in _other_values(name, value, spec):
                if other not in (value, default) or (other == default and is_given and other != value):
                    detail = f"{at} {node.op} {name} = {other}"
                    yield Mutation("attribute", detail, lambda n=node, a=name, v=other: n.attrs.__setitem__(a, v))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size < 64 else None
    if isinstance(value, (np.integer, np.floating)):
        return value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return list(value) if isinstance(value, tuple) else value


def _other_values(name: str, value: Any, spec: Any) -> Iterator[Any]:
    words = {
        "approximate": ("none", "tanh"),
        "mode": ("constant", "reflect", "edge", "linear", "cubic", "nearest"),
        "auto_pad": ("SAME_UPPER", "SAME_LOWER", "VALID"),
        "direction": ("LEFT", "RIGHT"),
    }
    if name in FLAGS:
        yield 1 - int(value or 0)
    elif isinstance(value, int):
        yield from dict.fromkeys((value + 1, value - 1, *((0,) if value > 1 else ())))
    elif isinstance(value, float):
        yield from dict.fromkeys((value * 1.01, value + 1.0, -value, 0.0))
    elif isinstance(value, str):
        yield from (word for word in words.get(name, ()) if word != value)
    elif isinstance(value, list) and value and all(isinstance(item, (int, float)) for item in value):
        yield value[::-1]
        yield [value[0] + 1, *value[1:]]
        yield [*value[:-1], value[-1] + 1]
        if len(value) > 2:
            yield [value[1], value[0], *value[2:]]
            yield [*value[:-2], value[-1], value[-2]]
    elif value is None and spec is not None and spec.type == AttributeProto.INT:
        yield from (0, 1)
    elif value is None and spec is not None and spec.type == AttributeProto.FLOAT:
        yield from (0.5, 2.0)


def _nodes(canvas: Canvas) -> Iterator[Mutation]:
    """Nodes dropped, so that an input goes on in their place, and doubled."""
    for at, node in enumerate(canvas.nodes):
        if not node.outputs:
            continue
        for place, tensor in enumerate(node.inputs[:3]):
            if tensor.name and not (isinstance(tensor, gs.Constant) and tensor.values.dtype.kind in "iub"):
                detail = f"{at} {node.op} for its input {place}"
                yield Mutation("dropped", detail, lambda n=node, t=tensor: canvas.replace(n.outputs[0], t, beside=n))
        if len(node.inputs) and node.inputs[0].name and node.op not in IDEMPOTENT:
            yield Mutation("doubled", f"{at} {node.op}", lambda n=node: _double(canvas, n))


IDEMPOTENT = frozenset(
    ("Identity", "Relu", "Abs", "Floor", "Ceil", "Round", "Cast", "Reshape", "Expand", "Max", "Min", "Clip", "And",
     "Or")
)  # fmt: skip
"""Ops that, done once more with the same other inputs, change nothing."""


def _double(canvas: Canvas, node: gs.Node) -> None:
    again = [gs.Variable(f"{out.name}_again") for out in node.outputs]
    canvas.replace(node.outputs[0], again[0])
    inputs = [node.outputs[0], *node.inputs[1:]]
    canvas.graph.nodes.append(
        gs.Node(op=node.op, domain=node.domain, attrs=dict(node.attrs), inputs=inputs, outputs=again)
    )


def _ops(canvas: Canvas) -> Iterator[Mutation]:
    """Another op on the same inputs."""
    for at, node in enumerate(canvas.nodes):
        for other in OTHERS.get(node.op, ()):
            yield Mutation("op", f"{at} {node.op} to {other}", lambda n=node, o=other: _become(canvas, n, o))


def _become(canvas: Canvas, node: gs.Node, op: str) -> None:
    ours = schema(node.domain or "", op, canvas.graph.version(node.domain or ""))
    domain = node.domain
    if ours is None:
        domain = "" if domain else "com.microsoft"
        ours = schema(domain or "", op, canvas.graph.version(domain or ""))
    node.op, node.domain = op, domain or None
    for name in list(node.attrs):
        if ours is None or name not in ours.attributes:
            del node.attrs[name]


def _casts(canvas: Canvas) -> Iterator[Mutation]:
    """Another dtype in an inner Cast, and digits lost in front of a node."""
    for at, node in enumerate(canvas.nodes):
        if node.op == "Cast":
            for other in FLOAT_TYPES:
                if int(node.attrs["to"]) in FLOAT_TYPES and other != int(node.attrs["to"]):
                    yield Mutation("cast", f"{at} to {other}", lambda n=node, o=other: n.attrs.__setitem__("to", o))
        for place, tensor in enumerate(node.inputs):
            dtype = canvas.dtype(tensor) if tensor.name and not isinstance(tensor, gs.Constant) else None
            if dtype is not None and dtype.name in ("float32", "float64"):
                detail = f"{at} {node.op} {place} through bfloat16"
                yield Mutation("cast", detail, lambda n=node, p=place, d=dtype: _through(canvas, n, p, d))


def _through(canvas: Canvas, node: gs.Node, place: int, dtype: np.dtype[Any]) -> None:
    g = canvas.graph
    node.inputs[place] = g.cast(g.cast(node.inputs[place], to=16), to=int(helper.np_dtype_to_tensor_dtype(dtype)))


def _masks(canvas: Canvas) -> Iterator[Mutation]:
    """A mask inverted in front of what reads it."""
    for at, node in enumerate(canvas.nodes):
        for place, tensor in enumerate(node.inputs):
            dtype = canvas.dtype(tensor) if tensor.name and not isinstance(tensor, gs.Constant) else None
            if dtype is not None and dtype.kind == "b":
                yield Mutation(
                    "mask", f"{at} {node.op} {place} inverted", lambda n=node, p=place: _invert(canvas, n, p)
                )


def _invert(canvas: Canvas, node: gs.Node, place: int) -> None:
    node.inputs[place] = canvas.graph.not_(node.inputs[place])


def _captures(canvas: Canvas) -> Iterator[Mutation]:
    """One tensor of the match in the place of another of its dtype."""
    captures = canvas.captures
    for one in captures:
        for other in captures:
            if one is not other and canvas.dtype(one) == canvas.dtype(other):
                detail = f"{_said(other)} for {_said(one)}"
                yield Mutation("tensor", detail, lambda a=one, b=other: canvas.replace(a, b))


def _said(tensor: Any) -> str:
    name, place = tensor.key
    return f"{name}[{place}]" if place else str(name)


def _results(canvas: Canvas) -> Iterator[Mutation]:
    """Poison in each result."""
    for at in range(len(canvas.results)):
        dtype = canvas.result_dtype(at)
        if dtype is None:
            continue
        for one in poisons(dtype, canvas.shape(canvas.match.outputs[at])):
            yield Mutation(
                one.kind, f"result {at}, {one.detail}", lambda at=at, d=dtype, o=one: _poison(canvas, at, d, o)
            )


def _poison(canvas: Canvas, at: int, dtype: np.dtype[Any], poison: Any) -> None:
    g, tensor = canvas.graph, canvas.results[at]
    number = int(helper.np_dtype_to_tensor_dtype(dtype))
    if dtype.name in HALVES:
        canvas.results[at] = g.cast(poison.make(g, g.cast(tensor, to=1)), to=number)
        return
    typed = tensor if canvas.dtype(tensor) is not None else g.cast(tensor, to=number)
    canvas.results[at] = poison.make(g, typed)
