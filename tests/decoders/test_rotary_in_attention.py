"""Rotary embeddings inside of GroupQueryAttention: their tables, and what stays outside."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.edits import RotaryInAttention
from surgeon.errors import UsageError

SIZE, POSITIONS = 16, 40
_LAYER = """
  angles{n} = Mul(places, freq{n})  cos{n} = Cos(angles{n})  sin{n} = Sin(angles{n})
  q{n} = MatMul(x{n}, wq{n})  qh{n} = Reshape(q{n}, split)  qt{n} = Transpose<perm = [0, 2, 1, 3]>(qh{n})
  k{n} = MatMul(x{n}, wk{n})  kh{n} = Reshape(k{n}, split)  kt{n} = Transpose<perm = [0, 2, 1, 3]>(kh{n})
  qr{n} = RotaryEmbedding<interleaved = {pairs}>(qt{n}, cos{n}, sin{n})
  kr{n} = RotaryEmbedding<interleaved = {pairs}>(kt{n}, cos{n}, sin{n})
  qb{n} = Transpose<perm = [0, 2, 1, 3]>(qr{n})  qj{n} = Reshape(qb{n}, joined)
  kb{n} = Transpose<perm = [0, 2, 1, 3]>(kr{n})  kj{n} = Reshape(kb{n}, joined)
  v{n} = MatMul(x{n}, wv{n})
  y{n}, nk{n}, nv{n} = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 2>(
    qj{n}, kj{n}, v{n}, pk{n}, pv{n}, last, total)
  x{after} = Add(x{n}, y{n})
