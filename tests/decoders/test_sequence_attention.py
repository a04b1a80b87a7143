"""Attention of decoders as GroupQueryAttention: masks that are found or refused, and the faults that proofs find."""

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.edits import SequenceSizes
from surgeon.errors import CheckFailed, ConditionFailed
from surgeon.ir.index import Index
from surgeon.rules.matching import visible_keys
from surgeon.shapes.algebra.size_expressions import symbol
from tests.command_line import files_in, run
from tests.decoders.models import decoder

SHAPES = "int64[batch, rows] ids, int64[batch, columns] mask, float[batch, 4, past, 8] pk, float[batch, 4, past, 8] pv"
USUAL = """
  size = Shape<start = 1, end = 2>(mask)  total = Squeeze(size)  rows = Shape<start = 1, end = 2>(ids)
  new = Squeeze(rows)  past = Sub(total, new)  keys = Range(zero, total, one)  own = Range(past, total, one)
  own2 = Unsqueeze(own, second)  later = Greater(keys, own2)  pads = Equal(mask, zero)  pads4 = Unsqueeze(pads, axes)
"""
MASKS = {
    "causal": "hides = Or(later, pads4)",
    "window": "first = Sub(own2, five)  early = LessOrEqual(keys, first)  gone = Or(early, later)"
              "  hides = Or(gone, pads4)",
    "without an input": "hides = Identity(later)",
}  # fmt: skip
OTHERS = {
    "one key": ("odd = Equal(keys, five)  gone = Or(odd, later)  hides = Or(gone, pads4)", "more than later keys"),
    "the prompt sees itself": ("beyond = Greater(keys, five)  gone = And(beyond, later)  hides = Or(gone, pads4)",
                               "more than later keys"),
    "by the values of tokens": ("words = Equal(ids, five)  words4 = Unsqueeze(words, axes)  any = Cast<to = 6>(words4)"
                                "  most = ReduceMax(any)  flag = Cast<to = 9>(most)  gone = Or(flag, later)"
                                "  hides = Or(gone, pads4)", "depends on the values of 'ids'"),
}  # fmt: skip
ADDED = {
    "distance": ("far = Sub(keys, own2)  steps = Cast<to = 1>(far)  low = Mul(steps, tenth)"
                 "  bias = Where(hides, lowest, low)", "adds numbers"),
    "too high a number": ("bias = Where(hides, tenth, nothing)", "adds numbers"),
    "per head": ("half = Where(hides, lowest, nothing)  four = Constant<value_ints = [1, 4, 1, 1]>()"
                 "  heads = Expand(half, four)  picks = Constant<value_floats = [0.0, 1.0, 1.0, 1.0]>()"
                 "  picks4 = Reshape(picks, turned)  bias = Mul(heads, picks4)", "differs between heads"),
}  # fmt: skip

ADDING = "masked = Add(scaled, bias)"
TWO = {
    "a condition, and then a sum": ("hides = Identity(pads4)", "cut = Where(later, lowest, scaled)"
                                    "  masked = Add(cut, bias)"),
    "a sum, and then a condition": ("hides = Identity(later)", "sum = Add(scaled, bias)"
                                    "  masked = Where(pads4, lowest, sum)"),
    "two sums": ("hides = Identity(later)", "sum = Add(scaled, bias)  low = Where(pads4, lowest, nothing)"
                 "  masked = Add(sum, low)"),
}  # fmt: skip


