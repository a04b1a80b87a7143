"""Models of our own making: what exporters write, in odd places, shapes and dtypes.

A model grows node by node from a pool of tensors whose dtypes and shapes are known.  Some nodes are single ops, some
are forms that rules look for (a GELU, a norm, an attention), some are bodies of If and Loop, some call local functions.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZES = {"n": 2, "m": 5}
"""What the symbolic sizes stand for when a model is run; see `judging`."""
FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE}
INTEGERS = {"int64": TensorProto.INT64, "int32": TensorProto.INT32, "uint8": TensorProto.UINT8}
DTYPES = {**FLOATS, **INTEGERS, "bool": TensorProto.BOOL}
NUMPY = {"float32": np.float32, "float16": np.float16, "float64": np.float64, "int64": np.int64, "int32": np.int32}
WIDTH = 8  # of the last axis of most tensors, so that they fit one another
UNARY = (
    "Relu",
    "Tanh",
    "Sigmoid",
    "Erf",
    "Neg",
    "Abs",
    "Exp",
    "Sqrt",
    "Identity",
    "Floor",
    "Round",
    "Sign",
    "Softplus",
)
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2")


@dataclass(frozen=True)
class Item:
    """A tensor: its name, dtype and shape, whose sizes are numbers or names."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


@dataclass
class Builder:
    """A graph that grows.  outer: the tensors of the graph around a body."""

    random: random.Random
    model: "Shared"
    pool: list[Item] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def fresh(self) -> str:
        self.model.count += 1
        return f"t{self.model.count}"

    def node(self, op: str, inputs: Sequence[Item | str], dtype: str, shape: tuple, domain: str = "", **rest) -> Item:
        made = Item(self.fresh(), dtype, tuple(shape))
        names = [item if isinstance(item, str) else item.name for item in inputs]
        self.nodes.append(helper.make_node(op, names, [made.name], name=f"node_{made.name}", domain=domain, **rest))
        self.pool.append(made)
        return made

    def constant(self, values: object, dtype: str) -> str:
        """A stored value: a Constant here or an initializer of the graph."""
        array = np.asarray(values, NUMPY.get(dtype, dtype))
        name = self.fresh()
        if self.random.random() < 0.5:
            self.model.initializers.append(numpy_helper.from_array(array, name))
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        return name

    def pick(self, fits: Callable[[Item], bool]) -> Item | None:
        found = [item for item in self.pool if fits(item)]
        return self.random.choice(found[-8:]) if found else None

    def float(self, rank: int = 1) -> Item | None:
        return self.pick(lambda item: item.is_float and len(item.shape) >= rank and item.shape[-1] == WIDTH)


@dataclass
class Shared:
    """What all graphs of a model share."""

    count: int = 0
    initializers: list[TensorProto] = field(default_factory=list)
    functions: dict[str, onnx.FunctionProto] = field(default_factory=dict)


def generate(seed: str) -> onnx.ModelProto:
    """A model of some ten to sixty nodes; the same for the same seed.  It may be one that no runtime loads."""
    source = random.Random(seed)
    shared = Shared()
    graph = Builder(source, shared)
    opset = source.choice([13, 15, 17, 18, 20, 21])
    inputs = [_input(graph, place) for place in range(source.randint(1, 3))]
    graph.pool += inputs
    for _ in range(source.randint(3, 14)):
        _grow(graph, opset, depth=0)
    made = [item for item in graph.pool if item not in inputs]
    unread = {item.name for item in made} - {name for node in graph.nodes for name in node.input}
    outputs = [item for item in made if item.name in unread] or made[-1:]
    outputs += [item for item in made if item not in outputs and source.random() < 0.1]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "fuzz",
            [_info(item) for item in inputs],
            [_info(item) for item in outputs],
            shared.initializers,
        ),
        functions=list(shared.functions.values()),
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("fuzz", 1)],
        ir_version=8 if opset < 21 else 10,
    )
    if source.random() < 0.3:
        model = onnx.shape_inference.infer_shapes(model)
    return model


def _input(graph: Builder, place: int) -> Item:
    dtype = graph.random.choices(["float32", "float16", "float64", "int64", "int32"], [8, 2, 1, 1, 1])[0]
    rows = graph.random.choice([("n",), ("n", "m"), (3,), (2, "m"), ("n", 4), (1, 5), ()])
    return Item(f"x{place}", dtype, (*rows, WIDTH))