"""


def model(frequencies, pairs=0, positions="positions"):
    """A decoder.  frequencies: of each layer.  pairs: whether neighbours rotate.  positions: an input, or "" for none.
    """
    layers, size = range(len(frequencies)), 2 * len(frequencies[0])
    cache = f"float[batch, 2, {{}}, {size}] {{}}{{}}".format
    pasts = ", ".join(cache("past", kind, n) for n in layers for kind in ("pk", "pv"))
    presents = ", ".join(cache("columns", kind, n) for n in layers for kind in ("nk", "nv"))
    given = f"int64[batch, sequence] {positions}, " if positions else ""
    rows = "" if positions else """
      first = Shape<start = 2, end = 3>(pk0)  one = Squeeze(first)  new = Shape<start = 1, end = 2>(ids)
      few = Squeeze(new)  end = Add(one, few)  range = Range(one, end, step)  positions = Unsqueeze(range, start)"""
    made = onnx.parser.parse_model(f"""
        <ir_version: 11, opset_import: ["": 23, "com.microsoft": 1]>
        decoder (int64[batch, sequence] ids, int64[batch, columns] mask, {given}{pasts})
        => (float[batch, sequence, 20] logits, {presents})
        <int64[4] split = {{0, 0, 2, {size}}}, int64[3] joined = {{0, 0, {2 * size}}}, int64[1] axis = {{1}},
         int64[1] start = {{0}}, int64 step = {{1}}, int64[1] deep = {{2}}, int64 one1 = {{1}}>
        {{
          x0 = Gather(table, ids)  {rows}  cast = Cast<to = 1>(positions)  places = Unsqueeze(cast, deep)
          count = ReduceSum<keepdims = 0>(mask, axis)  less = Sub(count, one1)  last = Cast<to = 6>(less)
          all = Shape<start = 1, end = 2>(mask)  all32 = Cast<to = 6>(all)  total = Squeeze(all32)
          {"".join(_LAYER.format(n=n, after=n + 1, pairs=pairs) for n in layers)}
          logits = MatMul(x{len(frequencies)}, head)
        }}""")
    random, width = np.random.default_rng(0), 2 * size
    shapes = {"table": (20, width), "head": (width, 20)}
    shapes |= {f"w{kind}{n}": (width, width) for kind in "qkv" for n in layers}
    arrays = {name: random.normal(size=shape).astype(np.float32) * 0.5 for name, shape in shapes.items()}
    arrays |= {f"freq{n}": np.array(one, np.float32) for n, one in enumerate(frequencies)}
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return made


def frequencies(base, count=SIZE // 2):
    return [base ** (-place / count) for place in range(count)]


def attentions(made):
    """The attentions, each with its tables and attributes."""
    arrays = {item.name: numpy_helper.to_array(item) for item in made.graph.initializer}
    for node in made.graph.node:
        if node.op_type == "GroupQueryAttention":
            numbers = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
            yield [arrays.get(name) for name in node.input[7:9]], numbers


@pytest.mark.parametrize("pairs", [0, 1])
@pytest.mark.parametrize("positions", ["positions", ""])
def test_tables(pairs, positions):
    """They hold every position from 0 on.  No score would show a table that begins elsewhere: rotation is relative."""
    source, bases = model([frequencies(100), frequencies(7)], pairs, positions), (100, 7)
    made, report = surgeon.edit(source, RotaryInAttention(POSITIONS + 330))
    assert (report.proved, report.check.runs) == (True, 35)
    assert [port.name for port in made.graph.input][:3] == ["ids", "mask", "pk0"]
    for base, (tables, numbers) in zip(bases, attentions(made), strict=True):
        angles = np.arange(POSITIONS + 330)[:, None] * np.array(frequencies(base), np.float32)
        np.testing.assert_allclose(tables[0], np.cos(angles), atol=3e-5)
        np.testing.assert_allclose(tables[1], np.sin(angles), atol=3e-5)
        assert (numbers["do_rotary"], numbers["rotary_interleaved"]) == (1, pairs)
    assert not any(node.op_type == "RotaryEmbedding" for node in made.graph.node)


def test_layers_of_one_base_share_their_tables():
    made, _ = surgeon.edit(model([frequencies(100)] * 2), RotaryInAttention(64), check="none")
    shared, _ = surgeon.rewrite(made, "cleanup", check="none")
    names = {tuple(node.input[7:9]) for node in shared.graph.node if node.op_type == "GroupQueryAttention"}
    assert len(names) == 1


def test_a_size_that_the_kernel_does_not_take():
    """Half of the rotated numbers have to be a multiple of eight."""
    made, report = surgeon.edit(model([frequencies(100, 4)]), RotaryInAttention(64))
    assert "it rotates 8 numbers, not a multiple of 16" in report.edits[0].said[0]
    assert all(numbers.get("do_rotary", 0) == 0 for _, numbers in attentions(made))


def test_a_layer_without_rotation_stays():
    """The other layer rotates inside."""
    source = model([frequencies(100)] * 2)
    for node in source.graph.node:
        node.input[:] = ["qt1" if name == "qr1" else "kt1" if name == "kr1" else name for name in node.input]
    made, report = surgeon.edit(source, RotaryInAttention(400))
    assert report.proved
    assert [numbers.get("do_rotary", 0) for _, numbers in attentions(made)] == [1, 0]


def test_the_shape_of_positions_is_that_of_the_ids():
    """An exporter may take the number of tokens from it."""
    source = model([frequencies(100)])
    source.graph.node.append(onnx.helper.make_node("Shape", ["positions"], ["sizes"]))
    source.graph.output.append(onnx.helper.make_tensor_value_info("sizes", onnx.TensorProto.INT64, [2]))
    made, _ = surgeon.edit(source, RotaryInAttention(64), check="none")
    assert "positions" not in {port.name for port in made.graph.input}
    assert [node.input[0] for node in made.graph.node if node.output[0] == "sizes"] == ["ids"]


@pytest.mark.parametrize("text", ["0", "-4", "many"])
def test_bad_numbers(text):
    with pytest.raises(UsageError, match="positions"):
        surgeon.edit(model([frequencies(100)]), RotaryInAttention.parse(text))


def test_no_decoder():
    with pytest.raises(UsageError, match="not a decoder"):
        surgeon.edit(onnx.load("notebooks/models/tiny_distilbert.onnx"), RotaryInAttention(64))


def test_a_context_shorter_than_the_prompts_of_the_comparison(tmp_path):
    """The attention has no angles beyond it, so texts of the comparison end there."""
    report = surgeon.decoder(model([frequencies(100.0)]), tmp_path / "out", context=16, eos=3)
    assert (report.proved, report.decoder.positions, report.decoder.position_rows) == (True, None, 16)