def model(hides=MASKS["causal"], bias="bias = Where(hides, lowest, nothing)", window=5, masked=ADDING):
    """One layer.  hides: the nodes of a condition.  bias: those that make a mask of it.  masked: those that use it.

    window: of MASKS.
    """
    made = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["": 18]>
        decoder ({SHAPES})
        => (float[batch, rows, 20] logits, float[batch, 4, columns, 8] nk, float[batch, 4, columns, 8] nv)
        <int64 zero = {{0}}, int64 one = {{1}}, int64 five = {{{window}}}, int64[1] second = {{1}},
         int64[2] axes = {{1, 2}},
         float lowest = {{-3.0e38}}, float nothing = {{0.0}}, float tenth = {{-0.1}}, float scale = {{0.35}},
         int64[4] split = {{0, 0, 4, 8}}, int64[3] joined = {{0, 0, 32}}, int64[4] turned = {{1, 4, 1, 1}}>
        {{
          x = Gather(table, ids)  {USUAL} {hides} {bias}
          q = MatMul(x, wq)  qh = Reshape(q, split)  qt = Transpose<perm = [0, 2, 1, 3]>(qh)
          k = MatMul(x, wk)  kh = Reshape(k, split)  kt = Transpose<perm = [0, 2, 1, 3]>(kh)
          v = MatMul(x, wv)  vh = Reshape(v, split)  vt = Transpose<perm = [0, 2, 1, 3]>(vh)
          nk = Concat<axis = 2>(pk, kt)  nv = Concat<axis = 2>(pv, vt)  across = Transpose<perm = [0, 1, 3, 2]>(nk)
          scores = MatMul(qt, across)  scaled = Mul(scores, scale)  {masked}
          weights = Softmax<axis = -1>(masked)  seen = MatMul(weights, nv)
          back = Transpose<perm = [0, 2, 1, 3]>(seen)  flat = Reshape(back, joined)  logits = MatMul(flat, head)
        }}""")
    random = np.random.default_rng(0)
    for name, shape in {"table": (20, 32), "wq": (32, 32), "wk": (32, 32), "wv": (32, 32), "head": (32, 20)}.items():
        array = random.normal(size=shape).astype(np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return made


def rewritten(source, **options):
    """The model and its report after the rule, and the cleanup that it needs."""
    tied, _ = surgeon.edit(source, SequenceSizes())
    rules = ["cleanup", "static_reshape", "sequence_attention"]
    return surgeon.rewrite(tied, rules=rules, **options)


def attention(made):
    """The attributes of the attention."""
    (node,) = [node for node in made.graph.node if node.op_type == "GroupQueryAttention"]
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    """The site is proved, and a padded batch decodes as each sequence by itself does in the original."""
    source = model(MASKS[name])
    made, report = rewritten(source)
    assert (report.proved, report.counts["sequence_attention"]) == (True, 1)
    window = {"local_window_size": 5} if name == "window" else {}
    found = attention(made)
    assert {"num_heads": 4, "kv_num_heads": 4, **window} == {key: found[key] for key in found if key != "scale"}
    if name != "without an input":
        assert surgeon.compare(source, made, decode=True).proved


@pytest.mark.parametrize("name", TWO)
def test_two_masks(name):
    """Each hides some keys; together they hide later ones and padding."""
    hides, masked = TWO[name]
    source = model(hides, masked=masked)
    made, report = rewritten(source)
    assert (report.proved, report.counts["sequence_attention"]) == (True, 1)
    assert "local_window_size" not in attention(made) or attention(made)["local_window_size"] == -1
    assert surgeon.compare(source, made, decode=True).proved


def test_two_masks_that_leave_later_keys():
    """The reason speaks of both."""
    made, report = rewritten(model("hides = Identity(pads4)", masked=TWO["two sums"][1]))
    assert not any(node.op_type == "GroupQueryAttention" for node in made.graph.node)
    assert [miss for miss in report.misses if "hides more than later keys" in miss.reason]


@pytest.mark.parametrize("window", [299, 4096, 40_000])
def test_a_long_window(window):
    """The mask is computed at more keys than each integer that it mentions."""
    made, report = rewritten(model(MASKS["window"], window=window), check="none")
    assert (report.counts["sequence_attention"], attention(made)["local_window_size"]) == (1, window)


@pytest.mark.parametrize(("rows", "window"), [(1024, None), (1024, 700), (48, None), (48, 30), (48, 45)])
def test_a_mask_in_a_buffer(rows, window):
    """The whole buffer is read, so a window shows that is longer than the usual runs; no model runs beyond it."""
    row, key = np.arange(rows)[:, None], np.arange(rows)
    shown = (key <= row) & (key > row - (window or 2048))
    source = model("hides = Or(later, pads4)  bias0 = Slice(buffer, past1, total1, second0)"
                   "  bias1 = Slice(bias0, start, total1, second)", "bias = Where(bias1, nothing, lowest)")  # fmt: skip
    for name, array in {"buffer": shown, "second0": [0], "start": [0]}.items():
        source.graph.initializer.append(onnx.numpy_helper.from_array(np.array(array), name))
    for made, sizes in (("past1", "past"), ("total1", "total")):
        node = onnx.helper.make_node("Unsqueeze", [sizes, "second0"], [made])
        place = next(n for n, one in enumerate(source.graph.node) if sizes in one.output)
        source.graph.node.insert(place + 1, node)
    made, report = rewritten(source, check="none")
    assert report.counts["sequence_attention"] == 1
    assert attention(made).get("local_window_size") == window


def test_a_mask_that_never_runs():
    """No number that it reads is the end of what ran."""
    source = model("line = Slice(buffer, start, size)  twice = Concat<axis = 0>(line, line)  hides = Or(twice, later)")
    for name, array in {"buffer": np.zeros(44, bool), "start": [0]}.items():
        source.graph.initializer.append(onnx.numpy_helper.from_array(np.array(array), name))
    tied, _ = surgeon.edit(source, SequenceSizes())
    with pytest.raises(ConditionFailed, match="the mask of 1 rows and 1 keys|do not run"):
        visible_keys.visible_keys(Index.over(tied), ["bias"], symbol("sequence"), symbol("past"))


def test_a_mask_that_ends_for_no_known_reason(monkeypatch):
    """It runs for 40 tokens and not for 300, so it may hide keys that were not seen."""
    source = model("line = Slice(buffer, start, size)  hides = Or(line, later)")
    for name, array in {"buffer": np.zeros(44, bool), "start": [0]}.items():
        source.graph.initializer.append(onnx.numpy_helper.from_array(np.array(array), name))
    tied, _ = surgeon.edit(source, SequenceSizes())
    given = Index.over(tied), ["bias"], symbol("sequence"), symbol("past")
    assert visible_keys.visible_keys(*given).window is None
    monkeypatch.setattr(visible_keys.ComputedTensor, "ends", frozenset())
    with pytest.raises(ConditionFailed, match="the mask of 300 rows and 300 keys|do not run"):
        visible_keys.visible_keys(*given)


def test_a_mask_that_is_too_large_to_compute():
    """Its window may be longer than all lengths that were tried, so nothing is claimed."""
    _, report = rewritten(model(MASKS["window"], window=1 << 30), check="none")
    (miss,) = [miss for miss in report.misses if miss.rule == "sequence_attention"]
    assert "is too large to compute" in miss.reason


def test_the_whole_model():
    """The comparison takes sizes that the kernel runs: with a past, several rows only in a batch of one."""
    _, report = rewritten(model(), check="both")
    assert report.proved
    assert report.check.runs > 5


@pytest.mark.parametrize(
    ("hides", "bias", "why"),
    [*((hides, "bias = Where(hides, lowest, nothing)", why) for hides, why in OTHERS.values()),
     *((MASKS["causal"], bias, why) for bias, why in ADDED.values())],
    ids=[*OTHERS, *ADDED],
)  # fmt: skip
def test_other_masks_are_refused(hides, bias, why):
    """With the reason."""
    made, report = rewritten(model(hides, bias))
    assert not any(node.op_type == "GroupQueryAttention" for node in made.graph.node)
    assert [miss.reason for miss in report.misses if miss.rule == "sequence_attention" and why in miss.reason]


def test_a_mask_that_counts_padding(tmp_path):
    """Columns of a padded batch are no positions, so decoding differs; the screen has the reason."""
    onnx.save(model(OTHERS["one key"][0]), tmp_path / "in.onnx")
    ran = run("decoder", tmp_path / "in.onnx", tmp_path / "out", "--context", 64, "--eos", 3)
    screen = " ".join(ran.output.split())
    assert (ran.exit_code, files_in(tmp_path)) == (1, {"in.onnx"})
    assert "decoding: Output 'logits' differs" in screen
    assert "attention is not fused with its cache: the mask hides more than later keys and those before" in screen
    assert "explain" not in screen


def test_an_input_of_which_nothing_is_assumed():
    """It may hide any key, so nothing matches; the report says what to assume."""
    _, report = surgeon.rewrite(model(), rules=["cleanup", "static_reshape", "sequence_attention"])
    (miss,) = [miss for miss in report.misses if miss.rule == "sequence_attention"]
    assert miss.change == "if your inputs obey it, add --assume 'mask: no padding'"


WRONG = {
    "a window too long": lambda found: found._replace(window=6),
    "a window too short": lambda found: found._replace(window=4),
    "no window": lambda found: found._replace(window=None),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_proof_finds_a_mask_that_is_read_wrongly(name, monkeypatch):
    """The proof runs the nodes of the mask itself, so it does not depend on what was found."""
    read = visible_keys.visible_keys
    monkeypatch.setattr(visible_keys, "visible_keys", lambda *given, **more: WRONG[name](read(*given, **more)))
    with pytest.raises(CheckFailed) as caught:
        rewritten(model(MASKS["window"]))
    undone = [step.rule for site in caught.value.report.rolled_back for step in site.steps]
    assert "sequence_attention" in undone


def test_buffers_are_shared_only_if_nothing_else_reads_the_rows_of_a_cache(tmp_path):
    """The client then gives each past rows for the whole context."""
    report = surgeon.decoder(decoder(), tmp_path / "a", context=64, eos=31)
    assert report.shares_buffers
    other = decoder()
    other.graph.node.append(onnx.helper.make_node("Shape", ["past_key_values.0.key"], ["sizes"]))
    other.graph.output.append(onnx.helper.make_tensor_value_info("sizes", onnx.TensorProto.INT64, [4]))
    assert not surgeon.decoder(other, tmp_path / "b", context=64, eos=31).shares_buffers
