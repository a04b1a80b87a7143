"""Small decoders with random weights: two layers with a cache of keys and values each, and a table of positions."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

VOCABULARY, WIDTH, HEADS, SIZE, POSITIONS = 32, 16, 2, 8, 64

_ENDS = """
<ir_version: 10, opset_import: ["": 20]>
decoder (int64[batch, rows] {ids}, int64[batch, columns] {mask}, int64[batch, rows] {positions}, {pasts})
=> (float[batch, rows, 32] {logits}, {presents})
{{
  words = Gather(wte, {ids})  places = Gather(wpe, {positions})  x0 = Add(words, places)
  zero = Constant<value_int = 0>()  one = Constant<value_int = 1>()  lowest = Constant<value_float = -10000.0>()
  heads = Constant<value_ints = [0, 0, 2, 8]>()  joined = Constant<value_ints = [0, 0, 16]>()
  second = Constant<value_ints = [1]>()  third = Constant<value_ints = [1, 2]>()
  columns = Shape<start = 1, end = 2>({mask})  rows = Shape<start = 1, end = 2>({ids})
  total = Squeeze(columns)  new = Squeeze(rows)  past = Sub(total, new)
  keys = Range(zero, total, one)  queries = Range(past, total, one)  queries2 = Unsqueeze(queries, second)
  later = Greater(keys, queries2)  flags = Cast<to = 9>({mask})  pads = Not(flags)  pads4 = Unsqueeze(pads, third)
  hidden = Or(later, pads4)
  {layers}
  {logits} = MatMul(x{last}, head)
}}
"""
_LAYER = """
  q{n} = MatMul(x{n}, wq{n})  qh{n} = Reshape(q{n}, heads)  qt{n} = Transpose<perm = [0, 2, 1, 3]>(qh{n})
  k{n} = MatMul(x{n}, wk{n})  kh{n} = Reshape(k{n}, heads)  kt{n} = Transpose<perm = [0, 2, 1, 3]>(kh{n})
  v{n} = MatMul(x{n}, wv{n})  vh{n} = Reshape(v{n}, heads)  vt{n} = Transpose<perm = [0, 2, 1, 3]>(vh{n})
  {new_key} = Concat<axis = 2>({key}, kt{n})  {new_value} = Concat<axis = 2>({value}, vt{n})
  turned{n} = Transpose<perm = [0, 1, 3, 2]>({new_key})  scores{n} = MatMul(qt{n}, turned{n})
  shown{n} = Where(hidden, lowest, scores{n})  weights{n} = Softmax(shown{n})  seen{n} = MatMul(weights{n}, {new_value})
  rows{n} = Transpose<perm = [0, 2, 1, 3]>(seen{n})  flat{n} = Reshape(rows{n}, joined)  x{after} = Add(x{n}, flat{n})