def _info(item: Item) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(item.name, DTYPES[item.dtype], item.shape)


def _grow(graph: Builder, opset: int, depth: int) -> None:
    """Add an op, a form, a body or a call."""
    ways = [_unary, _binary, _binary, _moved, _reduced, _compared, _cast, _sized, _form, _form, _form, _integers]
    if depth < 2:
        ways += [_branched, _looped]
    if depth == 0:
        ways += [_called]
    graph.random.choice(ways)(graph, opset, depth)


def _unary(graph: Builder, opset: int, depth: int) -> None:
    x = graph.pick(lambda item: item.is_float)
    if x is not None:
        graph.node(graph.random.choice(UNARY), [x], x.dtype, x.shape)


def _binary(graph: Builder, opset: int, depth: int) -> None:
    x = graph.pick(lambda item: item.dtype in ("float32", "float16", "float64", "int64", "int32"))
    if x is None:
        return
    op = graph.random.choice(BINARY[:3] if x.dtype.startswith("int") else BINARY)
    other = graph.pick(lambda item: item.dtype == x.dtype and item.shape == x.shape)
    how = graph.random.random()
    if other is None or how < 0.4:
        values = graph.random.choice([0, 1, 2, -1, 3] if x.dtype.startswith("int") else [0.0, 1.0, 0.5, 2.0, -1.0, 0.1])
        shape = graph.random.choice([(), (1,), (WIDTH,)]) if x.shape[-1:] == (WIDTH,) else ()
        second: Item | str = graph.constant(np.full(shape, values), x.dtype)
    else:
        second = other
    pair = [x, second] if graph.random.random() < 0.7 else [second, x]
    graph.node(op, pair, x.dtype, x.shape)


