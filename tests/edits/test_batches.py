"""A batch made dynamic where a graph can be read in several ways: each sample gets the original's answer."""

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.edits import Free
from surgeon.errors import GraphError, UsageError
from tests.command_line import run

SIZES = (1, 2, 3, 7, 9)


def weights(names, *shape):
    """Stored tensors of these names, each other than the others."""
    random = np.random.default_rng(1)
    return [numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name) for name in names]


def model(text, stored=(), opset=18):
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> {text}')
    made.graph.initializer.extend(stored)
    return made


def session(made):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def assert_each_sample(source, made, old, axis=0):
    """Whether every output holds, for any number of samples, what the original answers to each."""
    before, after, random = session(source), session(made), np.random.default_rng(7)
    shapes = {
        value.name: [old if isinstance(size, str) else size for size in value.shape] for value in before.get_inputs()
    }
    count = -(-max(SIZES) // old)
    parts = [
        {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()} for _ in range(count)
    ]
    wanted = [before.run(None, part) for part in parts]
    for size in SIZES:
        fed = {name: np.concatenate([part[name] for part in parts], axis).take(range(size), axis) for name in shapes}
        for place, answer in enumerate(after.run(None, fed)):
            held = np.concatenate([one[place] for one in wanted], axis).take(range(size), axis)
            np.testing.assert_allclose(answer, held, rtol=1e-4, atol=1e-5, err_msg=f"{size} samples")


ATTENTION = """
g (float[{batch}, 5, 6] x) => (float[{batch}, 5, 6] y)
<int64[3] heads = {{5, {merged}, 3}}, int64[2] rows = {{{rows}, 6}}, int64[3] apart = {{5, {batch}, 6}}>
{{ t = Transpose <perm = [1, 0, 2]> (x)  q = MatMul (t, Wq)  k = MatMul (t, Wk)  v = MatMul (t, Wv)
   qr = Reshape (q, heads)  kr = Reshape (k, heads)  vr = Reshape (v, heads)
   qt = Transpose <perm = [1, 0, 2]> (qr)  kt = Transpose <perm = [1, 2, 0]> (kr)
   vt = Transpose <perm = [1, 0, 2]> (vr)  s = MatMul (qt, kt)  p = Softmax (s)  o = MatMul (p, vt)
   ot = Transpose <perm = [1, 0, 2]> (o)
   f = Reshape (ot, rows)  l = Gemm (f, Wo)  a = Reshape (l, apart)  b = Transpose <perm = [1, 0, 2]> (a)  {last} }}
"""
WINDOWS = """
g (float[{batch}, 4, 6] x) => (float[{batch}, 4, 6] y)
<int64[4] cut = {{{batch}, 2, 2, 6}}, int64[3] windows = {{{merged}, 2, 6}}, int64[4] whole = {{{batch}, 2, 2, 6}},
 int64[3] flat = {{{batch}, 4, 6}}>
{{ c = Reshape (x, cut)  t = Transpose <perm = [0, 2, 1, 3]> (c)  w = Reshape (t, windows)  q = MatMul (w, Wq)
   k = Transpose <perm = [0, 2, 1]> (w)  s = MatMul (q, k)  p = Softmax (s)  o = MatMul (p, w)
   r = Reshape (o, whole)  b = Transpose <perm = [0, 2, 1, 3]> (r)  y = Reshape (b, flat) }}
"""
GROUPS = """
g (float[{batch}, 4, 6] x) => (float[{batch}, 4, 6] y)
<int64[3] group = {{{merged}, 2, 6}}, int64[3] flat = {{{batch}, 4, 6}}, int64[1] last = {{-1}}>
{{ c = Reshape (x, group)  m = ReduceMean (c, last)  d = Sub (c, m)  e = MatMul (d, Wq)  y = Reshape (e, flat) }}
"""
STEPS = """
g (float[5, {batch}, 6] x) => (float[5, {batch}, 6] y)
<int64[2] rows = {{{rows}, 6}}, int64[3] apart = {{5, {batch}, 6}}>
{{ f = Reshape (x, rows)  l = Gemm (f, Wq)  n = Softmax (l)  a = Reshape (n, apart)  y = Add (a, x) }}
"""
READINGS = {
    "attention": (ATTENTION, "y = Identity (b)", 0),
    "attention with a residual": (ATTENTION, "y = Add (b, x)", 0),
    "windows": (WINDOWS, "", 0),
    "groups of channels": (GROUPS, "", 0),
    "steps first": (STEPS, "", 1),
}


@pytest.mark.parametrize("batch", [1, 2, 8])
@pytest.mark.parametrize("form", READINGS)
def test_of_two_interpretations_the_one_with_independent_samples_is_taken(form, batch):
    text, last, axis = READINGS[form]
    text = text.format(batch=batch, merged=2 * batch, rows=5 * batch, last=last)
    source = model(text, weights(("Wq", "Wk", "Wv", "Wo"), 6, 6))
    made, report = surgeon.edit(source, Free(axis, "batch"))
    assert report.outcome == "proved", report.check.reason
    assert_each_sample(source, made, batch, axis)


QUERIES = {
    "Tile": "int64[3] times = {{{batch}, 1, 1}}|q = Tile (query, times)",
    "Expand": "int64[3] to = {{{batch}, 2, 6}}|q = Expand (query, to)",
    "behind a Linear": "int64[3] times = {{{batch}, 1, 1}}|r = Tile (query, times)  q = MatMul (r, Wq)",
    "behind a norm": "int64[3] to = {{{batch}, 2, 6}}|r = Expand (query, to)  q = LayerNormalization (r, one)",
}
POOLING = """
g (float[{batch}, 5, 6] x) => (float[{batch}, 2, 6] y)
<int64[4] few = {{{batch}, 2, 2, 3}}, int64[3] merged = {{{merged}, 2, 3}}, int64[4] many = {{{batch}, 5, 2, 3}},
 int64[3] keys = {{{merged}, 5, 3}}, int64[4] apart = {{{batch}, 2, 2, 3}}, int64[3] flat = {{{batch}, 2, 6}},
 float[6] one = {{1, 1, 1, 1, 1, 1}}, {stored}>
{{ {nodes}  qh = Reshape (q, few)  qt = Transpose <perm = [0, 2, 1, 3]> (qh)  qm = Reshape (qt, merged)
   kh = Reshape (x, many)  kt = Transpose <perm = [0, 2, 1, 3]> (kh)  km = Reshape (kt, keys)
   kk = Transpose <perm = [0, 2, 1]> (km)  s = MatMul (qm, kk)  p = Softmax (s)  o = MatMul (p, km)
   a = Reshape (o, apart)  b = Transpose <perm = [0, 2, 1, 3]> (a)  y = Reshape (b, flat) }}
"""


@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.parametrize("how", QUERIES)
def test_a_query_that_is_repeated_for_each_sample_follows(how, batch):
    stored, nodes = QUERIES[how].format(batch=batch).split("|")
    text = POOLING.format(batch=batch, merged=2 * batch, stored=stored, nodes=nodes)
    source = model(text, [*weights(("query",), 1, 2, 6), *weights(("Wq",), 6, 6)])
    made, report = surgeon.edit(source, Free(0, "batch"))
    assert report.outcome == "proved", report.check.reason
    assert_each_sample(source, made, batch)


LOOPS = {
    "a row of each turn": """
        y = Loop (turns, on) <body = b (int64 i, bool c) => (bool d, float[3] r) {
            d = Identity (c)  a = Gather (x, i)  r = Softmax (a) }>""",
    "a slice of each turn": """
        e = SequenceEmpty <dtype = 1> ()
        o = Loop (turns, on, e) <body = b (int64 i, bool c, seq(float[1, 3]) s) => (bool d, seq(float[1, 3]) t)
            <int64[1] first = {0}, int64 one = {1}> {
            d = Identity (c)  u = Unsqueeze (i, first)  k = Add (i, one)  w = Unsqueeze (k, first)
            a = Slice (x, u, w, first)  n = Softmax (a)  t = SequenceInsert (s, n) }>
        y = ConcatFromSequence <axis = 0> (o)""",
    "as many turns for another reason": """
        y = Loop (turns, on, x) <body = b (int64 i, bool c, float[n, 3] s) => (bool d, float[n, 3] t) {
            d = Identity (c)  h = Tanh (s)  t = Add (h, s) }>""",
    "a table of as many rows": """
        y = Loop (turns, on, x) <body = b (int64 i, bool c, float[n, 3] s) => (bool d, float[n, 3] t) {
            d = Identity (c)  w = Gather (table, i)  t = Mul (s, w) }>""",
}


@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.parametrize("what", LOOPS)
def test_the_turns_of_a_loop_follow_where_they_count_samples(what, batch):
    table = ", ".join(str(2 + place) for place in range(batch * 3))
    source = model(f"""
        g (float[{batch}, 3] x) => (float[{batch}, 3] y)
        <int64 turns = {{{batch}}}, bool on = {{1}}, float[{batch}, 3] table = {{{table}}}> {{ {LOOPS[what]} }}
    """)
    made, report = surgeon.edit(source, Free(0, "batch"))
    assert report.outcome == "proved", report.check.reason
    assert_each_sample(source, made, batch)


DECLARED = {
    "Reshape": (
        "int64[3] s = {{{batch}, 2, 3}}, int64[2] b = {{{batch}, 6}}",
        "r = Reshape (x, s)  t = Softmax (r)  y = Reshape (t, b)",
    ),
    "Expand": ("int64[2] s = {{{batch}, 6}}", "e = Expand (k, s)  y = Add (x, e)"),
    "Tile": ("int64[2] s = {{{batch}, 1}}", "e = Tile (k, s)  y = Concat <axis = 1> (x, e)"),
    "ConstantOfShape": ("int64[2] s = {{{batch}, 2}}", "e = ConstantOfShape (s)  y = Concat <axis = 1> (x, e)"),
    "turns": (
        "int64 s = {{{batch}}}, bool on = {{1}}",
        "y = Loop (s, on) <body = b (int64 i, bool c) => (bool d, float[6] r) { d = Identity (c)  r = Gather (x, i) }>",
    ),
    "places": (
        "int64[{batch}] s = {{{counted}}}, int64[1] l = {{1}}",
        "m = ArgMax <axis = 1, keepdims = 1> (x)  u = Unsqueeze (s, l)  p = Concat <axis = 1> (u, m)  "
        "y = GatherND (x, p)",
    ),
}


def declared(how, batch):
    stored, nodes = DECLARED[how]
    stored = stored.format(batch=batch, counted=", ".join(map(str, range(batch))))
    return model(f"g (float[batch, 6] x) => (float y) <{stored}, float[1, 6] k = {{1, 2, 3, 4, 5, 6}}> {{ {nodes} }}")


@pytest.mark.parametrize("batch", [1, 2, 8])
@pytest.mark.parametrize("how", DECLARED)
def test_the_size_of_the_trace_is_found_behind_a_declared_dim(how, batch):
    source = declared(how, batch)
    source.graph.output[0].type.tensor_type.ClearField("shape")
    made, report = surgeon.edit(source, Free(0, "batch"))
    if (how, batch) == ("Expand", 1):  # a sum spreads it to any batch
        assert report.outcome == "unchanged"
    else:
        assert report.outcome == "proved", report.check.reason
        assert report.edits[0].said[0].endswith(f"the graph still contained {batch}")
    assert_each_sample(source, made, batch)


FOLLOWING = {
    "a mean over words": "y = ReduceMean <keepdims = 0> (x, l)",
    "a size that is asked for": "s = Shape <end = 1> (x)  t = Concat <axis = 0> (s, r)  y = Reshape (x, t)",
    "the first word": "y = Gather <axis = 1> (x, z)",
    "words that see each other": "t = Transpose (x)  m = MatMul (x, t)  p = Softmax (m)  y = MatMul (p, x)",
}


@pytest.mark.parametrize("nodes", FOLLOWING.values(), ids=FOLLOWING)
def test_what_follows_a_declared_dim_stays_as_it_is(nodes):
    """The last one sees several samples at once at any size, which no size of a trace explains."""
    source = model(f"""
        g (float[batch, 6] x) => (float[batch, m] y)
        <int64[1] l = {{1}}, int64[2] r = {{2, 3}}, int64 z = {{0}}> {{ {nodes} }}
    """)
    source.graph.output[0].type.tensor_type.ClearField("shape")
    made, report = surgeon.edit(source, Free(0, "batch"))
    assert report.outcome == "unchanged"
    assert made == source


def test_check_reports_a_declared_dim_with_the_command_that_makes_it_follow(tmp_path):
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(declared("Reshape", 8), source)
    found = run("check", source)
    assert found.exit_code == 0
    assert "declare the dynamic dim 'batch', but the node 'r' contains the traced size 8" in found.output
    (command,) = (line.partition("surgeon ")[2] for line in found.output.splitlines() if "--free" in line)
    words = [{"IN": source, "OUT": out}.get(word, word.strip("'")) for word in command.split()]
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert "the graph still contained 8" in done.output
    assert "declare the dynamic dim" not in run("check", out).output


def test_another_name_for_a_dynamic_dim_is_answered_with_its_own():
    source = model("g (float[n, 6] x) => (float[n, 6] y) { y = Relu (x) }")
    with pytest.raises(UsageError, match=r"already dynamic, as 'n'. .* surgeon edit IN OUT --free 0=n"):
        surgeon.edit(source, Free(0, "batch"))


MERGING = """
g (float[1, 5, 6] x) => (float[1, 5, 6] y) <int64[2] rows = {5, 6}, int64[3] apart = {1, 5, 6}>
{ f = Reshape (x, rows)  t = Transpose (f)  m = MatMul (f, t)  p = Softmax (m)  o = MatMul (p, f)
  y = Reshape (o, apart) }
"""
MIXING = """
g (float[1, 5, 6] x) => (float[1, 5, 6] y) <int64[2] rows = {5, 6}, int64[3] apart = {1, 5, 6}>
{ f = Reshape (x, rows)  c = CumSum (f, zero)  y = Reshape (c, apart) }
"""


BESIDE = MERGING.replace("=> (", "=> (float[1, 5, 6] z, ").replace("{ f =", "{ z = Relu (x)  f =")


@pytest.mark.parametrize("check", ["auto", "none"])
@pytest.mark.parametrize("text", [MERGING, MIXING, BESIDE], ids=["attention", "running sums", "beside another"])
def test_where_no_interpretation_keeps_samples_independent_nothing_is_written(text, check):
    """The rows of all samples meet in one matrix, whichever way the Reshape is read."""
    source = model(text, [numpy_helper.from_array(np.array(0, np.int64), "zero")])
    with pytest.raises(GraphError, match="'batch' cannot be dynamic: .* at '") as refusal:
        surgeon.edit(source, Free(0, "batch"), check=check)
    assert str(refusal.value).endswith("Export the model with this dimension dynamic.")


HELD = {
    "a picture for each grid": "h = Expand (one_grid, grids)  y = GridSample (x, h)",
    "a matrix for each grid": "t = Expand (matrix, matrices)  h = AffineGrid (t, whole)  y = GridSample (x, h)",
    "a grid for all pictures": "t = AffineGrid (matrix, first)  h = Expand (t, cells)  y = GridSample (x, h)",
    "rows of all samples": "r = Reshape (x, rows)  d = MatMul (r, w)  y = Reshape (d, whole)",
}
FIXED = {
    "parts of one sample each": (
        "{parts} = Split <axis = 0> (x, ones)  y = Concat <axis = 0> ({parts})",
        "splits batch into {old} parts of 1",
    ),
    "slices of one sample each": ("{slices}  y = Concat <axis = 0> ({parts})", "whether that changes with the size"),
    "rows of all samples at fixed places": (
        "r = Reshape (x, rows)  g = Gather (r, places)  y = Reshape (g, halves)",
        "reads fixed positions of .*batch .it was .*, along which samples are concatenated",
    ),
    "a weight for each channel of each sample": (
        "r = Reshape (x, channels)  d = Conv <group = {old}> (r, kernels)  y = Reshape (d, whole)",
        "has weights for each channel",
    ),
    "a deformed weight for each channel of each sample": (
        "r = Reshape (x, channels)  o = DeformConv <group = {old}> (r, kernels, moves)  y = Reshape (o, whole)",
        "has weights for each channel",
    ),
}


def holding(nodes: str, old: int, size: int | str) -> onnx.ModelProto:
    """A model of pictures [batch, 2, 3, 3] that holds the old batch, whatever its input declares."""
    names = [f"p{place}" for place in range(old)]
    slices = "  ".join(
        f"a{place} = Constant <value_ints = [{place}]> ()  b{place} = Constant <value_ints = [{place + 1}]> ()"
        f"  {name} = Slice (x, a{place}, b{place})"
        for place, name in enumerate(names)
    )
    places = ", ".join(str(3 * place) for place in range(2 * old))
    text = nodes.replace("{parts}", ", ".join(names)).replace("{old}", str(old)).replace("{slices}", slices)
    stored = weights(["one_grid"], 1, 4, 4, 2) + weights(["w"], 3, 3) + weights(["matrix"], 1, 2, 3)
    stored += weights(["kernels"], 2 * old, 2, 1, 1) + weights(["moves"], 1, 2, 3, 3)
    return model(
        f"""g (float[{size}, 2, 3, 3] x) => (float[{size}, k, l, m] y)
        <int64[4] grids = {{{old}, 4, 4, 2}}, int64[2] rows = {{{6 * old}, -1}}, int64[4] whole = {{{old}, 2, 3, 3}},
         int64[3] matrices = {{{old}, 2, 3}}, int64[4] first = {{1, 2, 3, 3}}, int64[4] cells = {{{old}, 3, 3, 2}},
         int64[4] halves = {{{old}, 2, 1, 3}},
         int64[4] channels = {{1, {2 * old}, 3, 3}}, int64[{2 * old}] places = {{{places}}},
         int64[{old}] ones = {{{", ".join(["1"] * old)}}}> {{ {text} }}""",
        stored,
        opset=20,
    )


@pytest.mark.parametrize("old", [4, 8])
@pytest.mark.parametrize("what", HELD)
@pytest.mark.parametrize("is_declared", [False, True])
def test_a_size_that_only_runs_show_follows(what, old, is_declared):
    source = holding(HELD[what], old, "batch" if is_declared else old)
    made, report = surgeon.edit(source, Free(0, "batch"))
    assert report.outcome == "proved", report.check.reason
    assert_each_sample(source, made, old)


@pytest.mark.parametrize("old", [4, 8])
@pytest.mark.parametrize("what", FIXED)
@pytest.mark.parametrize("is_declared", [False, True])
def test_a_declared_dim_that_cannot_follow_is_refused_as_a_fixed_one_is(what, old, is_declared):
    nodes, reported = FIXED[what]
    source = holding(nodes, old, "batch" if is_declared else old)
    with pytest.raises(GraphError, match=reported.replace("{old}", str(old))):
        surgeon.edit(source, Free(0, "batch"))


def test_an_output_of_one_row_for_all_samples_is_refused():
    source = model("""g (float[1, 5, 6] x) => (float[1, 6] y) <int64[2] axes = {0, 1}, int64[1] z = {0}>
        { m = ReduceMean <keepdims = 0> (x, axes)  y = Unsqueeze (m, z) }""")
    with pytest.raises(GraphError, match="Unsqueeze at 'y' computes 'y', which has one row for all samples"):
        surgeon.edit(source, Free(0, "batch"))