"""
_GROUPED = """
<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1]>
decoder (int64[b, s] ids, int64[b, t] mask, float[b, 1, p, 16] pk, float[b, 1, p, 16] pv)
=> (float[b, s, 13] scores, float[b, 1, t, 16] nk, float[b, 1, t, 16] nv)
<int64[1] axis = {1}, int64 one = {1}>
{
  x = Gather(table, ids)  k = MatMul(x, wk)
  count = ReduceSum(mask, axis)  last = Sub(count, one)  lasts = Cast<to = 6>(last)
  size = Shape<start = 1, end = 2>(mask)  total = Cast<to = 6>(size)
  y, nk, nv = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 1>(x, k, k, pk, pv, lasts, total)
  scores = MatMul(y, head)
}
"""
USUAL: Mapping[str, str] = {
    "ids": "input_ids",
    "mask": "attention_mask",
    "positions": "position_ids",
    "logits": "logits",
    "key": "past_key_values.%d.key",
    "value": "past_key_values.%d.value",
    "new_key": "present.%d.key",
    "new_value": "present.%d.value",
}
"""Names of inputs and outputs; those of caches by layer."""


def decoder(layers: int = 2, order: Sequence[int] | None = None, **names: str) -> ModelProto:
    """A decoder that ONNX Runtime runs.  order: of the caches among the inputs and outputs.  names: as USUAL."""
    caches = ("key", "value", "new_key", "new_value")
    ends = {kind: kind for kind in USUAL}  # the parser knows no dots in names
    by_layer = [{kind: f"{kind}{n}" for kind in caches} for n in range(layers)]
    listed = [by_layer[n] for n in (range(layers) if order is None else order)]
    dims = "float[batch, 2, {}, 8] {}".format
    ends["pasts"] = ", ".join(dims("past", one[key]) for one in listed for key in ("key", "value"))
    ends["presents"] = ", ".join(dims("total", one[key]) for one in listed for key in ("new_key", "new_value"))
    ends["layers"] = "".join(_LAYER.format(n=n, after=n + 1, **one) for n, one in enumerate(by_layer))
    model = onnx.parser.parse_model(_ENDS.format(last=layers, **ends))
    known = dict(USUAL) | names
    chosen = {kind: name for kind, name in known.items() if kind not in caches}
    chosen |= {f"{kind}{n}": known[kind].replace("%d", str(n)) for kind in caches for n in range(layers)}
    _rename(model, chosen)
    _add_weights(model, layers)
    onnx.checker.check_model(model, full_check=True)
    return model


def with_encoder_caches() -> ModelProto:
    """A decoder whose first layer also reads keys and values of an encoder, and returns them as they are."""
    model, made = decoder(), onnx.helper.make_node
    names = [f"past_key_values.0.encoder.{kind}" for kind in ("key", "value")]
    for name in names:
        value = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", HEADS, "read", SIZE])
        model.graph.input.append(value)
        model.graph.node.append(made("Identity", [name], [name.replace("past_key_values", "present")]))
        value.name = name.replace("past_key_values", "present")
        model.graph.output.append(value)
    nodes = [
        made("Transpose", [names[0]], ["across"], perm=[0, 1, 3, 2]),
        made("MatMul", ["qt0", "across"], ["near"]),
        made("Softmax", ["near"], ["parts"]),
        made("MatMul", ["parts", names[1]], ["read"]),
        made("Add", ["seen0", "read"], ["both"]),
    ]
    (at,) = (n for n, node in enumerate(model.graph.node) if node.output[0] == "rows0")
    model.graph.node[at].input[0] = "both"
    for node in reversed(nodes):
        model.graph.node.insert(at, node)
    onnx.checker.check_model(model, full_check=True)
    return model


def with_cast_pasts() -> ModelProto:
    """A decoder whose second layer casts float16 pasts, as TorchScript exports `.half()`."""
    model = decoder()
    for kind in ("key", "value"):
        name = f"past_key_values.1.{kind}"
        (value,) = (one for one in model.graph.input if one.name == name)
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
        (at,) = (n for n, node in enumerate(model.graph.node) if node.output[0] == f"present.1.{kind}")
        model.graph.node[at].input[0] = f"wide_{kind}"
        cast = onnx.helper.make_node("Cast", [name], [f"wide_{kind}"], to=onnx.TensorProto.FLOAT)
        model.graph.node.insert(at, cast)
    onnx.checker.check_model(model, full_check=True)
    return model


def grouped() -> ModelProto:
    """One layer, in which GroupQueryAttention appends to the cache."""
    model, random = onnx.parser.parse_model(_GROUPED), np.random.default_rng(0)
    for name, shape in (("table", (13, 64)), ("wk", (64, 16)), ("head", (64, 13))):
        model.graph.initializer.append(numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name))
    return model


def _rename(model: ModelProto, names: Mapping[str, str]) -> None:
    for value in (*model.graph.input, *model.graph.output):
        value.name = names.get(value.name, value.name)
    for node in model.graph.node:
        for held in (node.input, node.output):
            held[:] = [names.get(name, name) for name in held]


def _add_weights(model: ModelProto, layers: int) -> None:
    random = np.random.default_rng(0)
    shapes = {"wte": (VOCABULARY, WIDTH), "wpe": (POSITIONS, WIDTH), "head": (WIDTH, VOCABULARY)}
    shapes |= {f"{kind}{n}": (WIDTH, WIDTH) for n in range(layers) for kind in ("wq", "wk", "wv")}
    for name, shape in shapes.items():
        model.graph.initializer.append(numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name))
