"""Attention of heads that are moved to the front only for it: what takes rows instead, what does not match and why."""

import onnx
import pytest
from surgeon.patterns.attention.attention_layout import attention_3d_inputs

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, s, 4, 8] q, float[b, t, 2, 8] k, float[b, t, 2, 6] v, float[b, 1, s, t] m"
CONSTANTS = "<float zero = {0}, int64[3] rows = {0, 0, 24}>"
MOVED = (
    "qf = Transpose<perm = [0, 2, 1, 3]>(q) kf = Transpose<perm = [0, 2, 1, 3]>(k) "
    "vf = Transpose<perm = [0, 2, 1, 3]>(v)"
)
NODE = "a = Attention<scale = 0.35>(qf, kf, vf, m)"
BACK = "y = Transpose<perm = [0, 2, 1, 3]>(a)"
TABLES = f"{INPUTS}, float[b, s, 4] qc, float[b, s, 4] qs, float[b, t, 4] kc, float[b, t, 4] ks"
TURNED = "qt = RotaryEmbedding(qf, qc, qs) kt = RotaryEmbedding<num_heads = 2>(kf, kc, ks)"
PART = "qt = RotaryEmbedding<interleaved = 1, rotary_embedding_dim = 4>(qf, qc, qs) kt = Identity(kf)"


def graph(body, inputs=INPUTS, opset=23, output="float[b, s, 4, 6]"):
    header = f'<ir_version: 10, opset_import: ["" : {opset}]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {CONSTANTS} {{ {body} }}")


# fmt: off
FIRES = [
    Case(attention_3d_inputs, "heads moved to the front and back", graph(f"{MOVED} {NODE} {BACK}"), target="onnx"),
    Case(attention_3d_inputs, "without a mask", graph(f"{MOVED} {NODE.replace(', m', '')} {BACK}", opset=24),
         target="onnx"),
    Case(attention_3d_inputs, "rotary embeddings between", target="onnx",
         model=graph(f"{MOVED} {TURNED} {NODE.replace('(qf, kf', '(qt, kt')} {BACK}", TABLES)),
    Case(attention_3d_inputs, "a rotary embedding of neighbours, of a part of the queries", target="onnx",
         model=graph(f"{MOVED} {PART} {NODE.replace('(qf, kf', '(qt, kt')} {BACK}",
                     TABLES.replace("s, 4] q", "s, 2] q"))),
    Case(attention_3d_inputs, "rows that are all masked give zero", target="onnx",
         model=graph(f"{MOVED} {NODE.replace('a =', 'n =')} i = IsNaN(n) a = Where(i, zero, n) {BACK}")),
]
NEGATIVES = [
    Case(attention_3d_inputs, "heads that stay in front", target="onnx", why="expected Where or Attention",
         model=graph(f"{MOVED} {NODE.replace('a =', 'y =')}", output="float[b, 4, s, 6]")),
    Case(attention_3d_inputs, "keys that come as heads", target="onnx", why="found input 'kf'",
         model=graph(f"{MOVED} {NODE} {BACK}".replace("kf = Transpose<perm = [0, 2, 1, 3]>(k) ", ""),
                     INPUTS.replace("float[b, t, 2, 8] k", "float[b, 2, t, 8] kf"))),
    Case(attention_3d_inputs, "a free number of heads", target="onnx", why="heads of q_x is h, not a fixed",
         model=graph(f"{MOVED} {NODE} {BACK}", INPUTS.replace("4, 8] q", "h, 8] q"), output="float[b, s, h, 6]")),
    Case(attention_3d_inputs, "keys that are asked for as heads too", target="onnx", why="is also read",
         model=graph(f"{MOVED} {TURNED} {NODE.replace('(qf, kf', '(qt, kt')} {BACK} z = Neg(kt)", TABLES,
                     output="float[b, 2, t, 8] z, float[b, s, 4, 6]")),
    Case(attention_3d_inputs, "TensorRT, which takes four axes only", target="tensorrt", why="with four axes",
         model=graph(f"{MOVED} {NODE} {BACK}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_nothing_is_moved_where_heads_are_split_and_joined():
    """With the rules that tidy up, what splits, moves and joins heads is gone."""
    split = "qh = Reshape(x, four) kh = Reshape(w, two) vh = Reshape(w, two)"
    moved = MOVED.replace("(q)", "(qh)").replace("(k)", "(kh)").replace("(v)", "(vh)")
    model = parse(
        '<ir_version: 10, opset_import: ["" : 23]> g (float[b, s, 32] x, float[b, t, 16] w) => (float[b, s, 32] y) '
        "<int64[4] four = {0, 0, 4, 8}, int64[4] two = {0, 0, 2, 8}, int64[3] rows = {0, 0, 32}> "
        f"{{ {split} {moved} {NODE.replace(', m', '')} {BACK.replace('y =', 'o =')} y = Reshape(o, rows) }}"
    )
    made, report = surgeon.rewrite(model, ["cleanup", attention_3d_inputs], target="onnx")
    assert report.outcome == "proved"
    (node,) = made.graph.node
    found = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    assert (list(node.input), found["q_num_heads"], found["kv_num_heads"]) == (["x", "w", "w"], 4, 2)