def _moved(graph: Builder, opset: int, depth: int) -> None:
    """Transposes, reshapes, slices, joins and what undoes them."""
    x = graph.pick(lambda item: len(item.shape) >= 2)
    if x is None:
        return
    how = graph.random.choice(["transpose", "twice", "reshape", "concat", "slice", "unsqueeze", "split", "gather"])
    if how in ("transpose", "twice"):
        order = list(range(len(x.shape)))
        graph.random.shuffle(order)
        y = graph.node("Transpose", [x], x.dtype, [x.shape[axis] for axis in order], perm=order)
        if how == "twice":
            graph.node("Transpose", [y], x.dtype, x.shape, perm=[order.index(axis) for axis in range(len(order))])
    elif how == "reshape" and x.shape[-1] == WIDTH:
        target = [*(0 for _ in x.shape[:-1]), 2, WIDTH // 2]
        graph.node("Reshape", [x, graph.constant(target, "int64")], x.dtype, (*x.shape[:-1], 2, WIDTH // 2))
    elif how == "concat" and isinstance(x.shape[-1], int):
        graph.node("Concat", [x, x], x.dtype, (*x.shape[:-1], 2 * x.shape[-1]), axis=-1)
    elif how == "slice" and isinstance(x.shape[-1], int) and x.shape[-1] > 2:
        bounds = [graph.constant([value], "int64") for value in (1, x.shape[-1] - 1, -1)]
        graph.node("Slice", [x, *bounds], x.dtype, (*x.shape[:-1], x.shape[-1] - 2))
    elif how == "unsqueeze":
        y = graph.node("Unsqueeze", [x, graph.constant([0], "int64")], x.dtype, (1, *x.shape))
        if graph.random.random() < 0.5:
            graph.node("Squeeze", [y, graph.constant([0], "int64")], x.dtype, x.shape)
    elif how == "split" and x.shape[-1] == WIDTH:
        half = Item(graph.fresh(), x.dtype, (*x.shape[:-1], WIDTH // 2))
        rest = Item(graph.fresh(), x.dtype, (*x.shape[:-1], WIDTH // 2))
        sizes = graph.constant([WIDTH // 2, WIDTH // 2], "int64")
        graph.nodes.append(helper.make_node("Split", [x.name, sizes], [half.name, rest.name], axis=-1))
        graph.pool += [half, rest]
    elif how == "gather" and isinstance(x.shape[-1], int):
        places = [graph.random.randrange(x.shape[-1]) for _ in range(3)]
        graph.node("Gather", [x, graph.constant(places, "int64")], x.dtype, (*x.shape[:-1], 3), axis=-1)


def _reduced(graph: Builder, opset: int, depth: int) -> None:
    x = graph.pick(lambda item: item.is_float and len(item.shape) >= 2)
    if x is None:
        return
    op, keep = graph.random.choice(REDUCTIONS), graph.random.random() < 0.7
    shape = (*x.shape[:-1], 1) if keep else x.shape[:-1]
    if opset >= 18 or (op == "ReduceSum" and opset >= 13):
        y = graph.node(op, [x, graph.constant([-1], "int64")], x.dtype, shape, keepdims=int(keep))
    else:
        y = graph.node(op, [x], x.dtype, shape, axes=[-1], keepdims=int(keep))
    if keep and graph.random.random() < 0.6:
        graph.node(graph.random.choice(["Sub", "Div", "Mul"]), [x, y], x.dtype, x.shape)


def _compared(graph: Builder, opset: int, depth: int) -> None:
    x = graph.pick(lambda item: item.is_float)
    if x is None:
        return
    mask = graph.node(graph.random.choice(["Greater", "Less"]), [x, graph.constant(0.25, x.dtype)], "bool", x.shape)
    if graph.random.random() < 0.4:
        mask = graph.node("Not", [mask], "bool", x.shape)
    other = graph.constant(graph.random.choice([0.0, 1.0, -1e9 if x.dtype != "float16" else -1e4]), x.dtype)
    graph.node("Where", [mask, x, other] if graph.random.random() < 0.5 else [mask, other, x], x.dtype, x.shape)


def _cast(graph: Builder, opset: int, depth: int) -> None:
    x = graph.pick(lambda item: True)
    if x is None:
        return
    dtype = graph.random.choice([*FLOATS, "float32", "int64", "int32", "bool"])
    y = graph.node("Cast", [x], dtype, x.shape, to=DTYPES[dtype])
    if graph.random.random() < 0.5:
        graph.node("Cast", [y], x.dtype, x.shape, to=DTYPES[x.dtype])


def _sized(graph: Builder, opset: int, depth: int) -> None:
    """What exporters write for x.view(x.shape[0], -1) and the like."""
    x = graph.pick(lambda item: len(item.shape) >= 2)
    if x is None:
        return
    sizes = graph.node("Shape", [x], "int64", (len(x.shape),))
    if graph.random.random() < 0.4:
        graph.node("Reshape", [x, sizes], x.dtype, x.shape)
    elif graph.random.random() < 0.5:
        fill = numpy_helper.from_array(np.ones(1, np.float32))
        ones = graph.node("ConstantOfShape", [sizes], "float32", x.shape, value=fill)
        if x.dtype == "float32":
            graph.node("Mul", [x, ones], x.dtype, x.shape)
    else:
        first = graph.node("Gather", [sizes, graph.constant(0, "int64")], "int64", (), axis=0)
        row = graph.node("Unsqueeze", [first, graph.constant([0], "int64")], "int64", (1,))
        target = graph.node("Concat", [row, graph.constant([-1], "int64")], "int64", (2,), axis=0)
        graph.node("Reshape", [x, target], x.dtype, (x.shape[0], "rest" if len(x.shape) > 2 else x.shape[1]))


def _integers(graph: Builder, opset: int, depth: int) -> None:
    x = graph.pick(lambda item: item.dtype in ("int64", "int32", "uint8"))
    if x is None:
        return
    y = graph.node(graph.random.choice(["Mul", "Add", "Sub"]), [x, graph.constant(2, x.dtype)], x.dtype, x.shape)
    if graph.random.random() < 0.5:
        graph.node(graph.random.choice(["Mod", "Div", "Max"]), [y, graph.constant(3, x.dtype)], x.dtype, x.shape)


def _form(graph: Builder, opset: int, depth: int) -> None:
    """What rules look for, sometimes with another number or another order in it."""
    x = graph.float()
    if x is not None:
        graph.random.choice([_gelu, _tanh_gelu, _silu, _norm, _linear, _attention])(graph, x, opset)


def _gelu(graph: Builder, x: Item, opset: int) -> Item:
    root = graph.random.choice([2**0.5, 2**0.5, 1.4142, 1.5])
    inner = graph.node("Div", [x, graph.constant(root, x.dtype)], x.dtype, x.shape)
    erf = graph.node("Erf", [inner], x.dtype, x.shape)
    total = graph.node("Add", _turned(graph, erf, graph.constant(1.0, x.dtype)), x.dtype, x.shape)
    product = graph.node("Mul", _turned(graph, x, total), x.dtype, x.shape)
    return graph.node("Mul", _turned(graph, product, graph.constant(0.5, x.dtype)), x.dtype, x.shape)


def _tanh_gelu(graph: Builder, x: Item, opset: int) -> Item:
    def by(item: Item | str, number: Item | str, op: str = "Mul") -> Item:
        return graph.node(op, _turned(graph, item, number), x.dtype, x.shape)

    cube = by(by(x, x), x) if graph.random.random() < 0.5 else by(x, graph.constant(3.0, x.dtype), "Pow")
    inner = by(by(x, by(cube, graph.constant(0.044715, x.dtype)), "Add"), graph.constant((2 / np.pi) ** 0.5, x.dtype))
    tanh = graph.node("Tanh", [inner], x.dtype, x.shape)
    return by(by(x, by(tanh, graph.constant(1.0, x.dtype), "Add")), graph.constant(0.5, x.dtype))


def _silu(graph: Builder, x: Item, opset: int) -> Item:
    gate = (
        x if graph.random.random() < 0.6 else graph.node("Mul", [x, graph.constant(1.702, x.dtype)], x.dtype, x.shape)
    )
    return graph.node("Mul", _turned(graph, x, graph.node("Sigmoid", [gate], x.dtype, x.shape)), x.dtype, x.shape)


def _norm(graph: Builder, x: Item, opset: int) -> Item:
    shape = (*x.shape[:-1], 1)

    def mean(item: Item) -> Item:
        if opset >= 18:
            return graph.node("ReduceMean", [item, graph.constant([-1], "int64")], x.dtype, shape)
        return graph.node("ReduceMean", [item], x.dtype, shape, axes=[-1])

    centred = x if graph.random.random() < 0.3 else graph.node("Sub", [x, mean(x)], x.dtype, x.shape)
    square = graph.node("Mul", [centred, centred], x.dtype, x.shape)
    floor = graph.constant(graph.random.choice([1e-5, 1e-5, 1e-3]), x.dtype)
    root = graph.node("Sqrt", [graph.node("Add", [mean(square), floor], x.dtype, shape)], x.dtype, shape)
    made = graph.node("Div", [centred, root], x.dtype, x.shape)
    made = graph.node("Mul", _turned(graph, made, _weight(graph, (WIDTH,), x.dtype)), x.dtype, x.shape)
    if graph.random.random() < 0.6:
        made = graph.node("Add", _turned(graph, made, _weight(graph, (WIDTH,), x.dtype)), x.dtype, x.shape)
    return made


def _linear(graph: Builder, x: Item, opset: int) -> Item:
    made = graph.node("MatMul", [x, _weight(graph, (WIDTH, WIDTH), x.dtype)], x.dtype, x.shape)
    if graph.random.random() < 0.7:
        made = graph.node("Add", _turned(graph, made, _weight(graph, (WIDTH,), x.dtype)), x.dtype, x.shape)
    if graph.random.random() < 0.3:
        made = graph.node("Add", _turned(graph, made, x), x.dtype, x.shape)
    return made


def _attention(graph: Builder, x: Item, opset: int) -> Item:
    """Of two heads, for [batch, rows, 8]."""
    if len(x.shape) != 3:
        return _linear(graph, x, opset)
    b, rows, heads, size = *x.shape[:2], 2, WIDTH // 2

    def part(order: Sequence[int]) -> Item:
        y = graph.node("MatMul", [x, _weight(graph, (WIDTH, WIDTH), x.dtype)], x.dtype, x.shape)
        y = graph.node("Reshape", [y, graph.constant([0, 0, heads, size], "int64")], x.dtype, (b, rows, heads, size))
        return graph.node("Transpose", [y], x.dtype, [y.shape[axis] for axis in order], perm=order)

    q, k, v = part([0, 2, 1, 3]), part([0, 2, 3, 1]), part([0, 2, 1, 3])
    scores = graph.node("MatMul", [q, k], x.dtype, (b, heads, rows, rows))
    scores = graph.node("Div", [scores, graph.constant(size**0.5, x.dtype)], x.dtype, scores.shape)
    made = graph.node("MatMul", [graph.node("Softmax", [scores], x.dtype, scores.shape, axis=-1), v], x.dtype, q.shape)
    made = graph.node("Transpose", [made], x.dtype, (b, rows, heads, size), perm=[0, 2, 1, 3])
    return graph.node("Reshape", [made, graph.constant([0, 0, WIDTH], "int64")], x.dtype, x.shape)


def _weight(graph: Builder, shape: tuple[int, ...], dtype: str) -> str:
    return graph.constant(np.random.default_rng(graph.model.count).normal(size=shape) * 0.5, dtype)


def _turned(graph: Builder, one: Item | str, other: Item | str) -> list[Item | str]:
    return [one, other] if graph.random.random() < 0.6 else [other, one]


def _branched(graph: Builder, opset: int, depth: int) -> None:
    """An If whose branches read tensors from outside."""
    x = graph.float()
    if x is None:
        return
    axes = list(range(len(x.shape)))
    total = graph.node("ReduceSum", [x, graph.constant(axes, "int64")], x.dtype, (), keepdims=0)
    decides = graph.node("Greater", [total, graph.constant(0.0, x.dtype)], "bool", ())
    bodies = []
    for _ in range(2):
        body = Builder(graph.random, graph.model, [x, *graph.pool[-3:]])
        made = graph.random.choice([_gelu, _silu, _norm, _linear])(body, x, opset)
        if graph.random.random() < 0.4:
            _grow(body, opset, depth + 1)
        bodies.append(helper.make_graph(body.nodes, "branch", [], [_info(made)]))
    graph.node("If", [decides], x.dtype, x.shape, then_branch=bodies[0], else_branch=bodies[1])


def _looped(graph: Builder, opset: int, depth: int) -> None:
    """A Loop that carries a tensor and hands on a row of each iteration."""
    x = graph.float()
    if x is None:
        return
    body = Builder(graph.random, graph.model)
    step, go, carried = (
        Item(body.fresh(), "int64", ()),
        Item(body.fresh(), "bool", ()),
        Item(body.fresh(), x.dtype, x.shape),
    )
    body.pool += [carried, *graph.pool[-2:]]
    made = graph.random.choice([_gelu, _silu, _norm, _linear])(body, carried, opset)
    if graph.random.random() < 0.4:
        _grow(body, opset, depth + 1)
    goes_on, handed = Item(body.fresh(), "bool", ()), Item(body.fresh(), x.dtype, x.shape)
    body.nodes += [
        helper.make_node("Identity", [go.name], [goes_on.name]),
        helper.make_node("Neg", [made.name], [handed.name]),
    ]
    inner = helper.make_graph(
        body.nodes,
        "body",
        [_info(item) for item in (step, go, carried)],
        [_info(item) for item in (goes_on, made, handed)],
    )
    last = Item(graph.fresh(), x.dtype, x.shape)
    name = graph.fresh()
    rows = Item(name, x.dtype, (f"times_{name}", *x.shape))
    trips, start = graph.constant(graph.random.choice([1, 2, 3]), "int64"), graph.constant(True, "bool")
    graph.nodes.append(helper.make_node("Loop", [trips, start, x.name], [last.name, rows.name], body=inner))
    graph.pool += [last, rows]


def _called(graph: Builder, opset: int, depth: int) -> None:
    """A local function, whose numbers have the dtype of its first call or follow that of each."""
    x = graph.float()
    if x is None:
        return
    known = [name for name in graph.model.functions if name.startswith(f"F_{x.dtype}")]
    if known and graph.random.random() < 0.5:
        name = graph.random.choice(known)
    else:
        name = f"F_{x.dtype}_{len(graph.model.functions)}"
        inner = Shared(count=1000 * (1 + len(graph.model.functions)))
        body = Builder(graph.random, inner)
        formal = Item("p", x.dtype, x.shape)
        made = graph.random.choice([_gelu, _silu, _tanh_gelu])(body, formal, opset)
        stored = [helper.make_node("Constant", [], [one.name], value=one) for one in inner.initializers]
        graph.model.functions[name] = helper.make_function(
            "fuzz", name, ["p"], [made.name], [*stored, *body.nodes], [helper.make_opsetid("", opset)]
        )
    graph.node(name, [x], x.dtype, x.shape, domain="fuzz")
